//! The plain computation: each waiting replica by itself, on copies of the fleet. The rest of backfilling is checked
//! against it, and it decides where an answer cannot be found from single nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::reservations::{Reservation, most_taken};
use super::{MOMENT, Planned};
use crate::Control;
use crate::store::ReplicaIndex;
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_scheduler::{Candidate, Decision, QueueKey, asks_for_itself, decide_for};
use dryrack_units::SimTime;

/// A placement until it ends.
pub(crate) struct Held {
    pub(crate) replica: ReplicaIndex,
    pub(crate) until: SimTime,
    pub(crate) placement: Placement,
}

/// By demand: where it goes now, and whether the head fits beside it, if that was asked.
type Known = BTreeMap<u32, (Option<Candidate>, Option<bool>)>;

impl Control {
    /// All waiting replicas except the head, in the order of the queue.
    pub(super) fn rest(&self, head: QueueKey) -> Vec<QueueKey> {
        self.queue.iter(self.now).filter(|key| *key != head).collect()
    }

    pub(super) fn easy_in_order(&mut self, head: QueueKey, mut reserved: SimTime) {
        // An answer for one replica of a demand holds for all of them until something starts.
        let mut known = Known::new();
        for key in self.rest(head) {
            let index = key.replica();
            let number = self.replicas[index as usize].demand;
            let demand = &self.demands[number as usize].demand;
            let asks_for_itself = !self.nominations.is_empty() || asks_for_itself(&self.profile.scheduler, demand);
            if asks_for_itself || self.backfilling.is_none() {
                known.remove(&number);
            }
            let (fits, beside) = known.entry(number).or_insert_with(|| (self.fits_now(index), None));
            let Some(candidate) = fits.clone() else { continue };
            let is_harmless = self.ends_if_started(index, self.now) <= reserved
                // It runs beyond the reservation, so the head must fit beside it then.
                || *beside.get_or_insert_with(|| {
                    self.fits_beside_plainly(head.replica(), reserved, candidate.placement.claims())
                });
            if is_harmless {
                self.examine_if_watched(index, |control| control.left_to(index));
                self.start_past_head(index, candidate);
                reserved = self.fits_at(head.replica()).unwrap_or(reserved);
                known.clear();
            }
        }
    }

    /// Whether it fits at this time beside a replica that has these claims from now on.
    pub(super) fn fits_beside_plainly(&self, index: ReplicaIndex, at: SimTime, claims: &[NodeClaim]) -> bool {
        let mut fleet = self.fleet_at(at);
        fleet.take(&Placement::new(claims.iter().cloned().collect()));
        self.judge_on(index, &fleet).is_some()
    }

    /// The reservations of all waiting replicas, in the order of the queue.
    pub(super) fn reserve_plainly(&self) -> Vec<Planned> {
        let mut reservations = self.reservations_of_running();
        let empty = self.fleet_without_what_runs();
        let mut planned = Vec::new();
        for key in self.queue.iter(self.now) {
            let index = key.replica();
            let Some((from, candidate)) = self.first_gap(index, &reservations, &empty) else { continue };
            let until = self.planned_end(index, from);
            let is_seen = from == self.now && self.is_watched(index);
            let sees = is_seen.then(|| beside(&empty, &most_taken(&reservations, from, until)));
            reservations.push(Reservation { from, until, placement: candidate.placement.clone() });
            planned.push(Planned { replica: index, from, candidate, sees });
        }
        planned
    }

    /// What should have ended by now is assumed to end in the next moment.
    fn reservations_of_running(&self) -> Vec<Reservation> {
        let soon = self.now.saturating_add(MOMENT);
        let book = |held: Held| Reservation { from: self.now, until: held.until.max(soon), placement: held.placement };
        self.held_until().into_iter().map(book).collect()
    }

