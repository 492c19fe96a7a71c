//! What `explain`, `offers` and `select` say about a run, checked against its own log: replicas by name, the place
//! and the score in the log, the analysis queue, who preempts whom, and what a share is short of.

use std::path::Path;

use dryrack_engine::{Records, RunOptions, hold_answers, run as run_rehearsal};
use rayon::prelude::*;
use serde_json::Value;

use crate::cli::{empty, stderr, stdout};
use crate::selection::{all_scenarios, named};

trials! {
    Nothing: [
        each_replica_is_explained_by_its_own_decision,
        offers_are_those_that_the_run_saw,
        what_can_be_picked_is_what_the_run_does_with_the_pick,
        who_waits_for_its_analysis_is_told_behind_whom,
        whoever_is_preempted_is_told_for_whom,
        a_share_that_is_missing_is_told_as_a_share,
        room_that_a_nomination_holds_is_told_as_taken,
        who_is_over_a_quota_is_not_said_to_fit,
        a_pod_that_kueue_does_not_try_is_said_to_fit,
        a_broken_never_is_explained_by_who_broke_it,
        answers_agree_with_the_log_in_all_scenarios,
    ]
}

const THREE_REPLICAS: &str = "\
scenario: Three replicas of a model on two nodes
profile: gpustack
until: 1m
nodes: [{name: a, machine: a100-80g-x2}, {name: b, machine: a100-80g-x2}]
jobs:
  - {name: chat, model: qwen3-8b, replicas: 3}
expect:
  - {name: runs, job: chat, is: running, by: 1m}
";

const TWO_FLEETS: &str = "\
scenario: A task of two replicas, and a fleet that has room for one
profile: dstack-0.22.5
until: 10m
fleets:
  small: {hosts: [{name: single, machine: a100-80g-x1, disk: 200GiB}]}
  large: {hosts: [{name: pair-0, machine: a100-80g-x1, disk: 200GiB}, {name: pair-1, machine: a100-80g-x1, disk: 200GiB}]}
jobs:
  - {name: task, at: 10s, replicas: 2, resources: {gpu: 1}}
expect:
  - {name: runs, job: task, is: running, by: 1m}
";

const PICKED: &str = "\
scenario: A GPU picked by hand for a model
profile: gpustack-0.6.0
until: 10m
nodes:
  - {name: lone, machine: a100-80g-x2}
  - {name: studio, machine: m2-ultra-192g}
jobs:
  - {name: by-hand, at: 1m, model: qwen3-8b, backend: vllm, gpus: [PICKED]}
expect:
  - {name: runs, job: by-hand, is: running, by: 2m}
";

const CANCELLED: &str = "\
scenario: Models stopped in a batch
profile: gpustack-0.6.0
until: 15m
nodes:
  - {name: worker, count: 3, machine: rtx-4090-x2}
jobs:
  - {name: batch, count: 10, at: 10s, gpus: 1, analysis: 30s, cancel_at: 15s}
  - {name: last, at: 30s, gpus: 1, analysis: 30s}
expect:
  - {name: served, job: last, is: running, by: 35s}
";

const PREEMPTED: &str = "\
scenario: One is stopped for another
profile: priority-preemption
nodes: [{name: m, cpus: 2}]
jobs:
  - {name: low, at: 0s, cpus: 2, duration: 10m, stop: 30s}
  - {name: urgent, at: 1m, cpus: 2, duration: 5m, priority: 5}
expect:
  - {name: goes_on, job: low, always: running, until: 5m}
";

const SHARES: &str = "\
scenario: Half a GPU, where a quarter is left
profile: best-fit
until: 10m
nodes: [{name: m, machine: a100-80g-x1}]
jobs:
  - {name: most, at: 0s, gpus: 0.75, duration: 1h}
  - {name: half, at: 1m, gpus: 0.5, duration: 1h}
expect:
  - {name: starts, job: half, is: running, by: 5m}
";

fn run(dir: &Path, scenario: &str) {
    std::fs::write(dir.join("s.yaml"), scenario).expect("a folder of our own");
    // The scenario's expectations may fail: the question is about that.
    let output = crate::cli::dryrack(dir, &["run", "s.yaml", "--out", "."]).output().expect("it was built");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let said = stdout(dir, &[args, &["--format", "json"]].concat(), 0);
    serde_json::from_str(&said).expect("JSON")
}

/// The words of the log line that places a replica: `on a/0, score 100.000`.
fn placed(dir: &Path, replica: &str) -> (String, f64) {
    let log = stdout(dir, &["log", "events.jsonl"], 0);
    let line = log.lines().find(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&replica) && words.get(2) == Some(&"placed")
    });
    let (_, at) =
        line.unwrap_or_else(|| panic!("{replica} is not placed:\n{log}")).split_once(" on ").expect("a place");
    let (place, score) = at.split_once(", score ").expect("a score");
    (place.to_string(), score.trim().parse().expect("a number"))
}

