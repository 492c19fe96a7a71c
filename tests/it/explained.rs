//! What `explain` and a failed expectation say about a job that passed the head of the queue.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{empty, stdout, written};

trials! {
    Nothing: [
        what_passed_the_head_is_explained,
        the_job_ahead_is_named_beside_the_smallest_change,
        who_holds_the_turns_of_an_array_is_named,
        each_node_of_two_partitions_counts_once,
        a_partition_that_does_not_allow_the_job_says_why,
        a_wait_is_told_what_ends_it_and_not_the_most_frequent_reason,
        a_wait_for_gpus_and_cpus_does_not_blame_the_cpus_alone,
        a_change_that_is_proposed_can_be_made,
        every_node_counts_once_beside_a_reservation,
        no_place_is_named_while_a_rule_holds_a_job,
        the_time_of_an_explanation_is_the_one_asked_for,
        a_node_that_would_take_a_task_of_a_gang_is_not_said_to_refuse_because_it_fits,
        a_node_counts_once_for_a_reason_and_its_taints_are_named,
        an_evaluation_is_not_explained_by_what_became_of_the_job,
        an_evicted_workload_is_examined_without_its_last_flavor,
        a_gpu_that_is_promised_is_not_said_to_be_in_use,
    ]
}

/// Both nodes have one GPU. `wide` needs both, so it waits until `a` ends after a minute. `small` ends before that, so
/// it starts on the other node at once, or when backfilling runs next.
fn backfilled(profile: &str) -> String {
    format!(
        "scenario: One that passes the head of the queue\n\
         profile: {profile}\n\
         nodes: [{{name: n, count: 2, gpus: 1, gpu: l4}}]\n\
         jobs:\n  \
         - {{name: a, gpus: 1, duration: 1m, estimate: 1m}}\n  \
         - {{name: wide, tasks: 2, gpus: 1, duration: 1m, estimate: 1m}}\n  \
         - {{name: small, gpus: 1, duration: 10s, estimate: 10s}}\n\
         expect: [{{job: small, never: placed}}]\n"
    )
}

fn write(dir: &Path, profile: &str) {
    std::fs::write(dir.join("backfilled.yaml"), backfilled(profile)).expect("a folder of our own");
}

const PROFILES: [&str; 4] = ["easy", "conservative", "slurm-22.05", "rlscheduler-fcfs-backfill"];

fn what_passed_the_head_is_explained() {
    for profile in PROFILES {
        let dir = empty();
        write(dir.path(), profile);
        stdout(dir.path(), &["run", "backfilled.yaml", "--out", "."], 1);
        let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "small", "--at", "5s"], 0);
        assert!(said.contains("why here: placed on n-1/0 at "), "{profile}: {said}");
        let said = stdout(dir.path(), &["test", "backfilled.yaml"], 1);
        assert!(said.contains("1 failed") && !said.contains("internal error"), "{profile}: {said}");
    }
}

/// `small` waits for 4 GPUs, and behind `head`, which waits for both nodes. With 4 GPUs free it would wait too: it would still
/// run when `head` is to begin.
fn the_job_ahead_is_named_beside_the_smallest_change() {
    for (free, change) in
        [(2, "smallest change: n-1 would fit with 4 GPUs free instead of 2; "), (4, "it would fit now")]
    {
        let dir = empty();
        let scenario = format!(
            "scenario: One behind the head of the queue\nprofile: easy\nnodes: [{{name: n, count: 2, machine: a100-80g-x8}}]\njobs:\n  \
             - {{name: runs, gpus: 8, duration: 4h, estimate: 4h}}\n  \
             - {{name: part, gpus: {}, duration: 5h, estimate: 5h}}\n  \
             - {{name: head, at: 10m, tasks: 2, gpus: 8, gang: spread, duration: 1h, estimate: 1h}}\n  \
             - {{name: small, at: 20m, gpus: 4, duration: 3h, estimate: 6h}}\n",
            8 - free
        );
        std::fs::write(dir.path().join("s.yaml"), scenario).expect("a folder of our own");
        stdout(dir.path(), &["run", "s.yaml", "--out", "."], 0);
        let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "small", "--at", "1h"], 0);
        assert!(said.contains("  waits behind head, which is held since 10m: "), "{said}");
        assert!(said.contains(change), "{said}");
        assert_eq!(said.contains("even then, it may have to wait behind head\n"), free == 2, "{said}");
        let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "head", "--at", "1h"], 0);
        assert!(!said.contains("behind"), "{said}");
    }
}

