//! Registers stages, a policy rule and a metric, and runs a scenario that uses them by name:
//! `cargo run --example own_stages`.

use std::path::Path;

use dryrack::own::{
    NodeView, RequestView, Row, WaitingView, Window, register_filter, register_metric, register_order,
    register_policy_rule, register_scorer,
};
use dryrack::prelude::*;

/// Prefers nodes whose price per GPU and hour is low.
fn cheap_gpus(node: &NodeView<'_>, _: &RequestView<'_>) -> f64 {
    match (node.price_per_hour(), node.gpus()) {
        (Some(price), gpus) if gpus > 0 => 1.0 / (1.0 + price / f64::from(gpus)),
        _ => 0.0,
    }
}

/// Keeps gangs off nodes that a cloud may take away (spot nodes), or that have the label `spot: yes`.
fn fragile(node: &NodeView<'_>, job: &RequestView<'_>) -> bool {
    job.tasks() > 1 && (node.is_spot() || node.label("spot") == "yes")
}

/// Orders jobs by their expected GPU time, the smallest first: estimate times number of tasks.
fn least_area(job: &WaitingView) -> f64 {
    job.estimate().unwrap_or(f64::INFINITY) * f64::from(job.tasks())
}

/// Holds if the mean of all readings in the window is below the minimum, even if single readings are above it.
fn low_mean(window: &Window<'_>) -> bool {
    let readings: Vec<u64> = (0..window.gpus())
        .flat_map(|gpu| window.readings(gpu).flatten().map(|reading| u64::from(reading.get())))
        .collect();
    let least = u64::from(window.policy().min_gpu_utilization.get());
    readings.iter().sum::<u64>() < least * readings.len() as u64
}

/// The share of all replicas that started within a minute.
fn started_within_a_minute(rows: &[Row<'_>]) -> Option<f64> {
    let soon = |row: &&Row<'_>| row.started.is_some_and(|at| at.since(row.wanted) <= SimDuration::from_secs(60));
    let count = rows.iter().filter(soon).count();
    (!rows.is_empty()).then(|| count as f64 / rows.len() as f64)
}

pub fn main() {
    register_scorer("cheap_gpus", cheap_gpus).expect("the name is free");
    register_filter("fragile", fragile).expect("the name is free");
    register_order("least_area", least_area).expect("the name is free");
    register_policy_rule("low_mean", low_mean).expect("the name is free");
    let meaning = "part of all replicas that started within a minute";
    register_metric("started_within_a_minute", meaning, started_within_a_minute).expect("the name is free");

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/own_stages.yaml");
    let simulation = Simulation::from_file(file).unwrap_or_else(|error| panic!("{error}"));
    let outcome = simulation.run();
    for verdict in outcome.verdicts() {
        println!("{} {}: {}", if verdict.passed { "ok  " } else { "FAIL" }, verdict.name, verdict.happened);
    }
    assert!(outcome.passed());
}