/// Checks that `explain` names the logged place and the best candidate of a replica.
fn is_explained_as_logged(dir: &Path, replica: &str) {
    let (place, score) = placed(dir, replica);
    let said = json(dir, &["explain", "events.jsonl", "--job", replica]);
    let best = &said["placed"]["examination"]["decision"]["place"][0];
    assert_eq!(
        (said["placed"]["on"].as_str(), best["on"].as_str()),
        (Some(&*place), Some(&*place)),
        "{replica}: {said}"
    );
    let explained = best["score"].as_f64().expect("a score");
    // The log shows three digits.
    assert!((explained - score).abs() < 0.0006, "{replica}: {explained}, logged {score}");
}

fn each_replica_is_explained_by_its_own_decision() {
    let dir = empty();
    run(dir.path(), THREE_REPLICAS);
    for replica in ["chat", "chat[1]", "chat[2]"] {
        is_explained_as_logged(dir.path(), replica);
    }
    let whole = stdout(dir.path(), &["explain", "events.jsonl", "--job", "chat"], 0);
    for (replica, place) in ["chat", "chat[1]", "chat[2]"].map(|replica| (replica, placed(dir.path(), replica).0)) {
        let is_listed = |line: &str| line.contains(replica) && line.ends_with(&place);
        assert!(whole.lines().any(is_listed), "{replica} on {place} in\n{whole}");
    }
    let said = stderr(dir.path(), &["explain", "events.jsonl", "--job", "chat[3]"], 2);
    assert!(said.contains("there is no `chat[3]`") && said.contains("the last replica is `chat[2]`"), "{said}");
    let said = stderr(dir.path(), &["explain", "events.jsonl", "--job", "chat #2"], 2);
    assert!(said.contains("no attempt `chat #2`"), "{said}");
}

fn offers_are_those_that_the_run_saw() {
    let dir = empty();
    run(dir.path(), TWO_FLEETS);
    for replica in ["task", "task[1]"] {
        is_explained_as_logged(dir.path(), replica);
        let takes = json(dir.path(), &["offers", "s.yaml", "--job", replica])["takes"].clone();
        let (place, _) = placed(dir.path(), replica);
        assert_eq!(takes[0].as_str(), place.split('/').next(), "{replica}: {takes}");
    }
}

/// A pick that the release places is selectable; one that it refuses at submission is not, for the same reason.
fn what_can_be_picked_is_what_the_run_does_with_the_pick() {
    let dir = empty();
    for (picked, reason) in [("lone/0", None), ("studio/0", Some("backend_vendor_mismatch"))] {
        run(dir.path(), &PICKED.replace("PICKED", picked));
        let (node, _) = picked.split_once('/').expect("a GPU of a node");
        let found = json(dir.path(), &["select", "s.yaml", "--job", "by-hand"]);
        let nodes = found["nodes"].as_array().expect("nodes");
        let gpu = &nodes.iter().find(|known| known["node"] == node).expect("it is a node")["gpus"][0];
        assert_eq!((gpu["selectable"].as_bool(), gpu["because"].as_str()), (Some(reason.is_none()), reason), "{gpu}");
        let log = stdout(dir.path(), &["log", "events.jsonl", "--job", "by-hand"], 0);
        match reason {
            None => assert_eq!(placed(dir.path(), "by-hand").0, picked),
            Some(reason) => assert!(!log.contains(" placed ") && log.contains(reason), "{log}"),
        }
    }
}

fn who_waits_for_its_analysis_is_told_behind_whom() {
    let dir = empty();
    run(dir.path(), CANCELLED);
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "last", "--at", "35s"], 0);
    // All ten entered the queue at once; the first of them is analysed from 10s to 40s.
    let behind = "why not: waits for its analysis, behind 9 entries of ended attempts; batch-0 is in analysis";
    assert!(said.contains(behind), "{said}");
    assert!(said.contains("ended: batch-1, batch-2,"), "{said}");
    let failed = stdout(dir.path(), &["test", "s.yaml"], 1);
    assert!(
        failed.contains("at 35s: waits for its analysis, behind 9 entries of ended attempts; batch-0 is in analysis"),
        "{failed}"
    );
}

