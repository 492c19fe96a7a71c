//! `jobs.csv`: a row for each replica of each job, in order of submission.
//!
//! | column | |
//! | --- | --- |
//! | `job`, `task` | the job's name and the number of the replica, from 0; a gang is one row |
//! | `submit`, `start`, `end` | seconds, exact: submission, first start, end of the last attempt; empty if none |
//! | `nodes`, `gpus` | the placement of its last placed attempt, separated by spaces |
//! | `outcome`, `reason` | how and why its last attempt ended; if it still waits or runs, its phase and why it waits |
//! | `attempt` | attempts so far |
//! | `queue` | as submitted |
//! | `recorded_wait` | its wait in the trace in seconds, for comparison |
//! | `placed` | seconds, exact; its first placement: `placed - submit` is its queue wait |

use std::io::{Read, Write};

use dryrack_ids::{AttemptId, GpuId, Names};
use dryrack_metrics::{JobAccount, ReplicaAccount, RunAccount};
use dryrack_units::{SimDuration, SimTime};

const COLUMNS: [&str; 13] = [
    "job",
    "task",
    "submit",
    "start",
    "end",
    "nodes",
    "gpus",
    "outcome",
    "reason",
    "attempt",
    "queue",
    "recorded_wait",
    "placed",
];

/// Writes `jobs.csv`. `recorded_wait` returns the wait in the trace of the n-th job.
pub fn write_jobs_csv(
    out: impl Write,
    accounts: &RunAccount,
    recorded_wait: impl Fn(usize) -> Option<SimDuration>,
) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (attempt, job, replica) in accounts.replicas() {
        let recorded = recorded_wait(attempt.job.index()).map_or(String::new(), SimDuration::to_decimal_seconds);
        csv.write_record(row(attempt, job, replica, &accounts.names, recorded))?;
    }
    csv.flush()?;
    Ok(())
}

fn row(
    attempt: AttemptId,
    job: &JobAccount,
    replica: &ReplicaAccount,
    names: &Names,
    recorded: String,
) -> [String; 13] {
    let claims = replica.placement.as_ref().map_or(&[][..], |placement| placement.claims());
    let nodes: Vec<&str> = claims.iter().map(|claim| names.node(claim.node)).collect();
    let gpus: Vec<String> = (claims.iter())
        .flat_map(|claim| claim.gpus.iter().map(|part| names.gpu(GpuId { node: claim.node, index: part.index })))
        .collect();
    let outcome = replica.outcome.map_or(replica.phase.name(), |outcome| outcome.name());
    [
        job.spec.name.to_string(),
        attempt.replica.to_string(),
        seconds(Some(job.submitted)),
        seconds(replica.started),
        seconds(replica.ended),
        nodes.join(" "),
        gpus.join(" "),
        outcome.to_string(),
        replica.reason.map_or(String::new(), |reason| reason.name().to_string()),
        replica.attempt.to_string(),
        job.spec.queue.as_deref().unwrap_or_default().to_string(),
        recorded,
        seconds(replica.placed),
    ]
}

fn seconds(at: Option<SimTime>) -> String {
    at.map_or(String::new(), |at| at.since(SimTime::ZERO).to_decimal_seconds())
}

/// The fields of a row that the plot of waits needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub queue: String,
    pub wait: Option<SimDuration>,
    pub recorded_wait: Option<SimDuration>,
}

/// Reads a file that [`write_jobs_csv`] wrote. The error is a sentence that names the line.
pub fn read_jobs_csv(input: impl Read) -> Result<Vec<JobRow>, String> {
    let mut csv = csv::Reader::from_reader(input);
    let headers = csv.headers().map_err(|error| error.to_string())?.clone();
    let column =
        |name: &str| headers.iter().position(|header| header == name).ok_or(format!("line 1: no column `{name}`"));
    let [queue, submit, placed, recorded] =
        [column("queue")?, column("submit")?, column("placed")?, column("recorded_wait")?];
    let mut rows = Vec::new();
    for (index, record) in csv.records().enumerate() {
        let line = index + 2;
        let record = record.map_err(|error| error.to_string())?;
        let time = |at: usize| match &record[at] {
            "" => Ok(None),
            text => match format!("{text}s").parse::<SimDuration>() {
                Ok(time) => Ok(Some(time)),
                Err(_) => Err(format!("line {line}: `{text}` is not a number of seconds")),
            },
        };
        let wait = match (time(submit)?, time(placed)?) {
            (Some(submit), Some(placed)) if placed >= submit => Some(placed - submit),
            (Some(_), Some(_)) => return Err(format!("line {line}: placed before its submission")),
            _ => None,
        };
        rows.push(JobRow { queue: record[queue].to_string(), wait, recorded_wait: time(recorded)? });
    }
    Ok(rows)
}
