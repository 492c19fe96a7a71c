//! Backfilling: which replicas may start before the head of the queue because they do not delay it.
//!
//! Backfilling predicts the future from estimates. Every attempt ends by its estimate and releases its resources. For
//! each such time, the scheduler's own stages judge whether a replica fits on the nodes as they would be then. So a
//! reservation names places, not only amounts.
//!
//! The plain computation ([`plain`]) works on a copy of the fleet, for each waiting replica separately, in each pass.
//! With caching, [`Backfilling`] keeps results between passes: waiting replicas by demand ([`shelves`]), the attempts
//! on each node and their ends ([`calendar`]), and the room that each demand will find ([`outlook`]). If all replicas
//! get reservations, it also plans a pass ([`plan`]). Every result equals that of the plain computation.
//! [`Caching::Paranoid`] computes both and compares them.

mod bookings;
mod calendar;
pub(super) mod ends;
#[cfg(test)]
mod future_tests;
mod judged;
pub(super) mod kept;
mod outlook;
pub(super) mod plain;
mod plan;
mod reservations;
mod room;
mod shelves;

pub(super) use kept::{Backfilling, HeadReservation};

use std::collections::BTreeMap;

use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::{Replica, ReplicaIndex, Wait};
use crate::queue::Queue;
use dryrack_event::Phase;
use dryrack_planted::planted;
use dryrack_scheduler::{Backfill, Caching, Candidate, Preempt, QueueKey, asks_for_itself};
use dryrack_units::{SimDuration, SimTime};
use ends::{MOMENT, ends_if_started, is_timed};
use kept::{first_fit_time_kept, fits_beside, fits_now_kept};
use plain::{first_fit_time, fits_beside_plainly, judge_on, reserve_plainly};
use plan::plan_reservations;
use reservations::Planned;
use shelves::{ENDLESS, Position, Shelves, Waiting};

/// For each demand, the place that a replica would get now, and whether the head still fits beside it (`None` if not
/// computed).
type Known = BTreeMap<u32, (Option<Candidate>, Option<bool>)>;

impl Queue {
    /// Discards all kept results and starts again.
    pub(in crate::queue) fn keep_backfilling(&mut self, core: &mut Core) {
        self.backfilling = Backfilling::of(&core.profile, core.deciding.grouping, core.deciding.caching);
        if self.backfilling.is_some() || core.profile.scheduler.preempt != Preempt::Nobody {
            core.fleet.keep_node_changes();
        }
    }

    /// Notes that a replica begins to wait in the queue.
    pub(in crate::queue) fn shelve(&mut self, core: &mut Core, index: ReplicaIndex) {
        let replica = &core.store[index];
        let key = replica.key;
        let length = core.store[replica.job].spec.estimate.unwrap_or(ENDLESS);
        if let Some(kept) = &mut self.backfilling {
            kept.insert(replica.demand, Waiting { key, length });
        }
    }

    /// Notes that a replica no longer waits in the queue.
    pub(in crate::queue) fn unshelve(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Replica { key, demand, .. } = core.store[index];
        if let Some(kept) = &mut self.backfilling {
            kept.remove(demand, key);
        }
    }

    /// Lets replicas start before the head of the queue, after the head was refused.
    pub(in crate::queue) fn backfill(&mut self, core: &mut Core) {
        match core.profile.scheduler.backfill {
            Backfill::None => {}
            Backfill::Easy => self.backfill_easy(core),
            Backfill::Conservative => self.backfill_conservative(core),
            Backfill::Rlscheduler => self.backfill_rlscheduler(core),
            Backfill::Slots => self.backfill_slots(core),
        }
    }

    fn head(&self, core: &Core) -> Option<QueueKey> {
        self.queue.heads(core.now).next().map(|(head, _)| head)
    }