fn whoever_is_preempted_is_told_for_whom() {
    let dir = empty();
    run(dir.path(), PREEMPTED);
    let log = stdout(dir.path(), &["log", "events.jsonl", "--job", "low"], 0);
    assert!(log.lines().any(|line| line.contains("preempted") && line.ends_with("by urgent")), "{log}");
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "low", "--at", "3m"], 0);
    assert!(said.contains("preempted at 1m: its place on m goes to urgent"), "{said}");
    let failed = stdout(dir.path(), &["test", "s.yaml"], 1);
    assert!(failed.contains("1m stopping on m (preempted by urgent)"), "{failed}");
}

fn a_share_that_is_missing_is_told_as_a_share() {
    let dir = empty();
    run(dir.path(), SHARES);
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "half"], 0);
    assert!(said.contains("smallest change: m would fit with 0.5 GPU free instead of 0.25\n"), "{said}");
    assert!(said.contains("GPU: 0.25 free, 0.5 needed"), "{said}");
}

/// `low` stops for `middle`, which holds 3 of 4 CPUs meanwhile. `low` and `high` have 3.5, so none is free for `weak`. In
/// 1.20, `light` needs no CPU, but a node that is not overcommitted.
fn room_that_a_nomination_holds_is_told_as_taken() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/kubernetes/nominations-overcommit-a-node.yaml");
    let text = std::fs::read_to_string(file).expect("a scenario");
    let text = text.replace("\nexpect:", "\n  - {name: weak, at: 5m30s, cpus: 0.5}\nexpect:");
    for (profile, job, wanted) in [
        ("kubernetes-1.35", "weak", "alpha would fit with 500m CPU free instead of 0m\n"),
        ("kubernetes-1.35", "middle", "alpha would fit with 3000m CPU free instead of 500m\n"),
        ("kubernetes-1.20", "light", "alpha would fit with 0m CPU free instead of -2500m\n"),
    ] {
        let dir = empty();
        run(dir.path(), &text.replace("\nprofile: kubernetes-1.35", &format!("\nprofile: {profile}")));
        let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", job, "--at", "7m"], 0);
        assert!(said.contains(wanted), "{profile}: {said}");
    }
}

/// The explanation is about the replica that broke a `never`, not another of its job.
fn a_broken_never_is_explained_by_who_broke_it() {
    let dir = empty();
    for (never, replica) in [("a", "chat"), ("b", "chat[1]")] {
        let expects = format!("  - {{name: not_there, job: chat, never: placed, on: {never}}}\n");
        run(dir.path(), &(THREE_REPLICAS.to_string() + &expects));
        let (place, _) = placed(dir.path(), replica);
        assert!(place.starts_with(never), "{replica} on {place}");
        let failed = stdout(dir.path(), &["test", "s.yaml"], 1);
        assert!(failed.contains(&format!("why here  {replica} placed on {place} at ")), "{failed}");
    }
}

/// The checks of random worlds run on every scenario, also under each profile that reproduces its report. These include
/// models and released programs.
fn answers_agree_with_the_log_in_all_scenarios() {
    // In a scenario of many jobs each decision is examined on every node, which would take minutes.
    const MOST_JOBS: usize = 100;
    let asked = |rehearsal: &dryrack_engine::Rehearsal| {
        if rehearsal.arrivals.len() > MOST_JOBS {
            return 0;
        }
        let mut records = Records::default();
        run_rehearsal(rehearsal, RunOptions::default(), &mut [&mut records]);
        hold_answers(rehearsal, &records.0)
    };
    let decisions: u64 = all_scenarios(true).par_iter().map(|rehearsal| named(rehearsal, || asked(rehearsal))).sum();
    assert!(decisions > 1000, "{decisions} decisions");
}

/// `wide` asks for more idle hosts than its project may ever hold.
fn who_is_over_a_quota_is_not_said_to_fit() {
    let dir = empty();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/dstack/quotas-between-projects.yaml");
    stdout(dir.path(), &["run", file, "--out", "run"], 0);
    let said = stdout(dir.path(), &["explain", "run/events.jsonl", "--job", "wide", "--at", "5h"], 0);
    assert!(said.contains("2 nodes  quota_exceeded"), "{said}");
    assert!(said.contains("\notherwise it would fit now:\n"), "{said}");
}

/// A pod behind the head of a strict queue was explained by `no_nodes`, beside a table in which all nodes fit.
fn a_pod_that_kueue_does_not_try_is_said_to_fit() {
    let dir = empty();
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/kubernetes/kueue-reopened-queue-is-blocked-by-its-head.yaml");
    stdout(dir.path(), &["run", file, "--out", "run"], 0);
    let said = stdout(dir.path(), &["explain", "run/events.jsonl", "--job", "small", "--at", "6m"], 0);
    assert!(said.contains("2 nodes  pending_evaluation"), "{said}");
    assert!(said.contains("\notherwise it would fit now:\n"), "{said}");
    assert!(!said.contains("no_nodes"), "{said}");
}
