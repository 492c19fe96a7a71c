//! `NodeAffinity`: the pod's node selector, and its required and preferred node affinity.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::normalize;
use crate::cluster::{Cluster, NodeInfo, PodInfo};
use crate::cycle::{Objection, Plugin, Reason, Refusal};

/// The only nodes that can match, by name, if all terms name their nodes.
pub fn pre_filter(pod: &PodInfo) -> Result<Option<BTreeSet<Arc<str>>>, Refusal> {
    let required = pod.pod.spec.affinity.node_affinity.required.as_ref();
    match required.and_then(|required| required.names()) {
        Some(names) if names.is_empty() => Err(Refusal::for_good(Plugin::NodeAffinity, Reason::AffinityTermsConflict)),
        names => Ok(names),
    }
}

pub fn filter(pod: &PodInfo, node: &NodeInfo) -> Result<(), Objection> {
    if pod.wants_node(node.name(), node.labels()) {
        return Ok(());
    }
    Err(Refusal::for_good(Plugin::NodeAffinity, Reason::NodeAffinity).into())
}

/// `None` without preferred terms.
pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize]) -> Option<Vec<i64>> {
    let preferred = &pod.pod.spec.affinity.node_affinity.preferred;
    if preferred.is_empty() {
        return None;
    }
    let weight = |index: &usize| {
        let node = cluster.node(*index);
        let matching = preferred.iter().filter(|term| term.preference.matches(node.name(), node.labels()));
        matching.map(|term| i64::from(term.weight)).sum()
    };
    let mut scores: Vec<i64> = feasible.iter().map(weight).collect();
    normalize(&mut scores);
    Some(scores)
}