    /// The first time from now at which it fits for as long as it is said to run, given what runs and what is reserved.
    fn first_gap(
        &self,
        index: ReplicaIndex,
        reservations: &[Reservation],
        empty: &Fleet,
    ) -> Option<(SimTime, Candidate)> {
        // A replica that does not even fit alone, for example while its node is away, is not tried at every end.
        self.judge_on(index, empty)?;
        let ends = reservations.iter().map(|one| one.until);
        let mut times: Vec<SimTime> = ends.filter(|at| *at > self.now && *at < SimTime::MAX).collect();
        times.push(self.now);
        times.sort_unstable();
        times.dedup();
        times.into_iter().find_map(|from| {
            let fleet = beside(empty, &most_taken(reservations, from, self.planned_end(index, from)));
            self.judge_on(index, &fleet).map(|candidate| (from, candidate))
        })
    }

    /// When it would end by its estimate if it starts at this time; never, if it has no estimate.
    pub(super) fn ends_if_started(&self, index: ReplicaIndex, at: SimTime) -> SimTime {
        let job = self.replicas[index as usize].job;
        self.jobs[job.index()].spec.estimate.map_or(SimTime::MAX, |estimate| at.saturating_add(estimate))
    }

    /// The same for a reservation. A replica that is said to take no time needs its place for the shortest time there
    /// is.
    fn planned_end(&self, index: ReplicaIndex, from: SimTime) -> SimTime {
        self.ends_if_started(index, from).max(from.saturating_add(MOMENT))
    }

    /// Replicas that hold something, in order of their ends.
    pub(crate) fn held_until(&self) -> Vec<Held> {
        let mut seen = BTreeSet::new();
        for node in &self.nodes {
            seen.extend(node.runs.iter().copied());
        }
        let held = |index: ReplicaIndex| {
            let placement = self.replicas[index as usize].placement.clone().unwrap_or_default();
            Held { replica: index, until: self.said_end(index), placement }
        };
        let mut held: Vec<Held> = seen.into_iter().map(held).collect();
        held.sort_by_key(|held| held.until);
        held
    }

    /// The first time at which it fits, if what runs ends by its estimate and nobody else comes.
    pub(super) fn first_fit_time(&self, index: ReplicaIndex) -> Option<SimTime> {
        let held = self.held_until();
        let mut fleet = self.fleet.clone();
        let mut rest = held.iter().peekable();
        while let Some(next) = rest.next() {
            next.placement.claims().iter().for_each(|claim| fleet.release(claim));
            let is_last_of_its_time = rest.peek().is_none_or(|after| after.until > next.until);
            if next.until == SimTime::MAX {
                return None;
            }
            if is_last_of_its_time && self.judge_on(index, &fleet).is_some() {
                return Some(next.until);
            }
        }
        None
    }

    /// The fleet after everything has ended that is said to end by this time.
    fn fleet_at(&self, at: SimTime) -> Fleet {
        let mut fleet = self.fleet.clone();
        for held in self.held_until().iter().filter(|held| held.until <= at) {
            held.placement.claims().iter().for_each(|claim| fleet.release(claim));
        }
        fleet
    }

    fn fleet_without_what_runs(&self) -> Fleet {
        let mut fleet = self.fleet.clone();
        for held in self.held_until() {
            held.placement.claims().iter().for_each(|claim| fleet.release(claim));
        }
        fleet
    }

    pub(super) fn fits_now(&self, index: ReplicaIndex) -> Option<Candidate> {
        self.judge_on(index, self.left_to(index).as_ref().unwrap_or(&self.fleet))
    }

    pub(crate) fn judge_on(&self, index: ReplicaIndex, fleet: &Fleet) -> Option<Candidate> {
        let replica = &self.replicas[index as usize];
        let demand = &self.demands[replica.demand as usize].demand;
        let context = self.context(replica.run());
        match decide_for(&self.profile.scheduler, demand, context, fleet, self.grouping, 1) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }
}

/// The fleet that is left beside this placement.
fn beside(empty: &Fleet, taken: &Placement) -> Fleet {
    let mut fleet = empty.clone();
    fleet.take(taken);
    fleet
}
