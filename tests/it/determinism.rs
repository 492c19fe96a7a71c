//! Same input, same bytes: every scenario runs twice, on one thread and on two, is replayed, and is read with a byte
//! flipped.
//!
//! The runs of the traces take seconds, so that test is named `slow`, and run by `cargo test --test it -- slow`.
//! `.ci/digests` checks that a debug build and a release build agree. It needs both builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::assert::OutputAssertExt;
use dryrack_rng::Stream;
use tempfile::TempDir;

use crate::data;

pub const FAST: [(&str, fn()); 5] = [
    ("determinism::each_scenario_has_one_digest", || one_digest("basics")),
    ("determinism::the_log_of_each_scenario_replays_in_silence", || silent_replay("basics")),
    ("determinism::what_is_kept_between_decisions_changes_no_queue", || whatever_is_kept("queues")),
    ("determinism::a_flipped_byte_is_found_in_any_event", a_flipped_byte_is_found_in_any_event),
    ("determinism::what_is_digested_can_be_read_back_from_its_bytes", what_is_digested_can_be_read_back_from_its_bytes),
];

pub const SLOW: [(&str, fn()); 3] = [
    ("slow::each_scenario_of_a_trace_has_one_digest", || one_digest("traces")),
    ("slow::what_is_kept_between_decisions_changes_no_result_of_the_literature", || whatever_is_kept("literature")),
    ("slow::the_log_of_each_trace_replays_in_silence", || silent_replay("traces")),
];

fn scenarios(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(folder)
}

/// Runs the program with the folder of traces; carried traces are in the repository.
fn dryrack(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dryrack"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("DRYRACK_DATA");
    // With an empty cache, what a released program decides is not run.
    command.env("DRYRACK_CACHE", "/nonexistent");
    if let Some(folder) = data() {
        command.env("DRYRACK_DATA", folder);
    }
    command
}

/// A run and its digest.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    file: String,
    /// The profile of a reproduction.
    profile: Option<String>,
    /// The overrides that choose the cell of a matrix.
    set: Vec<String>,
    /// If there are several, the digest covers all of them.
    seeds: u64,
    digest: String,
}

fn digests(folder: &str, threads: &str) -> Vec<Run> {
    let folder = scenarios(folder).display().to_string();
    let output = dryrack(&["test", &folder, "--threads", threads, "--format", "json"]).assert().code(0);
    let said: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    let mut digests = Vec::new();
    for file in said["files"].as_array().expect("a list") {
        for run in file["runs"].as_array().expect("a list").iter().filter(|run| run["status"] != "not_run") {
            let text = |value: &serde_json::Value| value.as_str().map(str::to_string);
            let digest = text(&run["digest"]).expect("what ran has a digest");
            digests.push(Run {
                file: text(&file["file"]).expect("a path"),
                profile: text(&run["reproduces"]),
                set: run["set"].as_array().expect("a list").iter().filter_map(text).collect(),
                seeds: run["seeds"].as_u64().expect("a number"),
                digest,
            });
        }
    }
    assert!(!digests.is_empty(), "{folder} has scenarios");
    digests
}

fn one_digest(folder: &str) {
    let first = digests(folder, "1");
    assert_eq!(first, digests(folder, "1"), "the first and the second run");
    assert_eq!(first, digests(folder, "2"), "one thread and two");
}

fn silent_replay(folder: &str) {
    let out = TempDir::new().expect("a folder of our own");
    for (number, run) in digests(folder, "2").into_iter().enumerate() {
        let Run { file, profile, set, seeds, digest } = run;
        let dir = out.path().join(number.to_string()).display().to_string();
        let mut args = vec!["run", &file, "--out", &dir, "--format", "json"];
        // The profile of a reproduction may be a file beside the scenario.
        let own = profile.as_ref().map(|profile| Path::new(&file).with_file_name(profile));
        let profile = own.filter(|own| own.is_file()).map(|own| own.display().to_string()).or(profile);
        args.extend(profile.iter().flat_map(|profile| ["--profile", profile.as_str()]));
        args.extend(set.iter().flat_map(|set| ["--set", set.as_str()]));
        // A reproduction is expected to fail.
        let output = dryrack(&args).output().expect("it was built");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        if seeds == 1 {
            assert_eq!(said["digest"].as_str(), Some(digest.as_str()), "{file}: `run` and `test` agree");
        }
        dryrack(&["replay", &format!("{dir}/events.jsonl")]).assert().code(0).stdout("").stderr("");
    }
}

/// Compares the digests of runs that keep state between decisions, keep none, and compute each decision twice to
/// compare them.
fn whatever_is_kept(folder: &str) {
    let mut held = 0;
    for run in digests(folder, "2").into_iter().filter(|run| run.profile.is_none() && run.seeds == 1) {
        for how in ["--plain", "--paranoid"] {
            let mut args = vec!["run", run.file.as_str(), how, "--format", "json"];
            args.extend(run.set.iter().flat_map(|set| ["--set", set.as_str()]));
            let output = dryrack(&args).assert().code(0);
            let said: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
            assert_eq!(said["digest"].as_str(), Some(run.digest.as_str()), "{} {how}", run.file);
            held += 1;
        }
    }
    assert!(held > 0, "{folder} has scenarios");
}

