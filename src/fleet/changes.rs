//! Tracks which nodes changed recently, so that a cache with one entry for each node need not check all nodes.

use super::node_changes::NodeChanges;
use super::{Fleet, Node};
use dryrack_ids::NodeId;

impl Fleet {
    /// Starts to track changes for [`Fleet::changed_nodes`]. At first, every node counts as changed.
    pub fn keep_node_changes(&mut self) {
        if self.node_changes.is_none() {
            self.node_changes = Some(NodeChanges::of(self.nodes.len()));
        }
    }

    /// How many changes of nodes have been tracked so far. Zero if changes are not tracked.
    pub fn node_change_count(&self) -> u64 {
        self.node_changes.as_ref().map_or(0, NodeChanges::count)
    }

    /// The nodes that changed after the first `read` changes, each once, latest change first. Empty if changes are not
    /// tracked.
    pub fn changed_nodes(&self, read: u64) -> impl Iterator<Item = NodeId> + '_ {
        self.node_changes.iter().flat_map(move |changes| changes.since(read))
    }

    /// Marks a node as changed, even if it is unchanged, so that caches compute its entry again.
    pub fn note_change(&mut self, node: NodeId) {
        if let Some(changes) = &mut self.node_changes {
            changes.note(node);
        }
    }

    /// Whether the status of the nodes alone shows what is taken. This is so if there are no instance fleets and no
    /// models.
    pub fn is_of_nodes_alone(&self) -> bool {
        self.fleets.is_empty() && !self.hosts.is_used()
    }

    /// Copies a node's status from another fleet. Valid only if [`Fleet::is_of_nodes_alone`] holds for both fleets.
    pub fn stand_as_in(&mut self, other: &Fleet, node: NodeId) {
        let Node { status, .. } = other.node(node);
        if self.node(node).status != *status {
            self.change(node, |_, own| own.clone_from(status));
        }
    }
}
