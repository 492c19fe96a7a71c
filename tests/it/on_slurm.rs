//! Jobs that a real Slurm runs under a scenario: the decisions match Slurm's own records, the log replays, and no
//! submitted job is left. Also the error messages without a Slurm.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use dryrack_control::{Control, step};
use dryrack_engine::{Records, RunOptions, run};
use dryrack_event::{Event, External, FleetFact, Input, Reason, Record, RecordBody, Safety};
use dryrack_fleet::{GpuClaim, Placement};
use dryrack_scenario::{Options, load_text};
use dryrack_units::Score;
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{dryrack, write_program};
use crate::clusters::{Slurm, TWO_GPUS, until};

trials! {
    Nothing: [
        decisions_of_others_lead_where_the_same_ones_here_do,
        nothing_that_is_decided_outside_is_trusted,
        what_slurm_cannot_be_asked_for_is_refused_where_it_is_written,
    ]
    Time: [
        slow_a_slurm_that_hangs_or_is_gone_ends_the_run_with_its_reason,
    ]
    SlurmInMinutes: [
        slurm_limit_of_a_minute_is_held_by_slurm,
    ]
    SlurmInRealTime: [
        live_for_real_a_slurm_runs_what_was_rehearsed,
        live_for_real_what_slurm_is_told_and_what_it_loses,
        live_for_real_thirty_jobs_are_started_by_slurm_as_predicted,
    ]
}

fn folder(jobs: &str) -> TempDir {
    let dir = TempDir::new().expect("a folder of our own");
    let nodes = (1..=4).map(|number| {
        format!("  - {{name: n{number}, cpus: 8, ram: 4000MiB, gpus: [{{type: gpu, count: 2, memory: 1GiB}}]}}\n")
    });
    let nodes: String = nodes.collect();
    fs::write(dir.path().join("it.yaml"), format!("scenario: By Slurm\nprofile: fifo\nnodes:\n{nodes}{jobs}"))
        .expect("ours");
    dir
}

fn command(dir: &Path, more: &[&str]) -> Command {
    let args = ["live", "it.yaml", "--on", "slurm", "--log", "log.jsonl", "--format", "json", "--every", "250ms"];
    dryrack(dir, &args.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

/// The exit code, and the output as JSON.
fn said(output: std::process::Output) -> (Option<i32>, Value) {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = serde_json::from_str(&text);
    let said = said.unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), said)
}

