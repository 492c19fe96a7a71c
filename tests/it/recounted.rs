//! The metrics of a run, computed again from `jobs.csv` alone, by its documented columns. `dryrack swarm --check metrics`
//! does the same from the log, for random worlds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::cli::{dryrack, empty};

trials! {
    Nothing: [
        metrics_are_those_of_the_table_of_jobs,
    ]
}

/// The columns that metrics need. Times are in seconds.
#[derive(Deserialize)]
struct Row {
    job: String,
    submit: f64,
    start: Option<f64>,
    end: Option<f64>,
    outcome: String,
    attempt: u64,
    placed: Option<f64>,
}

/// What the table does not say: jobs from before the warm-up, and when a replica was added to a running job. Runs of a matrix
/// are left out too.
const NOT_IN_THE_TABLE: [&str; 5] = ["warm_up", "changes:", "scale", "trace:", "matrix:"];

/// Those without whole traces and other programs.
const FOLDERS: [&str; 13] = [
    "basics",
    "dstack",
    "expressions",
    "gpustack",
    "hardware",
    "hunted",
    "kubernetes",
    "operations",
    "queues",
    "ray",
    "serving",
    "slurm",
    "theory",
];

fn metrics_are_those_of_the_table_of_jobs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut compared, mut of_one_attempt) = (0, 0);
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root.join("scenarios").join(folder)).expect("a folder of scenarios");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it is listed").path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if !text.contains("\nscenario:") && !text.starts_with("scenario:") {
                continue;
            }
            if NOT_IN_THE_TABLE.iter().any(|word| text.contains(word)) {
                continue;
            }
            compared += 1;
            of_one_attempt += u32::from(compare(root, &file, &mut wrong));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 300 && of_one_attempt > 150, "{compared} were compared, {of_one_attempt} also by run times");
}

/// Runs one scenario and compares. Returns whether run times were compared too.
fn compare(root: &Path, file: &Path, wrong: &mut Vec<String>) -> bool {
    let dir = empty();
    let out = dir.path().join("out");
    let args = ["run", file.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8")];
    let done = dryrack(root, &args).output().expect("it is built");
    let read = |name| std::fs::read(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}: {done:?}"));
    let metrics: Value = serde_json::from_slice(&read("metrics.json")).expect("JSON");
    let jobs = read("jobs.csv");
    let rows: Vec<Row> =
        csv::Reader::from_reader(&jobs[..]).deserialize().collect::<Result<_, _>>().expect("the documented columns");
    let mut expect = |name: &str, expected: Option<f64>| {
        let found = metrics[name].as_f64();
        let is_same = match (expected, found) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(2.0),
            (one, other) => one == other,
        };
        if !is_same {
            wrong.push(format!("{}: {name} is {found:?}, and by jobs.csv {expected:?}", file.display()));
        }
    };
    let names: BTreeSet<&str> = rows.iter().map(|row| row.job.as_str()).collect();
    expect("jobs_submitted", Some(names.len() as f64));
    let waits: Vec<f64> = rows.iter().filter_map(|row| Some(row.placed? - row.submit)).collect();
    expect("placed", (!rows.is_empty()).then(|| waits.len() as f64 / rows.len() as f64));
    expect("queue_wait_mean_seconds", mean(&waits));
    expect("queue_wait_p50_seconds", nearest_rank(&waits, 50));
    expect("queue_wait_p95_seconds", nearest_rank(&waits, 95));
    expect("queue_wait_max_seconds", nearest_rank(&waits, 100));
    let start_waits: Vec<f64> = rows.iter().filter_map(|row| Some(row.start? - row.submit)).collect();
    expect("start_wait_mean_seconds", mean(&start_waits));
    expect("start_wait_p95_seconds", nearest_rank(&start_waits, 95));
    expect("retries", Some(rows.iter().map(|row| row.attempt - 1).sum::<u64>() as f64));
    let first = rows.iter().map(|row| row.submit).reduce(f64::min);
    let last = rows.iter().filter_map(|row| row.end).reduce(f64::max);
    expect("makespan_seconds", first.zip(last).map(|(first, last)| last - first));
    let completed: Vec<&Row> = rows.iter().filter(|row| row.outcome == "completed").collect();
    let turnarounds: Vec<f64> = completed.iter().filter_map(|row| Some(row.end? - row.submit)).collect();
    expect("turnaround_mean_seconds", mean(&turnarounds));
    expect("turnaround_p95_seconds", nearest_rank(&turnarounds, 95));
    // The table has the first start, and the slowdown is that of the last attempt.
    if completed.iter().any(|row| row.attempt > 1) {
        return false;
    }
    let slowdown = |row: &&Row| Some(((row.end? - row.submit) / (row.end? - row.start?).max(10.0)).max(1.0));
    let slowdowns: Vec<f64> = completed.iter().filter_map(slowdown).collect();
    expect("bounded_slowdown_mean", mean(&slowdowns));
    expect("bounded_slowdown_p95", nearest_rank(&slowdowns, 95));
    true
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The value at the rank of this percentage, rounded up.
fn nearest_rank(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied()
}
