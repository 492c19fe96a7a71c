//! Replaces names in the texts of CEL expressions.

use serde_json::Value;

use crate::read::Object;

/// Replaces the quoted texts of the expressions of an object.
pub fn rename(object: &mut Object, new: &dyn Fn(&str) -> Option<String>) {
    object.value.iter_mut().for_each(|(_, value)| expressions(value, new));
}

fn expressions(value: &mut Value, new: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| expressions(item, new)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "expression" => *text = replaced(text, new),
                    _ => expressions(value, new),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The expression with its quoted texts replaced. A text with an escape stays as it is.
fn replaced(expression: &str, new: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(start) = rest.find(['"', '\'']) {
        let quote = &rest[start..=start];
        let inner = &rest[start + 1..];
        let Some(end) = inner.find(quote) else { break };
        let text = &inner[..end];
        out.push_str(&rest[..=start]);
        match new(text).filter(|_| !text.contains('\\')) {
            Some(new) => out.push_str(&new),
            None => out.push_str(text),
        }
        out.push_str(quote);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    out
}
