//! The pods that have a node and wait for others of their gang.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::store::ReplicaIndex;
use dryrack_units::SimTime;

/// The node of a pod that is not bound yet.
pub(super) struct Reserved {
    pub node: Arc<str>,
    /// The score of the node.
    pub total: i64,
}

/// The pods that wait. The three maps hold the same pods.
#[derive(Default)]
pub(super) struct Permits {
    waiting: BTreeMap<ReplicaIndex, (Reserved, SimTime)>,
    by_key: BTreeMap<Arc<str>, ReplicaIndex>,
    /// When their time is over.
    due: BTreeSet<(SimTime, ReplicaIndex)>,
    /// Increases with each pod that begins or ends to wait.
    pub changes: u64,
}

impl Permits {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the time of the next pod is over.
    pub fn next(&self) -> Option<SimTime> {
        self.due.first().map(|(at, _)| *at)
    }

    pub fn holds(&self, index: ReplicaIndex) -> bool {
        self.waiting.contains_key(&index)
    }

    pub fn is_of(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    pub fn all(&self) -> Vec<ReplicaIndex> {
        self.waiting.keys().copied().collect()
    }

    /// The node of a pod that waits.
    pub fn node_of(&self, index: ReplicaIndex) -> &Arc<str> {
        &self.waiting[&index].0.node
    }

    /// The replica whose pod has this key, if it waits.
    pub fn replica_of(&self, key: &str) -> Option<ReplicaIndex> {
        self.by_key.get(key).copied()
    }

    /// The first pod whose time is over.
    pub fn first_over(&self, now: SimTime) -> Option<ReplicaIndex> {
        self.due.first().filter(|(at, _)| *at <= now).map(|(_, index)| *index)
    }

    /// Lets a pod wait until this time.
    pub fn add(&mut self, index: ReplicaIndex, key: &Arc<str>, reserved: Reserved, until: SimTime) {
        self.waiting.insert(index, (reserved, until));
        self.by_key.insert(Arc::clone(key), index);
        self.due.insert((until, index));
        self.changes += 1;
    }

    /// Ends the waiting of a pod, and returns the node that it had.
    pub fn take(&mut self, key: &str) -> Option<(ReplicaIndex, Reserved)> {
        let index = self.by_key.remove(key)?;
        let (reserved, until) = self.waiting.remove(&index)?;
        self.due.remove(&(until, index));
        self.changes += 1;
        Some((index, reserved))
    }
}