    fn backfill_rlscheduler(&mut self, core: &mut Core) {
        let Some(head) = self.head(core) else { return };
        let picked = match self.picked {
            Some(picked) if picked.head == head.replica() => picked,
            _ => {
                let reserved = self.fits_at(core, head.replica()).unwrap_or(SimTime::MAX);
                HeadReservation { head: head.replica(), reserved, came_before: core.store.replicas.len() }
            }
        };
        self.picked = Some(picked);
        let is_by_demand = self.is_by_demand(core);
        // A replica must end before the reservation begins, by at least the shortest time span.
        let most = picked.reserved.checked_since(core.now.saturating_add(MOMENT));
        if is_by_demand && self.next_to_pass(core, head, Position::Start, most, None).is_none() {
            return;
        }
        // The order is that of submission. Replicas of one instant that existed when the head was picked keep the order
        // of the queue. Later ones come behind them, in the order in which they came.
        let came_since = |replica: ReplicaIndex| (replica as usize >= picked.came_before).then_some(replica);
        let mut rest = self.rest(core, head);
        rest.sort_by_key(|key| (core.store[key.replica()].wanted, came_since(key.replica())));
        for index in rest.into_iter().map(QueueKey::replica) {
            if !core.store.waits_in_queue(head.replica()) {
                return;
            }
            if ends_if_started(core, index, core.now) >= picked.reserved {
                continue;
            }
            let fits = match is_by_demand {
                true => self.fits_now_of_kept(core, index),
                false => self.fits_now(core, index),
            };
            if let Some(candidate) = fits {
                core.examine_if_watched(index, |core| self.left_beside_nominations(core, index));
                self.examine_promise_if_watched(core, index, &candidate);
                self.start(core, index, candidate);
            }
        }
    }

    fn fits_now_of_kept(&mut self, core: &mut Core, index: ReplicaIndex) -> Option<Candidate> {
        let mut kept = self.backfilling.take().expect("something is kept");
        let found = fits_now_kept(core, &mut kept, index);
        self.backfilling = Some(kept);
        found
    }

    fn backfill_easy(&mut self, core: &mut Core) {
        let Some(head) = self.head(core) else { return };
        let Some(mut reserved) = self.fits_at(core, head.replica()) else { return };
        if !self.is_by_demand(core) {
            return self.easy_in_order(core, head, reserved);
        }
        let mut from = Position::Start;
        loop {
            let (most, beside) = (reserved.checked_since(core.now), Some((head.replica(), reserved)));
            let most = if planted!(ShortJobsDelayTheHead) { Some(ENDLESS) } else { most };
            let Some((index, candidate)) = self.next_to_pass(core, head, from, most, beside) else { return };
            from = Position::Behind(core.store[index].key);
            core.examine_if_watched(index, |core| self.left_beside_nominations(core, index));
            self.start(core, index, candidate);
            if !core.store.waits_in_queue(head.replica()) {
                return;
            }
            reserved = self.fits_at(core, head.replica()).unwrap_or(reserved);
        }
    }

    /// Whether all waiting replicas of one demand get the same answer, in an order that does not change with time.
    fn is_by_demand(&self, core: &Core) -> bool {
        let Some(kept) = &self.backfilling else { return false };
        let has_one_answer = |demand: u32| {
            let demand = core.store.demand(demand);
            !asks_for_itself(&core.profile.scheduler, demand)
        };
        self.nominations.is_empty() && !self.queue.moves() && kept.shelves.demands().all(has_one_answer)
    }

    /// Finds the first replica behind `from` that fits now and may start before the head. A replica may start if its
    /// length is at most `most`; `None` allows no length. With `beside`, a longer replica may also start if the head
    /// still fits beside it at that time.
    fn next_to_pass(
        &mut self,
        core: &mut Core,
        head: QueueKey,
        from: Position,
        most: Option<SimDuration>,
        beside: Option<(ReplicaIndex, SimTime)>,
    ) -> Option<(ReplicaIndex, Candidate)> {
        let mut kept = self.backfilling.take().expect("something is kept");
        let mut best: Option<(QueueKey, Candidate)> = None;
        for demand in kept.shelves.demands().collect::<Vec<_>>() {
            let shelf = kept.shelves.of(demand);
            let first = |most: SimDuration| {
                let first = shelf.first(from, most);
                let first = if first?.key == head { shelf.first(Position::Behind(head), most) } else { first };
                first.filter(|found| best.as_ref().is_none_or(|(key, _)| found.key < *key))
            };
            let short = most.and_then(first);
            let any = if beside.is_some() { first(ENDLESS) } else { short };
            let Some(any) = any else { continue };
            let Some(candidate) = fits_now_kept(core, &mut kept, any.key.replica()) else { continue };
            let passes = match beside.filter(|_| Some(any) != short) {
                Some((head, at)) if fits_beside(core, &mut kept, head, at, candidate.placement.claims()) => Some(any),
                Some(_) | None => short,
            };
            if let Some(passes) = passes {
                best = Some((passes.key, candidate));
            }
        }
        self.backfilling = Some(kept);
        best.map(|(key, candidate)| (key.replica(), candidate))
    }

