//! The pods that are not in the queue yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::store::ReplicaIndex;
use dryrack_kubernetes::cluster::{GroupKey, PodInfo};

/// The pods that are not in the queue yet.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Pods of the profile's own scheduler.
    own: BTreeSet<ReplicaIndex>,
    /// Pods to ask the plugins about: they are new, or something has changed for them.
    to_ask: BTreeSet<ReplicaIndex>,
    /// Pods of other schedulers. They wait here, because nobody decides about them.
    elsewhere: BTreeSet<ReplicaIndex>,
    /// Pods of the profile's own scheduler that state their node.
    stated: BTreeSet<ReplicaIndex>,
    /// Pods of other schedulers that state their node.
    stated_elsewhere: BTreeSet<ReplicaIndex>,
    /// Pods that wait for others of their gang to exist.
    of_gang: BTreeMap<GroupKey, BTreeSet<ReplicaIndex>>,
}

impl Gates {
    pub fn len(&self) -> usize {
        self.own.len() + self.elsewhere.len()
    }

    /// Adds a new pod of the profile's own scheduler.
    pub fn add(&mut self, index: ReplicaIndex, states_node: bool) {
        self.own.insert(index);
        self.to_ask.insert(index);
        if states_node {
            self.stated.insert(index);
        }
    }

    /// Adds a new pod of another scheduler.
    pub fn add_elsewhere(&mut self, index: ReplicaIndex, states_node: bool) {
        self.elsewhere.insert(index);
        if states_node {
            self.stated_elsewhere.insert(index);
        }
    }

    /// The pods that state their nodes, in order.
    pub fn stated(&self) -> BTreeSet<ReplicaIndex> {
        self.stated.union(&self.stated_elsewhere).copied().collect()
    }

    /// Whether the pod is of another scheduler and states its node.
    pub fn is_stated_elsewhere(&self, index: ReplicaIndex) -> bool {
        self.stated_elsewhere.contains(&index)
    }

    /// Takes the pods to ask the plugins about.
    pub fn take_to_ask(&mut self) -> BTreeSet<ReplicaIndex> {
        std::mem::take(&mut self.to_ask)
    }

    /// Keeps a pod until others of its gang exist.
    pub fn wait_for_gang(&mut self, gang: GroupKey, index: ReplicaIndex) {
        self.of_gang.entry(gang).or_default().insert(index);
    }

    /// Asks the plugins again about the pods of a gang, because another pod of the gang exists.
    pub fn gang_has_grown(&mut self, gang: &GroupKey) {
        self.to_ask.extend(self.of_gang.remove(gang).into_iter().flatten());
    }

    /// Takes all pods in order, except those of other schedulers.
    pub fn take_all(&mut self) -> Vec<ReplicaIndex> {
        self.to_ask.clear();
        self.of_gang.clear();
        self.stated.clear();
        std::mem::take(&mut self.own).into_iter().collect()
    }

    pub fn remove(&mut self, index: ReplicaIndex, pod: &PodInfo) {
        for pods in [&mut self.own, &mut self.to_ask, &mut self.elsewhere, &mut self.stated, &mut self.stated_elsewhere]
        {
            pods.remove(&index);
        }
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
