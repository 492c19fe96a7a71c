//! The causes to which a run charges its waiting time. The shares are computed on paper.

use crate::cli::{stdout, written};

trials! {
    Nothing: [
        time_is_charged_to_what_would_have_ended_the_wait,
        waits_of_jobs_that_can_never_run_are_not_charged,
    ]
}

/// A title, a scenario without its first lines, and the shares of the causes.
const CASES: [(&str, &str, &str); 8] = [
    // `head` waits 1 h for GPUs. `small` fits in the first hour, before `head` takes all GPUs for another. `medium` fits
    // in the second half of the first hour. So 1 h + 0.5 h of 5 h are for the order.
    (
        "A job behind the head waits for its turn only while it would fit",
        "nodes: [{name: n, machine: a100-80g-x8}]
jobs:
  - {name: short, gpus: 4, cpus: 1, duration: 30m}
  - {name: long, gpus: 2, cpus: 1, duration: 1h}
  - {name: head, gpus: 8, cpus: 1, duration: 1h}
  - {name: small, gpus: 2, cpus: 1, duration: 1h}
  - {name: medium, gpus: 4, cpus: 1, duration: 1h}
",
        "70% insufficient_gpus, 30% queue_order",
    ),
    // `head` waits 1 h for GPUs. `small` would fit on `late` if it were ready, and does so for the second half hour. Under
    // fifo-skipping, it starts at 30 min and has waited for `late` to be ready.
    (
        "A node that becomes ready has room at once",
        "nodes: [{name: n, machine: a100-80g-x8}, {name: late, machine: l4-x1, state: not_ready}]
faults: [{at: 30m, node: late, becomes: ready}]
jobs:
  - {name: long, gpus: 8, cpus: 1, duration: 1h}
  - {name: head, gpus: 8, cpus: 1, duration: 1h}
  - {name: small, gpus: 1, cpus: 1, duration: 1h}
",
        "50% insufficient_gpus, 25% node_not_ready, 25% queue_order",
    ),
    // For an hour, two cores and two GPUs are free. `head` wants four of each, and `small` four cores.
    (
        "Two resources that are short at once are one cause",
        "nodes: [{name: n, cpus: 8, ram: 64GiB, gpus: [{type: a, memory: 80GiB, count: 8}]}]
jobs:
  - {name: long, gpus: 6, cpus: 6, duration: 1h}
  - {name: head, gpus: 4, cpus: 4, duration: 1h}
  - {name: small, gpus: 1, cpus: 4, duration: 1h}
",
        "50% insufficient_cpu, 50% insufficient_gpus+insufficient_cpu",
    ),
    // Two nodes have room for a task each, and the third for none. More GPUs on the third would have ended the wait.
    (
        "A gang with room for some of its tasks waits for what the others lack",
        "nodes: [{name: n, count: 3, machine: a100-80g-x8}]
jobs:
  - {name: long, gpus: 8, cpus: 1, duration: 1h}
  - {name: gang, tasks: 3, gpus: 8, cpus: 1, duration: 1h}
",
        "100% insufficient_gpus",
    ),
    // All wait for ten hours, and only because no node is ready.
    (
        "Nobody waits for a turn while no node is ready",
        "nodes: [{name: n, count: 2, cpus: 8, state: not_ready}]
faults: [{at: 10h, node: n-0, becomes: ready}, {at: 10h, node: n-1, becomes: ready}]
jobs: [{name: job, count: 16, cpus: 1, duration: 1h}]
",
        "100% node_not_ready",
    ),
    // Each of the four would fit on `twin` for the hour for which it waits.
    (
        "A node in maintenance that would have had the room is the cause",
        "nodes: [{name: n, machine: a100-80g-x8}, {name: twin, machine: a100-80g-x8, state: maintenance}]
faults: [{at: 1h, node: twin, becomes: ready}]
jobs:
  - {name: long, gpus: 8, cpus: 1, duration: 1h}
  - {name: small, count: 4, gpus: 2, cpus: 1, duration: 1h}
",
        "100% node_maintenance",
    ),
    // Neither fits on `n`. `head` and `behind` fit on `large`, once it is ready.
    (
        "A node that is too small is not the cause if a larger one is not ready",
        "nodes: [{name: n, cpus: 8}, {name: large, cpus: 32, state: maintenance}]
faults: [{at: 1h, node: large, becomes: ready}]
jobs: [{name: head, cpus: 16, duration: 1h}, {name: behind, cpus: 12, duration: 1h}]
",
        "100% node_maintenance",
    ),
    // From 30 min on: `head` waits 0.5 h, `small` and `medium` 1 h each for GPUs, and 0.5 h each for their turn.
    (
        "The time of a warm-up does not count",
        "warm_up: 30m
nodes: [{name: n, machine: a100-80g-x8}]
jobs:
  - {name: short, gpus: 4, cpus: 1, duration: 30m}
  - {name: long, gpus: 2, cpus: 1, duration: 1h}
  - {name: head, gpus: 8, cpus: 1, duration: 1h}
  - {name: small, gpus: 2, cpus: 1, duration: 1h}
  - {name: medium, gpus: 4, cpus: 1, duration: 1h}
",
        "71% insufficient_gpus, 29% queue_order",
    ),
];

/// `never` asks for more GPUs than the node has. Only `head` counts, although it too still waits at the end.
fn waits_of_jobs_that_can_never_run_are_not_charged() {
    let scenario = "\
scenario: A job that can never run waits behind one that can
profile: fifo
until: 5h
unplaced: ignore
nodes: [{name: n, machine: a100-80g-x8}]
jobs:
  - {name: long, gpus: 8, cpus: 1, duration: 10h}
  - {name: head, at: 1h, gpus: 8, cpus: 1, duration: 1h}
  - {name: never, at: 1h, gpus: 16, cpus: 1, duration: 1h}
";
    let dir = written(&[("s.yaml", scenario)]);
    let text = stdout(dir.path(), &["run", "s.yaml", "--report", "r"], 0);
    assert!(text.contains("1 of 3 jobs can never run: "), "{text}");
    assert!(text.contains("because    100% insufficient_gpus; without jobs that can never run\n"), "{text}");
    let json = std::fs::read_to_string(dir.path().join("r/report.json")).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["waited_seconds_by_reason"], serde_json::json!({"insufficient_gpus": 4.0 * 3600.0}));
}

fn time_is_charged_to_what_would_have_ended_the_wait() {
    for (title, rest, shares) in CASES {
        let scenario = format!("scenario: {title}\nprofile: fifo\n{rest}");
        let dir = written(&[("s.yaml", &scenario)]);
        let text = stdout(dir.path(), &["run", "s.yaml"], 0);
        assert!(text.contains(&format!("because    {shares}\n")), "{title}: expected {shares}\n{text}");
    }
}
