//! The records of nodes.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use smallvec::SmallVec;

use super::store::ReplicaIndex;
use dryrack_fleet::NodeState;
use dryrack_ids::NodeId;
use dryrack_units::SimTime;

/// The control plane's record of a node. The node's status is in the fleet.
pub struct NodeRecord {
    /// The state that the node last reported, or that was set on its behalf.
    pub reported: NodeState,
    /// The time of the last heartbeat, if a heartbeat is overdue.
    pub silent_since: Option<SimTime>,
    /// Whether the silence has lasted longer than the grace period.
    pub presumed_lost: bool,
    /// Increases whenever the timers of this node become void.
    pub epoch: u64,
    /// Replicas with a claim on this node, in order of their numbers.
    pub replicas: SmallVec<[ReplicaIndex; 4]>,
}

/// The records of all nodes, by their index.
#[derive(Default)]
pub struct Nodes {
    records: Vec<NodeRecord>,
    /// Nodes that have lost readiness, each with the time until which the loss counts, earliest first.
    flaps: VecDeque<(SimTime, NodeId)>,
}

impl Nodes {
    /// Makes room for this many nodes.
    pub fn reserve(&mut self, nodes: usize) {
        self.records.reserve(nodes);
    }

    /// Adds the record of the next node, which is in this state.
    pub fn add(&mut self, state: NodeState) {
        self.records.push(NodeRecord {
            reported: state,
            silent_since: None,
            presumed_lost: false,
            epoch: 0,
            replicas: SmallVec::new(),
        });
    }

    pub fn iter(&self) -> impl Iterator<Item = &NodeRecord> {
        self.records.iter()
    }

    /// Notes that a node has lost readiness, which counts until this time.
    pub fn note_flap(&mut self, node: NodeId, until: SimTime) {
        self.flaps.push_back((until, node));
    }

    /// Takes the next loss of readiness that no longer counts.
    pub fn take_old_flap(&mut self, now: SimTime) -> Option<NodeId> {
        self.flaps.pop_front_if(|(until, _)| *until <= now).map(|(_, node)| node)
    }
}

impl Index<usize> for Nodes {
    type Output = NodeRecord;

    fn index(&self, node: usize) -> &NodeRecord {
        &self.records[node]
    }
}

impl IndexMut<usize> for Nodes {
    fn index_mut(&mut self, node: usize) -> &mut NodeRecord {
        &mut self.records[node]
    }
}
