//! dryrack's own formats of lists: CSV with a header line, and JSON lines. Both hold every field of a [`TraceTask`]. So
//! a trace that is converted to one of them loses only its comments.
//!
//! A missing value is an empty field or a missing column in CSV, and a missing key in JSON. Times are decimal seconds
//! in CSV and whole nanoseconds in JSON, because a JSON decimal would lose digits. A CSV field with a comma is quoted.

use std::io::BufRead;
use std::path::Path;

use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};

use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{Outcome, RunBasis, TraceTask};
use super::rows::{RowResult, Rows, Seen, TableRows};
use super::table::Table;
use super::tally::{Oddities, Tally};
use super::text::{Lines, Span};

/// The number of required columns. They come first. The other columns may be missing.
pub(super) const NEEDED: usize = 3;

pub(super) const COLUMNS: [&str; 27] = [
    "job",
    "submit_s",
    "duration_s",
    "duration_is",
    "wait_s",
    "estimate_s",
    "nodes",
    "processors",
    "cpu_milli",
    "ram_bytes",
    "gpus",
    "gpu_milli",
    "gpu_models",
    "cpu_used_s",
    "ram_used_bytes",
    "outcome",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "application",
    "virtual_cluster",
    "qos",
    "most_per_node",
    "account",
    "user_name",
];

/// The separator between the GPU models that a task accepts.
pub(super) const BETWEEN_MODELS: char = '|';

/// A task in its written form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub job: String,
    pub submit_ns: u64,
    pub duration_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_is: Option<RunBasis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_milli: Option<MilliCpu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_bytes: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_milli: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_used_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_used_bytes: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_cluster: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_per_node: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Read, but never written: a list that is handed on numbers its users.
    pub user_name: Option<String>,
}

impl Line {
    pub(super) fn of(task: &TraceTask) -> Line {
        Line {
            job: task.name.clone(),
            submit_ns: task.submit.as_nanos(),
            duration_ns: task.run.as_nanos(),
            duration_is: (task.run_basis != RunBasis::Executed).then_some(task.run_basis),
            wait_ns: task.recorded_wait.map(SimDuration::as_nanos),
            estimate_ns: task.estimate.map(SimDuration::as_nanos),
            nodes: task.nodes,
            processors: task.processors,
            cpu_milli: task.cpu,
            ram_bytes: task.ram,
            gpus: task.gpus,
            gpu_milli: task.gpu_share.map(GpuShare::get),
            gpu_models: task.gpu_models.clone(),
            cpu_used_ns: task.cpu_time_used.map(SimDuration::as_nanos),
            ram_used_bytes: task.ram_used,
            outcome: task.outcome,
            user: task.user,
            group: task.group,
            executable: task.executable,
            queue: task.queue,
            partition: task.partition,
            application: task.application.clone(),
            virtual_cluster: task.virtual_cluster.clone(),
            qos: task.qos.clone(),
            most_per_node: task.most_per_node,
            account: task.account.clone(),
            user_name: task.user_name.clone(),
        }
    }

    fn task(self, line: u64) -> TraceTask {
        TraceTask {
            name: self.job,
            line,
            submit: SimTime::from_nanos(self.submit_ns),
            run: SimDuration::from_nanos(self.duration_ns),
            run_basis: self.duration_is.unwrap_or(RunBasis::Executed),
            recorded_wait: self.wait_ns.map(SimDuration::from_nanos),
            estimate: self.estimate_ns.map(SimDuration::from_nanos),
            nodes: self.nodes,
            processors: self.processors,
            cpu: self.cpu_milli,
            ram: self.ram_bytes,
            gpus: self.gpus,
            gpu_share: self.gpu_milli.map(GpuShare::new),
            gpu_models: self.gpu_models,
            cpu_time_used: self.cpu_used_ns.map(SimDuration::from_nanos),
            ram_used: self.ram_used_bytes,
            outcome: self.outcome,
            user: self.user,
            group: self.group,
            executable: self.executable,
            queue: self.queue,
            partition: self.partition,
            application: self.application,
            virtual_cluster: self.virtual_cluster,
            qos: self.qos,
            most_per_node: self.most_per_node,
            account: self.account,
            user_name: self.user_name,
            measured: None,
            odd: Oddities::default(),
        }
    }
}

/// The written form of an enum value that is a single word.
pub(super) fn word(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).expect("a word has a JSON form");
    json.as_str().expect("its JSON form is a word").to_string()
}

pub(super) fn csv_rows<R: BufRead>(file: &Path, input: R) -> Result<TableRows<R, { COLUMNS.len() }>, TraceError> {
    Ok(TableRows::of(Table::with_at_least(NEEDED, file, input, COLUMNS)?, csv_row))
}

