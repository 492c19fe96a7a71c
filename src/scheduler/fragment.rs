//! Fragmentation: how much free GPU time of a node is useless for the target workload.
//!
//! Source: Weng and others, *Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
//! Descent*, USENIX ATC 2023. The arithmetic follows the authors' kubernetes-scheduler-simulator (8f3d641).
//!
//! For each shape of the target, in order, the thousandths of a GPU that the shape cannot use are multiplied by the
//! fraction of tasks with this shape. The product is added to a sum for its cause. The measure is the total of these
//! sums in a fixed order. If a shape asks for no GPU, or the node cannot hold it, all free GPU time is useless.
//! Otherwise, free time is useless only on GPUs that are too full for the shape or have another model.

use smallvec::SmallVec;

use super::claimable;
use super::node_class::NodeClass;
use super::target::{Target, TaskShape};
use dryrack_fleet::NodeShape;
use dryrack_units::{GpuShare, MilliCpu};
use dryrack_workload::{GpuTake, TaskGroup};

/// Free resources of one node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Free {
    pub cpu: MilliCpu,
    /// Free thousandths of each GPU; zero for a GPU that is not usable.
    pub gpus: SmallVec<[u32; 8]>,
}

/// Why free GPU time is useless. The sums are added in this order.
#[derive(Clone, Copy)]
enum Cause {
    LacksBoth,
    LacksGpu,
    LacksCpu,
    NoGpuAskedFor,
    NoGpuAskedForLacksCpu,
    NoAccess,
}

impl Clone for Free {
    /// Copies the memory as a whole. Cloning element by element takes many times as long.
    fn clone(&self) -> Free {
        Free { cpu: self.cpu, gpus: SmallVec::from_slice(&self.gpus) }
    }
}

impl Free {
    pub fn of(class: &NodeClass) -> Free {
        let (shape, status) = (class.shape, class.status);
        let left = |index: usize| match status.gpus[index].state.is_usable() {
            true => status.gpu_share_free(index).get(),
            false => 0,
        };
        Free { cpu: status.cpu_free(shape), gpus: (0..shape.gpus.len()).map(left).collect() }
    }
}

/// The thousandths of a GPU that the target cannot use, averaged over its shapes.
pub fn fragment(target: &Target, shape: &NodeShape, free: &Free) -> f64 {
    let mut sums = [0.0; 6];
    for wanted in target.shapes() {
        let (cause, useless) = useless_to(&wanted.shape, shape, free);
        sums[cause as usize] += wanted.part * useless as f64;
    }
    sums.into_iter().fold(0.0, |total, sum| total + sum)
}

fn useless_to(wanted: &TaskShape, shape: &NodeShape, free: &Free) -> (Cause, u64) {
    let left: u64 = free.gpus.iter().map(|left| u64::from(*left)).sum();
    let cpu_fits = free.cpu >= wanted.cpu;
    if wanted.gpus == 0 {
        let cause = if cpu_fits { Cause::NoGpuAskedFor } else { Cause::NoGpuAskedForLacksCpu };
        return (cause, left);
    }
    let accepted = |index: usize| wanted.accepts(&shape.gpus[index].model);
    if !(0..shape.gpus.len()).any(accepted) {
        return (Cause::NoAccess, left);
    }
    let share = wanted.share.get();
    let (mut fitting, mut usable) = (0, 0);
    for (index, left) in free.gpus.iter().enumerate() {
        if *left >= share && accepted(index) {
            fitting += 1;
            usable += u64::from(*left);
        }
    }
    match (fitting >= wanted.gpus, cpu_fits) {
        (true, true) => (Cause::LacksGpu, left - usable),
        (true, false) => (Cause::LacksCpu, left),
        (false, true) => (Cause::LacksGpu, left),
        (false, false) => (Cause::LacksBoth, left),
    }
}

/// The score of placing one task on this node, from 0 to 100: the logistic function of the growth of useful GPUs,
/// truncated.
pub fn score(target: &Target, demand: TaskGroup<'_>, class: &NodeClass) -> u32 {
    score_by(demand, class, |free| fragment(target, class.shape, free))
}

/// Like [`score`], with another measure of fragmentation.
pub fn score_by(demand: TaskGroup<'_>, class: &NodeClass, mut fragment: impl FnMut(&Free) -> f64) -> u32 {
    if let Some(share) = shared(demand) {
        let with_room = claimable::claimable(demand, class).into_iter().map(|claim| usize::from(claim.index));
        return best_share(demand, class, share, with_room, fragment);
    }
    let free = Free::of(class);
    gain(fragment(&free), fragment(&after_tightest(demand, class, &free)))
}

/// Like [`score_by`], for a task that takes this share of one GPU. The score is that of the best GPU with room for it.
pub fn best_share(
    demand: TaskGroup<'_>,
    class: &NodeClass,
    share: GpuShare,
    with_room: impl Iterator<Item = usize>,
    mut fragment: impl FnMut(&Free) -> f64,
) -> u32 {
    let mut free = Free::of(class);
    let before = fragment(&free);
    free.cpu = free.cpu.saturating_sub(demand.task.cpu);
    // GPUs of one model with equal free shares have equal results, so one of them is enough.
    let mut seen: SmallVec<[(u32, usize); 8]> = SmallVec::new();
    let models = |index: usize| &class.shape.gpus[index].model;
    let mut least: Option<f64> = None;
    for index in with_room {
        let left = free.gpus[index];
        if seen.iter().any(|(known, other)| *known == left && models(*other) == models(index)) {
            continue;
        }
        seen.push((left, index));
        free.gpus[index] = left - share.get();
        let after = fragment(&free);
        free.gpus[index] = left;
        if least.is_none_or(|least| after < least) {
            least = Some(after);
        }
    }
    // The less useless time remains, the larger the score.
    least.map_or(0, |after| gain(before, after))
}

