//! Attained service: how much GPU time a replica has used. Tiresias (Gu and others, NSDI 2019) assigns replicas to
//! queues by this time. This module follows its discretized two-dimensional least attained service.
//!
//! GPU time is the running time multiplied by the number of GPUs. A share of a GPU counts as that share. A GPU that is
//! taken by memory counts as a whole GPU. A task without GPUs counts as one GPU. GPU time adds up over all attempts of
//! a replica, even if the work of an attempt is lost.

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::core::timer::Timer;
use dryrack_event::Phase;
use dryrack_scheduler::Preempt;
use dryrack_units::{GpuShare, SimDuration};
use dryrack_workload::{Demand, GpuDemand, GpuTake};

/// The number of GPUs that count as used while a demand runs, in thousandths of a GPU.
pub fn attained_width(demand: &Demand) -> u64 {
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

/// One GPU second, in nanoseconds multiplied by thousandths of a GPU.
const GPU_SECOND: u128 = 1_000_000_000_000;

fn width_of(core: &Core, index: ReplicaIndex) -> u128 {
    let demand = core.store[index].demand;
    u128::from(attained_width(core.store.demand(demand)))
}

/// How long a replica has run in all its attempts.
fn served(core: &Core, index: ReplicaIndex) -> SimDuration {
    let replica = &core.store[index];
    let now = if replica.phase == Phase::Running { core.now.since(replica.since) } else { SimDuration::ZERO };
    replica.served.saturating_add(now)
}

/// The queue that a replica is in, by the GPU time that it has used. Queue 0 is for the least GPU time.
pub(super) fn level(core: &Core, index: ReplicaIndex) -> u32 {
    let levels = &core.profile.scheduler.levels;
    if levels.is_empty() {
        return 0;
    }
    let had = u128::from(served(core, index).as_nanos()) * width_of(core, index);
    levels.iter().filter(|level| had >= u128::from(**level) * GPU_SECOND).count() as u32
}

/// Sets a timer for the time at which a running replica enters the next queue. The timer triggers a check of the queue,
/// because waiting replicas may then preempt this one.
pub(super) fn await_next_level(core: &mut Core, index: ReplicaIndex) {
    let options = &core.profile.scheduler;
    let replica = &core.store[index];
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

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_units::{Bytes, MilliCpu};
    use dryrack_workload::{TaskDemand, TaskSet};
    use std::sync::Arc;

    fn task(gpus: Option<(u32, GpuTake)>) -> TaskDemand {
        let gpus = gpus.map(|(count, take)| GpuDemand { count, take, models: Vec::new(), min_memory: None });
        TaskDemand { gpus, ..TaskDemand::cpu_only(MilliCpu::from_cores(1)) }
    }

    fn set(tasks: u32, gpus: Option<(u32, GpuTake)>) -> TaskSet {
        TaskSet { name: "set".into(), tasks, min_tasks: tasks, task: task(gpus) }
    }

    #[test]
    fn what_counts_as_used_is_the_number_of_gpus_of_all_tasks() {
        use GpuTake::{Memory, Share, Whole};
        let (half, memory) = (Share(GpuShare::new(500)), Memory(Bytes::from_gib(8)));
        let tasks = |tasks, gpus| Demand { tasks, ..Demand::of(task(gpus)) };
        let sets = |sets: Vec<TaskSet>| Demand::of(Arc::<[TaskSet]>::from(sets));
        for (name, demand, expected) in [
            ("three tasks of two GPUs", tasks(3, Some((2, Whole))), 6000),
            ("three tasks of half of two GPUs", tasks(3, Some((2, half))), 3000),
            ("memory counts as the whole GPU", tasks(1, Some((2, memory))), 2000),
            ("a task without GPUs counts as one GPU", tasks(3, None), 3000),
            ("a task with no share counts as a thousandth", tasks(2, Some((1, Share(GpuShare::ZERO)))), 2),
            ("sets add up", sets(vec![set(3, Some((2, Whole))), set(2, Some((1, half))), set(4, None)]), 11000),
        ] {
            assert_eq!(attained_width(&demand), expected, "{name}");
        }
    }
}
