//! A pass of the main scheduler over partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::cluster::requested;
use super::partitions::{Said, Unsaid};
use super::visits::{Grounds, Outlook, Visit, Walk};
use super::{Ground, InPartition};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use crate::queue::Queue;
use crate::queue::backfill::plain::judge_on;
use crate::queue::slots::bits::{contains, word_count};
use crate::queue::slots::plain::{Nodes, fleet_with_only};
use crate::queue::slots::time::{SECOND, down_to, limit_of};
use dryrack_event::{Reason, Refusal};
use dryrack_fleet::{NodeState, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_scheduler::slurm::demand_in;
use dryrack_scheduler::{
    Caching, Candidate, Decision, GangPart, decide_for, is_by_room, place_among_neighbours, room, why_no_room,
};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;

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
    /// How many jobs have started, and how many times something was blocked.
    changes: u32,
}

impl Blocked {
    fn blocks(&self, section: usize, reservation: Option<usize>) -> bool {
        match reservation {
            Some(reservation) => self.reservations.contains(&reservation),
            None => self.partitions.contains(&section),
        }
    }
}

/// The jobs that a pass visits, in order.
enum Round {
    /// All that wait.
    Plain(std::vec::IntoIter<InPartition>),
    /// Those that are not blocked, or that are not told yet why they wait.
    Kept(Walk),
}

/// Why a job does not start.
#[derive(Clone)]
struct Refused {
    held: Held,
    lacks: Lacks,
}

