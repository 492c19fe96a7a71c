//! The plain computation of backfilling. It judges each waiting replica separately, on copies of the fleet. The faster
//! computation is checked against it. It is also used if the answer cannot be found by considering each node
//! separately.

use std::collections::{BTreeMap, BTreeSet};

use super::reservations::{Reservation, most_taken};
use super::{MOMENT, Planned};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::backfill::said_end;
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_scheduler::{Candidate, Decision, QueueKey, asks_for_itself, decide_for};
use dryrack_units::SimTime;

/// A placement with the time at which it ends.
pub(crate) struct HeldPlacement {
    pub(crate) replica: ReplicaIndex,
    pub(crate) until: SimTime,
    pub(crate) placement: Placement,
}

/// For each demand, the place that a replica would get now, and whether the head still fits beside it (`None` if not
/// computed).
type Known = BTreeMap<u32, (Option<Candidate>, Option<bool>)>;

impl Queue {
    /// All waiting replicas except the head, in the order of the queue.
    pub(super) fn rest(&self, core: &Core, head: QueueKey) -> Vec<QueueKey> {
        self.queue.iter(core.now).filter(|key| *key != head).collect()
    }

    pub(super) fn easy_in_order(&mut self, core: &mut Core, head: QueueKey, mut reserved: SimTime) {
        // An answer for one replica of a demand holds for all replicas of the demand until one of them starts.
        let mut known = Known::new();
        for key in self.rest(core, head) {
            let index = key.replica();
            let number = core.replicas[index as usize].demand;
            let demand = &core.demands[number as usize].demand;
            let asks_for_itself = !self.nominations.is_empty() || asks_for_itself(&core.profile.scheduler, demand);
            if asks_for_itself || self.backfilling.is_none() {
                known.remove(&number);
            }
            let (fits, beside) = known.entry(number).or_insert_with(|| (self.fits_now(core, index), None));
            let Some(candidate) = fits.clone() else { continue };
            let is_harmless = ends_if_started(core, index, core.now) <= reserved
                // The replica ends after the reservation begins, so the head must fit beside it at that time.
                || *beside.get_or_insert_with(|| {
                    fits_beside_plainly(core, head.replica(), reserved, candidate.placement.claims())
                });
            if is_harmless {
                core.examine_if_watched(index, |core| self.left_beside_nominations(core, index));
                self.start_past_head(core, index, candidate);
                if !core.waits_in_queue(head.replica()) {
                    return;
                }
                reserved = self.fits_at(core, head.replica()).unwrap_or(reserved);
                known.clear();
            }
        }
    }

    /// The reservations of all waiting replicas, in the order of the queue.
    pub(super) fn reserve_plainly(&self, core: &Core) -> Vec<Planned> {
        let mut reservations = reservations_of_running(core);
        let empty = fleet_without_what_runs(core);
        let mut planned = Vec::new();
        for key in self.queue.iter(core.now) {
            let index = key.replica();
            let Some((from, candidate)) = first_gap(core, index, &reservations, &empty) else { continue };
            let until = planned_end(core, index, from);
            let is_seen = from == core.now && core.is_watched(index);
            let sees = is_seen.then(|| beside(&empty, &taken_in(core, &reservations, (from, until))));
            reservations.push(Reservation { from, until, placement: candidate.placement.clone() });
            planned.push(Planned { replica: index, from, candidate, sees });
        }
        planned
    }

    pub(super) fn fits_now(&self, core: &Core, index: ReplicaIndex) -> Option<Candidate> {
        judge_on(core, index, self.left_beside_nominations(core, index).as_ref().unwrap_or(&core.fleet))
    }
}

/// The most that is taken at any one moment of this span.
fn taken_in(core: &Core, reservations: &[Reservation], span: (SimTime, SimTime)) -> Placement {
    most_taken(reservations, span, |node| core.fleet.node(node).shape.restricted_cores_per_gpu())
}

/// The fleet without the resources of this placement.
fn beside(empty: &Fleet, taken: &Placement) -> Fleet {
    let mut fleet = empty.clone();
    fleet.take(taken);
    fleet
}

/// Whether a replica fits at this time, if another replica takes these claims from now on.
pub(in crate::queue) fn fits_beside_plainly(
    core: &Core,
    index: ReplicaIndex,
    at: SimTime,
    claims: &[NodeClaim],
) -> bool {
    let mut fleet = fleet_at(core, at);
    fleet.take(&Placement::new(claims.iter().cloned().collect()));
    judge_on(core, index, &fleet).is_some()
}

