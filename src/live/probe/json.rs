//! JSON answers of servers and tools. An answer is parsed as a whole, and values are then looked up by name. A missing
//! value has the reason `unsaid`.

use serde_json::Value;

use super::missing::{Missing, shown};
use super::number;
use super::snapshot::Reading;
use dryrack_units::{Bytes, Permille};

/// Parses a whole answer.
pub fn parse(text: &str, what: &str) -> Reading<Value> {
    if text.trim().is_empty() {
        return Err(Missing::Silent { what: what.to_string() });
    }
    serde_json::from_str(text).map_err(|fault| {
        let line = fault.line();
        let found = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let start = fault.column().saturating_sub(30);
        let found = shown(&found.chars().skip(start).collect::<String>());
        match fault.is_eof() {
            true => Missing::HalfLine { what: what.to_string(), line, found },
            false => Missing::Malformed { what: what.to_string(), line, expected: "JSON".to_string(), found },
        }
    })
}

pub(super) fn list<'v>(value: &'v Value, key: &str, what: &str) -> Reading<&'v [Value]> {
    let found = value.get(key).and_then(Value::as_array).map(Vec::as_slice);
    found.ok_or_else(|| Missing::malformed(what, 1, &format!("a list `{key}`"), &value.to_string()))
}

/// The text under this key; `None` if it is missing or empty.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// The number under this key. Newer releases of Slurm write it as `{"set": true, "infinite": false, "number": 5}`.
pub(super) fn figure(value: &Value, key: &str, what: &str) -> Reading<f64> {
    let unsaid = || Missing::unsaid(what);
    let value = value.get(key).filter(|value| !value.is_null()).ok_or_else(unsaid)?;
    if value.get("infinite") == Some(&Value::Bool(true)) {
        return Err(Missing::Infinite);
    }
    if value.get("set") == Some(&Value::Bool(false)) {
        return Err(unsaid());
    }
    let value = value.get("number").unwrap_or(value);
    match (value.as_f64(), value.as_str()) {
        (Some(number), _) => number::finite(number),
        (None, Some(text)) => number::number(text, what, 1),
        (None, None) => Err(Missing::malformed(what, 1, &format!("a number as `{key}`"), &value.to_string())),
    }
}

pub(super) fn bytes(value: &Value, key: &str, what: &str) -> Reading<Bytes> {
    figure(value, key, what).and_then(|bytes| number::memory(bytes, 1))
}

pub(super) fn percent(value: &Value, key: &str, what: &str) -> Reading<Permille> {
    figure(value, key, what).and_then(number::percent)
}
