//! Tests with small files whose decisions are known by hand.

use std::path::Path;

use super::*;
use dryrack_engine::Progress;
use dryrack_scenario::{Options, load_text};

/// `wide` waits for the GPU that `long` holds. Only `backfill` lets `small` start before `wide`.
const TEXT: &str = "\
scenario: A small job behind a wide one
nodes: [{name: a, gpus: 2, gpu: l4}]
jobs:
  - {name: long, gpus: 1, duration: 1h, time_limit: 1h}
  - {name: wide, at: 1m, gpus: 2, duration: 10m, time_limit: 10m}
  - {name: small, at: 2m, gpus: 1, duration: 10m, time_limit: 10m}
";

fn ran(profile: &str) -> RunDecisions {
    let options = Options { profile: Some(profile.to_string()), ..Options::default() };
    let loaded = load_text("test.yaml", TEXT, Path::new(""), &options);
    let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
    decide(&loaded.rehearsal, loaded.expectations, &Progress::default(), None)
}

#[test]
fn the_first_decision_that_differs_is_about_the_job_that_goes_ahead() {
    let found = first_difference(&ran("fifo"), &ran("first-fit")).expect("they differ");
    assert_eq!(
        (found.of, found.at.to_string().as_str(), found.job.as_str()),
        (DifferenceKind::Decision, "2m", "small")
    );
    let [fifo, first_fit] = &found.sides;
    assert!(fifo.decided.iter().all(|line| !line.contains("placed")), "{fifo:?}");
    assert!(first_fit.decided.iter().any(|line| line.starts_with("2m small placed on a/")), "{first_fit:?}");
}

#[test]
fn a_run_does_not_differ_from_itself() {
    assert_eq!(first_difference(&ran("fifo"), &ran("fifo")), None);
}

/// The Mac has no vLLM, and the two profiles answer differently whether the model fits there.
#[test]
fn an_answer_before_deployment_is_a_decision() {
    let text = "scenario: A question\nnodes: [{name: mac, machine: m2-ultra-192g}]\n\
                expect: [{evaluate: chat, at: 30s, is: fits}]\njobs: [{name: chat, at: 1m, model: qwen3-32b, backend: vllm}]\n";
    let ran = |profile: &str| {
        let options = Options { profile: Some(profile.to_string()), ..Options::default() };
        let loaded = load_text("test.yaml", text, Path::new(""), &options);
        let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
        decide(&loaded.rehearsal, loaded.expectations, &Progress::default(), None)
    };
    let found = first_difference(&ran("gpustack"), &ran("gpustack-0.6.0")).expect("they differ");
    assert_eq!((found.at.to_string().as_str(), found.job.as_str()), ("30s", "chat"));
    assert!(found.sides[1].decided[0].starts_with("30s chat evaluated"), "{found:?}");
}
