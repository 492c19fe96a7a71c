//! The JSON Schema of profile files, and a list of their options. Both come from the types that read the options.

use schemars::SchemaGenerator;
use serde::Serialize;
use serde_json::{Value, json};

use dryrack_control::Profile;

/// One option of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileOption {
    /// The keys from the top of the file, such as `passes.place.batch`. `[]` stands for the entries of a list,
    /// `[single_gpu]` for those of that name, and `NAME` for a key that the author chooses.
    pub path: String,
    /// What it takes: a type, or the names of its values.
    pub takes: String,
    pub about: String,
    /// The values that have a description.
    pub values: Vec<OptionValue>,
}

/// One of the values that an option can have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OptionValue {
    pub value: String,
    pub about: String,
}

/// The JSON Schema (draft 2020-12) of profile files, as [`derived_schema`] makes it. It is stored as text, because the code
/// that makes it has a megabyte.
pub const PROFILE_SCHEMA: &str = include_str!("profile.schema.json");

/// The JSON Schema of profile files, made from the types that read them. No option is required, because a base can state
/// it.
pub fn derived_schema() -> Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<Profile>().to_value();
    lift_requirements(&mut schema);
    schema["title"] = json!("A dryrack profile");
    schema["description"] = json!("The scheduler, the control loops and the policies of a cluster");
    if let Some(options) = schema["properties"].as_object_mut() {
        // A program is named by the scenario or the command line.
        options.remove("program");
        let base = json!({"type": "string", "description": "The profile whose options apply unless this file states them: a name that `dryrack profile list` prints, or a path."});
        options.shift_insert(0, "base".to_string(), base);
        // The names of these two options in profiles before version 0.1.
        for before in ["runs", "scan"] {
            options.insert(before.to_string(), json!({"type": "object", "deprecated": true}));
        }
    }
    schema["required"] = json!(["name", "title"]);
    schema
}

/// Removes what is required of maps with options, at any depth. The forms of stages and the variants of an option are
/// told apart by their keys, so theirs stay.
fn lift_requirements(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") {
                map.remove("required");
            }
            for (key, part) in map.iter_mut() {
                match (key.as_str(), part) {
                    ("oneOf" | "anyOf", Value::Array(forms)) => forms.iter_mut().for_each(|form| {
                        if let Some(Value::Object(properties)) = form.get_mut("properties") {
                            properties.values_mut().for_each(lift_requirements);
                        }
                    }),
                    (_, part) => lift_requirements(part),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(lift_requirements),
        _ => {}
    }
}

/// All options of a profile file, in the order in which `dryrack profile show` prints them.
pub fn option_reference() -> Vec<ProfileOption> {
    let schema: Value = serde_json::from_str(PROFILE_SCHEMA).expect("the stored schema is JSON");
    let mut found = Vec::new();
    let mut walk = Walk { schema: &schema, found: &mut found };
    walk.properties("", &schema);
    found
}

/// The way through a schema that lists its options.
struct Walk<'a> {
    schema: &'a Value,
    found: &'a mut Vec<ProfileOption>,
}

