//! Measures one decision of the Kubernetes rules on 1,000, 3,000 and 10,000 nodes with ten pods each.
//!
//! `cargo bench --bench kubernetes` prints the table of `benches/README.md`. Each decision examines every node.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dryrack_kubernetes::cluster::{Cluster, PodInfo};
use dryrack_kubernetes::cycle::{Decision, Outcome, Profile, Start, schedule};
use dryrack_kubernetes::devices::Devices;
use dryrack_kubernetes::object::{Node, Pod, ResourceClaim, ResourceSlice, Seconds};
use serde_json::{Value, json};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: [usize; 3] = [1000, 3000, 10_000];
const PODS_PER_NODE: usize = 10;
const ROUNDS: usize = 21;

fn node(number: usize) -> Node {
    let name = format!("node-{number:05}");
    let amounts = json!({"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"});
    read(json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "rack": format!("rack-{}", number / 40),
        }},
        "status": {"allocatable": amounts},
    }))
}

/// Eight devices on two NUMA nodes.
fn slice(number: usize) -> ResourceSlice {
    let name = format!("node-{number:05}");
    let device = |number: usize| json!({"name": format!("gpu-{number}"), "attributes": {"numa": {"int": number / 4}}});
    let devices: Vec<Value> = (0..8).map(device).collect();
    let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
    read(json!({"metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}}))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of this bench")
}

fn pod(name: &str, more: Value) -> Arc<PodInfo> {
    let mut spec = json!({"containers": [{"name": "main", "image": "train:1", "resources": {"requests":
        {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}}}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let pod: Pod = read(json!({"metadata": {"name": name, "uid": name, "labels": {"app": "train"}}, "spec": spec}));
    Arc::new(PodInfo::new(pod))
}

/// Each node has ten pods with four cores. Seven of them have a GPU.
fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new((0..nodes).map(node).collect()).expect("all names differ");
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [
        {"cel": {"expression": "device.driver == \"gpu.example.com\""}}]}});
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "count": 4}});
    let claim: ResourceClaim = read(json!({"metadata": {"name": "claim"}, "spec": {"devices": {"requests": [request],
        "constraints": [{"matchAttribute": "gpu.example.com/numa"}]}}}));
    cluster.devices = Devices::new(vec![read(class)], (0..nodes).map(slice).collect(), vec![claim]);
    for number in 0..nodes {
        let name = Arc::clone(cluster.node(number).name());
        for place in 0..PODS_PER_NODE {
            let gpus = if place < 7 { "1" } else { "0" };
            let requests = json!({"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": gpus});
            let containers = json!([{"name": "main", "resources": {"requests": requests}}]);
            let pod = pod(&format!("pod-{number}-{place}"), json!({"containers": containers}));
            cluster.place(pod, &name, Some(Seconds(place as i64))).expect("the node is there");
        }
    }
    cluster
}

/// A kind of pod, and what must become of it.
struct Case {
    name: &'static str,
    spec: Value,
    fits: bool,
}

fn cases() -> [Case; 4] {
    let same = json!({"matchLabels": {"app": "train"}});
    let spread = |key: &str, when: &str| json!({"maxSkew": 2, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": same});
    let term = json!({"topologyKey": "topology.kubernetes.io/zone", "labelSelector": same});
    let many = json!({"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}});
    [
        Case { name: "one GPU", spec: json!({}), fits: true },
        Case {
            name: "spread and affinity",
            spec: json!({
                "topologySpreadConstraints":
                    [spread("topology.kubernetes.io/zone", "ScheduleAnyway"), spread("rack", "ScheduleAnyway")],
                "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            }),
            fits: true,
        },
        Case {
            name: "device claim",
            spec: json!({"resourceClaims": [{"name": "gpus", "resourceClaimName": "claim"}]}),
            fits: true,
        },
        Case {
            name: "preemption",
            spec: json!({"priority": 1000, "containers": [{"name": "main", "resources": many}]}),
            fits: false,
        },
    ]
}

/// The fastest round, which other load disturbs least, and the median.
fn fastest_and_median(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort();
    [times[0], times[times.len() / 2]].map(|time| time.as_secs_f64() * 1000.0)
}

#[expect(clippy::disallowed_methods, reason = "what is measured is how long it takes")]
fn main() {
    let profile = Profile { percentage_of_nodes_to_score: 100, ..Profile::v1_35() };
    println!("{:<22} {:>7} {:>12} {:>12}", "pod", "nodes", "fastest", "median");
    for nodes in NODES {
        let mut cluster = cluster(nodes);
        for case in cases() {
            let incoming = pod("incoming", case.spec);
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let began = Instant::now();
                let decision: Decision = black_box(schedule(&incoming, &mut cluster, &profile, Start::default()));
                times.push(began.elapsed());
                let fits = matches!(decision.outcome, Outcome::Fits { .. });
                let considered = decision.feasible.len() + decision.rejected.len();
                assert_eq!((fits, considered), (case.fits, nodes), "{}", case.name);
            }
            let [fastest, median] = fastest_and_median(times);
            println!("{:<22} {nodes:>7} {fastest:>9.2} ms {median:>9.2} ms", case.name);
        }
    }
}
