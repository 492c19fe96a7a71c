//! Which nodes changed of late, so that whoever keeps something of each node need not look at all of them.

use super::{Fleet, Node};
use crate::ids::NodeId;

/// The nodes in the order in which they changed. Of the oldest changes only their number is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    forgotten: u64,
    recent: Vec<NodeId>,
}

/// So many changes are kept in any case.
const KEPT: usize = 4096;

impl Changes {
    pub fn note(&mut self, node: NodeId) {
        if self.recent.len() >= 2 * KEPT {
            self.recent.drain(..KEPT);
            self.forgotten += KEPT as u64;
        }
        self.recent.push(node);
    }
}

impl Fleet {
    /// How many changes of nodes there have been.
    pub fn node_changes(&self) -> u64 {
        self.changes.forgotten + self.changes.recent.len() as u64
    }

    /// The nodes that changed since so many changes were read, some of them several times; nothing where it was too long ago.
    pub fn changed_since(&self, read: u64) -> Option<&[NodeId]> {
        let from = read.checked_sub(self.changes.forgotten)?;
        self.changes.recent.get(from as usize..)
    }

    /// What is kept of a node is to be worked out again, though nothing of the node itself has changed.
    pub fn note_change(&mut self, node: NodeId) {
        self.changes.note(node);
        self.note_for_backfilling(node);
    }

    /// Whether what holds something is known by the status of the nodes alone: there are no fleets of instances and no models.
    pub fn is_of_nodes_alone(&self) -> bool {
        self.fleets.is_empty() && !self.hosts.is_used()
    }

    /// The node stands as it does in the other fleet. Only where both are of nodes alone.
    pub fn stand_as_in(&mut self, other: &Fleet, node: NodeId) {
        let Node { status, .. } = other.node(node);
        if self.node(node).status != *status {
            self.change(node, |_, own| own.clone_from(status));
        }
    }
}
