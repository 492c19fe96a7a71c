//! A pass with an `each_after` trigger, which judges each replica at times of its own.
//!
//! Each time the fleet has grown, every replica that waits is judged once, when it is next due. It is judged even if an
//! equal replica was refused before. So when a replica is judged depends neither on equal replicas nor on the reasons of
//! earlier refusals. This matters if decisions take time, because only one decision is made at a time.

use std::collections::BTreeSet;

use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::pass_options::Trigger;
use crate::queue::Queue;
use dryrack_planted::planted;
use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};

/// The replicas that were not judged since the fleet last grew. Empty under other triggers.
#[derive(Default)]
pub(super) struct ToJudge {
    /// The growth of the fleet at which all waiting replicas were last added. `None` if they were not.
    growth: Option<u64>,
    /// The replicas by when they are due. A time that is past stands for a later one: see [`Queue::catch_up`].
    by_due: BTreeSet<(SimTime, ReplicaIndex)>,
}

impl Queue {
    pub(super) fn await_judgement(&mut self, core: &Core, index: ReplicaIndex) {
        if matches!(core.profile.passes.place.trigger, Trigger::EachAfter(_)) {
            self.to_judge.by_due.insert((core.store[index].due, index));
        }
    }

    pub(super) fn forget_judgement(&mut self, core: &Core, index: ReplicaIndex) {
        self.to_judge.by_due.remove(&(core.store[index].due, index));
    }

    /// Notes that a replica was refused. It is judged again once the fleet has grown further than it had then.
    pub(super) fn note_refusal(&mut self, core: &Core, index: ReplicaIndex, growth: u64) {
        if growth == core.growth() {
            self.forget_judgement(core, index);
        }
    }

    /// When the next replica is due.
    pub(super) fn next_judgement(&mut self, core: &mut Core, period: SimDuration) -> Option<SimTime> {
        self.reopen(core);
        loop {
            let (due, index) = *self.to_judge.by_due.first()?;
            if due >= core.now {
                return Some(due);
            }
            self.to_judge.by_due.pop_first();
            let next = self.catch_up(core, index, period);
            self.to_judge.by_due.insert((next, index));
        }
    }

    /// Adds all waiting replicas, if the fleet has grown since this was last done.
    fn reopen(&mut self, core: &Core) {
        let growth = Some(core.growth());
        if self.to_judge.growth == growth {
            return;
        }
        let waiting = self.queue.iter(core.now).map(|key| (core.store[key.replica()].due, key.replica()));
        self.to_judge = ToJudge { growth, by_due: waiting.collect() };
    }

    /// When a replica is due next. Earlier due times are skipped, because judging the replica at those times could not
    /// have changed anything.
    fn catch_up(&mut self, core: &mut Core, index: ReplicaIndex, period: SimDuration) -> SimTime {
        while core.store[index].due < core.now {
            let jitter = self.jitter_of(core, index);
            let replica = &mut core.store[index];
            replica.due = replica.due.saturating_add(period).saturating_add(jitter);
        }
        core.store[index].due
    }

    fn jitter_of(&mut self, core: &mut Core, index: ReplicaIndex) -> SimDuration {
        let longest = core.profile.passes.place.jitter;
        if longest.is_zero() || planted!(PassesHaveNoJitter) {
            return SimDuration::ZERO;
        }
        let replica = &mut core.store[index];
        replica.processed += 1;
        let seed = self.place_pass.seed.wrapping_add(u64::from(replica.processed));
        Stream::new(seed, "place pass of a replica", u64::from(index)).duration(SimDuration::ZERO, longest)
    }

    /// Judges each replica that is due, first by priority, then in the order of the queue. Called once
    /// [`Queue::next_judgement`] has skipped the times that are past.
    pub(super) fn place_each(&mut self, core: &mut Core, period: SimDuration) {
        let of_now = self.to_judge.by_due.range(..=(core.now, ReplicaIndex::MAX));
        let mut due: Vec<_> = of_now.map(|(_, index)| core.store[*index].key).collect();
        due.sort_by_key(|key| (key.priority(), *key));
        for key in due {
            let index = key.replica();
            if core.store[index].wait != Wait::Queue {
                continue;
            }
            // A placement of this pass may have made room.
            self.reopen(core);
            self.forget_judgement(core, index);
            let jitter = self.jitter_of(core, index);
            core.store[index].due = core.now.saturating_add(period).saturating_add(jitter);
            self.consider(core, index);
            if self.deciding.is_some() {
                return;
            }
            // If it was refused, an event has said why. It is no longer told that it is behind others.
            self.forget_fresh(core, index);
        }
    }

    /// Asserts that the replicas to be judged wait in the queue, and that each is listed at the time at which it is due.
    pub(super) fn check_to_judge(&self, core: &Core) {
        for (due, index) in &self.to_judge.by_due {
            let replica = &core.store[*index];
            assert_eq!(replica.wait, Wait::Queue, "{} is to be judged and does not wait", replica.attempt_id());
            assert_eq!(replica.due, *due, "{} is listed at another time", replica.attempt_id());
        }
    }
}