const FLIPS: usize = 50;

/// If any bit of an event is flipped, the result is not a log, not a record, or a different event. The error names the
/// line.
fn a_flipped_byte_is_found_in_any_event() {
    let dir = TempDir::new().expect("a folder of our own");
    let out = dir.path().display().to_string();
    let file = scenarios("basics/node-lost-with-its-replicas.yaml").display().to_string();
    dryrack(&["run", &file, "--out", &out]).assert().code(0);
    let log = dir.path().join("events.jsonl");
    let honest = std::fs::read(&log).expect("written");
    let lines: Vec<&[u8]> = honest.split_inclusive(|byte| *byte == b'\n').collect();
    let is_event = |line: &&[u8]| line.windows(9).any(|part| part == b",\"event\":");
    let events: Vec<usize> = (0..lines.len()).filter(|index| is_event(&lines[*index])).collect();
    assert!(events.len() > 10, "{} events", events.len());
    let mut draws = Stream::new(1, "a byte to flip", 0);
    for _ in 0..FLIPS {
        let index = *draws.pick(&events);
        let begin: usize = lines[..index].iter().map(|line| line.len()).sum();
        let at = begin + draws.index(lines[index].len() - 1);
        let mut altered = honest.clone();
        altered[at] ^= 1 << draws.index(8);
        std::fs::write(&log, &altered).expect("a folder of our own");
        let output = dryrack(&["replay", &log.display().to_string()]).output().expect("it was built");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let place = format!("line {}", index + 1);
        let shown = String::from_utf8_lossy(lines[index]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{said}{shown}byte {}", at - begin);
        assert!(said.contains(&place), "{place} is named in\n{said}{shown}byte {}", at - begin);
    }
}

/// So no two records have the same bytes: omitting an empty field would merge it with the next.
fn what_is_digested_can_be_read_back_from_its_bytes() {
    fn reads_back<T: serde::Serialize + for<'d> serde::Deserialize<'d> + PartialEq + std::fmt::Debug>(what: &T) {
        let bytes = postcard::to_extend(what, Vec::new()).expect("it has a compact form");
        assert_eq!(&postcard::from_bytes::<T>(&bytes).expect("it reads back"), what);
    }
    let profile = std::sync::Arc::new(dryrack_profile::load_profile("dstack", Path::new("")).expect("it is known"));
    for seed in 1..=30 {
        let world = dryrack_engine::draw_world(seed, std::slice::from_ref(&profile));
        world.fleets.iter().for_each(|fleet| reads_back(&**fleet));
        for node in &world.nodes {
            let shape = &*node.spec.shape;
            // Only nodes of Kubernetes and nodes with a payment have these fields, which are the last.
            let bytes = postcard::to_extend(shape, Vec::new()).expect("it has a compact form");
            let bytes = postcard::to_extend(&shape.kubernetes, bytes).expect("it has a compact form");
            let bytes = postcard::to_extend(&shape.devices, bytes).expect("it has a compact form");
            let bytes = postcard::to_extend(&shape.payment, bytes).expect("it has a compact form");
            assert_eq!(&postcard::from_bytes::<dryrack_fleet::NodeShape>(&bytes).expect("it reads back"), shape);
        }
        for arrival in &world.arrivals {
            let spec = &*arrival.spec;
            let plain = dryrack_workload::JobSpec {
                after: Default::default(),
                run_limit: None,
                slurm: None,
                pod: None,
                queued: None,
                shared_deadline: None,
                shared_retry: None,
                restarts_with: None,
                ..spec.clone()
            };
            let mut bytes = postcard::to_extend(&plain, Vec::new()).expect("it has a compact form");
            // The kind of a record says which of these follow: the dependencies, the group, the terms in Slurm, the pod, the
            // part in a workload, the shared time limit, the shared retries, and the jobs that start again with it.
            bytes = postcard::to_extend(&spec.after, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.run_limit, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.slurm, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.pod, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.queued, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.shared_deadline, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.shared_retry, bytes).expect("it has a compact form");
            bytes = postcard::to_extend(&spec.restarts_with, bytes).expect("it has a compact form");
            assert_eq!(&postcard::from_bytes::<dryrack_workload::JobSpec>(&bytes).expect("it reads back"), spec);
        }
    }
    let claim = dryrack_fleet::NodeClaim {
        node: dryrack_ids::NodeId::new(0),
        tasks: 1,
        cpu: dryrack_units::MilliCpu::ZERO,
        ram: dryrack_units::Bytes::ZERO,
        gpus: Default::default(),
        blocks: Default::default(),
        sets: None,
    };
    // The number of blocks says whether the numbers of tasks of each set follow.
    let mut bytes = postcard::to_extend(&claim, Vec::new()).expect("it has a compact form");
    bytes = postcard::to_extend(&claim.sets, bytes).expect("it has a compact form");
    assert_eq!(postcard::from_bytes::<dryrack_fleet::NodeClaim>(&bytes).expect("it reads back"), claim);
}
