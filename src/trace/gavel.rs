//! Job traces of Gavel (stanford-futuredata/gavel, c4fa400): one job in each line, fields separated by tabs, and no
//! header.
//!
//! A line with seven fields has the type, the command, the flag of the steps, whether the job needs data, the total
//! steps, the arrival time in seconds, and the number of GPUs. A line with ten fields has the type, the command, the
//! folder, the flag, whether the job needs data, the total steps, the number of GPUs, the weight of the priority, the
//! objective, and the arrival time. The files have no job names. So a job is named after its position, counted from 0.
//!
//! The run time of a job is its number of steps divided by its throughput in steps per second. The throughput depends
//! on the job's type and its number of GPUs. The file `simulation_throughputs.json` of the repository contains it for
//! V100s that a job does not share, on as few machines as possible (`v100`, `null`). The throughputs on other GPUs under
//! the same conditions (`p100` and `k80`) are kept as measured rates. The reader looks for this file in the list's folder
//! and in each folder above it. A job is left out if the file has no throughput for it. This is the
//! case for more than 8 GPUs, and for types that run only on one GPU.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use dryrack_units::{SimDuration, SimTime};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{Measured, TraceTask};
use super::rows::{RowResult, Rows, Seen};
use super::tally::{Oddity, Tally};
use super::text::{Lines, Span};

/// The numbers of fields in the two kinds of lines.
pub(super) const FIELDS: [usize; 2] = [7, 10];

const THROUGHPUTS: &str = "simulation_throughputs.json";

/// The GPU on which jobs take their stated time.
const REFERENCE: &str = "v100";

/// Steps per second on each GPU, in billionths, by type and number of GPUs. The number is that on the V100.
type PerSecond = HashMap<(String, u32), (u64, Arc<Measured>)>;

/// Reads the nearest table of throughputs, in the list's folder or above it.
fn throughputs(list: &Path) -> Result<PerSecond, TraceError> {
    let folders = list.parent().into_iter().flat_map(Path::ancestors);
    let Some(table) = folders.map(|folder| folder.join(THROUGHPUTS)).find(|table| table.is_file()) else {
        return Err(TraceError::NoThroughputs { file: list.to_path_buf(), table: THROUGHPUTS });
    };
    let unreadable = |source| TraceError::Unreadable { file: table.clone(), line: 1, source };
    let text = std::fs::read_to_string(&table).map_err(unreadable)?;
    per_second(&text).ok_or_else(|| TraceError::Malformed {
        file: table.clone(),
        line: 1,
        column: 1,
        expected: "throughputs of V100s, by type and number of GPUs".to_string(),
        found: "something else".to_string(),
    })
}

/// Parses a table such as `{"v100": {"('A3C', 1)": {"null": 7.1}}}`. Leaves out throughputs of two jobs that share a
/// GPU.
fn per_second(text: &str) -> Option<PerSecond> {
    let table: serde_json::Value = serde_json::from_str(text).ok()?;
    let row = |(key, known): (&String, &serde_json::Value)| {
        let (kind, gpus) = key.strip_prefix("('")?.strip_suffix(')')?.rsplit_once("', ")?;
        let steps = known.get("null")?.as_f64().filter(|steps| (0.0..1e9).contains(steps))?;
        Some(((kind.to_string(), gpus.parse().ok()?), (steps * 1e9).round() as u64))
    };
    // Throughputs of tasks that are spread over machines have separate entries, which are not used.
    let is_used = |name: &&String| !name.ends_with("_unconsolidated");
    let mut of_gpus = BTreeMap::new();
    for name in table.as_object()?.keys().filter(is_used) {
        let rows = table.get(name)?.as_object()?.iter().map(row).collect::<Option<BTreeMap<(String, u32), u64>>>()?;
        of_gpus.insert(name.clone(), rows);
    }
    let rates = |key: &(String, u32)| {
        let rate = |(name, rows): (&String, &BTreeMap<(String, u32), u64>)| Some((name.clone(), *rows.get(key)?));
        Arc::new(Measured { reference: REFERENCE.to_string(), rates: of_gpus.iter().filter_map(rate).collect() })
    };
    // Leave out a throughput of zero, because such a job would never end.
    let known = of_gpus.get(REFERENCE)?.iter().filter(|(_, steps)| **steps > 0);
    Some(known.map(|(key, steps)| (key.clone(), (*steps, rates(key)))).collect())
}

/// The jobs of a file, one in each line.
pub(super) struct JobRows<R> {
    lines: Lines<R>,
    seen: Seen,
    per_second: PerSecond,
}

impl<R: BufRead> JobRows<R> {
    /// Opens the list. `file` is the name of the input in error messages, and the search for the table of throughputs
    /// begins at its folder.
    pub(super) fn new(file: &Path, input: R) -> Result<JobRows<R>, TraceError> {
        Ok(JobRows { lines: Lines::new(file, input), seen: Seen::default(), per_second: throughputs(file)? })
    }