/// The score of a task that takes its share of this GPU; zero if the task takes whole GPUs or several.
pub fn score_of_gpu(target: &Target, demand: TaskGroup<'_>, class: &NodeClass, index: usize) -> u32 {
    let Some(share) = shared(demand) else { return 0 };
    let free = Free::of(class);
    let before = fragment(target, class.shape, &free);
    score_with(demand, (free, before), (index, share), |free| fragment(target, class.shape, free))
}

/// The score of a task that takes its share of this GPU. The caller gives the free resources, the useless time before
/// the placement, and the measure of fragmentation.
pub fn score_with(
    demand: TaskGroup<'_>,
    (mut free, before): (Free, f64),
    (index, share): (usize, GpuShare),
    mut fragment: impl FnMut(&Free) -> f64,
) -> u32 {
    free.cpu = free.cpu.saturating_sub(demand.task.cpu);
    free.gpus[index] -= share.get();
    gain(before, fragment(&free))
}

/// The score that follows from the useless time before and after the placement.
pub fn gain(before: f64, after: f64) -> u32 {
    let logistic = 1.0 / (1.0 + libm::exp(-((before - after) / 1000.0)));
    (100.0 * logistic) as u32
}

/// The share of a task that takes part of one GPU; `None` for other tasks.
pub fn shared(demand: TaskGroup<'_>) -> Option<GpuShare> {
    let gpus = demand.task.gpus.as_ref().filter(|gpus| gpus.count == 1)?;
    match gpus.take {
        GpuTake::Share(share) if share < GpuShare::WHOLE => Some(share),
        GpuTake::Share(_) | GpuTake::Whole | GpuTake::Memory(_) => None,
    }
}

/// The free resources after the fullest suitable GPUs are taken. On a tie, the lowest index is taken first.
fn after_tightest(demand: TaskGroup<'_>, class: &NodeClass, free: &Free) -> Free {
    let mut after = free.clone();
    after.cpu = after.cpu.saturating_sub(demand.task.cpu);
    let mut claims = claimable::claimable(demand, class);
    claims.sort_by_key(|claim| free.gpus[usize::from(claim.index)]);
    for claim in claims.into_iter().take(class.gpus_per_task(demand) as usize) {
        after.gpus[usize::from(claim.index)] -= claim.share.get();
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_class::{Grouping, all_classes};
    use crate::test_world::{fleet, node, shares};
    use dryrack_fleet::{GpuClaim, NodeClaim, Placement};
    use dryrack_ids::NodeId;
    use dryrack_units::{Bytes, MilliCpu};
    use dryrack_workload::{Demand, GpuDemand, TaskDemand};

    #[test]
    fn only_a_part_of_one_gpu_is_a_share() {
        let asks = |count, take| {
            let gpus = Some(GpuDemand { count, take, models: Vec::new(), min_memory: None });
            let demand = Demand::of(TaskDemand { gpus, ..TaskDemand::cpu_only(MilliCpu::from_cores(1)) });
            shared(demand.task_group().expect("equal tasks"))
        };
        let half = GpuShare::new(500);
        assert_eq!(asks(1, GpuTake::Share(half)), Some(half));
        assert_eq!(asks(2, GpuTake::Share(half)), None);
        assert_eq!(asks(1, GpuTake::Share(GpuShare::WHOLE)), None);
        assert_eq!(asks(1, GpuTake::Whole), None);
        assert_eq!(asks(1, GpuTake::Memory(Bytes::from_gib(1))), None);
    }
    #[test]
    fn the_best_gpu_decides_and_each_model_and_free_share_is_tried_once() {
        let mut fleet = fleet([node(&["a", "a", "b", "a"])]);
        let taken = |index| GpuClaim { index, share: GpuShare::new(400), memory: Bytes::ZERO };
        let gpus = (1..4).map(taken).collect();
        let claim = NodeClaim { tasks: 1, gpus, ..NodeClaim::of_nothing(NodeId::new(0)) };
        fleet.take(&Placement::new([claim].into()));
        let demand = Demand::of(TaskDemand { cpu: MilliCpu::from_cores(6), ..shares(1, 300) });
        let demand = demand.task_group().expect("equal tasks");
        let class = &all_classes(&fleet, Grouping::EachNode)[0];
        // 1,000 thousandths are useless now, and 900, 500 and 700 of them after each of three placements.
        let (mut asked, mut useless) = (Vec::new(), [1000.0, 900.0, 500.0, 700.0].into_iter());
        let found = best_share(demand, class, GpuShare::new(300), 0..4, |free| {
            asked.push((free.cpu.get() / 1000, free.gpus.to_vec()));
            useless.next().expect("the last GPU is like the second")
        });
        // 100 / (1 + exp(-(1000 - 500) / 1000)) is 62.2.
        assert_eq!(found, 62);
        assert_eq!(
            asked,
            [
                (16, vec![1000, 600, 600, 600]),
                (10, vec![700, 600, 600, 600]),
                (10, vec![1000, 300, 600, 600]),
                (10, vec![1000, 600, 300, 600]),
            ]
        );
        // Without room on any GPU, there is no score.
        assert_eq!(best_share(demand, class, GpuShare::new(300), 0..0, |_| 0.0), 0);
    }
}