fn records(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("log.jsonl")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The values that `of` takes from the first event of this kind of each attempt, which is named like `job/1`.
fn events<T>(records: &[Value], kind: &str, of: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    let found = records.iter().filter_map(|record| Some((record, record["event"].get(kind)?)));
    let mut all = BTreeMap::new();
    for (_, event) in found {
        let attempt = &event["run"];
        let name = format!("{}/{}", attempt["job"].as_str().expect("a name"), attempt["attempt"]);
        all.entry(name).or_insert_with(|| of(event));
    }
    all
}

/// Checks that replaying the recorded inputs produces every event again.
fn comes_again(dir: &Path) {
    let replayed = dryrack(dir, &["replay", "log.jsonl"]).output().expect("it is built");
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned() + &String::from_utf8_lossy(&replayed.stderr);
    assert!(replayed.status.success(), "{said}");
}

/// Checks that the job can be explained.
fn is_explained(dir: &Path, job: &str) {
    let explained = dryrack(dir, &["explain", "log.jsonl", "--job", job]).output().expect("it is built");
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
}

/// The names of jobs that are running or waiting in Slurm.
fn left(slurm: &Slurm) -> Vec<String> {
    let said = slurm.run("squeue", &["--noheader", "--format=%j", "--states=PD,R,CF,CG"]);
    said.lines().map(str::to_string).collect()
}

/// The states and nodes of ended jobs by name, from Slurm's own records.
fn written_down(slurm: &Slurm) -> BTreeMap<String, (String, String)> {
    let text = fs::read_to_string(slurm.completed()).expect("Slurm wrote it");
    let field = |line: &str, key: &str| {
        let found = line.split_ascii_whitespace().find_map(|pair| pair.strip_prefix(key).map(str::to_string));
        found.expect("every line has it")
    };
    text.lines().map(|line| (field(line, "Name="), (field(line, "JobState="), field(line, "NodeList=")))).collect()
}

fn live_for_real_a_slurm_runs_what_was_rehearsed() {
    let slurm = Slurm::start_with(TWO_GPUS);
    let dir = folder(
        "\
jobs:
  - {name: whole, gpus: 2, duration: 4s, command: \"echo at $DRYRACK_NODE $CUDA_VISIBLE_DEVICES $MODE; sleep 4\", env: {MODE: it's set}}
  - {name: gang, at: 1s, tasks: 3, gang: spread, gpus: 1, duration: 4s, command: \"echo at $DRYRACK_NODE $CUDA_VISIBLE_DEVICES; sleep 4\"}
  - {name: fails, at: 2s, gpus: 1, duration: 1s, ends: failed, command: \"sleep 1; exit 3\"}
  - {name: wide, at: 3s, tasks: 4, gpus: 2, duration: 2s, command: \"echo at $DRYRACK_NODE $CUDA_VISIBLE_DEVICES; sleep 2\"}
  - {name: deaf, at: 4s, gpus: 1, duration: 1h, cancel_at: 12s, stop: 1h, stop_duration: 1s, command: \"trap '' TERM; while :; do sleep 0.2; done\"}
  - {name: behind, at: 5s, gpus: 1, duration: 1h, cancel_at: 6s, command: [sleep, \"4321\"]}
expect:
  - {job: whole, is: completed}
  - {job: gang, is: completed}
  - {job: fails, is: failed}
  - {job: wide, is: completed}
  - {job: deaf, is: cancelled}
  - {job: behind, is: cancelled}
",
    );
    let output = command(dir.path(), &["--outputs", "said"]).env("SLURM_CONF", slurm.conf()).output();
    let (code, said) = said(output.expect("it is built"));
    assert_eq!((code, &said["broken"], &said["notes"]), (Some(0), &Value::Null, &serde_json::json!([])), "{said:#}");
    assert_eq!(left(&slurm), Vec::<String>::new());
    comes_again(dir.path());
    is_explained(dir.path(), "gang");
    is_explained(dir.path(), "deaf");

    // Slurm's own records, and the output of the job itself, must agree on where each job was.
    let records = records(dir.path());
    let placed = events(&records, "placed", |event| event["placement"].clone());
    let down = written_down(&slurm);
    for (job, state) in [("whole", "COMPLETED"), ("gang", "COMPLETED"), ("fails", "FAILED"), ("wide", "COMPLETED")] {
        let claims = &placed[&format!("{job}/1")];
        let claims = claims.as_array().expect("a list");
        let nodes: Vec<&str> = claims.iter().map(|claim| claim["node"].as_str().expect("a name")).collect();
        let (found, hosts) = &down[job];
        assert_eq!(
            (found.as_str(), nodes),
            (state, hosts_of(&slurm, hosts).iter().map(String::as_str).collect()),
            "{job}"
        );
        let of_claim = |claim: &Value| {
            let gpus: Vec<String> =
                claim["gpus"].as_array().expect("a list").iter().map(|gpu| gpu["index"].to_string()).collect();
            format!("at {} {}", claim["node"].as_str().expect("a name"), gpus.join(","))
        };
        if job == "whole" || job == "gang" {
            let text = fs::read_to_string(dir.path().join(format!("said/{job}-0-1.txt"))).expect("it was kept");
            let mut lines: Vec<String> =
                text.lines().map(|line| line.trim_end_matches(" it's set").to_string()).collect();
            lines.sort();
            assert_eq!(lines, claims.iter().map(of_claim).collect::<Vec<_>>(), "{job}");
            assert_eq!(text.contains("it's set"), job == "whole");
        }
    }

    // Check all three grades. Slurm on a loaded machine may be late, but this is not a different decision.
    let output = dryrack(dir.path(), &["validate", "log.jsonl", "--tolerance", "20s", "--format", "json"]).output();
    let validated: Value = serde_json::from_slice(&output.expect("built").stdout).expect("JSON");
    let log = &validated["logs"][0];
    assert!(log["replay"].as_u64().is_some_and(|records| records > 20), "{log:#}");
    assert_eq!(log["is_predicted"], true, "{log:#}");
    // Each job ends as predicted, but Slurm may choose other nodes than the rehearsal.
    let differing = log["blind"]["differing"].as_array().expect("a list");
    assert!(differing.iter().all(|it| it["what"] == "place"), "{log:#}");
    assert_eq!(log["blind"]["decisions"], 18, "{log:#}");
    // These few starts do not determine a clock, so no clock is written.
    let calibrated = dryrack(dir.path(), &["calibrate", "log.jsonl"]).output().expect("it is built");
    let text = String::from_utf8_lossy(&calibrated.stdout);
    assert!(text.contains("# the clock of `place` is undetermined") && !text.contains("passes:"), "{text}");
}

/// A blind prediction with the profile of Slurm itself. The clocks may be anywhere within a second, and Slurm's answers
/// arrive up to a quarter of a second later, plus the delay of a loaded machine.
fn live_for_real_thirty_jobs_are_started_by_slurm_as_predicted() {
    let slurm = Slurm::start_with(TWO_GPUS);
    let dir = TempDir::new().expect("a folder of our own");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/slurm/live/thirty-short-jobs.yaml");
    fs::copy(file, dir.path().join("it.yaml")).expect("ours");
    let output = command(dir.path(), &[]).env("SLURM_CONF", slurm.conf()).output();
    let (code, said) = said(output.expect("it is built"));
    assert_eq!((code, &said["broken"], &said["notes"]), (Some(0), &Value::Null, &serde_json::json!([])), "{said:#}");
    assert_eq!(left(&slurm), Vec::<String>::new());
    comes_again(dir.path());
    let output = dryrack(dir.path(), &["validate", "log.jsonl", "--tolerance", "2s", "--format", "json"]).output();
    let validated: Value = serde_json::from_slice(&output.expect("built").stdout).expect("JSON");
    let blind = &validated["logs"][0]["blind"];
    let number = |key: &str| blind[key].as_u64().unwrap_or_else(|| panic!("{key}: {blind:#}"));
    assert_eq!(number("decisions"), 90, "{blind:#}");
    let differing = blind["differing"].as_array().expect("a list");
    assert!(differing.iter().all(|it| it["what"] == "place"), "{blind:#}");
    assert!(number("pairs_in_order") * 100 >= number("pairs") * 95, "{blind:#}");
}

/// Slurm counts limits in minutes, and ends jobs beyond their limit at its periodic checks.
fn slurm_limit_of_a_minute_is_held_by_slurm() {
    let slurm = Slurm::start_with(TWO_GPUS);
    let dir = folder(
        "\
jobs: [{name: limited, gpus: 1, time_limit: 1m, duration: 1h, command: [sleep, \"1000\"]}]
expect: [{job: limited, is: ended, because: time_limit}]
",
    );
    let output = command(dir.path(), &[]).env("SLURM_CONF", slurm.conf()).output().expect("it is built");
    let (code, told) = said(output);
    assert_eq!((code, &told["broken"]), (Some(0), &Value::Null), "{told:#}");
    assert_eq!(written_down(&slurm)["limited"].0, "TIMEOUT");
    // The job ends after its minute, and dryrack does not end it.
    let ended = records(dir.path());
    let ended = ended.iter().find(|record| record["event"].get("ended").is_some()).expect("it ended");
    assert!(ended["at_ns"].as_u64() >= Some(60_000_000_000), "{ended}");
    comes_again(dir.path());
}

/// Expands `n[1-3]` to single names.
fn hosts_of(slurm: &Slurm, list: &str) -> Vec<String> {
    slurm.run("scontrol", &["show", "hostnames", list]).lines().map(str::to_string).collect()
}

fn begin(dir: &Path, slurm: &Slurm, more: &[&str]) -> Child {
    let mut command = command(dir, more);
    command.env("SLURM_CONF", slurm.conf()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built")
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
}

fn live_for_real_what_slurm_is_told_and_what_it_loses() {
    let slurm = Slurm::start_with(TWO_GPUS);
    let running = |name: &str| {
        let said = slurm.run("squeue", &["--noheader", "--format=%j", "--states=R"]);
        said.lines().filter(|line| *line == name).count()
    };

    // Control-C cancels all jobs of the run, running and waiting, and no others.
    slurm.run("sbatch", &["--job-name=foreign", "--output=/dev/null", "--wrap=sleep 1000"]);
    let dir = folder(
        "\
jobs:
  - {name: runs, count: 3, gpus: 2, duration: 1h, command: [sleep, \"1000\"]}
  - {name: deaf, gpus: 2, duration: 1h, stop_duration: off, command: \"trap '' TERM; while :; do sleep 0.2; done\"}
  - {name: waits, gpus: 2, duration: 1h, command: [sleep, \"1000\"]}
",
    );
    let child = begin(dir.path(), &slurm, &[]);
    until("all that have room run", || running("deaf") == 1);
    interrupt(&child);
    let (code, told) = said(child.wait_with_output().expect("it ends"));
    assert_eq!((code, &told["interrupted"], &told["broken"]), (Some(1), &Value::Bool(true), &Value::Null), "{told:#}");
    assert_eq!(left(&slurm), ["foreign"]);
    comes_again(dir.path());

    // A node that Slurm does not have, a job that someone else cancels, and a job that Slurm rejects.
    let text = fs::read_to_string(dir.path().join("it.yaml")).expect("ours");
    fs::write(dir.path().join("it.yaml"), text.replace("name: n4", "name: n44")).expect("ours");
    let output = command(dir.path(), &[]).env("SLURM_CONF", slurm.conf()).output().expect("it is built");
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{wrong}");
    assert!(wrong.contains("error: Slurm has no node `n44`; did you mean `n4`?"), "{wrong}");
    let dir = folder(
        "\
jobs:
  - {name: taken, gpus: 1, duration: 1h, command: [sleep, \"1000\"]}
  - {name: again, gpus: 1, duration: 2s, restart: on_failure, retry: {limit: 1, first: 100ms}, command: \"test $DRYRACK_ATTEMPT = 2\"}
  - {name: elsewhere, gpus: 1, duration: 1s, queue: no-such-partition, command: [sleep, \"1\"]}
",
    );
    let child = begin(dir.path(), &slurm, &[]);
    until("it runs", || running("taken") == 1);
    slurm.run("scancel", &["--name=taken"]);
    let (code, told) = said(child.wait_with_output().expect("it ends"));
    assert_eq!((code, &told["broken"]), (Some(0), &Value::Null), "{told:#}");
    let ended = events(&records(dir.path()), "ended", |event| event["because"].as_str().expect("a reason").to_string());
    for (attempt, because) in
        [("taken/1", "cancelled"), ("elsewhere/1", "refused_outside"), ("again/1", "failed"), ("again/2", "completed")]
    {
        assert_eq!(ended.get(attempt).map(String::as_str), Some(because), "{attempt}: {told:#}");
    }
    let again = records(dir.path()).iter().filter(|record| record["event"].get("placed").is_some()).count();
    assert_eq!(again, 3, "one, and another twice");
    assert!(told["notes"].to_string().contains("elsewhere was refused by sbatch"), "{told:#}");
    comes_again(dir.path());

    // The controller of Slurm ends during the run.
    slurm.run("scancel", &["--name=foreign"]);
    let dir = folder("jobs: [{name: orphan, gpus: 1, duration: 1h, command: \"echo $$ >pid; exec sleep 1000\"}]\n");
    let child = begin(dir.path(), &slurm, &["--patience", "3s"]);
    until("it runs", || running("orphan") == 1);
    slurm.run("scontrol", &["shutdown", "slurmctld"]);
    let (code, told) = said(child.wait_with_output().expect("it ends"));
    let why = told["broken"].as_str().expect("a reason");
    assert!(why.contains("Slurm has given no answer for 3s: squeue"), "{why}");
    assert!(why.contains("may still exist and cannot be cancelled"), "{why}");
    assert_eq!(code, Some(1));
    comes_again(dir.path());
    // Without Slurm, nothing else ends the process.
    let pid: i32 = fs::read_to_string(dir.path().join("pid")).expect("it ran").trim().parse().expect("a number");
    let pid = rustix::process::Pid::from_raw(pid).expect("a number");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was left");
}

/// Nothing is submitted, whether or not there is a Slurm.
fn what_slurm_cannot_be_asked_for_is_refused_where_it_is_written() {
    let rows = [
        ("time_limit: 90s", "has a `time_limit` that is not in whole minutes, the unit of Slurm"),
        ("gpu_memory: 512MiB", "asks for a part of a GPU, but Slurm allocates whole GPUs"),
        ("cpus: 500m", "asks for a part of a CPU, but Slurm allocates whole CPUs"),
        (
            "estimate: 5m",
            "has an `estimate` that differs from its `time_limit`, but Slurm plans only with the time limit",
        ),
        ("tasks: 2, gang: packed", "is a packed gang, which Slurm does not guarantee"),
        ("user: ada", "belongs to a user, but it would be submitted as the user who runs dryrack"),
    ];
    for (more, wanted) in rows {
        let dir = folder(&format!("jobs:\n  - {{name: a, gpus: 1, duration: 1s, command: [sleep, \"1\"], {more}}}\n"));
        let output = command(dir.path(), &[]).env("PATH", "/nowhere").output().expect("it is built");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{more}: {told}");
        assert!(told.contains(&format!("it.yaml:9:38: job `a` {wanted}")), "{more}: {told}");
        assert!(!dir.path().join("log.jsonl").exists(), "{more}");
    }
    let dir = folder("jobs: [{name: a, gpus: 1, duration: 1s, command: [sleep, \"1\"]}]\n");
    let output = command(dir.path(), &[]).env("PATH", "/nowhere").output().expect("it is built");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("error: Slurm did not return its nodes: sinfo is not installed"), "{told}");
}

/// Slurm commands that answer for a while: each has an answer for each time that it is called. The first answers were
/// recorded from Slurm 22.05.8.
fn slow_a_slurm_that_hangs_or_is_gone_ends_the_run_with_its_reason() {
    let nodes = r#"{"nodes": [{"name": "n1", "state": "idle", "gres": "gpu:2", "gres_used": "gpu:0"},
        {"name": "n2", "state": "idle", "gres": "gpu:2", "gres_used": "gpu:0"},
        {"name": "n3", "state": "idle", "gres": "gpu:2", "gres_used": "gpu:0"},
        {"name": "n4", "state": "idle", "gres": "gpu:2", "gres_used": "gpu:0"}]}"#;
    let rows = [
        ("exec sleep 1000", "echo 7", "Slurm has given no answer for 500ms: squeue did not answer within "),
        ("printf '{\"jobs\": [{\"job_id\": 7,'", "echo 7", "squeue ended in the middle of line 1"),
        ("head -c 100000 /dev/zero", "echo 7", "Slurm has given no answer for 500ms: squeue"),
        ("echo 'slurm_load_jobs error' >&2; exit 1", "echo 7", "squeue ended with status 1: slurm_load_jobs error"),
        ("echo '{\"jobs\": [{\"job_id\": 7, \"job_state\": \"ASLEEP\"}]}'", "echo 7", "expected a state of a job"),
        ("echo '{\"jobs\": []}'", "echo 7", "Slurm no longer knows its job 7 (`a`)"),
        (
            "echo '{\"jobs\": [{\"job_id\": 7, \"job_state\": \"RUNNING\", \"nodes\": \"n9\", \"gres_detail\": [\"gpu:1(IDX:0)\"]}]}'",
            "echo 7",
            "expected a node of the file, found `n9`",
        ),
        (
            "echo '{\"jobs\": [{\"job_id\": 7, \"job_state\": \"RUNNING\", \"nodes\": \"n1\", \"gres_detail\": [\"gpu:1(IDX:9)\"]}]}'",
            "echo 7",
            "expected GPUs that the node has",
        ),
        ("echo '{\"jobs\": []}'", "echo nonsense", "expected the number of a job, found `nonsense`"),
        ("echo '{\"jobs\": []}'", "exec sleep 1000", "sbatch did not answer within "),
    ];
    let one = |(squeue, sbatch, wanted): (&str, &str, &str)| {
        let dir = folder("jobs: [{name: a, gpus: 1, duration: 1s, command: [sleep, \"1\"]}]\n");
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).expect("ours");
        // It answers correctly until something is submitted, and after everything is cancelled.
        let squeue =
            format!("[ -e submitted ] && ! [ -e cancelled ] || {{ echo '{{\"jobs\": []}}'; exit; }}; {squeue}");
        let sbatch = format!(": >submitted; {sbatch}");
        let sinfo = format!("[ \"$1\" = --version ] && exec echo slurm 22.05.8; echo '{nodes}'");
        for (name, script) in
            [("squeue", &squeue), ("sbatch", &sbatch), ("sinfo", &sinfo), ("scancel", &": >cancelled".to_string())]
        {
            write_program(&bin.join(name), &format!("#!/bin/sh\n{script}\n"));
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let output = command(dir.path(), &["--patience", "500ms"]).env("PATH", path).output().expect("it is built");
        let (code, told) = said(output);
        let why = told["broken"].as_str().unwrap_or_default();
        assert!(why.contains(wanted), "{squeue}, {sbatch}: {told:#}");
        assert_eq!(code, Some(1), "{squeue}");
        comes_again(dir.path());
    };
    std::thread::scope(|scope| rows.into_iter().for_each(|row| drop(scope.spawn(move || one(row)))));
}

/// A queue that is long at times, a gang, retried failures, and cancellations of running and waiting jobs.
const BUSY: &str = "\
scenario: Busy
profile: fifo
seed: 3
nodes: [{name: n, count: 3, cpus: 8, ram: 64GiB, gpus: [{type: gpu, count: 2, memory: 1GiB}]}]
jobs:
  - {name: small, gpus: 1, duration: 40s, count: 12, every: 7s}
  - {name: wide, at: 20s, tasks: 3, gang: spread, gpus: 2, duration: 30s}
  - {name: fails, at: 30s, gpus: 1, duration: 5s, ends: failed, restart: on_failure, retry: {limit: 2, first: 10s}}
  - {name: cut, at: 1s, gpus: 1, duration: 1h, cancel_at: 60s, stop: 3s}
  - {name: given-up, at: 21s, gpus: 2, duration: 1h, cancel_at: 25s}
expect: [{job: wide, is: completed}]
";

/// If a rehearsal's own decisions are given as external decisions, the results are the same, apart from the name of the
/// decider.
fn decisions_of_others_lead_where_the_same_ones_here_do() {
    let rehearsal = load_text("busy.yaml", BUSY, Path::new(""), &Options::default()).expect("a scenario").rehearsal;
    let mut here = Records::default();
    run(&rehearsal, RunOptions::default(), &mut [&mut here]);
    let mut control = Control::new(Arc::new(rehearsal.profile.decided_outside()), rehearsal.seed);
    let (mut outside, mut number) = (Records::default(), 0);
    for records in here.0.chunk_by(|one, other| one.step == other.step) {
        let inputs = records.iter().filter_map(|record| match &record.said {
            RecordBody::Input(input) => Some(input.clone()),
            RecordBody::Event(_) => None,
        });
        let decisions = records.iter().filter_map(|record| match &record.said {
            RecordBody::Event(Event::Placed { attempt, placement, .. }) => {
                Some(Input::External(External::Decided { attempt: *attempt, placement: Some(placement.clone()) }))
            }
            _ => None,
        });
        for inputs in [inputs.collect::<Vec<Input>>(), decisions.collect()] {
            if !inputs.is_empty() {
                number += 1;
                step(&mut control, (number, records[0].at), &inputs, &mut [&mut outside], &mut |_, _| {});
            }
        }
    }
    control.assert_integrity();
    // Leave out reasons to wait and scores, which only the decider knows.
    let told = |records: &[Record]| -> Vec<(u64, Event)> {
        let of = |record: &Record| match &record.said {
            RecordBody::Event(Event::Held { .. }) | RecordBody::Input(_) => None,
            RecordBody::Event(Event::Placed { attempt, placement, .. }) => {
                let event = Event::Placed { attempt: *attempt, placement: placement.clone(), score: Score::ZERO };
                Some((record.at.as_nanos(), event))
            }
            RecordBody::Event(event) => Some((record.at.as_nanos(), event.clone())),
        };
        records.iter().filter_map(of).collect()
    };
    assert!(told(&here.0).len() > 60, "{}", told(&here.0).len());
    assert_eq!(told(&here.0), told(&outside.0));
}

/// A decision that breaks safety is accepted and reported, an impossible one is not an input, and a late one is
/// refused.
fn nothing_that_is_decided_outside_is_trusted() {
    let rehearsal = load_text("busy.yaml", BUSY, Path::new(""), &Options::default()).expect("a scenario").rehearsal;
    let mut here = Records::default();
    run(&rehearsal, RunOptions::default(), &mut [&mut here]);
    let first = |records: &[Record]| {
        records.iter().find_map(|record| match &record.said {
            RecordBody::Event(Event::Placed { attempt, placement, .. }) => Some((*attempt, placement.clone())),
            _ => None,
        })
    };
    let (one, place) = first(&here.0).expect("somebody is placed");
    let inputs: Vec<Input> = (here.0.iter().filter(|record| record.at.as_nanos() <= 1_000_000_000))
        .filter_map(|record| match &record.said {
            RecordBody::Input(input @ (Input::Fleet(FleetFact::NodeDeclared { .. }) | Input::Submit { .. })) => {
                Some(input.clone())
            }
            _ => None,
        })
        .collect();
    let submitted: Vec<_> = (inputs.iter())
        .filter_map(|input| match input {
            Input::Submit { job, .. } => Some(dryrack_ids::AttemptId { job: *job, ..one }),
            _ => None,
        })
        .collect();
    let other = *submitted.iter().find(|attempt| **attempt != one).expect("two are submitted within a second");
    let mut control = Control::new(Arc::new(rehearsal.profile.decided_outside()), rehearsal.seed);
    let mut told = Records::default();
    let now = here.0[0].at;
    let decided = |attempt, placement: &Placement| {
        Input::External(External::Decided { attempt, placement: Some(placement.clone()) })
    };
    step(&mut control, (1, now), &inputs, &mut [&mut told], &mut |_, _| {});
    // The same GPU is given to two jobs, and one of them is placed again.
    let three = [decided(one, &place), decided(other, &place), decided(one, &place)];
    step(&mut control, (2, now), &three, &mut [&mut told], &mut |_, _| {});
    control.assert_integrity();
    let broken = told.0.iter().find_map(|record| match &record.said {
        RecordBody::Event(Event::SafetyBroken { attempt, what, .. }) => Some((*attempt, *what)),
        _ => None,
    });
    assert_eq!(broken, Some((other, Safety::Overcommit)));
    let refused = told.0.iter().find_map(|record| match &record.said {
        RecordBody::Event(Event::CommitRefused { attempt, because, .. }) => Some((*attempt, *because)),
        _ => None,
    });
    assert_eq!(refused, Some((one, Reason::NotWaiting)));
    // A GPU that does not exist, one that is taken twice, and an empty claim.
    let with = |change: &dyn Fn(&mut dryrack_fleet::NodeClaim)| {
        let mut claim = place.claims()[0].clone();
        change(&mut claim);
        Placement::new([claim].into_iter().collect())
    };
    let missing = with(&|claim| claim.gpus[0].index = 7);
    let twice = with(&|claim| claim.gpus = std::iter::repeat_n(claim.gpus[0], 2).collect());
    let whole: GpuClaim = place.claims()[0].gpus[0];
    let nobody = with(&|claim| (claim.tasks, claim.gpus[0]) = (0, whole));
    for wrong in [missing, twice, nobody, Placement::default()] {
        assert!(control.check_input(now, &decided(other, &wrong)).is_err(), "{wrong:?}");
    }
    // If the profile decides, external decisions are refused.
    let mut own = Control::new(Arc::clone(&rehearsal.profile), rehearsal.seed);
    step(&mut own, (1, now), &inputs, &mut [], &mut |_, _| {});
    assert!(own.check_input(now, &decided(other, &place)).is_err());
}
