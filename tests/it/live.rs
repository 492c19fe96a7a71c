//! Tests of real processes under the real control plane: their decisions, and that no process is left. They compare no
//! times, so load on the machine does not matter.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::dryrack;
use crate::probes::kept_by;

trials! {
    Nothing: [
        what_cannot_be_run_for_real_is_refused_whole,
        shares_that_promise_too_much_are_told_what_to_state,
        every_process_of_a_run_ends_with_it,
        control_c_ends_everything_and_leaves_a_whole_log,
        whoever_is_killed_leaves_no_process,
        a_prediction_that_was_changed_afterwards_is_found_out,
        a_header_that_was_written_afterwards_is_found_out_as_far_as_a_log_can_show,
        a_log_is_judged_under_the_profile_that_it_holds,
        delays_that_are_fitted_on_a_recording_explain_it,
        recordings_of_real_gpus_are_replayed_and_were_predicted,
    ]
    RealTime: [
        live_for_real_every_committed_scenario_runs_and_its_log_replays,
    ]
}

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/live");

/// Two accelerators that share the first core, so that it runs on any machine.
const HERE: &str = "\
live:
  accelerators:
    here: [{cores: [0], cpu: 500m}, {cores: [0], cpu: 500m}]
nodes:
  - {name: here, cpus: 2, ram: 1GiB, gpus: [{type: cpu-share, count: 2, memory: 1GiB}]}
";

/// A folder with a scenario in it. `sleep SLEEP` lasts longer than any test, and no other process has the same
/// argument.
struct Stage {
    dir: TempDir,
    sleep: String,
}

impl Stage {
    fn new(number: u32, jobs: &str) -> Stage {
        let dir = TempDir::new().expect("a folder of our own");
        let sleep = format!("{}.{number}", 4000 + std::process::id());
        let jobs = jobs.replace("SLEEP", &sleep);
        let text = format!("scenario: Real processes\nprofile: fifo\n{HERE}{jobs}");
        fs::write(dir.path().join("it.yaml"), text).expect("a folder of our own");
        Stage { dir, sleep }
    }

    /// Runs the scenario; returns the exit code and the output as JSON.
    fn live(&self) -> (Option<i32>, Value) {
        let output = dryrack(self.dir.path(), &["live", "it.yaml", "--log", "log.jsonl", "--format", "json"]).output();
        let output = output.expect("it is built");
        let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        });
        (output.status.code(), said)
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log.jsonl")
    }

    /// Processes with this stage's argument.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").expect("Linux").flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        texts.filter(|line| line.contains(&self.sleep)).collect()
    }
}

/// Checks that replaying the recorded inputs produces every event again, and that a job can be explained.
fn comes_again(log: &Path, job: &str) {
    let folder = log.parent().expect("in a folder");
    let log = log.display().to_string();
    let replayed = dryrack(folder, &["replay", &log]).output().expect("it is built");
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stdout));
    let explained = dryrack(folder, &["explain", &log, "--job", job]).output().expect("it is built");
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
}

fn equal(said: &Value) -> (u64, u64) {
    let number = |key: &str| said["blind"][key].as_u64().expect("a number");
    (number("equal"), number("decisions"))
}

fn what_cannot_be_run_for_real_is_refused_whole() {
    let rows = [
        ("jobs: [{name: a, duration: 1s}]", "error: it.yaml: job `a` has no `command`"),
        ("jobs: [{name: a, duration: 1s, command: []}]", "error: the command is empty"),
        ("jobs: [{name: a, duration: 1s, env: {A: b}}]", "error: `env` needs a `command`"),
        (
            "jobs: [{name: a, duration: 1s, command: [true]}]\nfaults: [{at: 1s, node: here, becomes: crashed}]",
            "error: it.yaml: `faults` and `failures` have no effect in a live run",
        ),
    ];
    for (jobs, wanted) in rows {
        let stage = Stage::new(0, jobs);
        let output = dryrack(stage.dir.path(), &["live", "it.yaml", "--log", "log.jsonl"]).output().expect("built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{jobs}: {said}");
        assert!(said.contains(wanted), "{jobs}: {said}");
        assert!(!stage.log().exists(), "{jobs}");
    }
}

