//! Runs whose jobs are created or read during the run: the records and the figures are the same as when all jobs are
//! created before, and features that such a run cannot provide are refused.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

trials! {
    Nothing: [
        a_streamed_run_decides_and_measures_as_one_whose_jobs_are_made_before,
        a_trace_is_streamed_as_it_is_read,
        what_cannot_be_had_of_a_streamed_run_is_refused,
    ]
}

fn dryrack(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dryrack"));
    let output = command.args(args).current_dir(folder).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

fn run(folder: &Path, args: &[&str]) -> Value {
    let args = [&["run", "--format", "json"], args].concat();
    let (code, said, told) = dryrack(folder, &args);
    assert_eq!(code, 0, "{args:?}: {told}{said}");
    serde_json::from_str(&said).expect("JSON")
}

/// Runs a file both ways and compares the results; the file holds the expectations.
fn both(folder: &Path, args: &[&str]) -> Value {
    let made = run(folder, args);
    let mut streamed = run(folder, &[args, &["--stream"]].concat());
    // Fragmentation is measured by the tasks of the run if the profile names no others, and these are not known
    // beforehand.
    streamed["metrics"]["fragmentation"] = made["metrics"]["fragmentation"].clone();
    for key in ["digest", "records", "steps", "sim_seconds", "trace", "expectations", "metrics"] {
        assert_eq!(streamed[key], made[key], "{args:?}: {key}");
    }
    made
}

const FAILING: &str = r#"
scenario: Jobs of three kinds on nodes that break, some tried again
profile: fifo
seed: 3
until: 6d
warm_up: 6h
nodes: [{name: n, count: 6, machine: a100-80g-x8}]
jobs:
  - {name: long, arrivals: {poisson: 2/h}, until: 5d, duration: {exponential: 8h}, gpus: 4, user: ada, restart: on_failure, retry: {limit: 3}}
  - {name: short, count: 900, every: 7m, duration: 20m, gpus: 1, user: bob, queue: q, time_limit: 15m}
  - {name: broken, count: 20, every: 5h, duration: 10m, ends: failed, tasks: 3, gpus: 1}
  - {name: vast, at: 7h, gpus: 9, duration: 1m}
faults:
  - {at: 10h, node: n-1, becomes: crashed}
  - {at: 11h, node: n-1, becomes: ready}
  - {at: 30h, node: n-2, becomes: gone}
  - {at: 40h, node: n-0, becomes: silent}
  - {at: 50h, node: n-0, becomes: ready}
expect:
  - {name: most, metric: placed >= 85%}
  - {name: waits, metric: "p90(queue_wait{user: bob}) <= 4d"}
  - {name: tried, metric: max(attempts) >= 2}
"#;

fn a_streamed_run_decides_and_measures_as_one_whose_jobs_are_made_before() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["scenarios/theory/mmc.yaml", "scenarios/theory/mg1.yaml"] {
        both(root, &[file, "--set", "params.jobs=3000"]);
    }
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("failing.yaml"), FAILING).expect("written");
    let made = both(folder.path(), &["failing.yaml"]);
    let metric = |name: &str| made["metrics"][name].as_u64().expect("a count");
    // Otherwise the comparison would show little.
    assert!(metric("retries") >= 3 && metric("jobs_expired") > 100 && metric("jobs_never_fits") == 1, "{made}");
    assert!(metric("jobs_failed") > 5 && metric("failures_survived") > 0 && metric("jobs_completed") > 50, "{made}");
}

fn a_trace_is_streamed_as_it_is_read() {
    let folder = TempDir::new().expect("a folder");
    let (code, ..) = dryrack(folder.path(), &["trace", "lublin", "--size", "64", "--jobs", "700", "--out", "jobs.swf"]);
    assert_eq!(code, 0);
    let (code, _, told) = dryrack(folder.path(), &["trace", "convert", "jobs.swf", "--out", "jobs.csv"]);
    assert_eq!(code, 0, "{told}");
    for (format, more) in [("swf", ""), ("csv", ", skip: 20, limit: 500, offset: 1h, estimates: exact")] {
        let text = format!(
            "scenario: A list\nnodes: [{{name: n, count: 64, cpus: 1}}]\n\
             trace: {{format: {format}, file: jobs.{format}{more}}}\n"
        );
        std::fs::write(folder.path().join("list.yaml"), text).expect("written");
        both(folder.path(), &["list.yaml"]);
    }
}

fn what_cannot_be_had_of_a_streamed_run_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let row =
        |name: &str, at: u64| format!("{{\"job\":\"{name}\",\"submit_ns\":{at},\"duration_ns\":9,\"processors\":1}}\n");
    std::fs::write(folder.path().join("back.jsonl"), row("a", 5) + &row("b", 4)).expect("written");
    std::fs::write(folder.path().join("twice.jsonl"), row("a", 5) + &row("a", 6)).expect("written");
    let jobs = "jobs: [{name: a, cpus: 1, duration: 1m}]";
    let rows = [
        ("trace: {format: jsonl, file: back.jsonl}", "line 2: `b` is submitted before the task above it"),
        ("trace: {format: jsonl, file: twice.jsonl}", "line 2: `a` has the name of an earlier task"),
        ("trace: {name: gaia}", "a known trace is read as a whole"),
        ("jobs: [{name: a, cpus: 1, duration: 1m, cancel_at: 5m}]", "cannot cancel jobs before their submission"),
        (&format!("profile: gpustack\n{jobs}"), "a profile that keeps rows of ended jobs"),
        (
            "jobs: [{name: a-1, cpus: 1, duration: 1m}, {name: a, count: 3, cpus: 1, duration: 1m}]",
            "two entries whose jobs could have the same name",
        ),
        (&format!("{jobs}\nexpect: [{{name: runs, job: a, is: completed}}]"), "no job is named `a`"),
    ];
    for (text, wanted) in rows {
        let text = format!("scenario: Refused\nnodes: [{{name: n, cpus: 4}}]\n{text}\n");
        std::fs::write(folder.path().join("refused.yaml"), &text).expect("written");
        let (code, said, told) = dryrack(folder.path(), &["run", "refused.yaml", "--stream"]);
        assert_eq!(code, 2, "{text}{said}{told}");
        assert!(told.contains(wanted), "{text}{told}");
    }
}
