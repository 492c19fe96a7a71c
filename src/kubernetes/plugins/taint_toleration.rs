//! `TaintToleration`: refuses nodes with taints that the pod does not tolerate, and prefers nodes with few taints of
//! the effect `PreferNoSchedule`.

use super::normalize_reversed;
use crate::cluster::{Cluster, NodeInfo, PodInfo};
use crate::cycle::{Objection, Plugin, Reason, Refusal};
use crate::object::{Effect, Toleration};

pub fn filter(pod: &PodInfo, node: &NodeInfo) -> Result<(), Objection> {
    match pod.untolerated(&node.shape.taints) {
        None => Ok(()),
        Some(_) => Err(Refusal::for_good(Plugin::TaintToleration, Reason::Taints).into()),
    }
}

pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize]) -> Vec<i64> {
    let prefers = |toleration: &&Toleration| toleration.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule);
    let tolerations: Vec<&Toleration> = pod.tolerations().iter().filter(prefers).collect();
    let count = |index: &usize| {
        let taints = cluster.node(*index).shape.taints.iter();
        let intolerable = taints
            .filter(|taint| taint.effect == Effect::PreferNoSchedule)
            .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)));
        intolerable.count() as i64
    };
    let mut scores: Vec<i64> = feasible.iter().map(count).collect();
    normalize_reversed(&mut scores);
    scores
}
