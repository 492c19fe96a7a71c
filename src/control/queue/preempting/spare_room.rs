//! Room that a promise needs beside its place.
//!
//! Under [`FitTest::NodesOrBlocks`], a replica fits only if its fleet also has room for the other replicas of its job, or
//! if enough instances of its fleet are not in use, although it takes only blocks of them. A custom filter that reads the
//! state of nodes may need more than the place too, such as one that keeps half of a node free. So a replica that has the
//! promise of a place could lose its fit to replicas behind it that do not take this place. The attempts that were stopped
//! for it would take their old places again, and would be stopped again, without end.
//!
//! [`FitTest::NodesOrBlocks`]: dryrack_scheduler::offers::FitTest::NodesOrBlocks

use super::{fleet_without_what_stops, take_promised};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::backfill::plain::judge_on;
use dryrack_fleet::{Fleet, GpuClaim, GpuShape, GpuStatus, Node, NodeClaim, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::Decision;
use dryrack_scheduler::offers::needs_spare_room;
use dryrack_units::{Bytes, GpuShare};
use std::collections::BTreeSet;

/// Replicas ahead of a waiting one with their promised places, in the order of the queue.
pub type Promises<'a> = &'a [(ReplicaIndex, Placement)];

/// Takes room in a copy of the fleet, so that the replica finds no place there with which it would break a promise. The
/// promised places are already taken in this copy. Nodes on which the replica would break a promise are closed to it.
pub fn close_needed_room(core: &Core, index: ReplicaIndex, promises: Promises<'_>, fleet: &mut Fleet) {
    if !promises.iter().any(|(head, _)| needs_more_than_its_place(core, *head)) {
        return;
    }
    let free = fleet_without_what_stops(core, &core.holders());
    let mut closed: BTreeSet<NodeId> = BTreeSet::new();
    while let Some(candidate) = judge_on(core, index, fleet)
        && let Some((_, promised)) = broken_promise(core, promises, &free, &candidate.placement)
    {
        let mut nodes: Vec<NodeId> = candidate.placement.nodes().filter(|node| !closed.contains(node)).collect();
        match nodes.iter().any(|node| promised.touches(*node)) {
            true => nodes.retain(|node| promised.touches(*node)),
            false => nodes = nodes_like(fleet, &nodes),
        }
        if nodes.is_empty() {
            return;
        }
        fleet.take_in_advance(&Placement::new(nodes.iter().map(|node| rest_of(fleet, *node)).collect()));
        closed.extend(nodes);
    }
}

/// Whether the place that was decided for a replica breaks a promise because of a custom filter.
pub fn breaks_by_filters(core: &Core, promises: Promises<'_>, decision: &Decision) -> bool {
    let Decision::Place(candidates) = decision else { return false };
    core.profile.scheduler.may_placing_make_room() && {
        let free = fleet_without_what_stops(core, &core.holders());
        candidates.iter().any(|candidate| broken_promise(core, promises, &free, &candidate.placement).is_some())
    }
}

/// All nodes that are as one of these.
fn nodes_like(fleet: &Fleet, nodes: &[NodeId]) -> Vec<NodeId> {
    let is_like = |node: &Node, other: &Node| node.shape == other.shape && node.status == other.status;
    let is_like_one = |node: &Node| nodes.iter().any(|other| is_like(node, fleet.node(*other)));
    fleet.iter().filter(|(_, node)| is_like_one(node)).map(|(id, _)| id).collect()
}

/// All that is left of a node.
fn rest_of(fleet: &Fleet, id: NodeId) -> NodeClaim {
    let node = fleet.node(id);
    let left = |(index, (shape, status)): (usize, (&GpuShape, &GpuStatus))| GpuClaim {
        index: index as u16,
        share: GpuShare::WHOLE.saturating_sub(status.taken),
        memory: shape.memory.saturating_sub(status.memory_taken),
    };
    let gpus = node.shape.gpus.iter().zip(&node.status.gpus).enumerate().map(left);
    NodeClaim {
        cpu: node.shape.cpu.saturating_sub(node.status.cpu_taken),
        ram: node.shape.ram.saturating_sub(node.status.ram_taken),
        gpus: gpus.filter(|gpu| (gpu.share, gpu.memory) != (GpuShare::ZERO, Bytes::ZERO)).collect(),
        blocks: node.status.idle_blocks(&node.shape).collect(),
        ..NodeClaim::of_nothing(id)
    }
}

fn needs_more_than_its_place(core: &Core, head: ReplicaIndex) -> bool {
    core.profile.scheduler.may_placing_make_room() || needs_rest_of_fleet(core, head)
}

fn needs_rest_of_fleet(core: &Core, head: ReplicaIndex) -> bool {
    let context = core.context(core.store[head].attempt_id());
    needs_spare_room(&core.profile.scheduler.offers, &core.fleet, core.store.demand_of(head), context)
}

/// The first promise that could be kept in `free`, but not beside this place. `free` is the fleet without all attempts that
/// stop.
fn broken_promise<'p>(
    core: &Core,
    promises: Promises<'p>,
    free: &Fleet,
    place: &Placement,
) -> Option<&'p (ReplicaIndex, Placement)> {
    let mut without = free.clone();
    let reads_states = core.profile.scheduler.may_placing_make_room();
    promises.iter().find(|(head, promised)| {
        let fits = |fleet: &Fleet| judge_on(core, *head, fleet).is_some();
        let keeps = |fleet: &Fleet| core.still_fits(*head, core.store.demand_of(*head), fleet, promised);
        let beside = || {
            let mut beside = without.clone();
            beside.take_in_advance(place);
            beside
        };
        let loses_fit = || !fits(&beside()) && fits(&without);
        // A head that fitted only elsewhere could take the room of the next promise.
        let breaks = match reads_states && keeps(&without) {
            true => place.nodes().any(|node| promised.touches(node)) && !keeps(&beside()),
            false => reads_states && loses_fit(),
        };
        let breaks = breaks || needs_rest_of_fleet(core, *head) && loses_fit();
        take_promised(&mut without, promised);
        breaks
    })
}
