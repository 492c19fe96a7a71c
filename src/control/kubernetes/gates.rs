//! Pods on their way into the queue: plugins may keep them out, and a pod that states its node does not need the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Kubernetes;
use super::attempt::{self, Chosen};
use super::hints::Event as Change;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::NodeState;
use dryrack_kubernetes::cluster::{GroupKey, PodInfo, Resource};
use dryrack_kubernetes::cycle;

/// The pods that are not in the queue yet.
#[derive(Debug, Default)]
pub(super) struct Gates {
    all: BTreeSet<ReplicaIndex>,
    /// Pods to ask the plugins about: they are new, or something has changed for them.
    to_ask: BTreeSet<ReplicaIndex>,
    /// Pods of other schedulers. They wait here, because nobody decides about them.
    elsewhere: BTreeSet<ReplicaIndex>,
    /// Pods that state their node.
    stated: BTreeSet<ReplicaIndex>,
    /// Pods that wait for others of their gang to exist.
    of_gang: BTreeMap<GroupKey, BTreeSet<ReplicaIndex>>,
}

impl Gates {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes all pods in order, except those of other schedulers.
    pub fn take_all(&mut self) -> Vec<ReplicaIndex> {
        self.to_ask.clear();
        self.of_gang.clear();
        let taken: Vec<ReplicaIndex> = self.all.difference(&self.elsewhere).copied().collect();
        self.all.retain(|index| self.elsewhere.contains(index));
        self.stated.retain(|index| self.elsewhere.contains(index));
        taken
    }

    pub fn remove(&mut self, index: ReplicaIndex, pod: &PodInfo) {
        self.all.remove(&index);
        self.to_ask.remove(&index);
        self.stated.remove(&index);
        self.elsewhere.remove(&index);
        if let Some(key) = GroupKey::of(pod)
            && let Some(waiting) = self.of_gang.get_mut(&key)
        {
            waiting.remove(&index);
            if waiting.is_empty() {
                self.of_gang.remove(&key);
            }
        }
    }
}

impl Kubernetes {
    /// Whether the pod names a scheduler that is not the profile's.
    pub(super) fn is_of_other_scheduler(&self, pod: &PodInfo) -> bool {
        pod.pod.spec.scheduler() != self.options.scheduler_name
    }

    /// Takes in a new pod. The gang of the pod may be complete now.
    pub(super) fn arrived(&mut self, core: &mut Core, index: ReplicaIndex) {
        let pod = Arc::clone(&self.pods[&index].info);
        self.gates.all.insert(index);
        if self.is_of_other_scheduler(&pod) {
            self.gates.elsewhere.insert(index);
            if pod.pod.spec.node_name.is_none() {
                core.hold(index, (Refusal::Unfit, Histogram::of(Reason::OtherScheduler, 1)));
            }
        } else {
            self.gates.to_ask.insert(index);
        }
        if pod.pod.spec.node_name.is_some() {
            self.gates.stated.insert(index);
        }
        if let Some(others) = GroupKey::of(&pod).and_then(|key| self.gates.of_gang.remove(&key)) {
            self.gates.to_ask.extend(others);
        }
        if pod.pod.spec.workload_ref.is_some() {
            self.happened(core, &Change::PodCreated(&pod));
        }
    }

    /// Lets pods into the queue that no plugin keeps out any more.
    pub(super) fn open_gates(&mut self, core: &mut Core) {
        let nodes = self.cluster.nodes().len().max(1) as u32;
        for index in std::mem::take(&mut self.gates.to_ask) {
            let info = Arc::clone(&self.pods[&index].info);
            match cycle::pre_enqueue(&info, &self.cluster) {
                Ok(()) => {
                    self.gates.remove(index, &info);
                    self.queue.add(index, self.pods[&index].group, info.priority);
                }
                Err(refusal) => {
                    if refusal.reasons.contains(&cycle::Reason::GangIncomplete)
                        && let Some(key) = GroupKey::of(&info)
                    {
                        self.gates.of_gang.entry(key).or_default().insert(index);
                    }
                    core.hold(index, (Refusal::Unfit, attempt::gated(&refusal, nodes)));
                }
            }
        }
    }

    /// Binds the pods that state their nodes.
    pub(super) fn bind_stated_pods(&mut self, core: &mut Core) {
        let stated: Vec<ReplicaIndex> = self.gates.stated.iter().copied().collect();
        for index in stated {
            if self.bind_stated(core, index) {
                let info = Arc::clone(&self.pods[&index].info);
                self.gates.remove(index, &info);
            }
        }
    }

    /// Binds a pod that states its node, as the API does without the scheduler. If the node cannot take it, the pod
    /// waits for that node in the queue.
    fn bind_stated(&mut self, core: &mut Core, index: ReplicaIndex) -> bool {
        let record = &self.pods[&index];
        let (info, group) = (Arc::clone(&record.info), record.group);
        let Some(node) = info.pod.spec.node_name.as_ref().and_then(|name| self.cluster.find(name)) else {
            return false;
        };
        let id = self.ids[self.cluster.node(node).name()];
        let is_ready = core.fleet.node(id).status.state == NodeState::Ready;
        let left = &self.cluster.node(node);
        let has_room = |name: &Resource| {
            left.requested.get(name) + info.requests.exact.get(name) <= left.shape.allocatable.get(name)
        };
        is_ready
            && has_room(&Resource::Cpu)
            && has_room(&Resource::Memory)
            && self.bind_to(core, (index, group), &info, Chosen { node, devices: None, total: 0, decision: None })
    }
}
