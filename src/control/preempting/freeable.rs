//! The room on each node for a waiting replica if all that it may stop were gone. It is kept from pass to pass, so a
//! replica that cannot start in any case costs only a look at the nodes that have changed.

use std::collections::BTreeMap;

use super::super::Control;
use super::super::store::ReplicaIndex;
use super::shadow::Shadow;
use dryrack_event::Phase;
use dryrack_fleet::{Fleet, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Preempt, is_by_room, room};

/// Rooms are kept for at most this many pairs of a demand and a rank.
const MOST_KEPT: usize = 256;

/// Rooms by the number of the demand and the rank of the replica that waits.
#[derive(Default)]
pub struct Freeable {
    rooms: BTreeMap<(u32, i64), Rooms>,
}

#[derive(Default)]
struct Rooms {
    /// How many changes of the fleet are taken into account.
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
    /// Whether it would fit on the shadow of the fleet without all that it may stop; `None` if that is not known.
    pub fn would_fit(&mut self, control: &Control, head: ReplicaIndex, shadow: &Shadow) -> Option<bool> {
        let rank = control.rank_of(head)?;
        let number = control.replicas[head as usize].demand;
        let demand = &control.demands[number as usize].demand;
        let has_unified = || control.fleet.shapes().iter().any(|group| group.shape.has_unified_gpus());
        if !is_by_room(&control.profile.scheduler, demand) || has_unified() {
            return None;
        }
        if self.rooms.len() >= MOST_KEPT && !self.rooms.contains_key(&(number, rank)) {
            self.rooms.clear();
        }
        let rooms = self.rooms.entry((number, rank)).or_default();
        let may_stop = |index: ReplicaIndex| control.ranks_behind(index, rank);
        let of_fleet = |node: NodeId| control.room_without(head, (&control.fleet, node), may_stop);
        match rooms.nodes.len() == control.fleet.len() {
            true => control.fleet.changed_nodes(rooms.read).for_each(|node| rooms.set(node, of_fleet(node))),
            false => {
                rooms.nodes = (0..control.fleet.len()).map(|node| of_fleet(NodeId::new(node))).collect();
                rooms.total = rooms.nodes.iter().map(|room| u64::from(*room)).sum();
            }
        }
        rooms.read = control.fleet.node_change_count();
        // Nodes on which the shadow differs, or on which something may be stopped in this moment only, are looked at
        // separately.
        let differs = |node: &NodeId| shadow.fleet.node(*node).status != control.fleet.node(*node).status;
        let mut apart = shadow.changed();
        apart.retain(differs);
        let joining =
            control.those_who_join().iter().filter_map(|index| control.replicas[*index as usize].placement.as_ref());
        apart.extend(joining.flat_map(|placement| placement.claims().iter().map(|claim| claim.node)));
        apart.sort_unstable();
        apart.dedup();
        let total = apart.iter().fold(rooms.total, |total, node| {
            let room = control.room_without(head, (&shadow.fleet, *node), |index| control.may_stop(index, head));
            total + u64::from(room) - u64::from(rooms.nodes[node.index()])
        });
        Some(total >= u64::from(demand.tasks))
    }
}

impl Control {
    /// The rank of a waiting replica, which decides whom it may stop at any time; `None` if that changes with time.
    pub(super) fn rank_of(&self, head: ReplicaIndex) -> Option<i64> {
        match self.profile.scheduler.preempt {
            Preempt::Nobody | Preempt::LongerRemaining => None,
            Preempt::LowerPriority => Some(i64::from(self.priority_of(head))),
            Preempt::MoreAttained => Some(i64::from(self.level(head))),
        }
    }

    /// Whether a replica of this rank may stop it at any time.
    pub(super) fn ranks_behind(&self, index: ReplicaIndex, rank: i64) -> bool {
        self.may_be_stopped(index)
            && match self.profile.scheduler.preempt {
                Preempt::Nobody | Preempt::LongerRemaining => false,
                Preempt::LowerPriority => i64::from(self.priority_of(index)) < rank,
                Preempt::MoreAttained => i64::from(self.level(index)) > rank,
            }
    }

    /// How many tasks the node would take in this fleet without those of its runs that are gone.
    fn room_without(
        &self,
        head: ReplicaIndex,
        (fleet, node): (&Fleet, NodeId),
        is_gone: impl Fn(ReplicaIndex) -> bool,
    ) -> u32 {
        let demand = &self.demands[self.replicas[head as usize].demand as usize].demand;
        let record = fleet.node(node);
        let mut without: Option<NodeStatus> = None;
        for index in self.nodes[node.index()].runs.iter().filter(|index| is_gone(**index)) {
            let claims = self.placement_of(*index).claims().iter().filter(|claim| claim.node == node);
            let status = without.get_or_insert_with(|| record.status.clone());
            claims.for_each(|claim| status.give_back(&record.shape, claim));
        }
        room(&self.profile.scheduler, demand, fleet, node, without.as_ref().unwrap_or(&record.status))
    }

    /// Makes everything that is kept of its nodes be computed again.
    pub(in super::super) fn note_changes_of(&mut self, index: ReplicaIndex) {
        let placement = self.replicas[index as usize].placement.clone();
        placement.iter().flat_map(|placement| placement.claims()).for_each(|claim| self.fleet.note_change(claim.node));
    }

    /// Notes that it begins or ceases to stop.
    pub(in super::super) fn note_stopping(&mut self, index: ReplicaIndex, phase: Phase) {
        match phase {
            Phase::Stopping => self.preempting.stopping.insert(index),
            Phase::Pending | Phase::Analysing | Phase::Scheduled | Phase::Preparing | Phase::Running | Phase::Ended => {
                self.preempting.stopping.remove(&index)
            }
        };
        self.note_changes_of(index);
    }
}
