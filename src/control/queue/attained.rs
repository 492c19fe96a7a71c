//! Attained service: how much GPU time a replica has had, and in which of the queues of Tiresias (Gu and others, NSDI
//! 2019; its discretized two-dimensional least attained service) that puts it.
//!
//! GPU time counts whole GPUs or their shares. Each task that takes no GPU counts as one GPU, and a GPU that is taken
//! by memory counts as a whole one. A replica accrues GPU time while it runs, in all of its attempts, whether or not
//! any of the work is kept.

use std::collections::BTreeMap;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::core::timer::Timer;
use crate::queue::Queue;
use crate::queue::preempting::freeable::note_changes_of;
use dryrack_event::Phase;
use dryrack_scheduler::{OrderKey, Preempt};
use dryrack_units::{GpuShare, SimDuration, SimTime};
use dryrack_workload::{Demand, GpuTake};

/// The GPUs of a demand, in thousandths of GPUs.
fn width(demand: &Demand) -> u64 {
    let each = match demand.gpus() {
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

/// Turns of the replicas that have had enough GPU time to leave the first queue, where the order looks at turns. In
/// the first queue nobody is ever stopped, and turns are those of submission.
#[derive(Default)]
pub(super) struct Turns {
    /// The lowest turn given, and the highest with its time. Replicas that come last in one moment share a turn, and
    /// are in the order of their submission.
    first: i64,
    last: (i64, SimTime),
    of: BTreeMap<ReplicaIndex, Turn>,
    /// The replicas that entered a queue while they ran, at the last moment at which any did.
    joined: (SimTime, Vec<ReplicaIndex>),
}

#[derive(Clone, Copy, Default)]
struct Turn {
    /// Its place among those that wait in its queue.
    place: i64,
    /// When it last entered a queue while it ran.
    joined: SimTime,
    /// It was stopped in the moment in which it entered its queue, so it waits behind those it found there.
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

/// One GPU second, in nanoseconds times thousandths of a GPU.
const GPU_SECOND: u128 = 1_000_000_000_000;

impl Queue {
    /// Its place among those that wait in its queue.
    pub(super) fn turn(&self, core: &Core, index: ReplicaIndex) -> i64 {
        let of_submission = core.replicas[index as usize].job.index() as i64;
        self.turns.of.get(&index).map_or(of_submission, |turn| turn.place)
    }

    /// Gives a replica that begins to wait its place in the queue, according to the GPU time it has had so far.
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

    /// Moves a replica into the next queue while it runs.
    pub(super) fn join_next_level(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.turns.of.entry(index).or_default().joined = core.now;
        if self.turns.joined.0 != core.now {
            self.turns.joined = (core.now, Vec::new());
        }
        self.turns.joined.1.push(index);
        note_changes_of(core, index);
        await_next_level(core, index);
    }

    /// The replicas that entered a queue in this moment while they ran.
    pub(super) fn those_who_join(&self, core: &Core) -> &[ReplicaIndex] {
        if self.turns.joined.0 == core.now { &self.turns.joined.1 } else { &[] }
    }

    /// Whether it entered its queue in this moment while it ran.
    fn joined_now(&self, core: &Core, index: ReplicaIndex) -> bool {
        self.turns.of.get(&index).is_some_and(|turn| turn.joined == core.now)
    }

    /// Whether it goes behind the other, which waits in the queue that it enters in this moment.
    pub(super) fn joins_behind(&self, core: &Core, index: ReplicaIndex, other: ReplicaIndex) -> bool {
        let runs_on = core.replicas[index as usize].since < core.now;
        runs_on && self.joined_now(core, index) && !self.joined_now(core, other)
    }

    /// Notes that it is stopped. If it entered its queue in this moment, it comes last there.
    pub(super) fn leave_as_last(&mut self, core: &mut Core, index: ReplicaIndex) {
        if self.joined_now(core, index) {
            self.turns.of.entry(index).or_default().is_last = true;
        }
    }

    /// Since when it has been one of those that run in its queue. In one moment, those that waited there come first.
    pub(super) fn runs_there_since(&self, core: &Core, index: ReplicaIndex) -> (SimTime, bool, i64) {
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

/// How long it has run in all its attempts.
fn served(core: &Core, index: ReplicaIndex) -> SimDuration {
    let replica = &core.replicas[index as usize];
    let now = if replica.phase == Phase::Running { core.now.since(replica.since) } else { SimDuration::ZERO };
    replica.served.saturating_add(now)
}

/// The queue that it is in, counted from 0 for those that have had least.
pub(in crate::queue) fn level(core: &Core, index: ReplicaIndex) -> u32 {
    let levels = &core.profile.scheduler.levels;
    if levels.is_empty() {
        return 0;
    }
    let had = u128::from(served(core, index).as_nanos()) * width_of(core, index);
    levels.iter().filter(|level| had >= u128::from(**level) * GPU_SECOND).count() as u32
}

/// Sets a timer for when it enters the next queue. Those that wait may stop it then, so they are looked at.
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
