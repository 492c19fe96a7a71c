//! Writes objects as YAML documents.

use serde_json::{Map, Value};

use dryrack_yaml::scalar;

use crate::read::Object;

/// The objects as one text, with a document for each.
pub fn text<'o>(objects: impl IntoIterator<Item = &'o Object>) -> String {
    let documents = objects.into_iter().map(|object| {
        let mut out = String::new();
        line(&mut out, 0, "apiVersion", &Value::from(object.api_version.as_str()));
        line(&mut out, 0, "kind", &Value::from(object.kind.name()));
        map(&mut out, 0, &object.value);
        out
    });
    documents.collect::<Vec<_>>().join("---\n")
}

/// A text without quotes must not look like a number or another word of YAML.
fn value_text(text: &str) -> String {
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.len() > 1;
    let is_reserved = ["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    scalar(text, is_word && !is_reserved)
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(value_text(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null => Some("null".to_string()),
        Value::Array(items) if items.is_empty() => Some("[]".to_string()),
        Value::Object(fields) if fields.is_empty() => Some("{}".to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn map(out: &mut String, indent: usize, fields: &Map<String, Value>) {
    fields.iter().for_each(|(key, value)| line(out, indent, key, value));
}

fn line(out: &mut String, indent: usize, key: &str, value: &Value) {
    let key = if key.parse::<f64>().is_ok() { scalar(key, false) } else { value_text(key) };
    out.push_str(&" ".repeat(indent));
    out.push_str(&key);
    out.push(':');
    match (plain(value), value) {
        (Some(text), _) => {
            out.push(' ');
            out.push_str(&text);
            out.push('\n');
        }
        (None, Value::Array(items)) => {
            out.push('\n');
            items.iter().for_each(|item| entry(out, indent, item));
        }
        (None, Value::Object(fields)) => {
            out.push('\n');
            map(out, indent + 2, fields);
        }
        (None, _) => out.push('\n'),
    }
}

/// An item of a list, with its `-` at the indentation of the list's key.
fn entry(out: &mut String, indent: usize, item: &Value) {
    let mut inner = String::new();
    match (plain(item), item) {
        (Some(text), _) => inner = format!("{}{text}\n", " ".repeat(indent + 2)),
        (None, Value::Object(fields)) => map(&mut inner, indent + 2, fields),
        (None, Value::Array(items)) => items.iter().for_each(|item| entry(&mut inner, indent + 2, item)),
        (None, _) => {}
    }
    // The first line of the item begins with the dash.
    inner.replace_range(indent..indent + 1, "-");
    out.push_str(&inner);
}
