//! Reads values that were checked.

use serde::de::DeserializeOwned;
use serde_json::Value;

use dryrack_yaml::{Report, Span};

/// Reads a value that was checked. What the check does not cover, such as two names of the same field, is reported. What
/// annotations say to dryrack itself is left out: it is no part of the object.
pub fn typed<T: DeserializeOwned>(mut value: Value, span: Span, report: &mut Report) -> Option<T> {
    // A fault was reported already. The value lacks the part that has it.
    let has_faults = report.has_errors();
    if let Some(Value::Object(annotations)) = value.pointer_mut("/metadata/annotations") {
        annotations.retain(|key, _| !key.starts_with("dryrack/"));
    }
    match serde_json::from_value(value) {
        Ok(value) => Some(value),
        Err(_) if has_faults => None,
        Err(fault) => {
            report.error_with_help(span, format!("cannot be read: {fault}"), "compare it with the API's reference");
            None
        }
    }
}
