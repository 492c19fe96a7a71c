//! Reads JSON as a message or a part of one, and says in words of JSON what is wrong.

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Map, Value};

use super::message::LineFault;
use super::unique::Unique;
use dryrack_event::OutsideFault;

/// Reads a line as JSON.
pub fn json(line: &[u8]) -> Result<Value, LineFault> {
    let mut reader = serde_json::Deserializer::from_slice(line);
    let read = Unique.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| {
        let what = match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => "an empty line".to_string(),
            Some(b'{' | b'[') if error.is_eof() => {
                format!("the line ends too early, and each message is one line: {}", shown(line))
            }
            Some(b'{' | b'[') => {
                // The line is one line, so only the column tells the place.
                let text = error.to_string();
                let text = text.split(" at line ").next().unwrap_or_default();
                format!("{text} at byte {}: {}", error.column(), around(line, error.column()))
            }
            Some(_) => {
                format!("expected a JSON object, found: {}; standard output is only for messages", shown(line))
            }
        };
        LineFault::new(OutsideFault::NotJson, what)
    })
}

/// The beginning of a line.
pub fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let shown: String = text.chars().take(120).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}

/// The part of a line around a byte.
fn around(line: &[u8], byte: usize) -> String {
    let (from, to) = (byte.saturating_sub(40), line.len().min(byte + 20));
    let part = String::from_utf8_lossy(line.get(from..to).unwrap_or_default());
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < line.len() { "…" } else { "" });
    format!("{before}{part}{after}")
}

/// Reads an object. `what` names it in the text of a fault.
pub fn object<T: DeserializeOwned>(fields: Map<String, Value>, what: &str) -> Result<T, LineFault> {
    let value = Value::Object(fields);
    T::deserialize(&value).map_err(|error| {
        let whole = error.to_string();
        let Value::Object(fields) = &value else { unreachable!("it is an object") };
        let of_field = fields.iter().find_map(|(name, field)| {
            let alone = Value::Object(Map::from_iter([(name.clone(), field.clone())]));
            let found = T::deserialize(&alone).err()?.to_string();
            (found == whole).then(|| format!("`{name}`: "))
        });
        // Errors about whole fields name them already.
        let of_field = of_field.filter(|_| !whole.contains(" field `")).unwrap_or_default();
        LineFault::new(OutsideFault::NotAMessage, format!("{what}: {of_field}{}", worded(&whole)))
    })
}

/// The error in words of JSON, without those of Rust: `expected a whole number, found "1"`.
fn worded(error: &str) -> String {
    let types = ["invalid type: ", "invalid value: "].iter().find_map(|start| error.strip_prefix(start));
    match types.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => format!("expected {}, found {}", wanted(expected), given(found)),
        None => error.replacen("unknown variant", "unknown word", 1),
    }
}

fn wanted(expected: &str) -> &str {
    match expected {
        "u16" | "u32" | "u64" => "a whole number, at least 0",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

fn given(found: &str) -> String {
    match found {
        "sequence" => "a list".to_string(),
        "map" => "an object".to_string(),
        other => {
            let kinds = ["integer ", "floating point ", "boolean ", "string "];
            let value = kinds.iter().find_map(|kind| other.strip_prefix(kind)).unwrap_or(other);
            value.trim_matches('`').to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::decisions;
    use super::*;

    #[test]
    fn a_wrong_value_is_named_with_its_field_and_in_words_of_json() {
        let rows = [
            (r#""wake_at":6.5,"decisions":[]"#, "decisions: `wake_at`: expected a whole number, at least 0, found 6.5"),
            (r#""wake_at":-5,"decisions":[]"#, "decisions: `wake_at`: expected a whole number, at least 0, found -5"),
            (r#""wake_at":"1s","decisions":[]"#, r#"`wake_at`: expected a whole number, at least 0, found "1s""#),
            (r#""decisions":{}"#, "decisions: `decisions`: expected a list, found an object"),
            (r#""decisions":["wait"]"#, r#"decision 0: expected an object, found "wait""#),
            (r#""decisions":[{"do":"wait","run":7}]"#, "decision 0, `wait`: `run`: expected a string, found 7"),
            (r#""decisions":[{"do":"wait"}]"#, "decision 0, `wait`: missing field `run`"),
            (
                r#""decisions":[{"do":"place","run":"a/0/1","parts":["x"]}]"#,
                r#"decision 0, `place`, part 0: expected an object, found "x""#,
            ),
            (
                r#""decisions":[{"do":"place","run":"a/0/1","parts":[{"node":"x","gpus":0}]}]"#,
                "decision 0, `place`, part 0: `gpus`: expected a list, found 0",
            ),
            (
                r#""decisions":[{"do":"place","run":"a/0/1","parts":[{"node":"x","gpus":["0"]}]}]"#,
                "part 0: `gpus`: expected the index of a GPU or, for a model, an object with `index` and `memory`",
            ),
            (
                r#""decisions":[{"do":"cancel","run":"a/0/1","because":"bored"}]"#,
                "decision 0, `cancel`: `because`: unknown word `bored`, expected one of `cancelled`",
            ),
        ];
        for (fields, text) in rows {
            let line = format!(r#"{{"type":"decisions","id":1,{fields}}}"#);
            let wrong = decisions(line.as_bytes(), 1).expect_err(fields);
            assert_eq!(wrong.fault, OutsideFault::NotAMessage, "{fields}");
            assert!(wrong.text.contains(text), "{fields}: {}", wrong.text);
        }
    }

    #[test]
    fn a_line_that_is_not_json_is_told_apart() {
        let rows = [
            ("", "an empty line"),
            ("loading...", "found: loading...; standard output is only for messages"),
            ("{", "each message is one line: {"),
            (r#"{"a":NaN}"#, r#"expected value at byte 6: {"a":NaN}"#),
            (r#"{"a":[{"run":"x","run":"y"}]}"#, r#"`run` is there twice at byte 22: {"a":[{"run":"x","run""#),
            (r#"{"a":1} {"a":2}"#, r#"trailing characters at byte 9: {"a":1} {"a":2}"#),
        ];
        for (line, text) in rows {
            let wrong = json(line.as_bytes()).expect_err(line);
            assert_eq!(wrong.fault, OutsideFault::NotJson, "{line}");
            assert!(wrong.text.contains(text), "{line}: {}", wrong.text);
        }
    }
}