fn shares_that_promise_too_much_are_told_what_to_state() {
    let dir = TempDir::new().expect("a folder of our own");
    let rows = [
        (
            "[{cores: [0], cpu: 1}, {cores: [0], cpu: 1}]",
            "the shares take up to 200% of their cores, but the limit is 100%",
        ),
        // Both shares use two cores, and one of them uses only the first core: 1.5 cores of CPU fit on 2 cores.
        ("[{cores: [0], cpu: 600m}, {cores: [0, 1], cpu: 900m}]", ""),
        ("[{cores: [0], cpu: 2}, {cores: [1]}]", "a CPU share of 2 cores is not possible on 1"),
        ("[{cores: [0]}]", "found 1 CPU shares for the 2 accelerators of `here`"),
    ];
    for (shares, wanted) in rows {
        let text = format!(
            "scenario: Shares\n{}jobs: [{{name: a, duration: 1s}}]\nexpect: [{{job: a, is: completed}}]\n",
            HERE.replace("[{cores: [0], cpu: 500m}, {cores: [0], cpu: 500m}]", shares)
        );
        fs::write(dir.path().join("it.yaml"), text).expect("a folder of our own");
        let output = dryrack(dir.path(), &["check", "it.yaml"]).output().expect("it is built");
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), wanted.is_empty(), "{shares}: {said}");
        assert!(said.contains(wanted), "{shares}: {said}");
    }
}

