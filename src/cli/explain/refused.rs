//! The part of an explanation that is about refused decisions of a scheduler in another process.

use std::collections::BTreeMap;

use dryrack_event::Record;
use dryrack_ids::{JobId, Names};
use dryrack_metrics::{RefusedDecision, RefusedDecisions};
use dryrack_units::{SimTime, counted, printable};
use serde_json::{Value, json};

/// The number of lines.
const SHOWN: usize = 5;

fn of_job(records: &[Record], job: JobId, until: SimTime) -> Vec<RefusedDecision> {
    let mut reader = RefusedDecisions::default();
    let refused = records.iter().take_while(|record| record.at <= until).filter_map(|record| reader.of(record));
    refused.filter(|refused| refused.attempt.is_some_and(|attempt| attempt.job == job)).collect()
}

/// Decisions that were refused alike: how many they are, the first of them, and when the last one was refused.
struct Alike {
    count: usize,
    first: RefusedDecision,
    last_at: SimTime,
}

/// The decisions about the job that were refused until then, those that are alike on one line; empty if there were none.
pub fn human(records: &[Record], job: JobId, until: SimTime, names: &Names) -> String {
    let refused = of_job(records, job, until);
    let (count, mut alike, mut places) = (refused.len(), Vec::<Alike>::new(), BTreeMap::new());
    for decision in refused {
        let place = *places.entry((decision.attempt, decision.fault, decision.text(names))).or_insert(alike.len());
        match alike.get_mut(place) {
            Some(known) => (known.count, known.last_at) = (known.count + 1, decision.at),
            None => alike.push(Alike { count: 1, last_at: decision.at, first: decision }),
        }
    }
    if alike.is_empty() {
        return String::new();
    }
    let line = |Alike { count, first, last_at }: &Alike| {
        let of = first.attempt.map_or(String::new(), |attempt| names.attempt(attempt));
        let times = if *count == 1 { String::new() } else { format!(" ({count} times, the last at {last_at})") };
        format!("  {}  {of:<20} {}: {}{times}\n", first.at, first.fault, printable(&first.text(names)))
    };
    let last = &alike[alike.len().saturating_sub(SHOWN)..];
    let which = if last.len() < alike.len() { format!("; the last {} kinds", last.len()) } else { String::new() };
    let lines: Vec<String> = last.iter().map(line).collect();
    format!("\n{} about it refused{which}:\n{}", counted(count, "decision"), lines.concat())
}

pub fn as_json(records: &[Record], job: JobId, until: SimTime, names: &Names) -> Value {
    let value = |refused: RefusedDecision| json!({"at_seconds": refused.at.as_secs_f64(), "fault": refused.fault, "text": refused.text(names)});
    of_job(records, job, until).into_iter().map(value).collect()
}
