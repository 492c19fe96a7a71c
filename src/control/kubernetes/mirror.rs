//! The cluster as the scheduler sees it. It follows the ledger and the states of nodes, and is never ahead of them.

use std::sync::Arc;

use super::Kubernetes;
use super::cluster::MirroredNode;
use super::hints::Event;
use super::pods;
use crate::core::Core;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_kubernetes::cluster::{NodeShape, PodInfo};
use dryrack_kubernetes::object::{Node, Seconds};

/// A change of the cluster that was found while following the fleet.
pub(super) enum Found {
    Added(Arc<str>),
    Updated(Arc<str>, Arc<NodeShape>),
    Removed,
    /// Devices of a node are published, or not published any more.
    Devices,
    /// With the name of the node.
    PodRemoved(Arc<str>, Arc<PodInfo>),
    /// A pod that waited for its gang has lost its node.
    PermitLost(Arc<str>),
}

impl Kubernetes {
    /// Brings the cluster up to date with the fleet, and returns the pods that an event may help to the queue.
    pub(super) fn follow_fleet(&mut self, core: &mut Core) {
        let read = self.read_changes;
        let mut changed: Vec<NodeId> = core.fleet.changed_nodes(read).collect();
        self.read_changes = core.fleet.node_change_count();
        changed.sort_unstable();
        let mut found = Vec::new();
        self.follow_nodes(core, &changed, &mut found);
        for node in changed {
            self.follow_pods(core, node, &mut found);
        }
        for change in found {
            self.cluster_changed();
            match change {
                Found::Added(name) => {
                    if let Some(index) = self.cluster.find(&name) {
                        self.happened(core, &Event::NodeAdded(index));
                    }
                }
                Found::Updated(name, before) => {
                    if let Some(index) = self.cluster.find(&name) {
                        self.happened(core, &Event::NodeUpdated(index, &before));
                    }
                }
                Found::PermitLost(key) => self.lose_permit(core, &key),
                Found::Removed => self.happened(core, &Event::NodeRemoved),
                Found::Devices => self.happened(core, &Event::ClaimChanged),
                Found::PodRemoved(node, pod) => {
                    self.happened(core, &Event::PodRemoved(self.cluster.find(&node), &pod));
                    if !pod.pod.spec.resource_claims.is_empty() {
                        self.happened(core, &Event::ClaimChanged);
                    }
                }
            }
        }
    }

    /// Adds, updates and removes nodes. New nodes are added all at once.
    fn follow_nodes(&mut self, core: &Core, changed: &[NodeId], found: &mut Vec<Found>) {
        let mut new: Vec<Node> = Vec::new();
        for id in changed {
            let node = core.fleet.node(*id);
            while self.nodes.len() <= id.index() {
                let name = Arc::clone(&core.fleet.node(NodeId::new(self.nodes.len())).name);
                self.ids.insert(Arc::clone(&name), NodeId::new(self.nodes.len()));
                self.nodes.push(MirroredNode { name, seen: None, withdrawn: Vec::new() });
            }
            if self.follow_devices(core, *id) {
                found.push(Found::Devices);
            }
            let usable = pods::usable_gpus(node).count();
            let now = pods::seen_of(node);
            let mirrored = &mut self.nodes[id.index()];
            let before = std::mem::replace(&mut mirrored.seen, now);
            if before == now {
                continue;
            }
            self.models.extend(pods::models_of(&node.shape));
            match (before, pods::node_of(node, usable)) {
                (None, Some(object)) => new.push(object),
                (Some(_), Some(object)) => {
                    let index = self.cluster.find(&node.name).expect("the node is in the cluster");
                    let shape = Arc::clone(&self.cluster.node(index).shape);
                    if self.cluster.update_node(index, object) {
                        found.push(Found::Updated(Arc::clone(&node.name), shape));
                    }
                }
                (Some(_), None) => {
                    for placed in self.cluster.remove_node(&node.name) {
                        if self.permits.is_of(&placed.pod.key) {
                            found.push(Found::PermitLost(Arc::clone(&placed.pod.key)));
                            continue;
                        }
                        found.push(Found::PodRemoved(Arc::clone(&node.name), self.forget_placed(placed)));
                    }
                    found.push(Found::Removed);
                }
                (None, None) => {}
            }
            self.follow_taints(core, *id);
        }
        found.extend(new.iter().map(|node| Found::Added(Arc::clone(&node.metadata.name))));
        self.cluster.add_nodes(new).expect("nodes of the fleet have different names");
    }

    /// Removes pods whose claims on the node are free.
    fn follow_pods(&mut self, core: &Core, id: NodeId, found: &mut Vec<Found>) {
        let Some(index) = self.cluster.find(&self.nodes[id.index()].name) else { return };
        let keys = self.cluster.node(index).pods.iter().map(|placed| Arc::clone(&placed.pod.key));
        let gone: Vec<Arc<str>> = keys.filter(|key| !self.holds_claim(core, key, id)).collect();
        for key in gone {
            let placed = self.cluster.remove(index, &key).expect("it is on the node");
            found.push(Found::PodRemoved(Arc::clone(&self.nodes[id.index()].name), self.forget_placed(placed)));
        }
    }

    fn holds_claim(&self, core: &Core, key: &str, node: NodeId) -> bool {
        if self.permits.is_of(key) {
            return true;
        }
        let Some(attempt) = self.bound.get(key) else { return false };
        let current = core.store.replica_of(*attempt).map(|index| &core.store[index]);
        let placement = match current.filter(|replica| replica.is_at(*attempt)) {
            Some(replica) => replica.placement.as_ref(),
            None => core.kept.claims.get(attempt),
        };
        placement.is_some_and(|placement| placement.touches(node))
    }

    /// Marks the pod of an attempt that is stopping.
    pub(super) fn begin_deletion(&mut self, core: &Core, attempt: AttemptId, is_preempted: bool) {
        let Some((key, node)) = self.placed.get(&attempt).cloned() else { return };
        if let Some(index) = self.cluster.find(&node) {
            self.cluster.begin_deletion(index, &key, seconds(core), is_preempted);
            self.cluster_changed();
        }
    }
}

/// The current time, as the API writes it.
pub(super) fn seconds(core: &Core) -> Seconds {
    Seconds((core.now.as_nanos() / 1_000_000_000) as i64)
}
