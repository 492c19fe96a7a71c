//! The attempts on each node and their expected ends. The calendar is kept from pass to pass, and updated when a node
//! changes.

use std::collections::BTreeSet;

use dryrack_fleet::{Fleet, NodeClaim, NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_units::{GpuShare, SimTime};

/// One claim of a placement, on one node.
#[derive(Clone, Debug)]
pub struct Part {
    placement: Placement,
    place: u32,
    /// Bit set over the node's first 64 GPUs: those that the claim takes completely.
    pub gpus: u64,
}

impl Part {
    /// One part for each node of the placement.
    pub fn all(placement: &Placement) -> impl Iterator<Item = Part> + '_ {
        placement.claims().iter().enumerate().map(|(place, claim)| Part::of(placement, place, claim))
    }

    pub fn on(placement: &Placement, node: NodeId) -> Option<Part> {
        let place = placement.claims().binary_search_by_key(&node, |claim| claim.node).ok()?;
        Some(Part::of(placement, place, &placement.claims()[place]))
    }

    fn of(placement: &Placement, place: usize, claim: &NodeClaim) -> Part {
        let whole = claim.gpus.iter().filter(|part| part.share == GpuShare::WHOLE && part.index < 64);
        let gpus = whole.fold(0, |gpus, part| gpus | 1 << part.index);
        Part { placement: placement.clone(), place: place as u32, gpus }
    }

    pub fn claim(&self) -> &NodeClaim {
        &self.placement.claims()[self.place as usize]
    }
}

/// The part of a placement on one node, and when it ends.
#[derive(Clone, Debug)]
pub struct NodeEnd {
    pub until: SimTime,
    pub part: Part,
}

impl NodeEnd {
    pub fn claim(&self) -> &NodeClaim {
        self.part.claim()
    }
}

#[derive(Clone, Debug)]
struct NodeCalendar {
    held: Vec<NodeEnd>,
    /// The node's status as if no attempt held any of its resources.
    empty: Option<NodeStatus>,
}

#[derive(Clone, Debug, Default)]
pub struct Calendar {
    /// How many changes of nodes the calendar already includes.
    pub read: u64,
    /// When these changes were included.
    pub at: SimTime,
    nodes: Vec<NodeCalendar>,
    /// When and where an attempt is expected to end.
    ends: BTreeSet<(SimTime, NodeId)>,
    /// Nodes with an attempt whose expected end moves as time passes.
    pub floating: BTreeSet<NodeId>,
}

impl Calendar {
    /// Replaces the attempts on a node. `floats` says whether the expected end of one of them moves as time passes.
    pub fn replace(&mut self, fleet: &Fleet, node: NodeId, mut held: Vec<NodeEnd>, floats: bool) {
        if self.nodes.len() < fleet.len() {
            self.nodes.resize(fleet.len(), NodeCalendar { held: Vec::new(), empty: None });
        }
        let own = &mut self.nodes[node.index()];
        let is_finite = |held: &&NodeEnd| held.until < SimTime::MAX;
        for gone in own.held.iter().filter(is_finite) {
            self.ends.remove(&(gone.until, node));
        }
        held.sort_by_key(|held| held.until);
        self.ends.extend(held.iter().filter(is_finite).map(|held| (held.until, node)));
        let mut empty = fleet.node(node).status.clone();
        held.iter().for_each(|held| fleet.without_claim(&mut empty, held.claim()));
        *own = NodeCalendar { held, empty: Some(empty) };
        match floats {
            true => self.floating.insert(node),
            false => self.floating.remove(&node),
        };
    }

    /// The attempts on a node, in order of their expected ends.
    pub fn held_on(&self, node: NodeId) -> std::slice::Iter<'_, NodeEnd> {
        self.nodes[node.index()].held.iter()
    }

    pub fn empty(&self, node: NodeId) -> &NodeStatus {
        self.nodes[node.index()].empty.as_ref().expect("every node is taken in")
    }

    /// The earliest expected end of an attempt.
    pub fn first_end(&self) -> Option<SimTime> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// The expected ends from this time on, each with its node.
    pub fn ends_from(&self, from: SimTime) -> impl Iterator<Item = (SimTime, NodeId)> + '_ {
        self.ends.range((from, NodeId::new(0))..).copied()
    }

    /// Nodes on which the expected end of an attempt has passed.
    pub fn overdue(&self, now: SimTime) -> impl Iterator<Item = NodeId> + '_ {
        self.ends.iter().take_while(move |(at, _)| *at <= now).map(|(_, node)| *node)
    }
}
