//! Evictions by taints: a pod leaves a node with a taint `NoExecute` once it no longer tolerates it.

use super::Kubernetes;
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_ids::NodeId;
use dryrack_kubernetes::cluster::PodInfo;
use dryrack_kubernetes::object::{Effect, Taint};
use dryrack_units::SimDuration;

impl Kubernetes {
    /// Sets or cancels the evictions of the pods on a node whose taints may have changed.
    pub(super) fn follow_taints(&mut self, core: &Core, node: NodeId) {
        self.evictions.cancel(node);
        for replica in core.nodes[node.index()].replicas.iter().copied() {
            self.plan_eviction(core, node, replica);
        }
    }

    /// Sets the eviction of a pod that is on a tainted node.
    pub(super) fn plan_eviction(&mut self, core: &Core, node: NodeId, replica: ReplicaIndex) {
        let Some(index) = self.cluster.find(&self.nodes[node.index()].name) else { return };
        let Some(pod) = self.pods.get(&replica) else { return };
        if let Some(after) = self.stays_for(&pod.info, &self.cluster.node(index).shape.taints) {
            self.evictions.plan(core.now.saturating_add(after), node, replica);
        }
    }

    /// How long a pod stays on a node with these taints. `None` if it stays forever.
    fn stays_for(&self, pod: &PodInfo, taints: &[Taint]) -> Option<SimDuration> {
        let executing = taints.iter().filter(|taint| taint.effect == Effect::NoExecute);
        executing.filter_map(|taint| self.tolerates_for(pod, taint)).min()
    }

    /// How long a pod tolerates a taint. `None` if forever. Of several tolerations that match, the first counts, and the
    /// largest number of seconds means forever (`GetMatchingTolerations` and `getMinTolerationTime` of Kubernetes 1.35).
    fn tolerates_for(&self, pod: &PodInfo, taint: &Taint) -> Option<SimDuration> {
        let Some(toleration) = pod.tolerations().iter().find(|toleration| toleration.tolerates(taint)) else {
            let is_default = taint.is_of_readiness();
            return Some(if is_default { self.options.default_toleration } else { SimDuration::ZERO });
        };
        let seconds = toleration.toleration_seconds.filter(|seconds| *seconds < i64::MAX)?;
        Some(SimDuration::saturating_from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    pub(super) fn evict_due(&mut self, core: &mut Core) {
        while let Some((node, replica)) = self.evictions.take_due(core.now) {
            if core.nodes[node.index()].replicas.contains(&replica) {
                self.lose_attempt(core, replica, node);
            }
        }
    }
}
