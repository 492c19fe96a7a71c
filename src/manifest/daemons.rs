//! The nodes on which a DaemonSet runs a pod.
//!
//! The rules are those of `pkg/controller/daemon` of Kubernetes 1.35.

use std::sync::Arc;

use crate::api::{
    Effect, Node, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration,
    TolerationOperator,
};

/// Taints that every pod of a DaemonSet tolerates.
const TOLERATED: [(&str, Effect); 6] = [
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
];
const NETWORK: (&str, Effect) = ("node.kubernetes.io/network-unavailable", Effect::NoSchedule);

/// Adds the tolerations that pods of a DaemonSet have. They have no time limit.
pub fn tolerate(pod: &mut Pod, is_on_host_network: bool) {
    let network = is_on_host_network.then_some(NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        // A default toleration of five minutes gives way.
        pod.spec.tolerations.retain(|known| !(&*known.key == key && known.effect == Some(effect)));
        pod.spec.tolerations.push(Toleration {
            key: Arc::from(key),
            operator: TolerationOperator::Exists,
            effect: Some(effect),
            ..Toleration::default()
        });
    }
}

/// Whether the DaemonSet runs a pod on the node: the node is the one that the template names, its labels are selected,
/// and its taints are tolerated.
pub fn runs_on(pod: &Pod, node: &Node) -> bool {
    let spec = &pod.spec;
    let labels = &node.metadata.labels;
    let name = &node.metadata.name;
    spec.node_name.as_ref().is_none_or(|only| only == name)
        && spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && spec.affinity.node_affinity.required.as_ref().is_none_or(|required| required.matches(name, labels))
        && node
            .spec
            .taints
            .iter()
            .filter(|taint| taint.effect != Effect::PreferNoSchedule)
            .all(|taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

/// Lets the pod accept only this node.
pub fn bind(pod: &mut Pod, node: &Arc<str>) {
    let only = NodeSelectorRequirement {
        key: Arc::from("metadata.name"),
        operator: NodeSelectorOperator::In,
        values: vec![Arc::clone(node)],
    };
    // As in Kubernetes, this replaces what the template requires, because the node was chosen by it.
    let term = NodeSelectorTerm { match_fields: vec![only], ..NodeSelectorTerm::default() };
    pod.spec.affinity.node_affinity.required = Some(NodeSelector { node_selector_terms: vec![term] });
}
