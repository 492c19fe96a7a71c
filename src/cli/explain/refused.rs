//! The part of an explanation that is about refused decisions of a scheduler in another process.

use dryrack_event::{External, Input, Outside, Record, RecordBody};
use dryrack_ids::{JobId, Names};
use dryrack_report::{Filter, record_line};
use dryrack_units::{SimTime, counted};
use serde_json::{Value, json};

/// The number of decisions that are listed.
const SHOWN: usize = 5;

fn of_job(records: &[Record], job: JobId, until: SimTime) -> Vec<&Record> {
    let is_refused = |record: &&Record| match &record.said {
        RecordBody::Input(Input::External(External::Said(said @ Outside::Mistaken { .. }))) => said.job() == Some(job),
        RecordBody::Input(_) | RecordBody::Event(_) => false,
    };
    records.iter().take_while(|record| record.at <= until).filter(is_refused).collect()
}

/// The last decisions about the job that were refused until then; empty if there were none.
pub fn human(records: &[Record], job: JobId, until: SimTime, names: &Names) -> String {
    let refused = of_job(records, job, until);
    let last = &refused[refused.len().saturating_sub(SHOWN)..];
    if last.is_empty() {
        return String::new();
    }
    let lines = last.iter().filter_map(|record| record_line(record, names, &Filter::default()));
    let lines: Vec<String> = lines.map(|line| format!("  {}\n", line.trim_start())).collect();
    let which = if last.len() < refused.len() { format!("; the last {}", last.len()) } else { String::new() };
    format!("\n{} about it refused{which}:\n{}", counted(refused.len(), "decision"), lines.concat())
}

pub fn as_json(records: &[Record], job: JobId, until: SimTime) -> Value {
    let value = |record: &Record| match &record.said {
        RecordBody::Input(Input::External(External::Said(Outside::Mistaken { fault, text, .. }))) => {
            Some(json!({"at_seconds": record.at.as_secs_f64(), "fault": fault.name(), "text": text}))
        }
        RecordBody::Input(_) | RecordBody::Event(_) => None,
    };
    of_job(records, job, until).into_iter().filter_map(value).collect()
}