fn who_holds_the_turns_of_an_array_is_named() {
    let dir = empty();
    let scenario = "scenario: An array with a limit\n\
         nodes: [{name: n, cpus: 8}]\n\
         jobs: [{name: sweep, array: \"1-5%2\", cpus: 1, duration: 5m}]\n\
         expect: [{job: sweep_4, is: pending, because: job_array_task_limit, at: 1m}]\n";
    std::fs::write(dir.path().join("array.yaml"), scenario).expect("a folder of our own");
    stdout(dir.path(), &["run", "array.yaml", "--out", "."], 0);
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "sweep_4", "--at", "1m"], 0);
    assert!(said.contains("waits for a turn, which sweep_1, sweep_2 hold\n"), "{said}");
}

/// `both` is in both partitions, `urgent` only in the one that goes first. Every node is busy.
const SHARED_NODES: &str = "\
scenario: Two partitions that share two nodes
profile: slurm-22.05-builtin
slurm:
  partitions:
    - {name: all, nodes: [n1, n2, n3], default: true}
    - {name: high, nodes: [n1, n2], priority_tier: 5}
nodes: [{name: n1, cpus: 8}, {name: n2, cpus: 8}, {name: n3, cpus: 8}]
jobs:
  - {name: busy, count: 3, cpus: 8, estimate: 1h, duration: 30m}
  - {name: urgent, at: 1m, cpus: 8, partition: high, estimate: 1h, duration: 4m}
  - {name: both, at: 2m, cpus: 8, partition: \"all,high\", estimate: 1h, duration: 4m}
expect: [{job: both, is: running, by: 1h}]
";

/// Why the job `both` of a scenario waits at 5 min.
fn both_at_five_minutes(scenario: &str) -> String {
    let dir = empty();
    std::fs::write(dir.path().join("two.yaml"), scenario).expect("a folder of our own");
    stdout(dir.path(), &["run", "two.yaml", "--out", "."], 0);
    stdout(dir.path(), &["explain", "events.jsonl", "--job", "both", "--at", "5m"], 0)
}

fn each_node_of_two_partitions_counts_once() {
    let said = both_at_five_minutes(SHARED_NODES);
    assert!(said.contains("held           2 held_for_priority, 1 insufficient_cpu\n"), "{said}");
}

/// `both` is too long for `short`, and waits for the node of `batch`. `n4` is in no partition.
const ONE_TOO_SHORT: &str = "\
scenario: A job that is too long for one of its partitions
profile: slurm-22.05-builtin
slurm:
  partitions:
    - {name: batch, nodes: [n1], default: true}
    - {name: short, nodes: [n2, n3], priority_tier: 2, max_time: 10m}
nodes: [{name: n1, cpus: 8}, {name: n2, cpus: 8}, {name: n3, cpus: 8}, {name: n4, cpus: 8}]
jobs:
  - {name: first, cpus: 8, estimate: 1h, duration: 30m}
  - {name: both, at: 1m, cpus: 8, partition: \"batch,short\", estimate: 1h, duration: 4m}
expect: [{job: both, is: running, by: 1h}]
";

fn a_partition_that_does_not_allow_the_job_says_why() {
    let said = both_at_five_minutes(ONE_TOO_SHORT);
    for line in [
        "      2 nodes  partition_time_limit     PartitionTimeLimit: its time limit exceeds that of its partition\n",
        "      1 node   insufficient_cpu         too little CPU is free\n",
        "      1 node   partition_mismatch       outside the partition in which the job was tried\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

/// `wide` needs the memory of two nodes, and the partition has one.
const CHANGES: &str = "\
scenario: Nodes outside what the jobs ask for
profile: slurm-22.05-builtin
slurm: {partitions: [{name: one, nodes: [n1], default: true}]}
nodes: [{name: n1, cpus: 8, ram: 8GiB}, {name: n2, cpus: 8, ram: 8GiB}]
jobs:
  - {name: wide, tasks: 2, cpus: 4, ram: 8GiB, estimate: 1h, duration: 1m}
unplaced: ignore
expect: [{job: wide, is: never_fits, by: 0s}]
";

const PICKED: &str = "\
scenario: A node that is picked by hand and busy
profile: fifo
nodes: [{name: n1, cpus: 8}, {name: n2, cpus: 8}]
jobs:
  - {name: busy, cpus: 8, on: [n1], duration: 2h}
  - {name: picks, cpus: 8, on: [n1], duration: 1m}
until: 1h
expect: [{job: picks, is: pending, until: 1h}]
";

fn a_change_that_is_proposed_can_be_made() {
    let dir = empty();
    let change = |scenario: &str, job: &str, at: &str| {
        std::fs::write(dir.path().join("s.yaml"), scenario).expect("a folder of our own");
        stdout(dir.path(), &["run", "s.yaml", "--out", "."], 0);
        let line = ["explain", "events.jsonl", "--job", job, "--at", at, "--format", "json"];
        let said: serde_json::Value = serde_json::from_str(&stdout(dir.path(), &line, 0)).expect("JSON");
        said["now"]["least_change"].as_str().map(str::to_string)
    };
    let expected = "n2 would fit a task as a node of the partition in which the job was tried";
    assert_eq!(change(CHANGES, "wide", "1m").as_deref(), Some(expected));
    assert_eq!(change(PICKED, "picks", "1m").as_deref(), Some("n1 would fit with 8 CPU free instead of 0"));
    // A limit refuses it, and there is room.
    assert_eq!(change(ONE_TOO_SHORT, "both", "5m"), None);
}

/// What `explain --format json` says of a job of a scenario.
fn said_as_json(scenario: &str, job: &str, at: &str) -> Value {
    let dir = empty();
    std::fs::write(dir.path().join("s.yaml"), scenario).expect("a folder of our own");
    stdout(dir.path(), &["run", "s.yaml", "--out", "."], 0);
    let line = ["explain", "events.jsonl", "--job", job, "--at", at, "--format", "json"];
    serde_json::from_str(&stdout(dir.path(), &line, 0)).expect("JSON")
}

/// Why a job is held, each reason with its count of nodes.
fn held(said: &Value) -> BTreeMap<&str, u64> {
    let reasons = said["held"]["reasons"].as_array().expect("it is held").iter();
    reasons.map(|one| (one[0].as_str().expect("a name"), one[1].as_u64().expect("a count"))).collect()
}

/// Two of four nodes are reserved from 30 min on, and every job but `runs` would overlap that.
const RESERVED: &str = "\
scenario: Nodes that are reserved
profile: slurm-22.05-builtin
slurm: {reservations: [{name: kept, start: 30m, duration: 1h, nodes: [n3, n4], users: [root]}]}
nodes: [{name: n1, cpus: 8}, {name: n2, cpus: 8}, {name: n3, cpus: 8}, {name: n4, cpus: 16}]
jobs:
  - {name: runs, cpus: 8, on: n1, estimate: 20m, duration: 20m}
  - {name: wide, tasks: 3, gang: spread, cpus: 8, estimate: 2h, duration: 1m}
  - {name: big, cpus: 16, estimate: 2h, duration: 1m}
  - {name: never, tasks: 2, gang: spread, cpus: 16, estimate: 2h, duration: 1m}
  - {name: pair, at: 1m, tasks: 2, gang: spread, cpus: 8, estimate: 2h, duration: 1m}
unplaced: ignore
until: 10m
expect: [{job: pair, is: pending, until: 10m}]
";

fn every_node_counts_once_beside_a_reservation() {
    let held_at_five = |job: &str| {
        let said = said_as_json(RESERVED, job, "5m");
        (said["held"]["refuse"].as_str().map(str::to_string), format!("{:?}", held(&said)))
    };
    let expected = |refusal: &str, counts: &[(&str, u64)]| {
        (Some(refusal.to_string()), format!("{:?}", counts.iter().copied().collect::<BTreeMap<_, _>>()))
    };
    // n1 is busy, and n2 alone is not enough.
    let wide = [("in_reservation", 2), ("gang_incomplete", 1), ("insufficient_cpu", 1)];
    assert_eq!(held_at_five("wide"), expected("unfit", &wide));
    // Only n4 is large enough.
    assert_eq!(held_at_five("big"), expected("unfit", &[("insufficient_cpu", 3), ("in_reservation", 1)]));
    // It would not fit without the reservation either.
    assert_eq!(held_at_five("never"), expected("never", &[("insufficient_cpu", 3), ("gang_incomplete", 1)]));
    // Either n1 or one of the two reserved nodes would let it start.
    let pair = [("in_reservation", 2), ("insufficient_cpu", 1), ("gang_incomplete", 1)];
    assert_eq!(held_at_five("pair"), expected("unfit", &pair));
}

/// Both nodes are idle.
const RULES: &str = "\
scenario: Jobs that rules hold
profile: slurm-22.05
slurm:
  partitions: [{name: main, default: true, max_time: 1h}]
  qos: [{name: none, max_jobs_per_user: 0}]
  reservations: [{name: kept, start: 30m, duration: 1h, nodes: [n1], users: [ann]}]
nodes: [{name: n1, cpus: 8}, {name: n2, cpus: 8}]
jobs:
  - {name: long, cpus: 8, estimate: 2h, duration: 10m}
  - {name: denied, cpus: 8, qos: none, estimate: 1h, duration: 10m}
  - {name: early, cpus: 8, user: ann, reservation: kept, estimate: 1h, duration: 10m}
  - {name: wide, cpus: 8, tasks: 2, gang: spread, estimate: 1h, duration: 10m}
  - {name: after, cpus: 8, after: {ok: long}, estimate: 1h, duration: 10m}
unplaced: ignore
until: 15m
expect: [{job: long, is: pending, until: 15m}]
";

fn no_place_is_named_while_a_rule_holds_a_job() {
    let because = [
        ("long", "partition_time_limit"),
        ("denied", "qos_max_jobs_per_user"),
        ("early", "reservation"),
        ("wide", "in_reservation"),
        ("after", "dependency"),
    ];
    for (job, reason) in because {
        let said = said_as_json(RULES, job, "5m");
        assert!(held(&said).contains_key(reason), "{job}: {said}");
        let expected = json!({"refuse": "unfit", "reasons": said["held"]["reasons"]});
        assert_eq!(said["now"]["decision"], expected, "{job}");
        assert!(said["now"]["least_change"].is_null(), "{job}");
    }
}

/// No record lies between the last pass, soon after 1m, and 5m.
fn the_time_of_an_explanation_is_the_one_asked_for() {
    let dir = empty();
    std::fs::write(dir.path().join("short.yaml"), ONE_TOO_SHORT).expect("a folder of our own");
    stdout(dir.path(), &["run", "short.yaml", "--out", "."], 0);
    let line = ["explain", "events.jsonl", "--job", "both", "--at", "5m", "--format", "json"];
    let said: serde_json::Value = serde_json::from_str(&stdout(dir.path(), &line, 0)).expect("JSON");
    let last = said["last_record_seconds"].as_f64().expect("a time");
    assert_eq!(said["at_seconds"].to_string(), "300.0");
    assert!((60.0..120.0).contains(&last), "{said}");
}

/// Each node takes two of the four tasks, which need one node. The run ends when it begins, so no time passes.
fn a_node_that_would_take_a_task_of_a_gang_is_not_said_to_refuse_because_it_fits() {
    let dir = empty();
    let scenario = "\
scenario: A gang that needs one node
nodes: [{name: n, count: 2, gpus: 2, gpu: l4}]
jobs: [{name: gang, tasks: 4, gang: strict_pack, gpus: 1, duration: 1m}]
expect: [{job: gang, is: never_fits}]
";
    std::fs::write(dir.path().join("gang.yaml"), scenario).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "gang.yaml", "--out", "."], 0);
    assert!(said.contains("\nallocated  unknown, because no time passed: 4 GPUs, 0 cores on 2 nodes\n"), "{said}");
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "gang"], 0);
    assert!(
        said.contains("\nnode  refused because of  lacks\nn-0   gang_incomplete\nn-1   gang_incomplete\n"),
        "{said}"
    );
}

