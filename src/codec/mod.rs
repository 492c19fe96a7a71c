//! Floor 4. The log as lines of JSON.
//!
//! Owns how a record is encoded as one line, with names in place of ids, and how it is decoded. It is apart from the
//! messages because the code that reads and writes each of their types takes longer to compile than the rest of them, and
//! no decision needs it. Must never change a message.

#![warn(clippy::unwrap_used)]

use serde::{Deserialize, Serialize};
use thiserror::Error;

use dryrack_event::{Declaration, Event, Input, Record, RecordBody};
use dryrack_ids::{NameError, Names, lend};
use dryrack_units::SimTime;

/// Why a line of a log is not a record.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    #[error("not JSON: {0}")]
    Json(String),
    #[error("not a record of this version: {0}")]
    Shape(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("`{name}` is declared by a spec with the name `{spec}`")]
    OtherName { name: String, spec: String },
}

#[derive(Serialize)]
struct LineOut<'a> {
    step: u64,
    at_ns: SimTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a Input>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineIn {
    step: u64,
    at_ns: SimTime,
    input: Option<Input>,
    event: Option<Event>,
}

/// Encodes one record, without a line end. If the record is a declaration, adds the declared name to `names`.
pub fn encode_line(record: &Record, names: &mut Names) -> String {
    let mut line = Vec::new();
    match &record.said {
        RecordBody::Input(input) => encode_input(record.step, record.at, input, names, &mut line),
        RecordBody::Event(event) => encode_event(record.step, record.at, event, names, &mut line),
    }
    String::from_utf8(line).expect("JSON is text")
}

/// Appends an input to `out`, in the format of [`encode_line`].
pub fn encode_input(step: u64, at: SimTime, input: &Input, names: &mut Names, out: &mut Vec<u8>) {
    learn(input, names);
    encode(&LineOut { step, at_ns: at, input: Some(input), event: None }, names, out);
}

/// Appends an event to `out`, in the format of [`encode_line`].
pub fn encode_event(step: u64, at: SimTime, event: &Event, names: &mut Names, out: &mut Vec<u8>) {
    encode(&LineOut { step, at_ns: at, input: None, event: Some(event) }, names, out);
}

fn encode(line: &LineOut<'_>, names: &mut Names, out: &mut Vec<u8>) {
    let (written, _) = lend(names, || serde_json::to_writer(out, line));
    written.unwrap_or_else(|error| panic!("the name is not declared: {error}"));
}

/// Adds a declared name to `names`. This happens before the record is written, because the record itself contains the
/// name. A record that is written twice adds nothing the second time.
fn learn(input: &Input, names: &mut Names) {
    let (table, name, id) = match input.declaration() {
        Some(Declaration::Fleet { fleet, spec }) => (&mut names.fleets, &spec.name, fleet.index()),
        Some(Declaration::Node { node, spec, .. }) => (&mut names.nodes, &spec.name, node.index()),
        Some(Declaration::Job { job, spec }) => (&mut names.jobs, &spec.name, job.index()),
        None => return,
    };
    let known = table.find(name).or_else(|| table.add(name.clone()).ok());
    assert_eq!(known, Some(id), "`{name}` is declared once, and in the order of ids");
}

/// Decodes one line. If the record is a declaration, adds the declared name to `names`.
pub fn decode_line(line: &str, names: &mut Names) -> Result<Record, CodecError> {
    let (read, fault) = lend(names, || serde_json::from_str::<LineIn>(line));
    let line = match (read, fault) {
        (Ok(line), _) => line,
        (Err(_), Some(fault)) => return Err(CodecError::Name(fault)),
        (Err(error), None) => return Err(into_codec_error(&error)),
    };
    let said = match (line.input, line.event) {
        (Some(input), None) => RecordBody::Input(input),
        (None, Some(event)) => RecordBody::Event(event),
        _ => return Err(CodecError::Shape("expected either an input or an event".to_string())),
    };
    if let RecordBody::Input(input) = &said {
        check_declared(input, names)?;
    }
    Ok(Record { step: line.step, at: line.at_ns, said })
}

fn into_codec_error(error: &serde_json::Error) -> CodecError {
    let text = error.to_string();
    // Drop serde's line number: it counts from this line and is not the line number in the log.
    let message = text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let message = format!("{message}, at column {}", error.column());
    match error.classify() {
        serde_json::error::Category::Data => CodecError::Shape(message),
        serde_json::error::Category::Io | serde_json::error::Category::Syntax | serde_json::error::Category::Eof => {
            CodecError::Json(message)
        }
    }
}

/// Checks that a declaration has the same name in its id and in its spec.
fn check_declared(input: &Input, names: &Names) -> Result<(), CodecError> {
    let (name, spec) = match input.declaration() {
        Some(Declaration::Fleet { fleet, spec }) => (names.fleet(fleet), &spec.name),
        Some(Declaration::Node { node, spec, .. }) => (names.node(node), &spec.name),
        Some(Declaration::Job { job, spec }) => (names.job(job), &spec.name),
        None => return Ok(()),
    };
    match name == &**spec {
        true => Ok(()),
        false => Err(CodecError::OtherName { name: name.to_string(), spec: spec.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.nodes.add("alpha".into()).expect("the first");
        names.jobs.add("chat".into()).expect("the first");
        names
    }

    #[test]
    fn a_line_names_what_it_speaks_of_and_reads_back() {
        let rows = [
            r#"{"step":1,"at_ns":0,"input":"wakeup"}"#,
            r#"{"step":2,"at_ns":5,"input":{"cancel":{"job":"chat"}}}"#,
            r#"{"step":3,"at_ns":5,"input":{"gpu_reported":{"gpu":"alpha/1","state":"failed"}}}"#,
            r#"{"step":4,"at_ns":9,"event":{"claim_freed":{"run":{"job":"chat","replica":0,"attempt":1},"node":"alpha"}}}"#,
        ];
        for row in rows {
            let record = decode_line(row, &mut names()).expect(row);
            assert_eq!(encode_line(&record, &mut names()), row);
        }
    }

    #[test]
    fn a_line_that_is_no_record_is_told_why() {
        let rows = [
            (r#"{"step":1,"at_ns":0,"input":"wakeup""#, "not JSON: EOF while parsing an object, at column 36"),
            (r#"{"step":1,"at_ns":0}"#, "not a record of this version: expected either an input or an event"),
            (
                r#"{"step":1,"at_nz":0,"input":"wakeup"}"#,
                "not a record of this version: unknown field `at_nz`, expected one of `step`, `at_ns`, `input`, \
                 `event`, at column 17",
            ),
            (
                r#"{"step":1,"at_ns":0,"input":{"cancel":{"job":"chta"}}}"#,
                "no job is named `chta`; did you mean `chat`?",
            ),
            (
                r#"{"step":1,"at_ns":0,"input":{"gpu_reported":{"gpu":"alpha","state":"failed"}}}"#,
                "not a record of this version: expected a GPU such as alpha/0, found `alpha`, at column 58",
            ),
        ];
        for (row, wanted) in rows {
            assert_eq!(decode_line(row, &mut names()).expect_err(row).to_string(), wanted);
        }
    }
}
