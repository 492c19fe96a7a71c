//! Tests of what required affinity needs, on pods as manifests state them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Neighbors;
use dryrack_fleet::{Fleet, NodeShape, NodeSpec, NodeState};
use dryrack_objects::Pod;
use dryrack_units::{Bytes, MilliCpu};

/// A node with this label.
fn fleet(key: &str) -> Fleet {
    let mut shape = NodeShape::of(MilliCpu::from_cores(8), Bytes::from_gib(32), Vec::new());
    shape.labels.insert(key.into(), "a".into());
    let mut fleet = Fleet::default();
    fleet.declare(&NodeSpec { name: "n".into(), shape: Arc::new(shape) }, NodeState::Ready);
    fleet
}

fn pod(namespace: &str, labels: Value) -> Pod {
    let manifest = json!({"metadata": {"name": "p", "namespace": namespace, "labels": labels}, "spec": {}});
    serde_json::from_value(manifest).expect("a pod")
}

/// A pod of namespace `x` that must run in one zone with pods that each of these terms selects.
fn beside(terms: &[Value]) -> Pod {
    let mut terms = terms.to_vec();
    terms.iter_mut().for_each(|term| term["topologyKey"] = json!("zone"));
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let manifest = json!({"metadata": {"name": "q", "namespace": "x"}, "spec": {"affinity": affinity}});
    serde_json::from_value(manifest).expect("a pod")
}

fn app(name: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": name}}})
}

#[test]
fn affinity_lacks_a_pod_that_all_terms_select_or_a_node_with_all_keys() {
    let rank = json!({"labelSelector": {"matchLabels": {"rank": "0"}}});
    let everywhere = json!({"namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "b"}}});
    let (a, first) = (pod("x", json!({"app": "a"})), pod("x", json!({"app": "a", "rank": "0"})));
    let elsewhere = pod("y", json!({"app": "a"}));
    let lack = |pods: &[&Pod], terms: &[Value], key: &str| {
        Neighbors::new(&fleet(key), pods.iter().map(|pod| Some(*pod))).lack(&beside(terms))
    };
    assert!(!lack(&[&a], &[], "zone"), "no affinity is required");
    assert!(!lack(&[&a], &[app("a")], "zone") && lack(&[&a], &[app("b")], "zone"));
    assert!(lack(&[&a], &[app("a")], "rack"), "no node has the key");
    assert!(lack(&[&elsewhere], &[app("a")], "zone"), "pods of the own namespace are selected");
    assert!(lack(&[&a], &[app("a"), rank.clone()], "zone") && !lack(&[&a, &first], &[app("a"), rank], "zone"));
    assert!(!lack(&[&a], &[everywhere], "zone"), "a term that selects namespaces is taken as met");
}