impl<'a> Walk<'a> {
    /// The schema to which this one refers, or this one. Of a value that can be absent, the schema of a present one.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.resolved(&self.schema["$defs"][name]);
        }
        let forms = schema["anyOf"].as_array().map_or(&[][..], |forms| forms);
        match forms {
            [present, absent] if absent["type"] == "null" => self.resolved(present),
            _ => schema,
        }
    }

    fn properties(&mut self, path: &str, schema: &'a Value) {
        let Some(properties) = schema["properties"].as_object() else { return };
        if counted_names(schema).is_some() {
            return;
        }
        for (key, property) in properties {
            if property["deprecated"] == true || property.get("const").is_some() {
                continue;
            }
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.option(path, property);
        }
    }

    fn option(&mut self, path: String, property: &'a Value) {
        let schema = self.resolved(property);
        let of_items = || description(self.resolved(schema.get("items")?));
        let about = description(property).or_else(|| description(schema)).or_else(of_items).unwrap_or_default();
        let variants = variants(schema);
        let values = variants
            .iter()
            .filter_map(|(value, form)| Some(OptionValue { value: value.clone(), about: description(form)? }));
        self.found.push(ProfileOption {
            path: path.clone(),
            takes: self.takes(schema),
            about,
            values: values.collect(),
        });
        self.parts(&path, schema);
    }

    /// The options inside of an option.
    fn parts(&mut self, path: &str, schema: &'a Value) {
        self.properties(path, schema);
        for (value, form) in variants(schema) {
            match tag(form) {
                // A map under the name of the variant.
                None => {
                    if let Some(options) = form["properties"].get(&value) {
                        let options = self.resolved(options);
                        self.parts(&format!("{path}.{value}"), options);
                    }
                }
                Some(_) => self.properties(&format!("{}[{value}]", path.trim_end_matches("[]")), form),
            }
        }
        if let Some(items) = schema.get("items") {
            self.parts(&format!("{path}[]"), self.resolved(items));
        }
        if let Some(others) = schema.get("additionalProperties").filter(|others| others.is_object()) {
            self.parts(&format!("{path}.NAME"), self.resolved(others));
        }
    }

    /// What a value of this schema is.
    fn takes(&self, schema: &'a Value) -> String {
        let variants = variants(schema);
        if !variants.is_empty() {
            return variants.into_iter().map(|(value, _)| value).collect::<Vec<_>>().join(" | ");
        }
        let kinds = match &schema["type"] {
            Value::String(kind) => vec![kind.as_str()],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect(),
            _ => vec!["object"],
        };
        match kinds[..] {
            ["boolean"] => "true | false".to_string(),
            ["integer" | "number"] => "number".to_string(),
            ["string", "number"] => "text with a unit".to_string(),
            ["array"] => format!("list of: {}", self.takes(self.resolved(&schema["items"]))),
            ["object"] if schema["additionalProperties"].is_object() => {
                format!("map of names to: {}", self.takes(self.resolved(&schema["additionalProperties"])))
            }
            ["object"] => match counted_names(schema) {
                Some(names) => format!("map of numbers for: {}", names.join(", ")),
                None => "map".to_string(),
            },
            _ => "text".to_string(),
        }
    }
}

/// The forms of a value that has names: each name with its schema.
fn variants(schema: &Value) -> Vec<(String, &Value)> {
    let names = |schema: &'_ Value| -> Vec<String> {
        (schema["enum"].as_array().into_iter().flatten()).filter_map(Value::as_str).map(str::to_string).collect()
    };
    let mut found: Vec<(String, &Value)> = names(schema).into_iter().map(|name| (name, &Value::Null)).collect();
    for form in ["oneOf", "anyOf"].iter().flat_map(|of| schema[of].as_array().into_iter().flatten()) {
        if let Some(name) = form["const"].as_str().or_else(|| tag(form)) {
            found.push((name.to_string(), form));
        } else if !names(form).is_empty() {
            found.extend(names(form).into_iter().map(|name| (name, &Value::Null)));
        } else if let Some(properties) = form["properties"].as_object()
            && let (1, Some((name, _))) = (properties.len(), properties.iter().next())
        {
            found.push((name.clone(), form));
        }
    }
    found
}

/// The keys of a map that has a number for each of several names, such as weights.
fn counted_names(schema: &Value) -> Option<Vec<&str>> {
    let properties = schema["properties"].as_object()?;
    let is_number = |property: &Value| {
        // A number that can also be null, which removes the name, has two types.
        let kind = property["type"].as_str().or_else(|| property["type"][0].as_str());
        property.get("description").is_none() && matches!(kind, Some("integer" | "number"))
    };
    let are_numbers = properties.len() > 1 && properties.values().all(is_number);
    are_numbers.then(|| properties.keys().map(String::as_str).collect())
}

/// The value under the key that tells a form from the others, if a key does.
fn tag(form: &Value) -> Option<&str> {
    form["properties"].as_object()?.values().find_map(|property| property["const"].as_str())
}

/// The description of a schema, in one line.
fn description(schema: &Value) -> Option<String> {
    let text = schema["description"].as_str()?;
    let text = text.split("\n\n").next()?.replace('\n', " ");
    // The links of the documentation of the code lead nowhere here.
    let mut parts = text.split("`](");
    let first = parts.next()?.to_string();
    let text = parts.fold(first, |text, part| text + "`" + part.split_once(')').map_or(part, |(_, rest)| rest));
    Some(text.replace("[`", "`").replace("`]", "`"))
}
