use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::*;

fn loaded(text: &str) -> Loaded {
    load_text("test.yaml", text, Path::new(""), &Options::default()).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn the_scenario_of_the_design_is_read() {
    let text = "\
scenario: A worker that is not ready is never chosen, by hand or automatically
report: gpustack#1548
seed: 7
nodes:
  - {name: alpha, machine: a100-80g-x2, state: not_ready}
  - {name: beta,  machine: a100-80g-x2}
  - {name: studio, machine: m2-ultra-192g, os: darwin}
jobs:
  - {name: chat, at: 10s, gpus: [alpha/0, beta/0]}
faults:
  - {at: 5m, node: alpha, becomes: ready}
expect:
  - {name: never_on_alpha, job: chat, never: placed, on: alpha, until: 5m}
  - {name: says_why,       job: chat, at: 1m, is: pending, because: node_not_ready}
  - {name: recovers,       job: chat, is: running, by: 8m}
reproduces:
  - profile: gpustack-0.5-dev
    fails: [never_on_alpha]
    and: [{job: chat, is: scheduled, on: alpha, from: 20s, for: 4m}]
";
    let loaded = loaded(text);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    assert_eq!(loaded.rehearsal.nodes.len(), 3);
    assert_eq!(loaded.rehearsal.source, text);
    assert_eq!(loaded.expectations.len(), 3);
    assert_eq!(loaded.expectations[1].place.line, 14);
    assert_eq!(loaded.reproductions[0].and.len(), 1);
}

#[test]
fn a_number_of_gpus_is_one_though_a_node_is_called_by_it() {
    let text = "\
scenario: Nodes called by numbers
nodes: [{name: 1, machine: a100-80g-x2}, {name: 2, machine: a100-80g-x2}]
jobs: [{name: counted, gpus: 1}, {name: picked, gpus: [1/0]}, {name: placed, gpus: 2, on: 2}]
";
    let loaded = loaded(text);
    let demand = |job: usize| &loaded.rehearsal.arrivals[job].spec.demand;
    let count = |job: usize| demand(job).gpus().map(|gpus| gpus.count);
    assert_eq!((count(0), demand(0).pick.is_none()), (Some(1), true));
    assert_eq!((count(1), demand(1).pick.is_some()), (Some(1), true));
    assert_eq!(count(2), Some(2));
}

fn roots() -> dryrack_trace::Roots {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    dryrack_trace::Roots { carried: Some(folder.join("traces")), ..dryrack_trace::Roots::default() }
}

/// The Gaia trace as its notes and header describe it: 51,987 jobs, of which 28 have a negative run time, and 2,004
/// cores on 151 nodes.
#[test]
fn gaia_becomes_gangs_of_cores_on_the_nodes_of_the_file() {
    let text = "\
scenario: Gaia
profile: fifo
nodes:
  - {name: fourteen, count: 41, cpus: 14}
  - {name: thirteen, count: 110, cpus: 13}
trace: gaia
expect:
  - {name: all, count: submitted, is: 51959}
";
    let options = Options { roots: roots(), ..Options::default() };
    let loaded = load_text("test.yaml", text, Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"));
    let rehearsal = &loaded.rehearsal;
    assert_eq!((rehearsal.nodes.len(), rehearsal.arrivals.len()), (151, 51_959));
    let cores: u64 = rehearsal.nodes.iter().map(|node| node.spec.shape.cpu.get() / 1000).sum();
    assert_eq!(cores, 2_004);
    assert!(rehearsal.arrivals.is_sorted_by_key(|arrival| arrival.at));
    let first = &rehearsal.arrivals[0];
    assert_eq!((first.spec.demand.tasks, first.spec.queue.as_deref()), (160, Some("default")));
    assert_eq!(first.recorded_wait, Some(dryrack_units::SimDuration::from_secs(477_768)));
    let interactive = rehearsal.arrivals.iter().filter(|arrival| arrival.spec.queue.as_deref() == Some("interactive"));
    assert_eq!(interactive.count(), 1_850);
}

thread_local! {
    /// Each kind of map that was read, with the keys that the reader knows for it.
    static READ: std::cell::RefCell<BTreeMap<&'static str, BTreeSet<String>>> = std::cell::RefCell::default();
}

pub(super) fn note(what: &'static str, known: &[&str]) {
    READ.with_borrow_mut(|read| read.entry(what).or_default().extend(known.iter().map(|key| key.to_string())));
}

/// Keys and kinds of maps that no scenario and no broken file has.
const RARE: &str = "\
scenario: Every kind of map
outside: {command: [true]}
nodes: [{name: a, machine: l4-x1}]
jobs:
  - {name: b, gpus: 1, count: 2, duration: {weibull: {shape: 1, scale: 1h}}, arrivals: {daily: {mean: 1/h}}, until: 1d}
  - {name: c, gpus: 1, count: 2, duration: {uniform: {from: 1h, to: 2h}}, retry: {limit: 3}, checkpoint: {every: 1m}}
  - {name: d, gpus: 1, duration: {lognormal: {median: 1h, sigma: 1}}}
  - {name: e, gpus: 1, count: 2, until: 1d, arrivals: {bursty: {quiet: 1/h, quiet_for: 1h, busy: 2/h, busy_for: 1h}}}
  - {name: f, gpus: 1, count: 2, arrivals: {every: 1h, batch: {uniform: {from: 1, to: 2}}}}
  - {name: g, gpus: 1, replicas: {min: 1, max: 2}, scaling: {metric: rps, target: 10}, requests: [{at: 0s, rps: 8}]}
  - name: h
    gpus: 1
    serving:
      table: {file: none.csv, gpu: l4}
      kv_cache_tokens: 1000
      max_sequences: 1
      max_batched_tokens: 1000
      requests: {rps: 1, for: 1h, input_tokens: 1, output_tokens: 1}
changes: [{at: 1h, job: d, replicas: 2}]
trace: {file: none.csv, format: csv, resample: {block: 1d}}
";

#[test]
fn the_schema_has_every_key_that_the_reader_knows_and_no_other() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let _read = load_text("rare.yaml", RARE, Path::new(""), &Options::default());
    for folder in [
        "scenarios/basics",
        "scenarios/dstack",
        "scenarios/hardware",
        "scenarios/kubernetes",
        "scenarios/live",
        "scenarios/live-gpu",
        "scenarios/operations",
        "scenarios/serving",
        "tests/it/broken",
    ] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten() {
            check(&entry.unwrap().path(), &Options { roots: roots(), ..Options::default() });
        }
    }
    let read = READ.take();
    let mut left: BTreeSet<&str> = read.keys().copied().collect();
    for shape in schema::shapes().filter(|shape| !shape.called.is_empty()) {
        let known: BTreeSet<&str> =
            shape.called.iter().flat_map(|called| read.get(called).into_iter().flatten()).map(String::as_str).collect();
        // `in` is removed before expectations are read.
        let taken = ["in"].into_iter().filter(|_| shape.name == "expectation");
        let known: Vec<&str> = known.into_iter().chain(taken).collect::<BTreeSet<_>>().into_iter().collect();
        assert_eq!(shape.keys(), known, "keys of {}", shape.name);
        shape.called.iter().for_each(|called| assert!(left.remove(called), "no file has {called}"));
    }
    // The schema does not cover dstack's own files.
    left.retain(|called| !called.ends_with(" of dstack") && !called.contains("SSH"));
    assert!(left.is_empty(), "the schema knows nothing of {left:?}");
}
