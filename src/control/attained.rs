//! Attained service: how much GPU time a replica has had, and in which of the queues of Tiresias (Gu and others, NSDI
//! 2019; its discretized two-dimensional least attained service) that puts it.
//!
//! GPU time is of whole GPUs or their parts; of what takes no part of a GPU that is counted in time, each task counts as one
//! GPU. It is had while a replica runs, in all of its attempts, whether or not something of the work is kept.

use std::collections::BTreeMap;

use super::Control;
use super::store::ReplicaIndex;
use super::timer::Timer;
use dryrack_event::Phase;
use dryrack_scheduler::{OrderKey, Preempt};
use dryrack_units::{GpuShare, SimDuration, SimTime};
use dryrack_workload::{Demand, GpuTake};

/// Thousandths of GPUs.
fn width(demand: &Demand) -> u64 {
    let each = match &demand.task.gpus {
        None => u64::from(GpuShare::WHOLE.get()),
        Some(gpus) => {
            let share = match gpus.take {
                GpuTake::Whole | GpuTake::Memory(_) => GpuShare::WHOLE,
                GpuTake::Share(share) => share,
            };
            u64::from(gpus.count) * u64::from(share.get())
        }
    };
    u64::from(demand.tasks) * each.max(1)
}

/// The turns of those who have had so much that they have left the first queue, where the order looks at them. In the first
/// nobody is ever stopped, and turns are those of submission.
#[derive(Default)]
pub(super) struct Turns {
    /// The lowest that was given, and the highest and when: those that come last in one moment share it, and lie in the
    /// order of their submission.
    first: i64,
    last: (i64, SimTime),
    of: BTreeMap<ReplicaIndex, Turn>,
    /// Who came into a queue while it ran, and when: those of the last such moment.
    joined: (SimTime, Vec<ReplicaIndex>),
}

#[derive(Clone, Copy, Default)]
struct Turn {
    /// Among those that wait in its queue.
    place: i64,
    /// When it last came into a queue while it ran.
    joined: SimTime,
    /// It was stopped in that very moment: it waits behind those it found there.
    is_last: bool,
}

impl Turns {
    /// It has ended for good.
    pub(super) fn forget(&mut self, index: ReplicaIndex) {
        if self.of.remove(&index).is_some_and(|turn| turn.joined == self.joined.0) {
            self.joined.1.retain(|joined| *joined != index);
        }
    }
}

/// Nanoseconds times thousandths of a GPU.
const GPU_SECOND: u128 = 1_000_000_000_000;

impl Control {
    fn width_of(&self, index: ReplicaIndex) -> u128 {
        let demand = self.replicas[index as usize].demand;
        u128::from(width(&self.demands[demand as usize].demand))
    }

    /// How long it has run in all.
    fn served(&self, index: ReplicaIndex) -> SimDuration {
        let replica = &self.replicas[index as usize];
        let now = if replica.phase == Phase::Running { self.now.since(replica.since) } else { SimDuration::ZERO };
        replica.served.saturating_add(now)
    }

    /// The queue that it is in, from 0 for who has had least.
    pub(super) fn level(&self, index: ReplicaIndex) -> u32 {
        let levels = &self.profile.scheduler.levels;
        if levels.is_empty() {
            return 0;
        }
        let had = u128::from(self.served(index).as_nanos()) * self.width_of(index);
        levels.iter().filter(|level| had >= u128::from(**level) * GPU_SECOND).count() as u32
    }

    /// Its place among those that wait in its queue.
    pub(super) fn turn(&self, index: ReplicaIndex) -> i64 {
        let of_submission = self.replicas[index as usize].job.index() as i64;
        self.turns.of.get(&index).map_or(of_submission, |turn| turn.place)
    }

    /// It begins to wait: its place in the queue is that of what it has had by now.
    pub(super) fn take_turn(&mut self, index: ReplicaIndex) {
        let order = &self.profile.scheduler.order;
        if !order.iter().any(|key| matches!(key, OrderKey::Remaining | OrderKey::Attained)) {
            return;
        }
        if order.contains(&OrderKey::Joined) && self.level(index) > 0 {
            let Turns { first, last, of, .. } = &mut self.turns;
            let turn = of.entry(index).or_default();
            if std::mem::take(&mut turn.is_last) {
                *last = (last.0 + i64::from(last.1 != turn.joined), turn.joined);
                turn.place = last.0;
            } else {
                *first -= 1;
                turn.place = *first;
            }
        }
        self.replicas[index as usize].key = self.key_of(index);
    }

    /// It comes into the next queue while it runs.
    pub(super) fn join_next_level(&mut self, index: ReplicaIndex) {
        self.turns.of.entry(index).or_default().joined = self.now;
        if self.turns.joined.0 != self.now {
            self.turns.joined = (self.now, Vec::new());
        }
        self.turns.joined.1.push(index);
        self.note_changes_of(index);
        self.await_next_level(index);
    }

    /// Who came into a queue in this moment, while it ran.
    pub(super) fn those_who_join(&self) -> &[ReplicaIndex] {
        if self.turns.joined.0 == self.now { &self.turns.joined.1 } else { &[] }
    }

    /// Whether it came into its queue in this moment, while it ran.
    fn joined_now(&self, index: ReplicaIndex) -> bool {
        self.turns.of.get(&index).is_some_and(|turn| turn.joined == self.now)
    }

    /// Whether it goes behind the other, which waits in the queue into which it comes in this moment.
    pub(super) fn joins_behind(&self, index: ReplicaIndex, other: ReplicaIndex) -> bool {
        let runs_on = self.replicas[index as usize].since < self.now;
        runs_on && self.joined_now(index) && !self.joined_now(other)
    }

    /// It is stopped.
    pub(super) fn leave_as_last(&mut self, index: ReplicaIndex) {
        if self.joined_now(index) {
            self.turns.of.entry(index).or_default().is_last = true;
        }
    }

    /// Since when it has been one of those that run in its queue; of one moment, those that waited there come first.
    pub(super) fn runs_there_since(&self, index: ReplicaIndex) -> (SimTime, bool, i64) {
        let since = self.replicas[index as usize].since;
        match self.turns.of.get(&index) {
            Some(turn) if turn.joined >= since => (turn.joined, true, i64::from(index)),
            _ => (since, false, self.turn(index)),
        }
    }

    /// Who waits may stop it once it comes into the next queue, so they are looked at then.
    pub(super) fn await_next_level(&mut self, index: ReplicaIndex) {
        let options = &self.profile.scheduler;
        let replica = &self.replicas[index as usize];
        if options.preempt != Preempt::MoreAttained || replica.phase != Phase::Running {
            return;
        }
        let Some(next) = options.levels.get(self.level(index) as usize) else { return };
        let whole = (u128::from(*next) * GPU_SECOND).div_ceil(self.width_of(index));
        let left = whole.saturating_sub(u128::from(self.served(index).as_nanos()));
        let at = self.now.saturating_add(SimDuration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)));
        let timer = Timer::NextLevel { replica: index, version: replica.version };
        self.timers.set(at, timer);
    }
}
