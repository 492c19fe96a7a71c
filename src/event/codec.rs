//! A record as one line of JSON, with names in the place of ids.

use serde_json::Value;
use thiserror::Error;

use super::input::Input;
use super::log::{Record, Said};
use crate::ids::{JobId, Names, NodeId};
use crate::nearest::nearest;

/// Why a line of a log is not a record.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    #[error("not JSON: {0}")]
    Json(String),
    #[error("not a record of this version: {0}")]
    Shape(String),
    #[error("no {kind} is named `{name}`{}", hint(.nearest))]
    UnknownName { kind: &'static str, name: String, nearest: Option<String> },
    #[error("a {kind} named `{name}` was declared before")]
    Duplicate { kind: &'static str, name: String },
    #[error("`{found}` is declared with id {id}, but the next is {next}")]
    OutOfOrder { found: String, id: usize, next: usize },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

/// Writes one record without a line end. A declaration adds its name to `names`.
pub fn encode_line(record: &Record, names: &mut Names) -> String {
    learn(record, names).expect("a run declares each name once and in order");
    let mut value = serde_json::to_value(record).expect("records have a JSON form");
    swap(&mut value, names, to_name).expect("a run speaks only of what was declared");
    value.to_string()
}

/// Reads one line. A declaration adds its name to `names`.
pub fn decode_line(line: &str, names: &mut Names) -> Result<Record, CodecError> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| CodecError::Json(error.to_string()))?;
    // A declaration names what it declares in its spec, so its name is known before any other line needs it.
    learn_declared(&value, names)?;
    swap(&mut value, names, to_id)?;
    let record: Record = serde_json::from_value(value).map_err(|error| CodecError::Shape(error.to_string()))?;
    Ok(record)
}

fn learn(record: &Record, names: &mut Names) -> Result<(), CodecError> {
    let (kind, table, name, id) = match &record.said {
        Said::Input(Input::NodeDeclared { node, spec, .. }) => ("node", &mut names.nodes, &spec.name, node.index()),
        Said::Input(Input::Submit { job, spec }) => ("job", &mut names.jobs, &spec.name, job.index()),
        Said::Input(_) | Said::Event(_) => return Ok(()),
    };
    let next = table.len();
    if table.find(name) == Some(id) {
        return Ok(());
    }
    table.add(name.clone()).map_err(|_| CodecError::Duplicate { kind, name: name.to_string() })?;
    match id == next {
        true => Ok(()),
        false => Err(CodecError::OutOfOrder { found: name.to_string(), id, next }),
    }
}

fn learn_declared(value: &Value, names: &mut Names) -> Result<(), CodecError> {
    for (kind, path, table) in [
        ("node", "/input/node_declared/spec/name", &mut names.nodes),
        ("job", "/input/submit/spec/name", &mut names.jobs),
    ] {
        if let Some(name) = value.pointer(path).and_then(Value::as_str) {
            let duplicate = |_| CodecError::Duplicate { kind, name: name.to_string() };
            table.add(name.into()).map_err(duplicate)?;
        }
    }
    Ok(())
}

type Swap = fn(kind: Kind, value: &Value, names: &Names) -> Result<Value, CodecError>;

#[derive(Clone, Copy)]
enum Kind {
    Node,
    Job,
    Gpu,
}

/// Replaces every id by its name, or the other way round; the keys `node`, `job`, `gpu` and those of picks hold ids.
fn swap(value: &mut Value, names: &Names, replace: Swap) -> Result<(), CodecError> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| swap(item, names, replace)),
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                let kind = match key.as_str() {
                    "node" => Kind::Node,
                    "job" => Kind::Job,
                    "gpu" => Kind::Gpu,
                    "pick" => {
                        swap_pick(item, names, replace)?;
                        continue;
                    }
                    "kept" => {
                        swap_items(item, Kind::Node, names, replace)?;
                        continue;
                    }
                    // User data with keys of its own.
                    "labels" => continue,
                    _ => {
                        swap(item, names, replace)?;
                        continue;
                    }
                };
                *item = replace(kind, item, names)?;
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn swap_pick(pick: &mut Value, names: &Names, replace: Swap) -> Result<(), CodecError> {
    for (form, kind) in [("nodes", Kind::Node), ("gpus", Kind::Gpu), ("all_gpus", Kind::Gpu)] {
        if let Some(items) = pick.get_mut(form) {
            swap_items(items, kind, names, replace)?;
        }
    }
    Ok(())
}

fn swap_items(items: &mut Value, kind: Kind, names: &Names, replace: Swap) -> Result<(), CodecError> {
    for item in items.as_array_mut().into_iter().flatten() {
        *item = replace(kind, item, names)?;
    }
    Ok(())
}

fn to_name(kind: Kind, value: &Value, names: &Names) -> Result<Value, CodecError> {
    let id = |value: &Value| value.as_u64().expect("an id is a number") as usize;
    Ok(Value::String(match kind {
        Kind::Node => names.node(NodeId::new(id(value))).to_string(),
        Kind::Job => names.job(JobId::new(id(value))).to_string(),
        Kind::Gpu => format!("{}/{}", names.node(NodeId::new(id(&value["node"]))), value["index"]),
    }))
}

fn to_id(kind: Kind, value: &Value, names: &Names) -> Result<Value, CodecError> {
    let Some(text) = value.as_str() else {
        return Err(CodecError::Shape(format!("expected a name, found {value}")));
    };
    let find = |kind, table: &crate::ids::NameTable, name: &str| match table.find(name) {
        Some(id) => Ok(id),
        None => Err(CodecError::UnknownName {
            kind,
            name: name.to_string(),
            nearest: nearest(name, table.iter().map(|known| &**known)).map(str::to_string),
        }),
    };
    match kind {
        Kind::Node => find("node", &names.nodes, text).map(Value::from),
        Kind::Job => find("job", &names.jobs, text).map(Value::from),
        Kind::Gpu => {
            let not_a_gpu = || CodecError::Shape(format!("expected a GPU such as alpha/0, found `{text}`"));
            let (node, index) = text.rsplit_once('/').ok_or_else(not_a_gpu)?;
            let index: u16 = index.parse().map_err(|_| not_a_gpu())?;
            Ok(serde_json::json!({"node": find("node", &names.nodes, node)?, "index": index}))
        }
    }
}