/// An attempt that is past its expected end is assumed to end in the next moment.
fn reservations_of_running(core: &Core) -> Vec<Reservation> {
    let soon = core.now.saturating_add(MOMENT);
    let book =
        |held: HeldPlacement| Reservation { from: core.now, until: held.until.max(soon), placement: held.placement };
    held_until(core).into_iter().map(book).collect()
}

/// The first time from now at which a replica fits for its whole estimated run, beside all attempts and reservations.
fn first_gap(
    core: &Core,
    index: ReplicaIndex,
    reservations: &[Reservation],
    empty: &Fleet,
) -> Option<(SimTime, Candidate)> {
    // A replica that does not fit even on an empty fleet (for example, while a node is away) is not tried at every end.
    judge_on(core, index, empty)?;
    let ends = reservations.iter().map(|one| one.until);
    let mut times: Vec<SimTime> = ends.filter(|at| *at > core.now && *at < SimTime::MAX).collect();
    times.push(core.now);
    times.sort_unstable();
    times.dedup();
    times.into_iter().find_map(|from| {
        let fleet = beside(empty, &taken_in(core, reservations, (from, planned_end(core, index, from))));
        judge_on(core, index, &fleet).map(|candidate| (from, candidate))
    })
}

/// When a replica would end, according to its estimate, if it starts at this time; never if it has no estimate.
pub(in crate::queue) fn ends_if_started(core: &Core, index: ReplicaIndex, at: SimTime) -> SimTime {
    let job = core.replicas[index as usize].job;
    core.jobs[job.index()].spec.estimate.map_or(SimTime::MAX, |estimate| at.saturating_add(estimate))
}

/// When the reservation of a replica would end. Even a replica with an estimate of zero reserves its place for the
/// shortest time span.
fn planned_end(core: &Core, index: ReplicaIndex, from: SimTime) -> SimTime {
    ends_if_started(core, index, from).max(from.saturating_add(MOMENT))
}

/// All replicas that hold resources, in order of their expected ends.
pub(in crate::queue) fn held_until(core: &Core) -> Vec<HeldPlacement> {
    let mut seen = BTreeSet::new();
    for node in core.nodes.iter() {
        seen.extend(node.replicas.iter().copied());
    }
    let held = |index: ReplicaIndex| {
        let placement = core.replicas[index as usize].placement.clone().unwrap_or_default();
        HeldPlacement { replica: index, until: said_end(core, index), placement }
    };
    let mut held: Vec<HeldPlacement> = seen.into_iter().map(held).collect();
    held.sort_by_key(|held| held.until);
    held
}

/// The first time at which a replica fits, if all attempts end as estimated and no other replica starts.
pub(in crate::queue) fn first_fit_time(core: &Core, index: ReplicaIndex) -> Option<SimTime> {
    let held = held_until(core);
    let mut fleet = core.fleet.clone();
    let mut rest = held.iter().peekable();
    while let Some(next) = rest.next() {
        next.placement.claims().iter().for_each(|claim| fleet.release(claim));
        let is_last_of_its_time = rest.peek().is_none_or(|after| after.until > next.until);
        if next.until == SimTime::MAX {
            return None;
        }
        if is_last_of_its_time && judge_on(core, index, &fleet).is_some() {
            return Some(next.until);
        }
    }
    None
}

/// The fleet at this time, if all attempts that are expected to end by then have ended.
fn fleet_at(core: &Core, at: SimTime) -> Fleet {
    let mut fleet = core.fleet.clone();
    for held in held_until(core).iter().filter(|held| held.until <= at) {
        held.placement.claims().iter().for_each(|claim| fleet.release(claim));
    }
    fleet
}

fn fleet_without_what_runs(core: &Core) -> Fleet {
    let mut fleet = core.fleet.clone();
    for held in held_until(core) {
        held.placement.claims().iter().for_each(|claim| fleet.release(claim));
    }
    fleet
}

pub(in crate::queue) fn judge_on(core: &Core, index: ReplicaIndex, fleet: &Fleet) -> Option<Candidate> {
    let replica = &core.replicas[index as usize];
    let demand = &core.demands[replica.demand as usize].demand;
    let context = core.context(replica.attempt_id());
    match decide_for(&core.profile.scheduler, demand, context, fleet, core.deciding.grouping, 1) {
        Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
        Decision::Refuse { .. } => None,
    }
}
