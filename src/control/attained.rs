//! Attained service: how much GPU time a replica has had, and in which of the queues of Tiresias (Gu and others, NSDI
//! 2019; its discretized two-dimensional least attained service) that puts it.
//!
//! GPU time is of whole GPUs or their parts; of what takes no part of a GPU that is counted in time, each task counts as one
//! GPU. It is had while a replica runs, in all of its attempts, whether or not something of the work is kept.

use super::Control;
use super::store::ReplicaIndex;
use super::timer::Timer;
use crate::event::Phase;
use crate::scheduler::Preempt;
use crate::units::{GpuShare, SimDuration};
use crate::workload::{Demand, GpuTake};

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
