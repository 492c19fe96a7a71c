//! Runs two jobs on a fleet of one node, and prints what happened: `cargo run --example quickstart`.

use dryrack::prelude::*;

pub fn main() {
    let outcome = Simulation::builder()
        .node(Node::new("alpha").machine("a100-80g-x8"))
        .job(Job::new("train").gpus(8).duration("1h"))
        .job(Job::new("chat").at("1m").gpus(1).duration("10m"))
        .expect("p95(queue_wait) <= 1h")
        .run()
        .unwrap_or_else(|error| panic!("{error}"));
    for replica in outcome.replicas() {
        let placed = replica.placed.map_or("never".to_string(), |at| at.to_string());
        println!(
            "{}: submitted at {}, placed at {placed} on {}",
            replica.job,
            replica.submitted,
            replica.nodes.join(", ")
        );
    }
    println!("GPUs were allocated for {:.0}% of the time", 100.0 * outcome.metric("gpu_allocated").unwrap_or(0.0));
    assert!(outcome.passed());
}
