//! For a waiting replica, the room on each node without any of the attempts that the replica may stop. The result is
//! kept from pass to pass. For a replica that cannot start in any case, only the changed nodes are examined.

use std::collections::BTreeMap;

use super::shadow::Shadow;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::attained::level;
use dryrack_fleet::{Fleet, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Preempt, is_by_room, room};

/// Maximum number of kept rooms. There is one entry for each pair of a demand and a rank.
const MOST_KEPT: usize = 256;

/// Rooms for each demand number and each rank of a waiting replica.
#[derive(Default)]
pub struct Freeable {
    rooms: BTreeMap<(u32, i64), Rooms>,
}

#[derive(Default)]
struct Rooms {
    /// How many changes of the fleet the rooms already include.
    read: u64,
    nodes: Vec<u32>,
    total: u64,
}

impl Rooms {
    fn set(&mut self, node: NodeId, room: u32) {
        let before = std::mem::replace(&mut self.nodes[node.index()], room);
        self.total = self.total + u64::from(room) - u64::from(before);
    }
}

impl Freeable {
    /// Whether a replica would fit on the shadow fleet without all attempts that it may stop, which are those for which
    /// `may_stop_now` holds. It differs from the answer by rank only for the attempts in `joining`. `None` if this is
    /// not known.
    pub fn would_fit(
        &mut self,
        core: &Core,
        head: ReplicaIndex,
        shadow: &Shadow,
        (joining, may_stop_now): (&[ReplicaIndex], impl Fn(ReplicaIndex) -> bool),
    ) -> Option<bool> {
        let rank = rank_of(core, head)?;
        let number = core.store[head].demand;
        let demand = core.store.demand(number);
        let is_steady = !core.deciding.has_unsteady_stages && !core.fleet.has_unified_gpus();
        if !is_by_room(&core.profile.scheduler, demand) || !is_steady {
            return None;
        }
        if self.rooms.len() >= MOST_KEPT && !self.rooms.contains_key(&(number, rank)) {
            self.rooms.clear();
        }
        let rooms = self.rooms.entry((number, rank)).or_default();
        let may_stop = |index: ReplicaIndex| ranks_behind(core, index, rank);
        let of_fleet = |node: NodeId| room_without(core, head, (&core.fleet, node), may_stop);
        match rooms.nodes.len() == core.fleet.len() {
            true => core.fleet.changed_nodes(rooms.read).for_each(|node| rooms.set(node, of_fleet(node))),
            false => {
                rooms.nodes = (0..core.fleet.len()).map(|node| of_fleet(NodeId::new(node))).collect();
                rooms.total = rooms.nodes.iter().map(|room| u64::from(*room)).sum();
            }
        }
        rooms.read = core.fleet.node_change_count();
        // Two kinds of nodes are examined separately: nodes on which the shadow differs from the real fleet, and nodes
        // with an attempt that may be stopped only at this instant.
        let differs = |node: &NodeId| shadow.fleet.node(*node).status != core.fleet.node(*node).status;
        let mut apart = shadow.changed();
        apart.retain(differs);
        let joining = joining.iter().filter_map(|index| core.store[*index].placement.as_ref());
        apart.extend(joining.flat_map(|placement| placement.claims().iter().map(|claim| claim.node)));
        apart.sort_unstable();
        apart.dedup();
        let total = apart.iter().fold(rooms.total, |total, node| {
            let room = room_without(core, head, (&shadow.fleet, *node), &may_stop_now);
            total + u64::from(room) - u64::from(rooms.nodes[node.index()])
        });
        Some(total >= u64::from(demand.tasks))
    }
}

/// The rank of a waiting replica, which alone decides which attempts the replica may preempt. `None` if the preemption
/// rule also depends on time.
pub(in crate::queue) fn rank_of(core: &Core, head: ReplicaIndex) -> Option<i64> {
    match core.profile.scheduler.preempt {
        Preempt::Nobody | Preempt::LongerRemaining => None,
        Preempt::LowerPriority => Some(i64::from(core.store.job_of(head).spec.priority)),
        Preempt::MoreAttained => Some(i64::from(level(core, head))),
    }
}

/// Whether a waiting replica of this rank may stop the given attempt at any time.
pub(in crate::queue) fn ranks_behind(core: &Core, index: ReplicaIndex, rank: i64) -> bool {
    core.store[index].may_be_stopped()
        && match core.profile.scheduler.preempt {
            Preempt::Nobody | Preempt::LongerRemaining => false,
            Preempt::LowerPriority => i64::from(core.store.job_of(index).spec.priority) < rank,
            Preempt::MoreAttained => i64::from(level(core, index)) > rank,
        }
}

/// How many tasks of the head this node could take in this fleet, without the attempts for which `is_gone` holds.
fn room_without(
    core: &Core,
    head: ReplicaIndex,
    (fleet, node): (&Fleet, NodeId),
    is_gone: impl Fn(ReplicaIndex) -> bool,
) -> u32 {
    let demand = core.store.demand_of(head);
    let record = fleet.node(node);
    let mut without: Option<NodeStatus> = None;
    for index in core.nodes[node.index()].replicas.iter().filter(|index| is_gone(**index)) {
        let claims = core.store.placement_of(*index).claims().iter().filter(|claim| claim.node == node);
        let status = without.get_or_insert_with(|| record.status.clone());
        claims.for_each(|claim| status.give_back(&record.shape, claim));
    }
    room(&core.profile.scheduler, demand, fleet, node, without.as_ref().unwrap_or(&record.status))
}

/// Marks the nodes of a replica as changed, so that all kept results about them are computed again.
pub(in crate::queue) fn note_changes_of(core: &mut Core, index: ReplicaIndex) {
    let placement = core.store[index].placement.clone();
    placement.iter().flat_map(|placement| placement.claims()).for_each(|claim| core.fleet.note_change(claim.node));
}
