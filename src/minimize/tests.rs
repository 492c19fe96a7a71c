//! Tests with small files whose smallest form is known by hand.

use std::path::PathBuf;

use super::*;
use dryrack_scenario::Options;

fn rehearser() -> Rehearser {
    Rehearser::new("test.yaml".to_string(), PathBuf::new(), Options::default())
}

/// The smallest scenario in which the named expectation still fails.
fn smallest(text: &str, name: &str) -> Minimized {
    let mut rehearser = rehearser();
    let found = rehearser.failures(text).unwrap_or_else(|faults| panic!("{faults}"));
    let wanted = found.failing.iter().find(|failing| &*failing.name == name);
    let wanted = wanted.unwrap_or_else(|| panic!("{name} is not among {:?}", found.failing));
    let mut still_fails = |text: &str| rehearser.still_fails(text, wanted, 100_000);
    minimize(text, &mut still_fails, Limits::default(), &MinimizeProgress::default()).expect("it is YAML")
}

/// `late` waits because `long` holds the only GPU. Everything else is irrelevant.
const WAITS: &str = "\
# What was reported.
scenario: One job waits for another
tags: [small]
nodes:
  - {name: cpu, count: 12, cpus: 8}
  # The only GPU.
  - {name: alpha, cpus: 8, gpus: 1, gpu: l4}
jobs:
  - {name: noise, count: 40, at: 1s, cpus: 1, duration: 20m}
  # It holds the GPU.
  - {name: long, gpus: 1, duration: 70m, user: ann}
  - {name: late, at: 7m, gpus: 1, duration: 10m, queue: online}
faults:
  - {at: 3m, node: cpu-04, becomes: not_ready}
  - {at: 5m, node: cpu-04, becomes: ready}
expect:
  - {name: noise_runs, job: noise-00, is: running, by: 1m}
  - {name: late_runs, job: late, is: running, by: 30m}
";

/// By hand: both jobs and the node with the GPU are needed, but `cpus`, `user` and `queue` are not. A job without a
/// duration does not end by itself, so without one, `long` still holds the GPU after 30m. Jobs of the same instant are
/// in the order of the file, so `late` comes second even without `at`.
#[test]
fn what_holds_the_gpu_is_all_that_is_left() {
    let found = smallest(WAITS, "late_runs");
    let wanted = "\
# What was reported.
scenario: One job waits for another
nodes:
  # The only GPU.
  - {name: alpha, gpus: 1, gpu: l4}
jobs:
  # It holds the GPU.
  - {name: long, gpus: 1}
  - {name: late, gpus: 1}
expect:
  - {name: late_runs, job: late, is: running, by: 30m}
";
    assert_eq!(found.text, wanted);
    assert!(!found.is_cut_short);
}

#[test]
fn the_same_file_gives_the_same_bytes_after_as_many_runs() {
    assert_eq!(smallest(WAITS, "late_runs"), smallest(WAITS, "late_runs"));
}

#[test]
fn what_is_smallest_already_stays_as_it_is() {
    let once = smallest(WAITS, "late_runs").text;
    assert_eq!(smallest(&once, "late_runs").text, once);
}

/// A job that no node can hold waits for another reason than a job that waits for another job.
#[test]
fn another_reason_for_the_same_verdict_is_another_failure() {
    let mut rehearser = rehearser();
    let found = rehearser.failures(WAITS).unwrap_or_else(|faults| panic!("{faults}"));
    let wanted = &found.failing[0];
    assert_eq!((&*wanted.name, found.holding.len()), ("late_runs", 1));
    let mut tried = |from: &str, to: &str| rehearser.still_fails(&WAITS.replace(from, to), wanted, 100_000);
    assert_eq!(tried("late, at: 7m, gpus: 1", "late, at: 7m, gpus: 1, os: darwin"), CandidateResult::Otherwise);
    assert_eq!(tried("duration: 70m", "duration: 10m"), CandidateResult::Otherwise);
    assert_eq!(tried("duration: 70m", "duration: 80m"), CandidateResult::Same);
    assert_eq!(tried("name: late_runs", "name: runs"), CandidateResult::Otherwise);
    assert_eq!(tried("cpu-04", "cpu-4"), CandidateResult::Invalid);
}

/// A run with too many records is stopped, and only this candidate counts as not failing in the same way.
#[test]
fn a_candidate_that_runs_away_is_not_taken() {
    let mut rehearser = rehearser();
    let found = rehearser.failures(WAITS).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(rehearser.still_fails(WAITS, &found.failing[0], found.records + 1), CandidateResult::Same);
    assert_eq!(rehearser.still_fails(WAITS, &found.failing[0], 20), CandidateResult::Otherwise);
    assert_eq!(rehearser.still_fails(WAITS, &found.failing[0], u64::MAX), CandidateResult::Same);
}

/// By hand: the last of `n` jobs waits `n - 1` hours, because each job takes an hour on the only GPU.
#[test]
fn a_pattern_is_lowered_by_bisection() {
    let text = "\
scenario: A queue that is too long
nodes: [{name: alpha, gpus: 1, gpu: l4}]
jobs: [{name: j, count: 400, gpus: 1, duration: 1h}]
expect: [{name: short, metric: max(queue_wait) < 30h}]
";
    let found = smallest(text, "short");
    assert_eq!(found.text, text.replace("400", "31"));
    // The bisection takes nine runs, and about as many runs leave out parts.
    assert!(found.runs <= 40, "{}", found.runs);
}

#[test]
fn the_limit_on_runs_is_kept_and_said() {
    let mut runs = 0;
    let mut still_fails = |_: &str| {
        runs += 1;
        CandidateResult::Same
    };
    let found =
        minimize(WAITS, &mut still_fails, Limits { runs: Some(3), ..Limits::default() }, &MinimizeProgress::default())
            .expect("it is YAML");
    assert_eq!((found.runs, found.is_cut_short), (3, true));
    assert_eq!(runs, 3);
}

/// By hand: the two profiles differ in whether they notice that alpha is not ready, so this fact stays.
#[test]
fn what_only_one_profile_does_wrong_stays_wrong_in_that_one_alone() {
    let text = "\
scenario: A node that is not ready is not chosen
profile: gpustack-0.5-dev
nodes:
  - {name: alpha, machine: a100-80g-x2, state: not_ready}
  - {name: beta, machine: a100-80g-x2}
jobs:
  - {name: chat, gpus: [alpha/0, beta/0]}
until: 5m
expect:
  - {name: never_on_alpha, job: chat, never: placed, on: alpha}
";
    let mut rehearser = rehearser();
    rehearser.holds_under = Some("gpustack".to_string());
    let found = rehearser.failures(text).unwrap_or_else(|faults| panic!("{faults}"));
    let wanted = &found.failing[0];
    assert_eq!(rehearser.still_fails(text, wanted, 100_000), CandidateResult::Same);
    let ready = text.replace(", state: not_ready", "");
    assert_eq!(rehearser.still_fails(&ready, wanted, 100_000), CandidateResult::Otherwise);
    assert!(!rehearser.holds(&ready, wanted, "gpustack", 100_000));
}
