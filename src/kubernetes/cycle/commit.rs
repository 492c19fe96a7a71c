//! Carries out decisions: binding, preemption, and the effects of an attempt without success.

use std::sync::Arc;

use super::decision::{Decision, Outcome, PostFilter};
use crate::cluster::{Cluster, GroupKey, Placed, PodInfo};
use crate::devices::Allocations;
use crate::object::{Consumer, Seconds};
use crate::plugins::dynamic_resources::claim_keys;
use crate::plugins::gang_scheduling::{Permit, permit};

/// Places a pod on the chosen node, ends its nomination, and returns whether the pod is bound or waits.
///
/// # Panics
/// If the node does not exist.
pub fn reserve(pod: &Arc<PodInfo>, node: &str, cluster: &mut Cluster) -> Permit {
    cluster.nominations.clear(&pod.key);
    let placed = cluster.place(Arc::clone(pod), node, None);
    placed.unwrap_or_else(|fault| panic!("a node that was chosen: {fault}"));
    permit(pod, &mut cluster.gangs)
}

/// Like `reserve`, for a pod that states its node. It does not wait for others of its gang.
///
/// # Panics
/// If the node does not exist.
pub fn reserve_stated(pod: &Arc<PodInfo>, node: &str, cluster: &mut Cluster) -> Permit {
    let placed = cluster.place(Arc::clone(pod), node, None);
    placed.unwrap_or_else(|fault| panic!("a node that is stated: {fault}"));
    if let Some(key) = GroupKey::of(pod).filter(|_| cluster.gangs.is_enabled) {
        cluster.gangs.hold(&key, &pod.key, false);
    }
    Permit::Allowed { released: Vec::new() }
}

/// Binds a pod that holds a node: records when it started and which devices its claims hold.
pub fn bind(pod: &PodInfo, node: &str, start: Seconds, devices: Option<Allocations>, cluster: &mut Cluster) {
    if let Some(index) = cluster.find(node)
        && let Some(placed) = cluster.nodes[index].pods.iter_mut().find(|placed| placed.pod.key == pod.key)
    {
        placed.start = Some(start);
    }
    let mut found = devices.map(|found| found.claims).unwrap_or_default();
    for key in claim_keys(pod) {
        let own = found.iter().position(|claimed| claimed.key == key).map(|place| found.swap_remove(place).allocation);
        let consumer = Consumer { name: Arc::clone(&pod.pod.metadata.name), uid: Arc::clone(&pod.pod.metadata.uid) };
        cluster.devices.bind(&key, own, consumer);
    }
}

/// The result of a preemption.
#[derive(Debug)]
pub struct Preempted {
    pub victims: Vec<Placed>,
    /// Pods of lower priority that lost their nomination to the node.
    pub cleared: Vec<Arc<PodInfo>>,
}

/// Evicts the victims on one of the best candidates, and nominates the node to the pod. `None` if the decision has no
/// such candidate.
pub fn preempt(decision: &Decision, node: usize, cluster: &mut Cluster) -> Option<Preempted> {
    let Outcome::Unschedulable { post_filter, .. } = &decision.outcome else { return None };
    let preemption = post_filter.preemption.as_ref()?;
    let (_, victims) = preemption.candidates.iter().find(|(index, _)| *index == node)?;
    let removed = victims.pods.iter().filter_map(|victim| cluster.remove(node, &victim.pod.key));
    let victims = removed.collect();
    let name = Arc::clone(cluster.node(node).name());
    let weaker = |other: &&Arc<PodInfo>| other.priority < decision.pod.priority;
    let cleared: Vec<Arc<PodInfo>> = cluster.nominations.on(&name).iter().filter(weaker).cloned().collect();
    for pod in &cleared {
        cluster.nominations.clear(&pod.key);
    }
    cluster.nominations.nominate(&decision.pod, &name);
    Some(Preempted { victims, cleared })
}

/// Carries out the other effects of an attempt, which neither binds nor preempts.
pub fn settle(decision: &Decision, cluster: &mut Cluster) {
    let Outcome::Unschedulable { post_filter: PostFilter { deallocate, clears_nomination, .. }, .. } =
        &decision.outcome
    else {
        return;
    };
    if *clears_nomination {
        cluster.nominations.clear(&decision.pod.key);
    }
    if let Some(claim) = deallocate {
        cluster.devices.deallocate(claim);
    }
}