    /// The first time at which a replica fits, if all attempts end as estimated and no other replica starts.
    fn fits_at(&mut self, core: &mut Core, index: ReplicaIndex) -> Option<SimTime> {
        let Some(mut kept) = self.backfilling.take() else { return first_fit_time(core, index) };
        let found = first_fit_time_kept(core, &mut kept, index);
        self.backfilling = Some(kept);
        if core.deciding.caching == Caching::Paranoid {
            assert_eq!(found, first_fit_time(core, index), "the reservation is not what is computed");
        }
        found
    }

    fn easy_in_order(&mut self, core: &mut Core, head: QueueKey, mut reserved: SimTime) {
        // An answer for one replica of a demand holds for all replicas of the demand until one of them starts.
        let mut known = Known::new();
        for key in self.rest(core, head) {
            let index = key.replica();
            let number = core.store[index].demand;
            let demand = core.store.demand(number);
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
                self.examine_promise_if_watched(core, index, &candidate);
                self.start(core, index, candidate);
                if !core.store.waits_in_queue(head.replica()) {
                    return;
                }
                reserved = self.fits_at(core, head.replica()).unwrap_or(reserved);
                known.clear();
            }
        }
    }

    /// All waiting replicas except the head, in the order of the queue.
    fn rest(&self, core: &Core, head: QueueKey) -> Vec<QueueKey> {
        self.queue.iter(core.now).filter(|key| *key != head).collect()
    }

    fn fits_now(&self, core: &Core, index: ReplicaIndex) -> Option<Candidate> {
        judge_on(core, index, self.left_beside_nominations(core, index).as_ref().unwrap_or(&core.fleet))
            .or_else(|| self.promised_candidate(core, index))
    }

    /// Applies a change of phase, which may move the expected end of an attempt.
    pub(in crate::queue) fn note_phase(&self, core: &mut Core, index: ReplicaIndex, (phase, since): (Phase, SimTime)) {
        if self.backfilling.is_none() {
            return;
        }
        let replica = &core.store[index];
        if (is_timed(phase), since) != (is_timed(replica.phase), replica.since)
            && let Some(placement) = &replica.placement
        {
            placement.claims().iter().for_each(|claim| core.fleet.note_change(claim.node));
        }
    }

    fn backfill_conservative(&mut self, core: &mut Core) {
        let kept = self.backfilling.take();
        let is_plain = kept.is_none() || core.deciding.caching == Caching::Paranoid;
        let plain = is_plain.then(|| reserve_plainly(core, self.queue.iter(core.now)));
        let starts = match kept {
            Some(mut kept) => {
                let moved = self.queue.moves().then(|| self.shelves_in_order(core));
                let starts = plan_reservations(core, &mut kept, moved, plain.as_deref());
                self.backfilling = Some(kept);
                starts
            }
            None => plain.into_iter().flatten().filter(|planned| planned.from == core.now).collect(),
        };
        let mut all_started = true;
        for Planned { replica, candidate, sees, .. } in starts {
            core.examine_if_watched(replica, |_| sees);
            self.start(core, replica, candidate);
            all_started &= core.store[replica].placement.is_some();
        }
        // A replica that its quota kept from its place has left the queue, so those behind it may start now.
        if let Some(kept) = self.backfilling.as_mut().filter(|_| all_started) {
            kept.since.read = core.fleet.node_change_count();
            kept.since.came_last.clear();
            kept.since.disturbed.clear();
        }
    }

    /// All waiting replicas in their order at this moment, for a queue whose order changes with time.
    fn shelves_in_order(&self, core: &Core) -> Shelves {
        let mut shelves = Shelves::default();
        for own in self.queue.iter(core.now) {
            let replica = &core.store[own.replica()];
            let length = core.store[replica.job].spec.estimate.unwrap_or(ENDLESS);
            shelves.insert(replica.demand, Waiting { key: self.queue.place_of(own, core.now), length });
        }
        shelves
    }

    /// Starts a replica, unless it has left the queue meanwhile or the quota of its project does not allow the place.
    pub(in crate::queue) fn start(&mut self, core: &mut Core, index: ReplicaIndex, candidate: Candidate) {
        if core.store.waits_in_queue(index) && !self.is_over_quota(core, index, &candidate.placement) {
            self.leave_queue(core, index, Wait::Nothing);
            self.place(core, index, candidate);
            self.note_started(core, index);
        }
    }
}