/// Each node lacks two extended resources. Counts of a reason are counts of nodes.
const LACKS_TWO: &str = "\
scenario: Two nodes lack two resources each
profile: kubernetes-1.35
until: 1m
manifests:
  - {apiVersion: v1, kind: Node, metadata: {name: plain}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}}
  - apiVersion: v1
    kind: Node
    metadata: {name: full}
    spec: {taints: [{key: team, value: ml, effect: NoSchedule}]}
    status: {allocatable: {cpu: 8, memory: 8Gi, pods: 9}, conditions: [{type: DiskPressure, status: \"True\"}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: asks}
    spec: {containers: [{name: c, resources: {limits: {example.com/nic: 2, example.com/fpga: 1}}}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: large}
    spec: {containers: [{name: c, resources: {requests: {cpu: 6}}}]}
";

fn a_node_counts_once_for_a_reason_and_its_taints_are_named() {
    let dir = empty();
    std::fs::write(dir.path().join("lacks.yaml"), LACKS_TWO).expect("a folder of our own");
    stdout(dir.path(), &["run", "lacks.yaml", "--out", "."], 1);
    let text = stdout(dir.path(), &["explain", "events.jsonl", "--job", "asks"], 0);
    assert!(text.contains("held           1 untolerated_taint, 1 insufficient_resource"), "{text}");
    assert!(
        text.contains("plain  insufficient_resource                     example.com/fpga: 0 free, 1 needed; "),
        "{text}"
    );
    let taints = "team=ml:NoSchedule and node.kubernetes.io/disk-pressure:NoSchedule (its condition DiskPressure)";
    let text = stdout(dir.path(), &["explain", "events.jsonl", "--job", "large"], 0);
    assert!(text.contains(&format!("smallest change: full would fit without the taint {taints}")), "{text}");
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "large", "--format", "json"], 0);
    assert!(said.contains("\"team=ml:NoSchedule\""), "{said}");
}

/// Three of four nodes can never serve the job: they are outside its partition, or have GPUs of another type. It waits for
/// the GPU of the fourth.
fn a_wait_is_told_what_ends_it_and_not_the_most_frequent_reason() {
    let slurm = "slurm: {partitions: [{name: p, default: true, nodes: [n-0]}, {name: q, nodes: [n-1, n-2, n-3]}]}\n";
    for (profile, others) in [(format!("slurm-22.05\n{slurm}"), "l4"), ("fifo\n".to_string(), "a100-80g")] {
        let nodes = [("n-0", "l4"), ("n-1", others), ("n-2", others), ("n-3", others)];
        let nodes: Vec<String> = nodes.map(|(name, gpu)| format!("{{name: {name}, gpu: {gpu}, gpus: 1}}")).to_vec();
        let text = format!(
            "scenario: One node of four\nprofile: {profile}until: 30m\nnodes: [{}]\njobs:\n  \
             - {{name: a, gpus: 1, gpu: l4, estimate: 1h, duration: 1h}}\n  \
             - {{name: b, at: 1s, gpus: 1, gpu: l4, estimate: 1h, duration: 1h}}\nexpect: [jobs_submitted >= 2]\n",
            nodes.join(", ")
        );
        let dir = written(&[("one.yaml", &text)]);
        let said = stdout(dir.path(), &["run", "one.yaml"], 0);
        assert!(said.contains("b still waits after 30m: too few GPUs are free"), "{profile}: {said}");
    }
}

/// On each node, two cores and two GPUs are free. `head` needs four of each, so more CPUs alone would not help it.
fn a_wait_for_gpus_and_cpus_does_not_blame_the_cpus_alone() {
    let text = "\
scenario: Two resources are short on each node
profile: fifo
until: 1h
nodes: [{name: n, count: 2, cpus: 8, ram: 64GiB, gpus: [{type: a, memory: 80GiB, count: 8}]}]
jobs:
  - {name: long, count: 2, gpus: 6, cpus: 6, duration: 2h}
  - {name: head, gpus: 4, cpus: 4, duration: 1h}
expect: [jobs_submitted >= 3]
";
    let dir = written(&[("two.yaml", text)]);
    let said = stdout(dir.path(), &["run", "two.yaml", "--out", "."], 0);
    assert!(said.contains("because    100% insufficient_gpus+insufficient_cpu\n"), "{said}");
    assert!(
        said.contains("head still waits after 1h00m: too few GPUs are free, and too little CPU is free\n"),
        "{said}"
    );
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "head"], 0);
    for line in [
        "      2 nodes  insufficient_cpu         too little CPU is free; 2 nodes also lack GPUs\n",
        "n-0   insufficient_cpu    GPUs: 2 free, 4 needed; CPU: 2 free, 4 needed\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    // Kubernetes counts a node under each resource that it lacks.
    stdout(dir.path(), &["run", "two.yaml", "--profile", "kubernetes-1.35", "--out", "."], 0);
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "head"], 0);
    let lines = [
        "      2 nodes  insufficient_cpu         too little CPU is free\n",
        "      2 nodes  insufficient_gpus        too few GPUs are free\n",
    ];
    assert!(lines.iter().all(|line| said.contains(line)), "{said}");
}