fn csv_row<R: BufRead>(lines: &Lines<R>, fields: &[Span; COLUMNS.len()]) -> Result<RowResult, TraceError> {
    let [
        job,
        submit,
        duration,
        duration_is,
        wait,
        estimate,
        nodes,
        processors,
        cpu,
        ram,
        gpus,
        gpu_milli,
        gpu_models,
        cpu_used,
        ram_used,
        outcome,
        user,
        group,
        executable,
        queue,
        partition,
        application,
        virtual_cluster,
        qos,
        most_per_node,
        account,
        user_name,
    ] = fields;
    let models = text(lines, gpu_models, "the names of GPU models, with | between them")?;
    let line = Line {
        job: lines.text(job, "the name of a job")?.to_string(),
        submit_ns: seconds(lines, submit)?,
        duration_ns: seconds(lines, duration)?,
        duration_is: parse_word(lines, duration_is)?,
        wait_ns: some(lines, wait, seconds)?,
        estimate_ns: some(lines, estimate, seconds)?,
        nodes: some(lines, nodes, whole)?,
        processors: some(lines, processors, whole)?,
        cpu_milli: some(lines, cpu, whole)?.map(MilliCpu::new),
        ram_bytes: some(lines, ram, whole)?.map(Bytes::new),
        gpus: some(lines, gpus, whole)?,
        gpu_milli: some(lines, gpu_milli, share)?,
        gpu_models: models.map_or_else(Vec::new, |all| all.split(BETWEEN_MODELS).map(str::to_string).collect()),
        cpu_used_ns: some(lines, cpu_used, seconds)?,
        ram_used_bytes: some(lines, ram_used, whole)?.map(Bytes::new),
        outcome: parse_word(lines, outcome)?,
        user: some(lines, user, whole)?,
        group: some(lines, group, whole)?,
        executable: some(lines, executable, whole)?,
        queue: some(lines, queue, whole)?,
        partition: some(lines, partition, whole)?,
        application: text(lines, application, "the application")?.map(str::to_string),
        virtual_cluster: text(lines, virtual_cluster, "the name of a virtual cluster")?.map(str::to_string),
        qos: text(lines, qos, "a class of service")?.map(str::to_string),
        most_per_node: some(lines, most_per_node, whole)?,
        account: text(lines, account, "an account")?.map(str::to_string),
        user_name: text(lines, user_name, "the name of a user")?.map(str::to_string),
    };
    Ok(Ok(line.task(lines.number())))
}

/// Reads a field with `read`. Returns `None` if the field is empty.
fn some<R: BufRead, T>(
    lines: &Lines<R>,
    field: &Span,
    read: fn(&Lines<R>, &Span) -> Result<T, TraceError>,
) -> Result<Option<T>, TraceError> {
    if field.of(lines.bytes()).is_empty() { Ok(None) } else { read(lines, field).map(Some) }
}

fn whole<R: BufRead, N: TryFrom<u64>>(lines: &Lines<R>, field: &Span) -> Result<N, TraceError> {
    lines.whole(field, "a whole number")
}

fn seconds<R: BufRead>(lines: &Lines<R>, field: &Span) -> Result<u64, TraceError> {
    let expected = "a time in seconds";
    let value = lines.decimal(field, expected)?;
    let why = if value.negative { NotDecimal::Malformed } else { NotDecimal::TooLarge };
    value.as_billionths().ok_or_else(|| lines.wrong(field, expected, why))
}

fn share<R: BufRead>(lines: &Lines<R>, field: &Span) -> Result<u32, TraceError> {
    let milli: u32 = lines.whole(field, SHARE)?;
    if is_share(milli) { Ok(milli) } else { Err(lines.wrong(field, SHARE, NotDecimal::Malformed)) }
}

const SHARE: &str = "1 to 1000 thousandths of each GPU";

fn is_share(milli: u32) -> bool {
    (1..=GpuShare::WHOLE.get()).contains(&milli)
}

fn text<'l, R: BufRead>(lines: &'l Lines<R>, field: &Span, expected: &str) -> Result<Option<&'l str>, TraceError> {
    if field.of(lines.bytes()).is_empty() { Ok(None) } else { lines.text(field, expected).map(Some) }
}

/// Parses an enum value that is a single word.
fn parse_word<R: BufRead, T: for<'d> Deserialize<'d>>(lines: &Lines<R>, field: &Span) -> Result<Option<T>, TraceError> {
    let Some(word) = text(lines, field, "a word")? else { return Ok(None) };
    let read: Result<T, serde::de::value::Error> = T::deserialize(word.into_deserializer());
    read.map(Some).map_err(|fault| {
        let (file, line) = (lines.file().to_path_buf(), lines.number());
        TraceError::BadLine { file, line, column: field.start as u64 + 1, problem: fault.to_string() }
    })
}

/// Iterates over the tasks of a file of JSON lines.
pub(super) struct JsonRows<R> {
    lines: Lines<R>,
    seen: Seen,
}

impl<R: BufRead> JsonRows<R> {
    /// Opens the list. `file` is the name of the input in error messages.
    pub(super) fn new(file: &Path, input: R) -> JsonRows<R> {
        JsonRows { lines: Lines::new(file, input), seen: Seen::default() }
    }

    fn read(&self) -> Result<TraceTask, TraceError> {
        let bad = |column: usize, problem: String| {
            let (file, line) = (self.lines.file().to_path_buf(), self.lines.number());
            TraceError::BadLine { file, line, column: column as u64, problem }
        };
        let read: Result<Line, serde_json::Error> = serde_json::from_slice(self.lines.bytes());
        let line = read.map_err(|fault| {
            let message = fault.to_string();
            // serde_json ends its message with the position. Drop it, because the position is reported separately here.
            bad(fault.column(), message.rsplit_once(" at line ").map_or(&*message, |(problem, _)| problem).to_string())
        })?;
        match line.gpu_milli {
            Some(milli) if !is_share(milli) => Err(bad(1, format!("expected {SHARE} as gpu_milli, found {milli}"))),
            _ => Ok(line.task(self.lines.number())),
        }
    }
}

impl<R: BufRead> Iterator for JsonRows<R> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.advance() {
                Ok(true) if self.lines.bytes().trim_ascii().is_empty() => {}
                Ok(true) => break,
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
        }
        let task = self.read();
        if let Ok(task) = &task {
            self.seen.keep(task);
        }
        Some(task)
    }
}

impl<R: BufRead> Rows for JsonRows<R> {
    fn tally(&self) -> &Tally {
        &self.seen.tally
    }
}
