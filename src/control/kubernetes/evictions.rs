//! The planned evictions of pods.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::store::ReplicaIndex;
use dryrack_ids::NodeId;
use dryrack_units::SimTime;

/// When pods are evicted. The two maps hold the same evictions: by time, and by node.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    due: BTreeSet<(SimTime, NodeId, ReplicaIndex)>,
    of_node: BTreeMap<NodeId, Vec<(SimTime, ReplicaIndex)>>,
}

impl Evictions {
    /// The time of the next eviction.
    pub fn next(&self) -> Option<SimTime> {
        self.due.first().map(|(at, _, _)| *at)
    }

    /// Plans the eviction of a replica from a node at this time.
    pub fn plan(&mut self, at: SimTime, node: NodeId, replica: ReplicaIndex) {
        if self.due.insert((at, node, replica)) {
            self.of_node.entry(node).or_default().push((at, replica));
        }
    }

    /// Takes the first eviction that is due.
    pub fn take_due(&mut self, now: SimTime) -> Option<(NodeId, ReplicaIndex)> {
        let (at, node, replica) = self.due.first().copied().filter(|(at, _, _)| *at <= now)?;
        self.due.pop_first();
        self.of_node.entry(node).or_default().retain(|planned| *planned != (at, replica));
        Some((node, replica))
    }

    /// Cancels all evictions from a node.
    pub fn cancel(&mut self, node: NodeId) {
        for (at, replica) in self.of_node.remove(&node).unwrap_or_default() {
            self.due.remove(&(at, node, replica));
        }
    }
}
