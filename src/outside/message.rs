//! Reads the messages of the program. An unknown field is an error, because ignoring the field would hide a mistake.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::reading::{json, object, shown};
use dryrack_event::{OutsideFault, StandIn};

/// The version of the protocol that this dryrack speaks.
pub const PROTOCOL: u64 = 1;

/// The largest number of decisions in one answer.
pub const MOST_DECISIONS: usize = 100_000;

/// The longest text that is stored with a decision, in bytes.
const LONGEST_TEXT: usize = 4096;

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFault {
    pub fault: OutsideFault,
    pub text: String,
}

impl LineFault {
    pub fn new(fault: OutsideFault, text: impl Into<String>) -> LineFault {
        LineFault { fault, text: text.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    pub protocol: u64,
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub wants: Vec<Interest>,
    #[serde(default)]
    pub can: Vec<Capability>,
    #[serde(default)]
    pub stands_in: Vec<StandIn>,
}

/// The message with which the program gives up, with its reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GiveUp {
    #[serde(default, rename = "id")]
    _id: Option<u64>,
    name: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interest {
    Idle,
    Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    Evaluate,
    /// Begins another world in the same process.
    Again,
    /// Keeps the queue itself, so that no question need list all runs that wait.
    Queue,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    pub decisions: Vec<Decision>,
    pub wake_at: Option<u64>,
    pub took_ns: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionsRead {
    decisions: Vec<Value>,
    #[serde(default)]
    wake_at: Option<u64>,
    #[serde(default)]
    took_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Place(Place),
    Wait(Wait),
    Refuse(Refuse),
    Preempt(Preempt),
    Cancel(Cancel),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub run: String,
    pub parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceRead {
    run: String,
    parts: Vec<Value>,
}

/// The tasks on one node. Numbers are wide enough for all that an answer may hold: if there is no such GPU or block, only
/// this decision is not carried out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub node: String,
    /// The kind of the tasks, if the job has several.
    #[serde(default)]
    pub set: Option<String>,
    #[serde(default)]
    pub tasks: Option<u64>,
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    #[serde(default)]
    pub blocks: Option<BlocksTaken>,
    #[serde(default)]
    pub cpu_milli: Option<u64>,
    #[serde(default)]
    pub ram: Option<u64>,
}

/// A GPU by its index, or by its index with the amounts to take.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected the index of a GPU or, for a model, an object with `index` and `memory`")]
pub enum Gpu {
    Index(u64),
    Taken(GpuTaken),
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuTaken {
    pub index: u64,
    pub memory: u64,
    #[serde(default)]
    pub share: u64,
}

/// The blocks of an instance by their indices, or only their number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a list of blocks, or how many")]
pub enum BlocksTaken {
    Count(u64),
    These(Vec<u64>),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    pub run: String,
    #[serde(default)]
    pub reasons: BTreeMap<String, u32>,
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    pub run: String,
    #[serde(default)]
    pub reasons: BTreeMap<String, u32>,
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preempt {
    pub run: String,
    #[serde(default, rename = "for")]
    pub by: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    #[serde(default)]
    pub run: Option<String>,
    #[serde(default)]
    pub job: Option<String>,
    #[serde(default)]
    pub because: CancelBecause,
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelBecause {
    #[default]
    Cancelled,
    UtilizationPolicy,
    TimeLimit,
    RetryLimit,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluated {
    pub fits: bool,
    /// Whether the demand would not fit even if this fleet were empty.
    #[serde(default)]
    pub never: bool,
    #[serde(default)]
    pub reasons: BTreeMap<String, u32>,
    #[serde(default)]
    pub text: Option<String>,
}

/// Reads a line as a message of this type. The message may also contain the number of the question.
fn message(line: &[u8], kind: &str) -> Result<Map<String, Value>, LineFault> {
    let value = json(line)?;
    let not = |why: String| LineFault::new(OutsideFault::NotAMessage, why);
    let Value::Object(mut fields) = value else {
        return Err(not(format!("expected an object, found: {}", shown(line))));
    };
    match fields.shift_remove("type") {
        Some(Value::String(found)) if found == kind => Ok(fields),
        Some(Value::String(found)) if found == "fault" => {
            let GiveUp { name, text, .. } = object(fields, "fault")?;
            Err(LineFault::new(OutsideFault::GivenUp, format!("{name}: {text}")))
        }
        Some(found) => Err(not(format!("expected the type \"{kind}\", found {found}"))),
        None => Err(not(format!("expected a field `type`: {}", shown(line)))),
    }
}

/// Removes the number of the question from an answer, and checks it. Numbers below `id` belong to earlier questions.
fn check_id(fields: &mut Map<String, Value>, id: u64) -> Result<(), LineFault> {
    match fields.shift_remove("id") {
        Some(Value::Number(found)) if found.as_u64() == Some(id) => Ok(()),
        Some(Value::Number(found)) if found.as_u64().is_some_and(|found| (1..id).contains(&found)) => {
            Err(LineFault::new(OutsideFault::RepeatedId, format!("expected an answer to {id}, found one to {found}")))
        }
        Some(found) => {
            Err(LineFault::new(OutsideFault::WrongId, format!("expected an answer to {id}, found one to {found}")))
        }
        None => Err(LineFault::new(OutsideFault::NotAMessage, "expected a field `id`")),
    }
}

pub fn hello(line: &[u8]) -> Result<Hello, LineFault> {
    let fields = message(line, "hello")?;
    // Check the version first, because another version may have other fields.
    match fields.get("protocol").and_then(Value::as_u64) {
        Some(PROTOCOL) => object(fields, "hello"),
        Some(other) => {
            let text = format!("it speaks version {other}, and this dryrack version {PROTOCOL}");
            Err(LineFault::new(OutsideFault::WrongProtocol, text))
        }
        None => {
            Err(LineFault::new(OutsideFault::NotAMessage, "hello: expected a field `protocol` with a whole number"))
        }
    }
}

pub fn decisions(line: &[u8], id: u64) -> Result<Decisions, LineFault> {
    let mut fields = message(line, "decisions")?;
    check_id(&mut fields, id)?;
    let DecisionsRead { decisions, wake_at, took_ns } = object(fields, "decisions")?;
    if decisions.len() > MOST_DECISIONS {
        let text = format!("{} decisions in one answer, and {MOST_DECISIONS} are the most", decisions.len());
        return Err(LineFault::new(OutsideFault::Flood, text));
    }
    let decisions = decisions.into_iter().enumerate();
    let decisions =
        decisions.map(|(index, value)| decision(value, &format!("decision {index}"))).collect::<Result<_, _>>()?;
    Ok(Decisions { decisions, wake_at, took_ns })
}

fn decision(value: Value, what: &str) -> Result<Decision, LineFault> {
    let not = |why: String| LineFault::new(OutsideFault::NotAMessage, format!("{what}: {why}"));
    let Value::Object(mut fields) = value else { return Err(not(format!("expected an object, found {value}"))) };
    let what = |verb: &str| format!("{what}, `{verb}`");
    match fields.shift_remove("do") {
        Some(Value::String(verb)) => match verb.as_str() {
            "place" => place(fields, &what(&verb)).map(Decision::Place),
            "wait" => object(fields, &what(&verb)).map(Decision::Wait),
            "refuse" => object(fields, &what(&verb)).map(Decision::Refuse),
            "preempt" => object(fields, &what(&verb)).map(Decision::Preempt),
            "cancel" => {
                let cancel: Cancel = object(fields, &what(&verb))?;
                match (&cancel.run, &cancel.job, cancel.because) {
                    (Some(_), None, _) | (None, Some(_), CancelBecause::Cancelled) => Ok(Decision::Cancel(cancel)),
                    (None, Some(_), _) => Err(not("`because` is of a `run`; a `job` is only cancelled".to_string())),
                    _ => Err(not("`cancel` needs either a `run` or a `job`".to_string())),
                }
            }
            other => Err(not(format!("`do` is {other}; expected place, wait, refuse, preempt or cancel"))),
        },
        _ => Err(not("expected a field `do`".to_string())),
    }
}

/// Reads a placement. Each part is read by itself, so that a fault names the part.
fn place(fields: Map<String, Value>, what: &str) -> Result<Place, LineFault> {
    let PlaceRead { run, parts } = object(fields, what)?;
    let part = |(index, part): (usize, Value)| match part {
        Value::Object(fields) => object(fields, &format!("{what}, part {index}")),
        other => {
            let text =
                format!("{what}, part {index}: expected an object, found {}", shown(other.to_string().as_bytes()));
            Err(LineFault::new(OutsideFault::NotAMessage, text))
        }
    };
    Ok(Place { run, parts: parts.into_iter().enumerate().map(part).collect::<Result<_, _>>()? })
}

pub fn evaluated(line: &[u8], id: u64) -> Result<Evaluated, LineFault> {
    let mut fields = message(line, "evaluated")?;
    check_id(&mut fields, id)?;
    object(fields, "evaluated")
}

/// Whether a line can be read as one of the messages of a program. An answer must have the id 1.
///
/// # Errors
/// What is wrong with the line as a `hello`, as `decisions` and as `evaluated`.
pub fn check_line(line: &[u8]) -> Result<(), [LineFault; 3]> {
    let hello = hello(line).err();
    let decisions = decisions(line, 1).err();
    let evaluated = evaluated(line, 1).err();
    match (hello, decisions, evaluated) {
        (Some(hello), Some(decisions), Some(evaluated)) => Err([hello, decisions, evaluated]),
        _ => Ok(()),
    }
}

/// Shortens a text to the length that is stored; `None` if it is empty.
pub fn cut(text: Option<String>) -> Option<std::sync::Arc<str>> {
    text.filter(|text| !text.is_empty()).map(|text| {
        let mut end = text.len().min(LONGEST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        std::sync::Arc::from(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_answer_is_told_why() {
        let rows = [
            ("nonsense", OutsideFault::NotJson, "expected a JSON object, found: nonsense"),
            ("[]", OutsideFault::NotAMessage, "expected an object"),
            ("{}", OutsideFault::NotAMessage, "`type`"),
            (r#"{"type":"hello"}"#, OutsideFault::NotAMessage, r#"expected the type "decisions", found "hello""#),
            (r#"{"type":"decisions","decisions":[]}"#, OutsideFault::NotAMessage, "`id`"),
            (r#"{"type":"decisions","id":2,"decisions":[]}"#, OutsideFault::RepeatedId, "expected an answer to 3"),
            (r#"{"type":"decisions","id":4,"decisions":[]}"#, OutsideFault::WrongId, "found one to 4"),
            (r#"{"type":"decisions","id":0,"decisions":[]}"#, OutsideFault::WrongId, "found one to 0"),
            (r#"{"type":"decisions","id":3}"#, OutsideFault::NotAMessage, "missing field `decisions`"),
            (r#"{"type":"decisions","id":3,"decisions":[],"x":1}"#, OutsideFault::NotAMessage, "unknown field `x`"),
            (
                r#"{"type":"decisions","id":3,"decisions":[3]}"#,
                OutsideFault::NotAMessage,
                "decision 0: expected an object",
            ),
            (r#"{"type":"decisions","id":3,"decisions":[{"do":"go"}]}"#, OutsideFault::NotAMessage, "`do` is go"),
            (
                r#"{"type":"decisions","id":3,"decisions":[{"do":"place","run":"a/0/1","parts":[{"nod":"x"}]}]}"#,
                OutsideFault::NotAMessage,
                "decision 0, `place`, part 0: unknown field `nod`",
            ),
            (
                r#"{"type":"decisions","id":3,"decisions":[{"do":"cancel"}]}"#,
                OutsideFault::NotAMessage,
                "either a `run`",
            ),
        ];
        for (line, fault, text) in rows {
            let wrong = decisions(line.as_bytes(), 3).expect_err(line);
            assert_eq!(wrong.fault, fault, "{line}");
            assert!(wrong.text.contains(text), "{line}: {}", wrong.text);
        }
    }

    #[test]
    fn an_answer_is_read() {
        let line = r#"{"type":"decisions","id":1,"wake_at":5,"decisions":[
            {"do":"place","run":"a/0/1","parts":[{"node":"n","gpus":[0,{"index":1,"memory":7}],"blocks":2}]},
            {"do":"wait","run":"b/0/1","reasons":{"insufficient_gpus":2},"text":"no"},
            {"do":"preempt","run":"c/0/1","for":"a/0/1"},{"do":"cancel","job":"d"}]}"#;
        let read = decisions(line.as_bytes(), 1).expect("an answer");
        assert_eq!((read.decisions.len(), read.wake_at, read.took_ns), (4, Some(5), None));
        let Decision::Place(place) = &read.decisions[0] else { panic!("a place") };
        let part = &place.parts[0];
        assert_eq!(part.gpus, [Gpu::Index(0), Gpu::Taken(GpuTaken { index: 1, memory: 7, share: 0 })]);
        assert_eq!(part.blocks, Some(BlocksTaken::Count(2)));
    }

    #[test]
    fn another_protocol_is_told_whatever_else_the_line_holds() {
        let wrong = hello(br#"{"type":"hello","protocol":2,"who":"x"}"#).expect_err("a later version");
        assert_eq!(wrong.fault, OutsideFault::WrongProtocol);
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let text = "ä".repeat(3000);
        assert_eq!(cut(Some(text)).map(|text| text.len()), Some(4096));
        assert_eq!(cut(Some(String::new())), None);
    }
}
