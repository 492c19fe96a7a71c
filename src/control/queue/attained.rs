//! Attained service: how much GPU time a replica has used. Tiresias (Gu and others, NSDI 2019) assigns replicas to
//! queues by this time. This module follows its discretized two-dimensional least attained service.
//!
//! GPU time is the running time multiplied by the number of GPUs. A share of a GPU counts as that share. A GPU that is
//! taken by memory counts as a whole GPU. A task without GPUs counts as one GPU. GPU time adds up over all attempts of
//! a replica, even if the work of an attempt is lost.

use std::collections::BTreeMap;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::core::timer::Timer;
use crate::queue::Queue;
use crate::queue::preempting::freeable::note_changes_of;
use dryrack_event::Phase;
use dryrack_scheduler::{OrderKey, Preempt};
use dryrack_units::{GpuShare, SimDuration, SimTime};
use dryrack_workload::{Demand, GpuDemand, GpuTake};

/// The number of GPUs of a demand, in thousandths of a GPU.
fn width(demand: &Demand) -> u64 {
    let each = |gpus: Option<&GpuDemand>| match gpus {
        None => u64::from(GpuShare::WHOLE.get()),
        Some(gpus) => {
            let share = match gpus.take {
                GpuTake::Whole | GpuTake::Memory(_) => GpuShare::WHOLE,
                GpuTake::Share(share) => share,
            };
            u64::from(gpus.count) * u64::from(share.get())
        }
    };
    match demand.sets() {
        [] => u64::from(demand.tasks) * each(demand.gpus()).max(1),
        sets => sets.iter().map(|set| u64::from(set.tasks) * each(set.task.gpus.as_ref()).max(1)).sum(),
    }
}

/// The turns of replicas that have left the first queue of Tiresias. Only an order with the key `joined` uses turns. No
/// run in the first queue is ever preempted, so replicas there have their turns in order of submission.
#[derive(Default)]
pub(super) struct Turns {
    /// The lowest and the highest turn given so far, with the time at which the highest was given. Replicas that come
    /// last at one instant share a turn and keep their order of submission.
    first: i64,
    last: (i64, SimTime),
    of: BTreeMap<ReplicaIndex, Turn>,
    /// The replicas that entered a queue while running, at the last instant at which any replica did so.
    joined: (SimTime, Vec<ReplicaIndex>),
}

#[derive(Clone, Copy, Default)]
struct Turn {
    /// Sort key of the replica among those that wait in its queue.
    place: i64,
    /// When the replica last entered a queue while it was running.
    joined: SimTime,
    /// Whether the replica was stopped at the instant at which it entered its queue. If so, it waits behind the
    /// replicas that were already there.
    is_last: bool,
}

impl Turns {
    /// Forgets a replica that has ended for good.
    pub(super) fn forget(&mut self, index: ReplicaIndex) {
        if self.of.remove(&index).is_some_and(|turn| turn.joined == self.joined.0) {
            self.joined.1.retain(|joined| *joined != index);
        }
    }
}

/// One GPU second, in nanoseconds multiplied by thousandths of a GPU.
const GPU_SECOND: u128 = 1_000_000_000_000;

impl Queue {
    /// The sort key of a replica among those that wait in its queue.
    pub(super) fn turn(&self, core: &Core, index: ReplicaIndex) -> i64 {
        let of_submission = core.replicas[index as usize].job.index() as i64;
        self.turns.of.get(&index).map_or(of_submission, |turn| turn.place)
    }

