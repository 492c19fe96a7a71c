//! One large run: 5,000 pods on 1,000 nodes.

use std::collections::BTreeMap;
use std::path::Path;

use dryrack_apiserver::{Heard, Limits, Rehearsal};
use dryrack_kubernetes::cluster::PodInfo;
use dryrack_kubernetes::cycle::{self, Outcome, Profile};
use dryrack_kubernetes::object::{Pod, Seconds};
use serde_json::{Value, json};

use super::drawn::Draw;
use super::native::Native;
use super::worlds::{PATIENCE, config, now, rules};

const NODES: u64 = 1_000;
const PODS: u64 = 5_000;

fn nodes() -> Vec<Value> {
    let node = |number: u64| {
        let name = format!("node-{number:04}");
        let zone = format!("zone-{}", number % 8);
        let gpus = if number.is_multiple_of(4) { "0" } else { "8" };
        let amounts = json!({"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": gpus});
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name,
                "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": amounts, "capacity": amounts}})
    };
    (0..NODES).map(node).collect()
}

/// Every tenth pod is spread over the zones.
fn pods() -> Vec<Value> {
    let mut draw = Draw::new(5);
    let mut pod = |number: u64| {
        let mut requests = json!({"cpu": (1 + draw.below(8)).to_string(),
            "memory": format!("{}Gi", 1 + draw.below(32))});
        if draw.below(2) == 0 {
            requests["nvidia.com/gpu"] = json!((1 + draw.below(2)).to_string());
        }
        let app = format!("app-{}", draw.below(20));
        let mut spec = json!({"containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}]});
        if number.is_multiple_of(10) {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": app}}}]);
        }
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{number:04}"), "namespace": "default", "labels": {"app": app}},
            "spec": spec})
    };
    (0..PODS).map(&mut pod).collect()
}

pub fn is_decided_as_the_rules_say(program: &Path) {
    let (nodes, pods) = (nodes(), pods());
    let began = now();
    let mut rehearsal =
        Rehearsal::start(program, config(), Limits::default(), PATIENCE).unwrap_or_else(|fault| panic!("{fault}"));
    for object in nodes.iter().chain(&pods) {
        rehearsal.apply(object.clone()).expect("a drawn object is served");
    }
    let settled = rehearsal.settle().unwrap_or_else(|fault| panic!("{fault}"));
    let real = began.elapsed();
    let profile = rules(&rehearsal);
    drop(rehearsal);
    let mut bound = BTreeMap::new();
    for heard in settled.heard {
        match heard {
            Heard::Bound { pod, node } => bound.insert(pod.name.to_string(), Heard::Bound { pod, node }),
            other => panic!("all pods fit, but: {other:?}"),
        };
    }
    // The program takes pods of one priority in the order in which they came.
    let mut native = Native::new(&nodes, profile.clone());
    for pod in &pods {
        native.submit(pod);
        native.follow(std::slice::from_ref(&bound[pod["metadata"]["name"].as_str().expect("a name")]));
    }
    let alone = native_time(&nodes, &pods, &profile);
    println!("{PODS} pods on {NODES} nodes: {real:?} by the program, {alone:?} by our rules, {:?}", native.counts);
    assert!(native.differences.is_empty(), "{} differences\n{}", native.differences.len(), native.differences[0]);
}

/// The same run by our rules alone.
fn native_time(nodes: &[Value], pods: &[Value], profile: &Profile) -> std::time::Duration {
    let began = now();
    let mut cluster = Native::new(nodes, profile.clone()).cluster;
    for (number, pod) in pods.iter().enumerate() {
        let pod: Pod = serde_json::from_value(pod.clone()).expect("a pod");
        let pod = std::sync::Arc::new(PodInfo::new(pod));
        let decision = cycle::schedule(&pod, &mut cluster, profile, cycle::Start::default());
        let Outcome::Fits { best } = decision.outcome else { panic!("all pods fit") };
        let node = std::sync::Arc::clone(cluster.node(best[0].0).name());
        cycle::reserve(&pod, &node, &mut cluster);
        cycle::bind(&pod, &node, Seconds(number as i64), None, &mut cluster);
    }
    began.elapsed()
}
