//! A pass of the main scheduler over partitions.

use std::collections::{BTreeMap, BTreeSet};

use super::partitions::{Said, Unsaid};
use super::{Ground, InPartition};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use crate::queue::Queue;
use crate::queue::backfill::plain::judge_on;
use crate::queue::slots::bits::{contains, word_count};
use crate::queue::slots::plain::{Nodes, fleet_with_only};
use crate::queue::slots::time::{SECOND, down_to, limit_of};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::NodeStatus;
use dryrack_ids::NodeId;
use dryrack_scheduler::{Candidate, Decision, is_by_room, place_among_neighbours, room};
use dryrack_units::{SimDuration, SimTime};

/// The partitions and advance reservations whose jobs wait for the rest of the pass, and the nodes of these partitions.
#[derive(Default)]
struct Blocked {
    partitions: BTreeSet<usize>,
    reservations: BTreeSet<usize>,
    /// The nodes as bits.
    nodes: Vec<u64>,
    /// Why jobs do not start, by the number of the demand and the number of advance reservations that keep nodes from
    /// them, and by the partition. Equal jobs get equal answers until a job starts or a partition is blocked, so that a
    /// long queue of equal jobs is judged once. (The demand states the job's own reservation.)
    refused: BTreeMap<(u32, usize, usize), Refused>,
}

/// Why a job does not start.
#[derive(Clone)]
struct Refused {
    held: Held,
    /// Whether the nodes that reservations leave to the job were not enough even if nothing ran on them. Such a job is
    /// passed over. Any other job that does not fit makes the rest of its partition wait, or the other jobs of its
    /// reservation.
    lacks_reserved_nodes: bool,
}

impl Queue {
    /// Whether a pass of the main scheduler could do more than repeat the last one. `None` if the profile has no
    /// configuration of Slurm.
    pub(in crate::queue) fn main_has_work(&self, core: &Core) -> Option<bool> {
        let slurm = self.slurm.as_ref()?;
        Some(slurm.placed != Some(self.seen_by_pass(core)))
    }

    /// Starts jobs in order, until one of each partition does not fit. Returns whether the profile has a configuration
    /// of Slurm, so that this pass replaces the plain one.
    pub(in crate::queue) fn place_by_partition(&mut self, core: &mut Core) -> bool {
        if self.slurm.is_none() {
            return false;
        }
        self.calculate_priorities(core);
        self.count_usage(core);
        let waiting = self.in_partitions(core);
        let nodes = vec![0; word_count(core.fleet.len())];
        let (mut blocked, mut unsaid) = (Blocked { nodes, ..Blocked::default() }, Unsaid::default());
        for own in waiting {
            let index = own.replica;
            // It has begun in another partition.
            if !core.store.waits_in_queue(index) {
                continue;
            }
            let slurm = self.slurm.as_ref().expect("checked above");
            let reservation = slurm.reservation_of(core, &core.store.job_of(index).spec);
            let is_blocked = match reservation {
                Some(reservation) => blocked.reservations.contains(&reservation),
                None => blocked.partitions.contains(&own.section),
            };
            if is_blocked {
                self.say(core, index, Said::Behind, &mut unsaid);
                continue;
            }
            if let Some(reason) = self.denied(core, own) {
                self.say(core, index, Said::Denied(reason), &mut unsaid);
                continue;
            }
            match self.decide_beside_blocked(core, own, &mut blocked) {
                Ok(candidate) => {
                    blocked.refused.clear();
                    self.choose(core, own);
                    self.start(core, index, candidate);
                }
                Err(refused) if refused.lacks_reserved_nodes => {
                    self.say(core, index, Said::PassedOver(refused.held), &mut unsaid);
                }
                Err(refused) => {
                    self.say(core, index, Said::Refused(refused.held), &mut unsaid);
                    self.preempt_for(core, own, &blocked.nodes);
                    // Other jobs of the partition may go on.
                    if let Some(reservation) = reservation {
                        blocked.reservations.insert(reservation);
                        continue;
                    }
                    blocked.partitions.insert(own.section);
                    blocked.refused.clear();
                    let taken = &self.slurm.as_ref().expect("checked above").partitions[own.section].bits;
                    blocked.nodes.iter_mut().zip(taken).for_each(|(nodes, taken)| *nodes |= taken);
                }
            }
        }
        self.say_all(core, unsaid);
        while let Some((_, index)) = self.fresh.pop_front() {
            core.store[index].fresh = None;
        }
        let seen = self.seen_by_pass(core);
        self.slurm.iter_mut().for_each(|slurm| slurm.placed = Some(seen));
        true
    }