    /// Sets the place in the queue of a replica that begins to wait. The place depends on the GPU time the replica has
    /// used.
    pub(super) fn take_turn(&mut self, core: &mut Core, index: ReplicaIndex) {
        let order = &core.profile.scheduler.order;
        if !order.iter().any(|key| matches!(key, OrderKey::Remaining | OrderKey::Attained)) {
            return;
        }
        if order.contains(&OrderKey::Joined) && level(core, index) > 0 {
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
        core.replicas[index as usize].key = self.key_of(core, index);
    }

    /// Moves a running replica into the next queue.
    pub(super) fn join_next_level(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.turns.of.entry(index).or_default().joined = core.now;
        if self.turns.joined.0 != core.now {
            self.turns.joined = (core.now, Vec::new());
        }
        self.turns.joined.1.push(index);
        note_changes_of(core, index);
        await_next_level(core, index);
    }

    /// The replicas that entered a queue at this instant while running.
    pub(super) fn joined_while_running(&self, core: &Core) -> &[ReplicaIndex] {
        if self.turns.joined.0 == core.now { &self.turns.joined.1 } else { &[] }
    }

    /// Whether the replica entered its queue at this instant while running.
    fn joined_now(&self, core: &Core, index: ReplicaIndex) -> bool {
        self.turns.of.get(&index).is_some_and(|turn| turn.joined == core.now)
    }

    /// Whether a running replica ranks behind `other`, which waits. This is the case if the running replica enters the
    /// queue of `other` at this instant.
    pub(super) fn joins_behind(&self, core: &Core, index: ReplicaIndex, other: ReplicaIndex) -> bool {
        let attempts_on = core.replicas[index as usize].since < core.now;
        attempts_on && self.joined_now(core, index) && !self.joined_now(core, other)
    }

    /// Notes that a running replica is stopped. If the replica entered its queue at this instant, it waits behind all
    /// others there.
    pub(super) fn leave_as_last(&mut self, core: &mut Core, index: ReplicaIndex) {
        if self.joined_now(core, index) {
            self.turns.of.entry(index).or_default().is_last = true;
        }
    }

    /// Sort key of a running replica: the time since which it has been running in its queue. At equal times, a replica
    /// that started from this queue comes before one that entered it while running.
    pub(super) fn running_key(&self, core: &Core, index: ReplicaIndex) -> (SimTime, bool, i64) {
        let since = core.replicas[index as usize].since;
        match self.turns.of.get(&index) {
            Some(turn) if turn.joined >= since => (turn.joined, true, i64::from(index)),
            _ => (since, false, self.turn(core, index)),
        }
    }
}

fn width_of(core: &Core, index: ReplicaIndex) -> u128 {
    let demand = core.replicas[index as usize].demand;
    u128::from(width(&core.demands[demand as usize].demand))
}

/// How long a replica has run in all its attempts.
fn served(core: &Core, index: ReplicaIndex) -> SimDuration {
    let replica = &core.replicas[index as usize];
    let now = if replica.phase == Phase::Running { core.now.since(replica.since) } else { SimDuration::ZERO };
    replica.served.saturating_add(now)
}

/// The queue that a replica is in, by the GPU time that it has used. Queue 0 is for the least GPU time.
pub(in crate::queue) fn level(core: &Core, index: ReplicaIndex) -> u32 {
    let levels = &core.profile.scheduler.levels;
    if levels.is_empty() {
        return 0;
    }
    let had = u128::from(served(core, index).as_nanos()) * width_of(core, index);
    levels.iter().filter(|level| had >= u128::from(**level) * GPU_SECOND).count() as u32
}

/// Sets a timer for the time at which a running replica enters the next queue. The timer triggers a check of the queue,
/// because waiting replicas may then preempt this one.
pub(in crate::queue) fn await_next_level(core: &mut Core, index: ReplicaIndex) {
    let options = &core.profile.scheduler;
    let replica = &core.replicas[index as usize];
    if options.preempt != Preempt::MoreAttained || replica.phase != Phase::Running {
        return;
    }
    let Some(next) = options.levels.get(level(core, index) as usize) else { return };
    let whole = (u128::from(*next) * GPU_SECOND).div_ceil(width_of(core, index));
    let left = whole.saturating_sub(u128::from(served(core, index).as_nanos()));
    let at = core.now.saturating_add(SimDuration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX)));
    let timer = Timer::NextLevel { replica: index, version: replica.version };
    core.timers.set(at, timer);
}
