//! Pods on their way into the queue: plugins may keep them out, and a pod that states its node does not need the queue.

use std::sync::Arc;

use super::Kubernetes;
use super::attempt::{self, Chosen};
use super::hints::{Event as Change, gpus_of};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::NodeState;
use dryrack_kubernetes::cluster::{GroupKey, PodInfo, Resource};
use dryrack_kubernetes::cycle;

impl Kubernetes {
    /// Whether the pod names a scheduler that is not the profile's.
    pub(super) fn is_of_other_scheduler(&self, pod: &PodInfo) -> bool {
        pod.pod.spec.scheduler() != self.options.scheduler_name
    }

    /// Takes in a new pod. The gang of the pod may be complete now.
    pub(super) fn arrived(&mut self, core: &mut Core, index: ReplicaIndex) {
        let pod = Arc::clone(&self.pods[&index].info);
        let has_node = pod.pod.spec.node_name.is_some();
        if self.is_of_other_scheduler(&pod) {
            self.gates.add_elsewhere(index, has_node);
            if !has_node {
                core.hold(index, (Refusal::Unfit, Histogram::of(Reason::OtherScheduler, 1)));
            }
        } else {
            self.gates.add(index, has_node);
        }
        if let Some(gang) = GroupKey::of(&pod) {
            self.gates.gang_has_grown(&gang);
        }
        if pod.pod.spec.workload_ref.is_some() {
            self.happened(core, &Change::PodCreated(&pod));
        }
    }

    /// Lets pods into the queue that no plugin keeps out any more.
    pub(super) fn open_gates(&mut self, core: &mut Core) {
        let nodes = self.cluster.nodes().len().max(1) as u32;
        for index in self.gates.take_to_ask() {
            let info = Arc::clone(&self.pods[&index].info);
            match cycle::pre_enqueue(&info, &self.cluster, &self.options.scheduler) {
                Ok(()) => {
                    self.gates.remove(index, &info);
                    self.queue.add(index, self.pods[&index].group, (info.priority, gpus_of(&info)));
                }
                Err(refusal) => {
                    if refusal.reasons.contains(&cycle::Reason::GangIncomplete)
                        && let Some(key) = GroupKey::of(&info)
                    {
                        self.gates.wait_for_gang(key, index);
                    }
                    core.hold(index, (Refusal::Unfit, attempt::gated(&refusal, nodes)));
                }
            }
        }
    }

    /// Binds the pods that state their nodes.
    pub(super) fn bind_stated_pods(&mut self, core: &mut Core) {
        for index in self.gates.stated() {
            let info = Arc::clone(&self.pods[&index].info);
            match self.bind_stated(core, index) {
                Ok(()) => self.gates.remove(index, &info),
                // No attempt of the scheduler says why such a pod waits.
                Err(reason) if self.gates.is_stated_elsewhere(index) => {
                    self.keep_stated_wait(core, index, &info);
                    core.hold(index, (Refusal::Unfit, Histogram::of(reason, 1)));
                }
                Err(_) => {}
            }
        }
    }

    /// Binds a pod that states its node, as the API does without the scheduler. If the node cannot take it, the pod
    /// waits for that node, in the queue if it is of the profile's own scheduler.
    fn bind_stated(&mut self, core: &mut Core, index: ReplicaIndex) -> Result<(), Reason> {
        let record = &self.pods[&index];
        let (info, group) = (Arc::clone(&record.info), record.group);
        let node = self.stated_node(core, &info)?;
        match self.bind_to(core, (index, group), &info, Chosen { node, devices: None, total: 0, decision: None }) {
            true => Ok(()),
            // The ledger lacks only GPUs that are not free.
            false => Err(Reason::InsufficientGpus),
        }
    }

    /// The node that a pod states, if that node has room for it. Otherwise why not.
    pub(super) fn stated_node(&self, core: &Core, info: &PodInfo) -> Result<usize, Reason> {
        let named = info.pod.spec.node_name.as_ref().and_then(|name| self.cluster.find(name));
        let node = named.ok_or(Reason::NodeGone)?;
        let left = self.cluster.node(node);
        // The kubelet asks this too, and refuses the pod.
        if !info.wants_node(left.name(), left.labels()) {
            return Err(Reason::NodeAffinityMismatch);
        }
        let has_room = |name: &Resource| {
            left.requested.get(name) + info.requests.exact.get(name) <= left.shape.allocatable.get(name)
        };
        match core.fleet.node(self.ids[left.name()]).status.state {
            NodeState::Ready if !has_room(&Resource::Cpu) => Err(Reason::InsufficientCpu),
            NodeState::Ready if !has_room(&Resource::Memory) => Err(Reason::InsufficientRam),
            NodeState::Ready => Ok(node),
            _ => Err(Reason::NodeNotReady),
        }
    }
}
