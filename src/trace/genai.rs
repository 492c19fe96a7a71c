//! Alibaba's cluster-trace-v2026-GenAI: the GPU usage of 143 inference pods over 22.8 hours. As a task, a pod takes one
//! GPU from its first to its last reading. The trace does not say which other resources the pod requested.
//!
//! Each file is an archive with one CSV table. Its columns, in any order, are `value`, `timestamp_anon` (seconds) and
//! `container_ip` (the pod). The value is either the duty cycle in percent or the used GPU memory in bytes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::error::TraceError;
use super::row::{TaskTrace, TraceTask};
use super::rows::{Rows, Seen};
use super::tally::Tally;
use dryrack_units::{Bytes, GpuShare, Permille, SimDuration, SimTime, finite};
use dryrack_workload::{Series, utilization_of_percent};

/// The name of the table in an archive of duty cycles. The archive begins with this name.
pub(super) const DUTY_CYCLES: &str = "pod_gpu_duty_cycle";

/// A time in seconds that is later than all timestamps of this trace. Limits a float before it is converted to a time.
const LATEST_SECONDS: f64 = 1e10;

/// The recorded values of each pod. The outer key is the pod's name, and the inner key is the time in nanoseconds of
/// the trace's own clock.
pub(super) type Pods<T> = BTreeMap<String, BTreeMap<u64, Option<T>>>;

/// Reads the table of duty cycles. An invalid value is kept as `None`.
pub(super) fn read_duty_cycles(file: &Path, input: impl Read) -> Result<Pods<Permille>, TraceError> {
    read(file, input, |value| utilization_of_percent(value).ok())
}

pub(super) fn read_memory(file: &Path, input: impl Read) -> Result<Pods<Bytes>, TraceError> {
    read(file, input, |value| finite("GPU memory", value, 0.0, 1e15).ok().map(|bytes| Bytes::new(bytes as u64)))
}

fn read<T>(file: &Path, input: impl Read, unit: impl Fn(f64) -> Option<T>) -> Result<Pods<T>, TraceError> {
    let malformed = |line: u64, expected: &str, found: String| TraceError::Malformed {
        file: file.to_path_buf(),
        line,
        column: 1,
        expected: expected.to_string(),
        found,
    };
    let unreadable = |source| TraceError::Unreadable { file: file.to_path_buf(), line: 1, source };
    let mut archive = tar::Archive::new(input);
    let mut entries = archive.entries().map_err(unreadable)?;
    let table = entries.next().ok_or_else(|| malformed(1, "an archive with a table in it", "nothing".to_string()))?;
    let mut table = csv::Reader::from_reader(table.map_err(unreadable)?);
    let header = table.headers().map_err(|fault| malformed(1, "a header", fault.to_string()))?.clone();
    let column = |name: &str| {
        header.iter().position(|known| known == name).ok_or_else(|| TraceError::MissingColumn {
            file: file.to_path_buf(),
            line: 1,
            name: name.to_string(),
            valid: "value, timestamp_anon, container_ip".to_string(),
        })
    };
    let (value, time, pod) = (column("value")?, column("timestamp_anon")?, column("container_ip")?);
    let mut pods: Pods<T> = BTreeMap::new();
    for (index, record) in table.records().enumerate() {
        let line = index as u64 + 2;
        let record = record.map_err(|fault| malformed(line, "a line of CSV", fault.to_string()))?;
        let cell = |column: usize| record.get(column).unwrap_or("");
        let number = |column: usize| cell(column).parse::<f64>().ok();
        let at = number(time).and_then(|at| finite("a timestamp", at, 0.0, LATEST_SECONDS).ok());
        let at = at.ok_or_else(|| malformed(line, "a timestamp in seconds", format!("`{}`", cell(time))))?;
        let read = number(value).ok_or_else(|| malformed(line, "a value", format!("`{}`", cell(value))))?;
        let nanos = (at * 1e3).round() as u64 * 1_000_000;
        pods.entry(cell(pod).to_string()).or_default().insert(nanos, unit(read));
    }
    Ok(pods)
}

/// The pods as tasks, in order of their first readings. Times are counted from the first reading of any pod. The line
/// of a task is the position of its pod in the order of names.
pub(super) fn tasks(pods: &[(String, Series)]) -> TaskTrace {
    let task = |(index, (pod, series)): (usize, &(String, Series))| {
        let first = series.times.first().copied().unwrap_or_default();
        let last = series.times.last().copied().unwrap_or_default();
        let submit = SimTime::ZERO.saturating_add(first);
        let run = SimTime::ZERO.saturating_add(last).since(submit);
        let task = TraceTask::new(pod.clone(), index as u64 + 1, submit, run);
        TraceTask { gpus: Some(1), gpu_share: Some(GpuShare::WHOLE), ..task }
    };
    let mut tasks: Vec<TraceTask> = pods.iter().enumerate().map(task).collect();
    tasks.sort_by_key(|task| (task.submit, task.line));
    let mut seen = Seen::default();
    tasks.iter().for_each(|task| seen.keep(task));
    TaskTrace { tasks, tally: seen.tally, header: None }
}

/// Iterates over the pods of an archive of duty cycles, as tasks.
pub(super) struct PodRows {
    tasks: std::vec::IntoIter<TraceTask>,
    tally: Tally,
}

impl PodRows {
    pub(super) fn new(file: &Path, input: impl Read) -> Result<PodRows, TraceError> {
        let pods = series(read_duty_cycles(file, input)?, &Pods::new());
        let TaskTrace { tasks, tally, .. } = tasks(&pods);
        Ok(PodRows { tasks: tasks.into_iter(), tally })
    }
}

impl Iterator for PodRows {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tasks.next().map(Ok)
    }
}

impl Rows for PodRows {
    fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// One series for each pod, in order of the pods' names. Times are counted from the first timestamp of any pod. Memory
/// is included only if it was read at exactly the time of a duty cycle.
pub(super) fn series(duty_cycles: Pods<Permille>, memory: &Pods<Bytes>) -> Vec<(String, Series)> {
    let first = duty_cycles.values().filter_map(|times| times.keys().next()).min().copied().unwrap_or(0);
    let series = duty_cycles.into_iter().map(|(pod, times)| {
        let of_pod = memory.get(&pod);
        let mut series = Series::default();
        for (at, utilization) in times {
            series.times.push(SimDuration::from_nanos(at - first));
            series.utilization.push(utilization);
            series.memory.push(of_pod.and_then(|known| known.get(&at).copied().flatten()));
        }
        (pod, series)
    });
    series.collect()
}
