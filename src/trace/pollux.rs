//! Workloads of the Pollux simulator (petuum/adaptdl, c793c70, `simulator/workloads*`) and of Sia's simulator
//! (siasosp23/artifacts, aaf7a0d). They are CSV with a header line: name, time (seconds), application, num_replicas
//! (GPUs) and batch_size. The lists do not say how long a job runs, because these simulators compute it from models of
//! the applications.

use std::io::BufRead;
use std::path::Path;

use dryrack_units::{SimDuration, SimTime};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{RunBasis, TraceTask};
use super::rows::{RowResult, TableRows};
use super::text::{Lines, Span};

const COLUMNS: [&str; 5] = ["name", "time", "application", "num_replicas", "batch_size"];

pub(super) fn job_rows<R: BufRead>(file: &Path, input: R) -> Result<TableRows<R, { COLUMNS.len() }>, TraceError> {
    TableRows::new(file, input, COLUMNS, job)
}

fn job<R: BufRead>(lines: &Lines<R>, fields: &[Span; COLUMNS.len()]) -> Result<RowResult, TraceError> {
    let [name, time, application, replicas, batch] = fields;
    let name = lines.text(name, "the name of a job")?.to_string();
    let expected = "a time in seconds";
    let nanos = lines.decimal(time, expected)?.as_billionths();
    let nanos = nanos.ok_or_else(|| lines.wrong(time, expected, NotDecimal::TooLarge))?;
    let application = lines.text(application, "the name of an application")?.to_string();
    let gpus: u32 = lines.whole(replicas, "a number of replicas")?;
    let _: u64 = lines.whole(batch, "a batch size")?;
    let task = TraceTask::new(name, lines.number(), SimTime::from_nanos(nanos), SimDuration::ZERO);
    let run_basis = RunBasis::NotRecorded;
    Ok(Ok(TraceTask { run_basis, gpus: Some(gpus), application: Some(application), ..task }))
}