/// What would let a job start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lacks {
    /// Nodes that others use. The rest of the partition waits behind the job, or the other jobs of its reservation.
    Room,
    /// Nodes that reservations keep from the job, or that are not ready. The others are not enough even if nothing runs on
    /// them, so the job is passed over.
    UnavailableNodes,
    /// Another partition or reservation. The nodes of this one are not enough even if nothing runs on them and all are
    /// ready, so the job is passed over.
    SuitableNodes,
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
        let nodes = vec![0; word_count(core.fleet.len())];
        let (mut blocked, mut unsaid) = (Blocked { nodes, ..Blocked::default() }, Unsaid::default());
        self.begin_groups(core);
        let mut round = self.begin_round(core);
        while let Some(own) = self.next_visit(core, &mut round, (&blocked, &mut unsaid)) {
            // It may have begun in another partition.
            if core.store.waits_in_queue(own.replica) {
                self.visit(core, own, (&mut blocked, &mut unsaid));
            }
        }
        self.say_all(core, unsaid);
        while let Some((_, index)) = self.fresh.pop_front() {
            core.store[index].fresh = None;
        }
        let has_passed_over = matches!(&round, Round::Kept(walk) if walk.has_passed_over());
        if has_passed_over || self.slurm.as_ref().is_some_and(|slurm| slurm.visits.has_hopeless()) {
            core.clock.note_refusal();
        }
        self.slurm.iter_mut().for_each(|slurm| slurm.visits.end_pass());
        let seen = self.seen_by_pass(core);
        self.slurm.iter_mut().for_each(|slurm| slurm.placed = Some(seen));
        true
    }

    fn begin_round(&mut self, core: &Core) -> Round {
        if self.kept_visits(core).is_none() {
            return Round::Plain(self.in_partitions(core, usize::MAX).into_iter());
        }
        if core.deciding.caching == Caching::Paranoid {
            self.in_partitions(core, usize::MAX);
        }
        // If placements make room, reasons of their own may be over as soon as a job starts in this pass.
        let (changes, moves) = (self.room_changes(core), core.may_placement_make_room());
        let slurm = self.slurm.as_mut().expect("something is kept");
        let mut whole = slurm.visits.take_new();
        let passed = self.held_as_head.iter().filter(|(_, at)| moves || **at != changes);
        whole.extend(passed.map(|(index, _)| *index));
        if core.deciding.examined.watches_anybody() {
            whole.extend(slurm.visits.jobs().filter(|index| core.is_watched(*index)));
        }
        // If most jobs are visited, walking over all of them costs less.
        if whole.len() > slurm.visits.count() / 2 {
            return Round::Plain(self.in_partitions(core, usize::MAX).into_iter());
        }
        Round::Kept(Walk::new(&slurm.visits, whole))
    }

    fn next_visit(
        &mut self,
        core: &mut Core,
        round: &mut Round,
        (blocked, unsaid): (&Blocked, &mut Unsaid),
    ) -> Option<InPartition> {
        let walk = match round {
            Round::Plain(all) => return all.next(),
            Round::Kept(walk) => walk,
        };
        let visits = &self.slurm.as_ref()?.visits;
        let tells_blocked = visits.has_more_room();
        let is_blocked = |grounds: Grounds| {
            let is_left_out = grounds.is_in_vain || grounds.not_allowed.is_some();
            is_left_out || blocked.blocks(grounds.section, grounds.reservation)
        };
        let mut passed: SmallVec<[Visit; 4]> = SmallVec::new();
        let why_denied = |own: InPartition| self.why_denied(core, own);
        let (is_blocked, why_denied, changes) = (&is_blocked, &why_denied, blocked.changes);
        let outlook = Outlook { is_blocked, why_denied, tells_blocked, changes };
        let next = walk.next(visits, &outlook, |visit| passed.push(visit))?;
        let own = visits.place_of(next);
        let said = |grounds: Grounds| grounds.not_allowed.map_or(Said::Behind, Said::NotAllowed);
        let passed = passed.into_iter().filter(|visit| !visits.grounds(*visit).is_in_vain);
        let passed: SmallVec<[(InPartition, Said); 4]> =
            passed.map(|visit| (visits.place_of(visit), said(visits.grounds(visit)))).collect();
        passed.into_iter().for_each(|(place, said)| self.say(core, place, said, unsaid));
        Some(own)
    }

    /// Starts a job in one of its partitions, or notes why it does not start there.
    fn visit(&mut self, core: &mut Core, own: InPartition, (blocked, unsaid): (&mut Blocked, &mut Unsaid)) {
        let index = own.replica;
        let slurm = self.slurm.as_ref().expect("there is a configuration of Slurm");
        let spec = &core.store.job_of(index).spec;
        // Slurm looks at the limits of partitions before it sorts the jobs.
        if let Some(reason) = slurm.why_not_allowed(spec, own.section) {
            return self.say(core, own, Said::NotAllowed(reason), unsaid);
        }
        let reservation = slurm.reservation_of(core, spec);
        if blocked.blocks(own.section, reservation) {
            if !slurm.visits.is_in_vain(own) {
                self.say(core, own, Said::Behind, unsaid);
            }
            return;
        }
        if let Some(reason) = self.why_denied(core, own) {
            return self.say(core, own, Said::Denied(reason), unsaid);
        }
        let decided = self.decide_beside_blocked(core, own, blocked);
        let chosen = || Some(decided.as_ref().ok()?.placement.nodes().collect());
        if let Some(reason) = self.denied_by_nodes(core, (&core.store.job_of(index).spec, own.section), chosen) {
            return self.say(core, own, Said::Denied(reason), unsaid);
        }
        match decided {
            Ok(candidate) => {
                blocked.refused.clear();
                blocked.changes += 1;
                self.choose(own);
                self.start(core, index, candidate);
            }
            Err(Refused { held, lacks: Lacks::SuitableNodes }) => {
                self.say(core, own, Said::NeverFits(held), unsaid);
            }
            Err(Refused { held, lacks: Lacks::UnavailableNodes }) => {
                self.say(core, own, Said::PassedOver(held), unsaid);
            }
            Err(Refused { held, lacks: Lacks::Room }) => {
                let victims = match self.victims_in_slurm(core, own, &blocked.nodes) {
                    Some(Err(reason)) => return self.say(core, own, Said::Denied(reason), unsaid),
                    Some(Ok(victims)) => victims,
                    None => Vec::new(),
                };
                self.say(core, own, Said::Refused(held), unsaid);
                self.preempt_these(core, own, victims);
                blocked.changes += 1;
                // Other jobs of the partition may go on.
                if let Some(reservation) = reservation {
                    blocked.reservations.insert(reservation);
                    return;
                }
                blocked.partitions.insert(own.section);
                blocked.refused.clear();
                let slurm = self.slurm.as_ref().expect("there is a configuration of Slurm");
                let taken = &slurm.partitions[own.section].bits;
                blocked.nodes.iter_mut().zip(taken).for_each(|(nodes, taken)| *nodes |= taken);
            }
        }
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
            if core.is_watched(index) {
                decide_on_all(core, own, &ground);
            }
            return Err(refused.clone());
        }
        let found = decide_on(core, own, &ground, (now, limit), &blocked.nodes);
        if let Err(refused) = &found {
            blocked.refused.insert(alike, refused.clone());
        }
        found
    }
}

