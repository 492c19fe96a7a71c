//! Which nodes changed of late, so that whoever keeps something of each node need not look at all of them.

use super::node_changes::NodeChanges;
use super::{Fleet, Node};
use dryrack_ids::NodeId;

impl Fleet {
    /// From now on [`Fleet::changed_nodes`] answers; every node counts as changed.
    pub fn keep_node_changes(&mut self) {
        if self.node_changes.is_none() {
            self.node_changes = Some(NodeChanges::of(self.nodes.len()));
        }
    }

    /// How many changes of nodes there have been, where they are kept.
    pub fn node_change_count(&self) -> u64 {
        self.node_changes.as_ref().map_or(0, NodeChanges::count)
    }

    /// The nodes that changed since so many changes were read, each once, the last first; none where they are not kept.
    pub fn changed_nodes(&self, read: u64) -> impl Iterator<Item = NodeId> + '_ {
        self.node_changes.iter().flat_map(move |changes| changes.since(read))
    }

    /// What is kept of a node is to be worked out again, whether or not something of the node itself has changed.
    pub fn note_change(&mut self, node: NodeId) {
        if let Some(changes) = &mut self.node_changes {
            changes.note(node);
        }
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
