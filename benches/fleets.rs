//! Measures decisions about blocks: instances of 8 blocks at 90 % load, with jobs of one block and jobs of two whole
//! instances.
//!
//! `cargo bench --bench fleets` runs a million jobs on 100, 1,000 and 10,000 instances, and prints the mean time of a
//! decision. This time includes all related work: the queue, the loops over runs and the ledger. With two numbers
//! (instances and jobs) it runs only that case, so that `valgrind --tool=callgrind --toggle-collect='*measured*'` can
//! count instructions. The results are in `benches/README.md`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use dryrack_engine::{Rehearsal, RunOptions, run};
use dryrack_event::{Event, Input, Sink};
use dryrack_scenario::{Options, load_text};
use dryrack_units::SimTime;

const JOBS: u64 = 1_000_000;

/// One job in a hundred takes two whole instances, so jobs take 1.15 blocks on average. Jobs run for an hour on
/// average.
fn scenario(instances: u64, jobs: u64) -> String {
    let gangs = jobs / 100;
    // The arrivals per hour that keep 90 % of the 8 blocks of each instance busy, with jobs of 1.15 blocks.
    let per_hour = |part: u64| instances * 720 * part / 115 / 100;
    format!(
        "scenario: Many instances of blocks at 90 % load
profile: dstack
fleets:
  lab: {{placement: cluster, blocks: 8, disk: 500GiB, hosts: [{{name: h, machine: a100-80g-x8, count: {instances}}}]}}
jobs:
  - {{name: single, count: {}, arrivals: {{poisson: {}/h}}, duration: {{exponential: 1h}}, resources: {{gpu: 1}},
     retry: {{on: no_capacity, for: 1000h}}}}
  - {{name: gang, count: {gangs}, arrivals: {{poisson: {}/h}}, duration: {{exponential: 1h}}, resources: {{gpu: 8}},
     nodes: 2, retry: {{on: no_capacity, for: 1000h}}}}
",
        jobs - gangs,
        per_hour(99),
        per_hour(1).max(1),
    )
}

#[derive(Default)]
struct Decisions {
    placed: u64,
    held: u64,
}

impl Sink for Decisions {
    fn input(&mut self, _step: u64, _at: SimTime, _input: &Input) {}

    fn event(&mut self, _step: u64, _at: SimTime, event: &Event) {
        match event {
            Event::Placed { .. } => self.placed += 1,
            Event::Held { .. } => self.held += 1,
            _ => {}
        }
    }
}

#[inline(never)]
fn measured(rehearsal: &Rehearsal, decisions: &mut Decisions) {
    run(rehearsal, RunOptions::default(), &mut [decisions]);
}

#[expect(clippy::disallowed_methods, reason = "what is measured is how long it takes")]
fn one(instances: u64, jobs: u64) -> Result<(), String> {
    let text = scenario(instances, jobs);
    let loaded =
        load_text("bench.yaml", &text, Path::new(""), &Options::default()).map_err(|faults| faults.to_string())?;
    let mut decisions = Decisions::default();
    let began = Instant::now();
    measured(&loaded.rehearsal, &mut decisions);
    let took = began.elapsed();
    let Decisions { placed, held } = decisions;
    if placed < jobs {
        return Err(format!("only {placed} of {jobs} jobs were placed"));
    }
    let each = took.as_secs_f64() * 1e6 / placed as f64;
    println!("{instances:>9} {jobs:>9} {placed:>9} {held:>9} {:>8.1} s {each:>8.1} us", took.as_secs_f64());
    Ok(())
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|typed| typed.parse().ok()).collect();
    println!("instances      jobs    placed   refused      time  decision");
    let ran = match numbers.as_slice() {
        [instances, jobs] => one(*instances, *jobs),
        _ => [100, 1_000, 10_000].into_iter().try_for_each(|instances| one(instances, JOBS)),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}