    /// Where a replica starts now, beside the nodes that are kept for jobs ahead of it. The error says why nowhere.
    fn decide_beside_blocked(
        &mut self,
        core: &mut Core,
        own: InPartition,
        blocked: &mut Blocked,
    ) -> Result<Candidate, Refused> {
        let index = own.replica;
        let ground = self.ground_of(core, own).expect("there is a configuration of Slurm");
        let (now, limit) = (down_to(core.now, SECOND), limit_of(core, index));
        let alike = (core.store[index].demand, ground.closed_by(now, limit), own.section);
        if let Some(refused) = blocked.refused.get(&alike) {
            core.examine_if_watched(index, |_| None);
            return Err(refused.clone());
        }
        let found = decide_on(core, index, &ground, (now, limit), &blocked.nodes);
        if let Err(refused) = &found {
            blocked.refused.insert(alike, refused.clone());
        }
        found
    }
}

/// Where a replica starts now on its nodes without those that are kept for jobs ahead of it. The error says why nowhere.
fn decide_on(
    core: &mut Core,
    index: ReplicaIndex,
    ground: &Ground<'_>,
    (now, limit): (SimTime, SimDuration),
    blocked: &[u64],
) -> Result<Candidate, Refused> {
    let (open, reserved) = (ground.nodes(now, limit), ground.reserved(now, limit));
    let left: Vec<NodeId> = open.iter().copied().filter(|node| !contains(blocked, *node)).collect();
    let kept = (open.len() - left.len()) as u32;
    if kept == 0 && reserved == 0 && !is_of_several(core, index) {
        core.examine_if_watched(index, |_| None);
        return match core.decide_now(index, 1) {
            Decision::Place(mut candidates) => Ok(candidates.swap_remove(0)),
            Decision::Refuse { refusal, reasons } => {
                Err(Refused { held: (refusal, reasons), lacks_reserved_nodes: false })
            }
        };
    }
    let found = place_on(core, index, &left);
    // A refusal is explained on all nodes, because its reasons count all of them.
    let visible = Nodes::of(left.iter().copied(), core.fleet.len());
    core.examine_if_watched(index, |core| found.is_some().then(|| fleet_with_only(core, &visible)));
    if let Some(candidate) = found {
        return Ok(candidate);
    }
    let mut reasons = Histogram::default();
    reasons.add(Reason::HeldForPriority, kept);
    let lacks_reserved_nodes = reserved > 0 && !would_fit_on_empty(core, index, &open);
    if lacks_reserved_nodes {
        reasons.add(Reason::InReservation, reserved);
    }
    let mut refusal = Refusal::Unfit;
    match core.decide_now(index, 1) {
        Decision::Refuse { refusal: own, reasons: others } => {
            others.iter().for_each(|(reason, count)| reasons.add(reason, count));
            // It was judged on all nodes, also on those that are kept for others.
            refusal = own;
        }
        // There is room in another partition of the job. This one may have no nodes at all.
        Decision::Place(_) if is_of_several(core, index) => reasons.add(Reason::QueueOrder, (open.len() as u32).max(1)),
        Decision::Place(_) => {}
    }
    if reasons.is_empty() {
        reasons.add(Reason::InReservation, reserved);
    }
    Err(Refused { held: (refusal, reasons), lacks_reserved_nodes })
}

/// Whether a job is in several partitions, so that its demand allows more nodes than each of them has.
fn is_of_several(core: &Core, index: ReplicaIndex) -> bool {
    let terms = core.store.job_of(index).spec.slurm.as_ref();
    terms.and_then(|terms| terms.partition.as_deref()).is_some_and(|names| names.contains(','))
}

/// Whether these nodes would have room for a replica if nothing ran on them.
fn would_fit_on_empty(core: &Core, index: ReplicaIndex, nodes: &[NodeId]) -> bool {
    let demand = core.store.demand_of(index);
    let room_on = |node: &NodeId| {
        let row = core.fleet.node(*node);
        let idle = NodeStatus::idle(row.status.state, &row.shape);
        u64::from(room(&core.profile.scheduler, demand, &core.fleet, *node, &idle))
    };
    nodes.iter().map(room_on).sum::<u64>() >= u64::from(demand.tasks)
}

/// Where a replica starts now if only these nodes exist.
fn place_on(core: &Core, index: ReplicaIndex, nodes: &[NodeId]) -> Option<Candidate> {
    let replica = &core.store[index];
    let demand = core.store.demand(replica.demand);
    let options = &core.profile.scheduler;
    // Nodes alone do not decide about a job that picks its GPUs.
    if !is_by_room(options, demand) {
        let only = Nodes::of(nodes.iter().copied(), core.fleet.len());
        return judge_on(core, index, &fleet_with_only(core, &only));
    }
    let with_room = nodes.iter().copied().filter_map(|node| {
        let status: &NodeStatus = &core.fleet.node(node).status;
        (room(options, demand, &core.fleet, node, status) > 0).then(|| (node, status.clone()))
    });
    let with_room: Vec<(NodeId, NodeStatus)> = with_room.collect();
    place_among_neighbours(options, demand, core.context(replica.attempt_id()), &core.fleet, &with_room)
}