/// The evaluation itself says all there is to say, also if another expectation is about the same job.
fn an_evaluation_is_not_explained_by_what_became_of_the_job() {
    let scenario = "scenario: Evaluated\nnodes: [{name: alpha, machine: l4-x1}]\njobs:\n  \
                    - {name: late, at: 5m, gpus: 1, duration: 1h}\nexpect:\n  - {evaluate: late, is: unfit}\n  \
                    - {job: late, is: running, at: 6m}\n";
    let dir = written(&[("one.yaml", scenario)]);
    let said = stdout(dir.path(), &["test", "one.yaml"], 1);
    assert!(said.contains("happened  fits\n  repeat with"), "{said}");
}

/// `first` ran with the flavor of `old`. It would run with that of `new` too, so both nodes lack GPUs.
fn an_evicted_workload_is_examined_without_its_last_flavor() {
    let scenario = "scenario: A workload that was evicted and waits for quota\nprofile: kubernetes-1.35\nuntil: 1h\nkueue:\n  \
                    flavors: [{name: old, labels: {pool: old}}, {name: new, labels: {pool: new}}]\n  cluster_queues: [{name: q, quota: \
                    {old: {gpus: 8}, new: {gpus: 8}}, preemption: {within: LowerPriority}}]\nnodes:\n  \
                    - {name: o, machine: a100-80g-x8, labels: {pool: old}}\n  - {name: n, machine: a100-80g-x8, labels: {pool: new}}\n\
                    jobs:\n  - {name: other, queue: q, gpus: 8, duration: 2h, priority: 5, labels: {pool: new}}\n  \
                    - {name: first, at: 1m, queue: q, gpus: 8, duration: 40m}\n  \
                    - {name: urgent, at: 10m, queue: q, priority: 10, gpus: 8, duration: 10m}\n";
    let said = said_as_json(scenario, "first", "15m");
    assert!(held(&said).contains_key("waiting_for_quota"), "{said}");
    assert_eq!(said["now"]["decision"]["reasons"], json!([["insufficient_gpus", 2]]), "{said}");
}

/// `urgent` needs both nodes, and `low` stops for it. Until then, the GPU of `n-1` is free.
fn a_gpu_that_is_promised_is_not_said_to_be_in_use() {
    let scenario = "scenario: A GPU is promised to a gang\nprofile: priority-preemption\n\
                    nodes: [{name: n, count: 2, gpus: 1, gpu: l4}]\njobs:\n  \
                    - {name: low, gpus: 1, duration: 1h, stop: 20s}\n  \
                    - {name: urgent, at: 10m, tasks: 2, gpus: 1, priority: 10, duration: 10m}\n  \
                    - {name: late, at: 10m5s, gpus: 1, duration: 1m}\n";
    let said = said_as_json(scenario, "late", "10m10s");
    assert_eq!(said["now"]["decision"]["reasons"], json!([["queue_order", 2]]), "{said}");
    assert_eq!(said["now"]["least_change"], "n-0 would fit with 1 GPU free instead of 0", "{said}");
    let nodes = said["now"]["nodes"].as_array().expect("two nodes");
    let short = json!([{"resource": "GPUs", "needed": "1", "free": "0"}]);
    assert_eq!((&nodes[0]["short_of"], &nodes[1]["short_of"]), (&short, &json!([])), "{said}");
}
