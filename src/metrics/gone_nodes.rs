//! Nodes that are gone for good.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use dryrack_engine::{Fault, NodeTurn, Rehearsal};
use dryrack_fleet::{KubernetesNode, NodeShape, NodeSpec, NodeState, Reserved, offer_of};
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, MilliCpu, SimTime};

/// The nodes that are gone at `end` and that no fault brings back, even after that time. An instance of a cloud is not one
/// of them, because another one can be requested.
fn gone_for_good(rehearsal: &Rehearsal, end: SimTime) -> BTreeSet<NodeId> {
    let mut gone: BTreeSet<NodeId> = (rehearsal.nodes.iter().enumerate())
        .filter(|(_, node)| node.state == NodeState::Gone)
        .map(|(index, _)| NodeId::new(index))
        .collect();
    for (at, fault) in &rehearsal.faults {
        let Fault::Node { node, becomes } = fault else { continue };
        match becomes {
            NodeTurn::Gone if *at <= end => gone.insert(*node),
            // It comes back, even if the run ends before.
            NodeTurn::Ready => gone.remove(node),
            NodeTurn::Gone | NodeTurn::NotReady | NodeTurn::Maintenance | NodeTurn::Silent | NodeTurn::Crashed => false,
        };
    }
    gone.retain(|node| offer_of(&rehearsal.nodes[node.index()].spec.shape).is_none());
    gone
}

/// When nodes go that no fault brings back.
pub(super) fn times_of_loss(rehearsal: &Rehearsal) -> BTreeSet<SimTime> {
    let gone = rehearsal.faults.last().map(|(last, _)| gone_for_good(rehearsal, *last)).unwrap_or_default();
    let goes = |fault: &Fault| match fault {
        Fault::Node { node, becomes: NodeTurn::Gone } => gone.contains(node),
        _ => false,
    };
    rehearsal.faults.iter().filter(|(_, fault)| goes(fault)).map(|(at, _)| *at).collect()
}

/// The rehearsal with nothing on the nodes that are gone for good. They stay in the list, because a job may name the others
/// by their place in it.
pub(super) fn without_gone(rehearsal: &Rehearsal, end: SimTime) -> Cow<'_, Rehearsal> {
    let gone = gone_for_good(rehearsal, end);
    if gone.is_empty() {
        return Cow::Borrowed(rehearsal);
    }
    let mut left = rehearsal.clone();
    for id in gone {
        let node = &mut left.nodes[id.index()];
        // A Node object states what pods may use of it by itself.
        let of_nothing = |object: &Arc<KubernetesNode>| {
            Arc::new(KubernetesNode { status: KubernetesNode::default().status, ..KubernetesNode::clone(object) })
        };
        let shape = NodeShape {
            cpu: MilliCpu::ZERO,
            ram: Bytes::ZERO,
            reserved: Reserved::default(),
            gpus: Vec::new(),
            devices: Vec::new(),
            kubernetes: node.spec.shape.kubernetes.as_ref().map(of_nothing),
            ..NodeShape::clone(&node.spec.shape)
        };
        node.spec = NodeSpec { name: Arc::clone(&node.spec.name), shape: Arc::new(shape) };
        node.gpus.clear();
    }
    Cow::Owned(left)
}