fn every_process_of_a_run_ends_with_it() {
    // The ends are far enough apart that the same job makes room each time. One job leaves a child in another session
    // and one without a parent; the parent of another fails; another ignores signals.
    let stage = Stage::new(
        1,
        "\
jobs:
  - {name: leaves, gpus: 1, duration: 300ms, command: \"setsid sleep SLEEP & (setsid sleep SLEEP &) ; sleep 0.3\"}
  - {name: fails, gpus: 1, duration: 2s, ends: failed, command: \"sleep SLEEP & sleep 2; exit 3\"}
  - {name: typo, gpus: 1, duration: 1s, failing_starts: 1, retry: {limit: 0}, command: [no-such-program-anywhere]}
  - name: deaf
    gpus: 1
    duration: 1h
    cancel_at: 4s
    stop: 1h
    stop_duration: 200ms
    command: \"trap '' TERM; setsid sleep SLEEP & while :; do sleep 0.1; done\"
expect:
  - {job: leaves, is: completed}
  - {job: fails, is: failed}
  - {job: typo, is: failed}
  - {job: deaf, is: cancelled}
",
    );
    let (code, said) = stage.live();
    assert_eq!(code, Some(0), "{said:#}");
    assert_eq!(equal(&said), (12, 12), "{said:#}");
    assert_eq!(stage.left(), Vec::<String>::new());
    comes_again(&stage.log(), "deaf");
}

fn control_c_ends_everything_and_leaves_a_whole_log() {
    let stage = Stage::new(
        2,
        "\
jobs:
  - {name: one, gpus: 1, duration: 1h, command: \"setsid sleep SLEEP & sleep SLEEP\"}
  - {name: deaf, gpus: 1, duration: 1h, stop_duration: off, command: \"trap '' TERM; sleep SLEEP & while :; do sleep 0.1; done\"}
  - {name: waits, gpus: 1, duration: 1h, command: [sleep, SLEEP]}
  - {name: later, at: 2h, gpus: 1, duration: 1h, command: [sleep, SLEEP]}
",
    );
    let mut command = dryrack(stage.dir.path(), &["live", "it.yaml", "--log", "log.jsonl", "--format", "json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it is built");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
    // Waits until both run, with three sleeps in total.
    let deadline = dryrack_live::clock::Deadline::within(std::time::Duration::from_secs(60));
    while stage.left().iter().filter(|line| line.starts_with("sleep")).count() < 3 {
        assert!(!deadline.has_passed(), "they do not begin: {:?}", stage.left());
        dryrack_live::clock::pause(std::time::Duration::from_millis(10));
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["interrupted"], true);
    assert_eq!(stage.left(), Vec::<String>::new());
    comes_again(&stage.log(), "one");
}

/// The process that is killed with SIGKILL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    Worker,
    Keeper,
    /// The processes, of these two, that `pkill -9 dryrack`, or `pkill -9 -f` with its command line, would find.
    ByName,
}

/// The given processes whose name or command line contains `name`.
fn named(name: &str, pids: [rustix::process::Pid; 2]) -> Vec<rustix::process::Pid> {
    let says = |pid: rustix::process::Pid, file: &str| {
        let text = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).expect("it runs");
        String::from_utf8_lossy(&text).contains(name)
    };
    pids.into_iter().filter(|pid| says(*pid, "comm") || says(*pid, "cmdline")).collect()
}

/// The worker or the keeper is killed with SIGKILL. Descendants in separate sessions, with an empty environment or
/// without parents end too. If the keeper is killed, the log is complete.
fn whoever_is_killed_leaves_no_process() {
    for (number, killed) in [(5, Killed::Worker), (6, Killed::Keeper), (9, Killed::ByName)] {
        let is_keeper = killed != Killed::Worker;
        let stage = Stage::new(
            number,
            "\
jobs:
  - {name: deep, gpus: 1, duration: 1h, command: \"(env -i setsid sh -c 'sleep SLEEP & sleep SLEEP' &) ; sleep SLEEP\"}
  - {name: deaf, gpus: 1, duration: 1h, command: \"trap '' TERM; env -i setsid sleep SLEEP & while :; do sleep 0.1; done\"}
",
        );
        let mut command = dryrack(stage.dir.path(), &["live", "it.yaml", "--log", "log.jsonl"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it is built");
        let worker = kept_by(child.id());
        let deadline = dryrack_live::clock::Deadline::within(std::time::Duration::from_secs(60));
        while stage.left().iter().filter(|line| line.starts_with("sleep")).count() < 4 {
            assert!(!deadline.has_passed(), "they do not begin: {:?}", stage.left());
            dryrack_live::clock::pause(std::time::Duration::from_millis(10));
        }
        let keeper = rustix::process::Pid::from_child(&child);
        let found = match killed {
            Killed::Worker => vec![worker],
            Killed::Keeper => vec![keeper],
            Killed::ByName => named("dryrack", [keeper, worker]),
        };
        assert!(!found.is_empty());
        for pid in found {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
        }
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !is_keeper {
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("killed by signal 9") && said.contains("were ended"), "{said}");
        }
        let deadline = dryrack_live::clock::Deadline::within(std::time::Duration::from_secs(60));
        while !stage.left().is_empty() || (is_keeper && !stage.log().exists()) {
            assert!(!deadline.has_passed(), "left behind: {:?}", stage.left());
            dryrack_live::clock::pause(std::time::Duration::from_millis(10));
        }
        if is_keeper {
            comes_again(&stage.log(), "deep");
        }
    }
}

/// The prediction is in the log before anything else, and a log whose prediction was changed is detected.
fn a_prediction_that_was_changed_afterwards_is_found_out() {
    let stage = Stage::new(3, "jobs: [{name: a, gpus: 1, duration: 300ms, command: [sleep, \"0.3\"]}]\n");
    assert_eq!(stage.live().0, Some(0));
    let validated = |log: &str| {
        let output = dryrack(stage.dir.path(), &["validate", log, "--tolerance", "1h", "--format", "json"]).output();
        let output = output.expect("it is built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout)
    };
    let (code, said, out) = validated("log.jsonl");
    assert_eq!(code, Some(0), "{said}");
    let out: Value = serde_json::from_slice(&out).expect("JSON");
    let log = &out["logs"][0];
    assert_eq!((log["is_predicted"].as_bool(), log["holds"].as_bool()), (Some(true), Some(true)), "{log:#}");
    assert_eq!((log["blind"]["equal"].as_u64(), log["re_rehearsal"]["equal"].as_u64()), (Some(3), Some(3)), "{log:#}");
    let text = fs::read_to_string(stage.log()).expect("a log");
    assert!(text.lines().next().expect("a header").contains("\"predicted\":{\"digest\":"));
    fs::write(stage.dir.path().join("other.jsonl"), text.replacen("\"ended\":300000000", "\"ended\":310000000", 1))
        .expect("a folder of our own");
    let (code, said, _) = validated("other.jsonl");
    assert_eq!(code, Some(2));
    assert!(said.contains("was changed after it was recorded"), "{said}");
    // Nothing starts and runs without delay, so the times differ from the prediction by more than a nanosecond.
    let output = dryrack(stage.dir.path(), &["validate", "log.jsonl", "--tolerance", "1ns"]).output().expect("built");
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Adds the footer that a forger would write: BLAKE3 of everything before it and of the end as eight bytes.
fn sealed(header: &str, rest: &str) -> String {
    let footer_at = rest.rfind("{\"footer\"").expect("it is whole");
    let mut footer: Value = serde_json::from_str(&rest[footer_at..]).expect("JSON");
    let (header, before) = (header.trim_end(), &rest[..footer_at]);
    let end = footer["footer"]["end_ns"].as_u64().expect("a number");
    let text = format!("{header}\n{before}");
    let mut sum = blake3::Hasher::new();
    sum.update(text.as_bytes()).update(&end.to_le_bytes());
    footer["footer"]["sum"] = sum.finalize().to_hex().to_string().into();
    format!("{text}{footer}\n")
}

/// Each log has a header and records from different runs, or changed by hand, and a matching footer. It is rejected if
/// the header or the records do not follow from the source. If they do, they may have been written afterwards. Only a
/// digest that was stored in another place shows this.
fn a_header_that_was_written_afterwards_is_found_out_as_far_as_a_log_can_show() {
    let job = |more: &str| format!("jobs: [{{name: a, gpus: 1, {more}, command: [sleep, \"0.3\"]}}]\n");
    let stages = ["duration: 300ms", "duration: 340ms", "duration: 300ms, priority: 7", "at: 5s, duration: 300ms"];
    let stages: Vec<Stage> = stages.into_iter().map(|more| Stage::new(7, &job(more))).collect();
    let logs: Vec<String> = (stages.iter())
        .map(|stage| {
            // Only the header of the last one is used.
            let mut command = dryrack(stage.dir.path(), &["live", "it.yaml", "--log", "log.jsonl"]);
            let said = command.output().expect("it is built");
            assert_eq!(said.status.code(), Some(0));
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.contains("predicted, before the start: digest "), "{said}");
            fs::read_to_string(stage.log()).expect("a log")
        })
        .collect();
    let parts: Vec<(&str, &str)> = logs.iter().map(|log| log.split_once('\n').expect("a header")).collect();
    let digest = |header: &str| -> String {
        let header: Value = serde_json::from_str(header).expect("JSON");
        header["header"]["live"]["predicted"]["digest"].as_str().expect("a text").to_string()
    };
    let (header, records) = parts[0];
    let validated = |log: &str, more: &[&str]| {
        fs::write(stages[0].dir.path().join("other.jsonl"), log).expect("ours");
        let args = [&["validate", "other.jsonl", "--tolerance", "1h"], more].concat();
        let output = dryrack(stages[0].dir.path(), &args).output().expect("it is built");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = validated(&sealed(header, records), &[]);
    assert!(code == Some(0) && said.contains("a log cannot prove"), "{said}");
    let swapped = format!("{}0", &digest(header)[..63]);
    let rows = [
        (header.replacen("\"ended\":300000000", "\"ended\":310000000", 1), "the prediction for `a` differs"),
        (header.replacen(&digest(header), &swapped, 1), "a rehearsal of the source has the digest"),
        (header.replacen("duration: 300ms", "duration: 310ms", 1), "a rehearsal of the source has the digest"),
        (header.replacen("ram: 1GiB", "ram: 2GiB", 1), "the nodes of the run differ"),
        (parts[2].0.to_string(), "the submitted `a` differs"),
        (parts[3].0.to_string(), "`a` was submitted at 0s, but the source states 5s"),
    ];
    for (changed, wanted) in rows {
        assert_ne!(changed, header);
        let (code, said) = validated(&sealed(&changed, records), &[]);
        assert_eq!(code, Some(1), "{wanted}: {said}");
        assert!(said.contains("NOT from the log's source") && said.contains(wanted), "{wanted}: {said}");
    }

    // The actual lengths, written into the source afterwards.
    let forged = sealed(parts[1].0, records);
    let (code, said) = validated(&forged, &[]);
    assert!(code == Some(0) && said.contains("a log cannot prove"), "{said}");
    let (code, said) = validated(&forged, &["--predicted", &digest(header)[..12]]);
    assert!(code == Some(1) && said.contains("NOT equal to the stored digest"), "{said}");
    let (code, said) = validated(&sealed(header, records), &["--predicted", &digest(header)]);
    assert!(code == Some(0) && said.contains("and equal to the stored digest"), "{said}");
    let (code, said) = validated(&forged, &["--predicted", "yesterday"]);
    assert!(code == Some(2) && said.contains("`yesterday` is not a digest"), "{said}");
    // It is also the digest of a plain rehearsal of the file.
    let run = dryrack(stages[0].dir.path(), &["run", "it.yaml", "--format", "json"]).output().expect("it is built");
    let run: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(run["digest"].as_str(), Some(digest(header).as_str()));
}

/// The profile is part of the log, so a profile file that is missing or has changed does not matter.
fn a_log_is_judged_under_the_profile_that_it_holds() {
    let stage = Stage::new(8, "jobs: [{name: a, gpus: 1, duration: 300ms, command: [sleep, \"0.3\"]}]\n");
    let folder = stage.dir.path();
    let text = fs::read_to_string(folder.join("it.yaml")).expect("ours");
    fs::write(folder.join("it.yaml"), text.replace("profile: fifo", "profile: mine.profile.yaml")).expect("ours");
    fs::write(folder.join("mine.profile.yaml"), "base: fifo\nname: mine\ntitle: Mine\n").expect("ours");
    assert_eq!(stage.live().0, Some(0));
    let validated = || {
        let output = dryrack(folder, &["validate", "log.jsonl", "--tolerance", "1h"]).output().expect("it is built");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = validated();
    assert!(code == Some(0) && !said.contains("has changed since the run"), "{said}");
    let slow = "passes: {place: {trigger: {every: 7s}, offset: 3s}}\n";
    fs::write(folder.join("mine.profile.yaml"), format!("base: fifo\nname: mine\ntitle: Mine\n{slow}")).expect("ours");
    let (code, said) = validated();
    assert!(code == Some(0) && said.contains("the profile `mine` has changed since the run"), "{said}");
    fs::remove_file(folder.join("mine.profile.yaml")).expect("it is there");
    assert_eq!(validated().0, Some(0));
}

/// The medians over one run are its own delays, so a rehearsal with them predicts its start and end to the nanosecond.
fn delays_that_are_fitted_on_a_recording_explain_it() {
    let stage = Stage::new(4, "jobs: [{name: a, gpus: 1, duration: 200ms, command: [sleep, \"0.2\"]}]\n");
    let (code, said) = stage.live();
    assert_eq!(code, Some(0));
    let later = |what: &str| said["blind"][what][0]["later_by_ns"].as_u64().expect("later, and not earlier");
    let args = ["calibrate", "log.jsonl", "--held-out", "log.jsonl", "--format", "json"];
    let output = dryrack(stage.dir.path(), &args).output().expect("it is built");
    let fitted: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // The prediction was that it starts where it is placed, at 0, and runs for as long as it sleeps.
    assert_eq!(fitted["prepare_ns"].as_u64(), Some(later("starts")), "{fitted:#}");
    // On a busy machine, a start may be noticed so late that the run seems shorter than it sleeps. A run is never predicted
    // to be shorter than it asks for.
    let longer = later("ends").saturating_sub(later("starts"));
    let left = later("ends").abs_diff(later("starts") + longer);
    assert_eq!(fitted["duration_more_ns"].as_u64(), Some(longer), "{fitted:#}");
    assert_eq!(fitted["median_error_of_starts_ns"], serde_json::json!([later("starts"), 0]), "{fitted:#}");
    assert_eq!(fitted["median_error_of_ends_ns"], serde_json::json!([later("ends"), left]), "{fitted:#}");
}

/// Every log replays, no process is left, and every decision that does not depend on the CPU that a process gets is as
/// predicted. `.ci/live` measures how close the times are.
fn live_for_real_every_committed_scenario_runs_and_its_log_replays() {
    // If the machine does other work, a busy process may get so little CPU that its policy ends it.
    let at_the_mercy = [
        "busy-on-a-loaded-share",
        "gang-on-shared-cores",
        "bursty",
        "fork-heavy",
        "idle-from-the-start",
        "idle-half-of-a-gang",
        "crashing",
        "backfill",
    ];
    let dir = TempDir::new().expect("a folder of our own");
    let mut files: Vec<PathBuf> =
        fs::read_dir(SCENARIOS).expect("it is there").map(|it| it.expect("there").path()).collect();
    files.sort();
    assert!(files.len() >= 20, "{files:?}");
    let run = |file: &PathBuf| {
        let name = file.file_stem().expect("a file").to_string_lossy().into_owned();
        let log = dir.path().join(format!("{name}.jsonl"));
        let args = ["live", &file.display().to_string(), "--log", &log.display().to_string(), "--format", "json"];
        let output = dryrack(dir.path(), &args).output().expect("it is built");
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
        let replayed = dryrack(dir.path(), &["replay", &log.display().to_string()]).output().expect("it is built");
        assert!(replayed.status.success(), "{name}: {}", String::from_utf8_lossy(&replayed.stdout));
        let (equal, decisions) = equal(&said);
        assert!(equal == decisions || at_the_mercy.contains(&name.as_str()), "{name}: {said:#}");
    };
    // Run one at a time: the scenarios are pinned to the same cores and would compete for them.
    files.iter().for_each(run);
}

/// Logs of `.ci/gpu`, from machines with a real GPU. The prediction in the header of a log was made before its run.
pub fn recordings_of_real_gpus_are_replayed_and_were_predicted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/live-gpu");
    let mut logs = Vec::new();
    for machine in ["h100", "h200"] {
        for entry in fs::read_dir(Path::new(folder).join(machine)).expect("recordings") {
            let path = entry.expect("readable").path();
            logs.extend(path.extension().is_some_and(|extension| extension == "jsonl").then_some(path));
        }
    }
    logs.sort();
    assert_eq!(logs.len(), 25, "five scenarios, three times on the H100 and twice on the H200");
    let logs: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
    let dir = TempDir::new().expect("a folder of our own");
    let args: Vec<&str> = ["validate", "--tolerance", "1200ms", "--format", "json"]
        .into_iter()
        .chain(logs.iter().map(String::as_str))
        .collect();
    let output = dryrack(dir.path(), &args).output().expect("it is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let said = said["logs"].as_array().expect("a list");
    for log in said {
        assert!(log["replay"].as_u64().is_some_and(|records| records > 20), "{log:#}");
        assert_eq!((&log["is_predicted"], &log["is_foretold"]), (&Value::Bool(true), &Value::Bool(true)), "{log:#}");
    }
    let count =
        |grade: &str, key: &str| said.iter().map(|log| log[grade][key].as_u64().expect("a number")).sum::<u64>();
    for grade in ["re_rehearsal", "blind"] {
        assert_eq!((count(grade, "equal"), count(grade, "decisions")), (165, 165), "{grade}");
    }
}
