//! The policies that were published together with fragmentation gradient descent. They are computed as in
//! kubernetes-scheduler-simulator (8f3d641, `pkg/simulator/plugin`), in integers from 0 to 100.
//!
//! That simulator measures CPU relative to 128 cores and GPUs relative to 8, the largest amounts of any machine that it
//! knows. It then stretches the best-fit score to the range from 0 to 100, which changes neither the order nor the
//! ties, so this step is left out.

use crate::claimable;
use crate::fragment::Free;
use crate::node_class::NodeClass;
use dryrack_fleet::NodeStatus;
use dryrack_workload::{GpuDemand, GpuTake, TaskGroup};

/// Largest CPU amount, in thousandths of a core.
const MOST_CPU: f64 = 128_000.0;
/// Largest GPU amount, in thousandths of a GPU.
const MOST_GPU: u64 = 8_000;

/// 1 minus the mean of the left-over fractions of CPU and GPUs, in percent and truncated.
pub fn best_fit(demand: TaskGroup<'_>, class: &NodeClass) -> f64 {
    let left = class.status.cpu_free(class.shape).saturating_sub(demand.task.cpu).get();
    let gpu_left = gpu_free(class).saturating_sub(gpu_asked(demand, class));
    let mean = left as f64 / MOST_CPU * 0.5 + gpu_left as f64 / MOST_GPU as f64 * 0.5;
    ((1.0 - mean) * 100.0).trunc()
}

/// 1 minus the mean of two products, for CPU and for GPUs: the requested amount times the free amount. In percent and
/// truncated.
pub fn dot_product(demand: TaskGroup<'_>, class: &NodeClass) -> f64 {
    let (free, asked) = (class.status.cpu_free(class.shape).get(), demand.task.cpu.get());
    let cpu = (free as f64 / MOST_CPU) * (asked as f64 / MOST_CPU);
    let most = MOST_GPU as f64;
    let gpu = (gpu_free(class) as f64 / most) * (gpu_asked(demand, class) as f64 / most);
    (100.0 * (1.0 - (cpu + gpu) / 2.0)).trunc()
}

/// Scores, from high to low. First, tasks that fit on GPUs in use; fuller GPUs are better. Second, tasks that need free
/// GPUs of a node in use; fewer such GPUs are better. Third, nodes that are not in use; fewer GPUs are better. Zero if
/// the task asks for no GPU.
pub fn packing(demand: TaskGroup<'_>, class: &NodeClass) -> f64 {
    if demand.task.gpus.is_none() {
        return 0.0;
    }
    let free = Free::of(class);
    let whole = free.gpus.iter().filter(|left| **left == 1000).count();
    if whole == free.gpus.len() {
        return (33 - whole as i64).max(whole as i64) as f64;
    }
    let mut taken: Vec<u32> =
        claimable::claimable(demand, class).iter().map(|claim| free.gpus[usize::from(claim.index)]).collect();
    taken.sort_unstable();
    taken.truncate(class.gpus_per_task(demand) as usize);
    let opened = taken.iter().filter(|left| **left == 1000).count() as i64;
    if opened > 0 {
        return (50 - opened).max(33) as f64;
    }
    let percent: i64 = taken.iter().map(|left| i64::from(left / 10)).sum();
    (100 - percent / 10).max(50) as f64
}

/// Scores, from high to low: nodes with only tasks of this kind, nodes with tasks of this and other kinds, nodes
/// without tasks, nodes with only other kinds. On a tie, the fuller node is better. A kind is a number of whole GPUs,
/// or a part of one. Zero if the task asks for no GPU.
pub fn clustering(demand: TaskGroup<'_>, class: &NodeClass) -> f64 {
    let Some(gpus) = &demand.task.gpus else { return 0.0 };
    let kinds = &class.status.kinds;
    let held = kinds.iter().any(|(kind, _)| *kind == kind_of(gpus, class, demand));
    let quarter = match (held, kinds.len()) {
        (true, 1) => 75,
        (true, _) => 50,
        (false, 0) => 25,
        (false, _) => 0,
    };
    (25 * MOST_GPU.saturating_sub(gpu_free(class)) / MOST_GPU + quarter) as f64
}

fn kind_of(gpus: &GpuDemand, class: &NodeClass, demand: TaskGroup<'_>) -> u16 {
    match gpus.take {
        GpuTake::Whole => class.gpus_per_task(demand) as u16,
        GpuTake::Share(_) | GpuTake::Memory(_) => NodeStatus::PARTS,
    }
}

fn gpu_free(class: &NodeClass) -> u64 {
    Free::of(class).gpus.iter().map(|left| u64::from(*left)).sum()
}

fn gpu_asked(demand: TaskGroup<'_>, class: &NodeClass) -> u64 {
    let Some(gpus) = &demand.task.gpus else { return 0 };
    let each = match gpus.take {
        GpuTake::Whole => 1000,
        GpuTake::Share(share) => u64::from(share.get()),
        GpuTake::Memory(_) => 0,
    };
    each * u64::from(class.gpus_per_task(demand))
}
