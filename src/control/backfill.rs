//! Backfilling: who passes the head of the queue because it does not put it off.
//!
//! The future is made of what is known: everything that runs ends when its estimate says, in order of these times, and
//! gives back what it holds. Whether somebody fits then is asked of the scheduler itself, on a copy of the fleet as it
//! would be; so a reservation is of places, not of numbers alone.

use super::Control;
use super::booked::{Booked, most_taken};
use super::store::{ReplicaIndex, Wait};
use crate::event::Phase;
use crate::fleet::{Fleet, Placement};
use crate::scheduler::{Backfill, Candidate, Decision, QueueKey, decide_for};
use crate::units::{SimDuration, SimTime};

/// A placement until it ends.
pub(super) struct Held {
    pub(super) replica: ReplicaIndex,
    pub(super) until: SimTime,
    pub(super) placement: Placement,
}

/// A head that is waited for, and what was known when it was picked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    head: ReplicaIndex,
    /// When it would fit.
    reserved: SimTime,
    /// The number of replicas by then.
    came_before: usize,
}

impl Control {
    /// Lets pass whoever may, after the head of the queue was refused.
    pub(super) fn backfill(&mut self) {
        match self.profile.scheduler.backfill {
            Backfill::None => {}
            Backfill::Easy => self.backfill_easy(),
            Backfill::Conservative => self.backfill_conservative(),
            Backfill::Rlscheduler => self.backfill_rlscheduler(),
            Backfill::Slots => self.backfill_slots(),
        }
    }

    /// The head and the others in the order of the queue.
    fn head_and_rest(&self) -> Option<(ReplicaIndex, Vec<QueueKey>)> {
        let (head, _) = self.queue.heads(self.now).next()?;
        Some((head.replica(), self.queue.iter(self.now).filter(|key| *key != head).collect()))
    }

    fn backfill_rlscheduler(&mut self) {
        let Some((head, mut rest)) = self.head_and_rest() else { return };
        let picked = match self.picked {
            Some(picked) if picked.head == head => picked,
            _ => {
                let reserved = self.first_fit_time(head).unwrap_or(SimTime::MAX);
                Picked { head, reserved, came_before: self.replicas.len() }
            }
        };
        self.picked = Some(picked);
        // In order of submission. Of one instant, the queue was in the order of its policy when the head was picked from it;
        // who has come since is behind, as it came.
        let came_since = |replica: ReplicaIndex| (replica as usize >= picked.came_before).then_some(replica);
        rest.sort_by_key(|key| (self.replicas[key.replica() as usize].wanted, came_since(key.replica())));
        for key in rest {
            let ends = self.ends_if_started(key.replica(), self.now);
            if ends < picked.reserved
                && let Some(candidate) = self.fits_now(key.replica())
            {
                self.examine_if_watched(key.replica(), |control| control.left_to(key.replica()));
                self.start_past_head(key.replica(), candidate);
            }
        }
    }

    fn backfill_easy(&mut self) {
        let Some((head, rest)) = self.head_and_rest() else { return };
        let Some(mut reserved) = self.first_fit_time(head) else { return };
        for key in rest {
            let index = key.replica();
            let Some(candidate) = self.fits_now(index) else { continue };
            let harmless = self.ends_if_started(index, self.now) <= reserved || {
                // It runs beyond the reservation, so the head must fit beside it then.
                let mut fleet = self.fleet_at(reserved);
                fleet.take(&candidate.placement);
                self.judge_on(head, &fleet).is_some()
            };
            if harmless {
                self.examine_if_watched(index, |control| control.left_to(index));
                self.start_past_head(index, candidate);
                reserved = self.first_fit_time(head).unwrap_or(reserved);
            }
        }
    }