    fn read(&self) -> Result<RowResult, TraceError> {
        let lines = &self.lines;
        let fields = split(lines.bytes());
        let [kind, steps, gpus, at] = match fields.len() {
            7 => [fields[0], fields[4], fields[6], fields[5]],
            10 => [fields[0], fields[5], fields[6], fields[9]],
            count => {
                let found = format!("{count}");
                return Err(lines.malformed(0, "7 or 10 fields between tabs", &found));
            }
        };
        let name = (lines.number() - 1).to_string();
        let kind = lines.text(&kind, "the type of a job")?.to_string();
        let steps: u64 = lines.whole(&steps, "a number of steps")?;
        let gpus: u32 = lines.whole(&gpus, "a number of GPUs")?;
        let expected = "a time in seconds";
        let nanos = lines.decimal(&at, expected)?.as_billionths();
        let nanos = nanos.ok_or_else(|| lines.wrong(&at, expected, NotDecimal::TooLarge))?;
        let key = (kind, gpus);
        let Some((per_second, measured)) = self.per_second.get(&key) else { return Ok(Err(Oddity::NoThroughput)) };
        let run = u128::from(steps) * 1_000_000_000_000_000_000 / u128::from(*per_second);
        let too_long = || lines.malformed(0, "a job that ends", "too many steps");
        let run = SimDuration::from_nanos(u64::try_from(run).map_err(|_| too_long())?);
        let task = TraceTask::new(name, lines.number(), SimTime::from_nanos(nanos), run);
        let measured = Some(Arc::clone(measured));
        Ok(Ok(TraceTask { gpus: Some(gpus), application: Some(key.0), measured, ..task }))
    }
}

fn split(line: &[u8]) -> Vec<Span> {
    let mut start = 0;
    let span = |field: &[u8]| {
        let span = Span { start, end: start + field.len() };
        start = span.end + 1;
        span
    };
    line.split(|byte| *byte == b'\t').map(span).collect()
}

impl<R: BufRead> Iterator for JobRows<R> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.advance() {
                Ok(true) if self.lines.bytes().trim_ascii().is_empty() => continue,
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
            match self.read() {
                Ok(Ok(task)) => {
                    self.seen.keep(&task);
                    return Some(Ok(task));
                }
                Ok(Err(why)) => self.seen.leave_out(why),
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}

impl<R: BufRead> Rows for JobRows<R> {
    fn tally(&self) -> &Tally {
        &self.seen.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::collect;

    const TABLE: &str = r#"{"k80": {"('Net (batch size 8)', 1)": {"null": 0.5}}, "v100": {"('Net (batch size 8)', 1)": {"null": 2.5, "('Other', 1)": [1.0, 1.0]},
        "('Net (batch size 8)', 2)": {"null": 4.0}}}"#;

    /// The list contains both kinds of lines, and a number of GPUs without a throughput. Durations are steps divided by
    /// steps per second.
    #[test]
    fn a_job_runs_for_its_steps() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(THROUGHPUTS), TABLE).unwrap();
        let file = folder.path().join("seed=1/a.trace");
        let text = "Net (batch size 8)\tcd net\t--steps\t1\t1000\t6.000000\t1\n\
                    Net (batch size 8)\tpython3\tnet\t-step\t1\t300\t2\t1\t-1.000000\t7.5\n\
                    Net (batch size 8)\tcd net\t--steps\t0\t10\t1\t16\n";
        let trace = collect(&file, JobRows::new(&file, text.as_bytes()).unwrap()).unwrap();
        let [first, second] = &trace.tasks[..] else { panic!("{:?}", trace.tasks) };
        assert_eq!((&*first.name, first.submit, first.gpus), ("0", SimTime::from_secs(6), Some(1)));
        assert_eq!((&*second.name, second.submit, second.gpus), ("1", SimTime::from_nanos(7_500_000_000), Some(2)));
        assert_eq!((first.run, second.run), (SimDuration::from_secs(400), SimDuration::from_secs(75)));
        let rates = |name: &str, rate| (name.to_string(), rate);
        let measured = first.measured.as_ref().expect("it was measured");
        assert_eq!(measured.rates, [rates("k80", 500_000_000), rates("v100", 2_500_000_000)]);
        assert_eq!(second.measured.as_ref().expect("it was measured").rates, [rates("v100", 4_000_000_000)]);
        assert_eq!(trace.tally.count(Oddity::NoThroughput), 1);
        let message = collect(&file, JobRows::new(&file, "Net\tcd\t1\n".as_bytes()).unwrap()).unwrap_err().to_string();
        assert!(message.ends_with("a.trace:1:1: expected 7 or 10 fields between tabs, found 3"), "{message}");
    }

    #[test]
    fn a_list_without_its_table_is_told_what_it_lacks() {
        let file = Path::new("/nowhere/a.trace");
        let message = JobRows::new(file, "".as_bytes()).err().unwrap().to_string();
        assert_eq!(
            message,
            "/nowhere/a.trace: the durations follow from Gavel's simulation_throughputs.json, which is neither beside \
             the file nor in a folder above it"
        );
    }
}