/// Where a replica starts now on its nodes without those that are kept for jobs ahead of it. The error says why nowhere.
fn decide_on(
    core: &mut Core,
    own: InPartition,
    ground: &Ground<'_>,
    (now, limit): (SimTime, SimDuration),
    blocked: &[u64],
) -> Result<Candidate, Refused> {
    let index = own.replica;
    let (open, reserved) = (ground.nodes(now, limit), ground.reserved(now, limit));
    let left: Vec<NodeId> = open.iter().copied().filter(|node| !contains(blocked, *node)).collect();
    let kept = (open.len() - left.len()) as u32;
    if kept == 0 && reserved == 0 && !own.is_one_of_several {
        core.examine_if_watched(index, |_| None);
        return match core.decide_now(index, 1) {
            Decision::Place(mut candidates) => Ok(candidates.swap_remove(0)),
            Decision::Refuse { refusal, reasons } => {
                let lacks = lacks(core, (index, refusal), &open, &left);
                Err(Refused { held: (refusal, reasons), lacks })
            }
        };
    }
    if let Some(candidate) = place_on(core, index, &left) {
        let visible = Nodes::of(left.iter().copied(), core.fleet.len());
        let why_closed = |node| (!visible.has(node)).then(|| ground.why_closed(node, now, limit));
        core.examine_within_if_watched(index, |core| fleet_with_only(core, &visible), why_closed);
        return Ok(candidate);
    }
    let lacks_reserved_nodes = reserved > 0 && !would_fit_on_empty(core, index, &open);
    let demand = demand_on(core, own, ground);
    let is_kept = |node: &NodeId| contains(blocked, *node);
    let mut closed: Vec<(NodeId, Reason)> =
        open.iter().copied().filter(is_kept).map(|node| (node, Reason::HeldForPriority)).collect();
    // A job that waits for other nodes could only use reserved nodes that have room for it now.
    let counts = |node: &NodeId| {
        lacks_reserved_nodes || why_no_room(&core.profile.scheduler, &demand, &core.fleet, *node).is_none()
    };
    let reserved = ground.reserved_nodes(now, limit).into_iter().filter(counts);
    closed.extend(reserved.map(|node| (node, Reason::InReservation)));
    let of_all = match decide_on_all(core, own, ground) {
        Decision::Refuse { refusal, reasons } => Some((refusal, reasons)),
        Decision::Place(_) => None,
    };
    let held = with_closed(core, &demand, of_all, &closed);
    let lacks = match (held.0, lacks_reserved_nodes) {
        (Refusal::Unfit, true) => Lacks::UnavailableNodes,
        (refusal, _) => lacks(core, (index, refusal), &open, &left),
    };
    Err(Refused { held, lacks })
}

/// What would let a job start that may use the `open` nodes, of which those that are `left` are not kept for jobs ahead of
/// it. If fewer nodes are left and ready than the job asks for, Slurm does not look further, and the jobs behind it wait.
fn lacks(core: &Core, (index, refusal): (ReplicaIndex, Refusal), open: &[NodeId], left: &[NodeId]) -> Lacks {
    let is_ready = |node: &&NodeId| core.fleet.node(**node).status.state == NodeState::Ready;
    let has_others = || {
        let asked = requested(&core.store.job_of(index).spec).nodes;
        left.iter().filter(is_ready).count() as u64 >= asked && open.iter().any(|node| !is_ready(&node))
    };
    match refusal {
        Refusal::Never => Lacks::SuitableNodes,
        Refusal::Unfit if has_others() && !would_fit_on_empty(core, index, open) => Lacks::UnavailableNodes,
        Refusal::Unfit => Lacks::Room,
    }
}

/// The reasons of all nodes, in which each closed node counts with the reason for which it is closed. A closed node that
/// the replica could not use even if nothing ran there keeps its own reason, and so do all nodes if the replica never
/// fits. `of_all` is the refusal on all nodes, closed ones too. `None` if the replica would be placed on them.
pub(super) fn with_closed(core: &Core, demand: &Demand, of_all: Option<Held>, closed: &[(NodeId, Reason)]) -> Held {
    let options = &core.profile.scheduler;
    let own = |node: NodeId| why_no_room(options, demand, &core.fleet, node).unwrap_or(Reason::GangIncomplete);
    let reasons = match of_all {
        Some(never @ (Refusal::Never, _)) => return never,
        Some((Refusal::Unfit, reasons)) => reasons,
        None => (0..core.fleet.len()).map(|node| (own(NodeId::new(node)), 1)).collect(),
    };
    let would_do = |node: NodeId| {
        let row = core.fleet.node(node);
        room(options, demand, &core.fleet, node, &NodeStatus::idle(row.status.state, &row.shape)) > 0
    };
    let moved = closed.iter().copied().filter(|(node, _)| would_do(*node)).map(|(node, reason)| (own(node), reason));
    (Refusal::Unfit, reasons.with_moved(moved))
}

/// The demand of a replica on the nodes of one of its partitions.
pub(super) fn demand_on(core: &Core, own: InPartition, ground: &Ground<'_>) -> Arc<Demand> {
    let demand = core.store.demand_of(own.replica);
    // The demand allows the nodes of all partitions of the job.
    if own.is_one_of_several { Arc::new(demand_in(demand, &ground.section.options.name)) } else { Arc::clone(demand) }
}

/// The decision about a replica on all nodes of the fleet.
fn decide_on_all(core: &mut Core, own: InPartition, ground: &Ground<'_>) -> Decision {
    let index = own.replica;
    if !own.is_one_of_several {
        core.examine_if_watched(index, |_| None);
        return core.decide_now(index, 1);
    }
    let demand = demand_on(core, own, ground);
    core.examine_part_if_watched(index, &demand, GangPart::Whole);
    let context = core.context(core.store[index].attempt_id());
    decide_for(&core.profile.scheduler, &demand, context, &core.fleet, core.deciding.grouping, 1)
}

/// Whether these nodes would have room for a replica if nothing ran on them. Nodes alone do not decide about gangs of unequal
/// tasks and jobs that pick their GPUs, which are taken to fit.
fn would_fit_on_empty(core: &Core, index: ReplicaIndex, nodes: &[NodeId]) -> bool {
    let demand = core.store.demand_of(index);
    if !is_by_room(&core.profile.scheduler, demand) {
        return true;
    }
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