    fn backfill_conservative(&mut self) {
        let mut booked = self.booked_by_what_runs();
        let empty = self.fleet_without_what_runs();
        for key in self.queue.iter(self.now).collect::<Vec<_>>() {
            let index = key.replica();
            let Some((from, candidate)) = self.first_gap(index, &booked, &empty) else { continue };
            let until = self.ends_if_started(index, from);
            if from == self.now {
                self.examine_if_watched(index, |_| Some(beside(&empty, &most_taken(&booked, from, until))));
            }
            booked.push(Booked { from, until, placement: candidate.placement.clone() });
            if from == self.now {
                self.start_past_head(index, candidate);
            }
        }
    }

    /// What was to end by now and has not is taken to end in the next moment.
    fn booked_by_what_runs(&self) -> Vec<Booked> {
        let soon = self.now.saturating_add(SimDuration::from_nanos(1));
        let book = |held: Held| Booked { from: self.now, until: held.until.max(soon), placement: held.placement };
        self.held_until().into_iter().map(book).collect()
    }

    /// The first time from now at which it fits for as long as it is said to run, given what runs and what is reserved.
    /// What was started in this very pass is among the booked.
    fn first_gap(&self, index: ReplicaIndex, booked: &[Booked], empty: &Fleet) -> Option<(SimTime, Candidate)> {
        // What fits nowhere by itself, as while its node is away, is not looked for at every end.
        self.judge_on(index, empty)?;
        let ends = booked.iter().map(|one| one.until);
        let mut times: Vec<SimTime> = ends.filter(|at| *at > self.now && *at < SimTime::MAX).collect();
        times.push(self.now);
        times.sort_unstable();
        times.dedup();
        times.into_iter().find_map(|from| {
            let fleet = beside(empty, &most_taken(booked, from, self.ends_if_started(index, from)));
            self.judge_on(index, &fleet).map(|candidate| (from, candidate))
        })
    }

    /// When it would end by its estimate; without one, never.
    fn ends_if_started(&self, index: ReplicaIndex, at: SimTime) -> SimTime {
        let job = self.replicas[index as usize].job;
        self.jobs[job.index()].spec.estimate.map_or(SimTime::MAX, |estimate| at.saturating_add(estimate))
    }

    /// What holds something, by when it ends.
    pub(super) fn held_until(&self) -> Vec<Held> {
        let mut seen = std::collections::BTreeSet::new();
        for node in &self.nodes {
            seen.extend(node.runs.iter().copied());
        }
        let held = |index: ReplicaIndex| {
            let replica = &self.replicas[index as usize];
            let since = match replica.phase {
                Phase::Running | Phase::Scheduled => replica.since,
                Phase::Pending | Phase::Analysing | Phase::Preparing | Phase::Stopping | Phase::Ended => self.now,
            };
            let placement = replica.placement.clone().unwrap_or_default();
            Held { replica: index, until: self.ends_if_started(index, since), placement }
        };
        let mut held: Vec<Held> = seen.into_iter().map(held).collect();
        held.sort_by_key(|held| held.until);
        held
    }

    /// The first time at which it fits, if what runs ends by its estimate and nobody else comes.
    fn first_fit_time(&self, index: ReplicaIndex) -> Option<SimTime> {
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

    /// The fleet once everything that is said to end by then has.
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

    fn fits_now(&self, index: ReplicaIndex) -> Option<Candidate> {
        self.judge_on(index, self.left_to(index).as_ref().unwrap_or(&self.fleet))
    }

    pub(super) fn judge_on(&self, index: ReplicaIndex, fleet: &Fleet) -> Option<Candidate> {
        let replica = &self.replicas[index as usize];
        let demand = &self.demands[replica.demand as usize].demand;
        let asking = self.asking(replica.run());
        match decide_for(&self.profile.scheduler, demand, asking, fleet, self.grouping, 1) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }

    pub(super) fn start_past_head(&mut self, index: ReplicaIndex, candidate: Candidate) {
        self.leave_queue(index, Wait::Nothing);
        self.place(index, candidate);
    }
}

/// What is left of a fleet beside this.
fn beside(empty: &Fleet, taken: &Placement) -> Fleet {
    let mut fleet = empty.clone();
    fleet.take(taken);
    fleet
}
