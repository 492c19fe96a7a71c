//! The JSON Schema of scenario files, for editors.
//!
//! One table states, for each kind of map, its name in diagnostics and the allowed values of each key. A test reads
//! every scenario and every broken file, and records which keys the reader knows for each kind of map. It compares them
//! with the table, so the reader and the table always have the same keys. A schema cannot express some rules: that a
//! name exists, that two keys exclude each other, that a unit is one of time. `dryrack check` checks those.

use serde_json::{Map, Value, json};

use super::schema_shape::{Field, Kind, Shape};
use super::{
    schema_arrivals, schema_fleets, schema_kueue, schema_money, schema_outside, schema_serving, schema_slurm,
    schema_speeds, schema_table, schema_trace, schema_usage,
};

/// Every kind of map that a scenario file has.
pub(super) fn shapes() -> impl Iterator<Item = &'static Shape> {
    let most = schema_table::SHAPES.iter().chain(schema_usage::SHAPES).chain(schema_fleets::SHAPES);
    most.chain(schema_arrivals::SHAPES)
        .chain(schema_outside::SHAPES)
        .chain(schema_serving::SHAPES)
        .chain(schema_slurm::SHAPES)
        .chain(schema_speeds::SHAPES)
        .chain(schema_money::SHAPES)
        .chain(schema_kueue::SHAPES)
        .chain(schema_trace::SHAPES)
}

/// The schema as a value.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for shape in shapes().filter(|shape| shape.name != "scenario") {
        definitions.insert(shape.name.to_string(), object(shape));
    }
    let mut root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A dryrack scenario",
        "description": "The nodes of a cluster, its jobs, its faults, and the expectations that must hold",
    });
    let scenario = shapes().find(|shape| shape.name == "scenario").expect("it is in the table");
    if let (Value::Object(root), Value::Object(scenario)) = (&mut root, object(scenario)) {
        let own = root.clone();
        root.extend(scenario);
        root.extend(own);
        root.insert("$defs".to_string(), Value::Object(definitions));
    }
    root
}

fn object(shape: &Shape) -> Value {
    let property = |(key, kind, about): &Field| {
        let mut value = value(kind);
        if let Value::Object(map) = &mut value {
            map.insert("description".to_string(), json!(about));
        }
        (key.to_string(), value)
    };
    let properties: Map<String, Value> = shape.all_fields().map(property).collect();
    let mut object = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if let [called, ..] = shape.called {
        object["title"] = json!(called);
    }
    if !shape.required.is_empty() {
        object["required"] = json!(shape.required);
    }
    object
}

/// The schema of a value. A text with `${` is always allowed, because a parameter may replace any single value.
fn value(kind: &Kind) -> Value {
    let parameter = || json!({"type": "string", "pattern": r"\$\{"});
    match kind {
        Kind::Text => json!({"type": ["string", "number", "boolean"]}),
        Kind::Amount(example) => json!({"type": ["string", "number"], "examples": [example]}),
        Kind::Whole => json!({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^-?[0-9]+$|\$\{"}]}),
        Kind::Flag => json!({"anyOf": [{"type": "boolean"}, parameter()]}),
        Kind::Words(words) => json!({"anyOf": [{"enum": words()}, parameter()]}),
        Kind::Offered(words) => json!({"anyOf": [{"enum": words()}, {"type": "string"}]}),
        Kind::Map(name) => json!({"anyOf": [{"$ref": format!("#/$defs/{name}")}, parameter()]}),
        Kind::ListOf(item) => json!({"anyOf": [{"type": "array", "items": value(item)}, parameter()]}),
        Kind::Some(item) => json!({"anyOf": [value(item), {"type": "array", "items": value(item)}]}),
        Kind::Named(item) => json!({"type": "object", "additionalProperties": value(item)}),
        Kind::Either(kinds) => json!({"anyOf": kinds.iter().map(value).collect::<Vec<_>>()}),
        // Shared fields never reach this point, because `all_fields` inserts them.
        Kind::Any | Kind::Also(_) => json!({}),
    }
}
