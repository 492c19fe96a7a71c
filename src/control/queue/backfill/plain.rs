//! The plain computation of backfilling. It judges each waiting replica separately, on copies of the fleet. The faster
//! computation is checked against it. It is also used if the answer cannot be found by considering each node
//! separately.

use super::ends::{HeldPlacement, MOMENT, ends_if_started, held_until};
use super::reservations::{Planned, Reservation, most_taken};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_scheduler::{Candidate, QueueKey, candidate_for};
use dryrack_units::SimTime;

/// The reservations of all waiting replicas, in the order of the queue.
pub(super) fn reserve_plainly(core: &Core, waiting: impl Iterator<Item = QueueKey>) -> Vec<Planned> {
    let mut reservations = reservations_of_running(core);
    let empty = fleet_without_what_runs(core);
    let mut planned = Vec::new();
    for key in waiting {
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

/// When the reservation of a replica would end. Even a replica with an estimate of zero reserves its place for the
/// shortest time span.
fn planned_end(core: &Core, index: ReplicaIndex, from: SimTime) -> SimTime {
    ends_if_started(core, index, from).max(from.saturating_add(MOMENT))
}

/// The first time at which a replica fits, if all attempts end as estimated and no other replica starts.
pub(in crate::queue) fn first_fit_time(core: &Core, index: ReplicaIndex) -> Option<SimTime> {
    first_fit_from(core, index, SimTime::ZERO)
}

/// Like [`first_fit_time`], if it is known that the replica does not fit before this time.
pub(super) fn first_fit_from(core: &Core, index: ReplicaIndex, not_before: SimTime) -> Option<SimTime> {
    let held = held_until(core);
    let mut fleet = core.fleet.clone();
    let mut rest = held.iter().peekable();
    while let Some(next) = rest.next() {
        next.placement.claims().iter().for_each(|claim| fleet.release(claim));
        let is_last_of_its_time = rest.peek().is_none_or(|after| after.until > next.until);
        if next.until == SimTime::MAX {
            return None;
        }
        if is_last_of_its_time && next.until >= not_before && judge_on(core, index, &fleet).is_some() {
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
    let replica = &core.store[index];
    let demand = core.store.demand(replica.demand);
    let context = core.context(replica.attempt_id());
    candidate_for(&core.profile.scheduler, demand, context, fleet, core.deciding.grouping)
}
