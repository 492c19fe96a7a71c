//! A cache for [`super::fragment`], for nodes with one GPU model. The key holds everything that the fragmentation
//! depends on.
//!
//! Whether a node can hold a shape of the target depends on two things: which of the target's CPU amounts are free, and
//! how much of each GPU is free. The order of the GPUs does not matter. There are few such states, and they recur. A
//! cached value is computed with the same additions in the same order as in the plain computation, so every bit is
//! equal.
//!
//! The score of a demand is cached too, for nodes whose room depends only on shares. The score then depends on that
//! state, on what a task takes, and on which CPU amounts are still free after the task is placed.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::fragment::{Free, gain};
use super::states::{ClassState, MOST_GPUS, Shares, ascending};
use super::target::{Target, TargetShape};
use dryrack_fleet::NodeShape;
use dryrack_units::{GpuShare, MilliCpu};
use dryrack_workload::{GpuTake, TaskGroup};

/// Number of key bits for the free part of one GPU, which is at most 1,000 thousandths.
const GPU_BITS: u32 = 10;
/// Bit positions of those parts of a key that do not depend on the number of GPUs.
const LEVEL_BIT: u32 = MOST_GPUS as u32 * GPU_BITS;
const SHAPE_BIT: u32 = 96;

#[derive(Clone, Debug, Default)]
pub struct FragmentMemo {
    /// The CPU amounts that the target asks for, in ascending order and without duplicates.
    cpu_levels: Vec<u64>,
    /// The GPU shares that the target asks for, in ascending order and without duplicates. For each shape of the
    /// target, `share_of` holds the index of its share.
    shares: Vec<u32>,
    share_of: Vec<usize>,
    /// For each of the shares, the GPUs that are too full for it, on the node that was examined last.
    full: Vec<Full>,
    /// For each shape of nodes, whether each shape of the target may use its GPUs. `None` if the nodes have several GPU
    /// models or too many GPUs.
    accepted: Vec<Option<Box<[bool]>>>,
    known: HashMap<u128, f64, foldhash::fast::FixedState>,
    scores: HashMap<ScoreKey, u32, foldhash::fast::FixedState>,
}

/// The resources of one task that fragmentation depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    cpu: MilliCpu,
    gpus: u32,
    /// The share that is taken of each GPU.
    share: GpuShare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ScoreKey {
    state: u128,
    /// The CPU levels before and after the placement.
    levels: (u32, u32),
    gpus: u32,
    share: GpuShare,
}

impl Taken {
    /// The resources of one task of the demand. `None` if the score depends on more than these.
    pub fn of(demand: TaskGroup<'_>) -> Option<Taken> {
        let cpu = demand.task.cpu;
        let Some(wanted) = &demand.task.gpus else { return Some(Taken { cpu, gpus: 0, share: GpuShare::ZERO }) };
        match wanted.take {
            GpuTake::Whole => Some(Taken { cpu, gpus: wanted.count, share: GpuShare::WHOLE }),
            GpuTake::Share(share) if wanted.count == 1 && share > GpuShare::ZERO && share < GpuShare::WHOLE => {
                Some(Taken { cpu, gpus: 1, share })
            }
            GpuTake::Share(_) | GpuTake::Memory(_) => None,
        }
    }
}

impl FragmentMemo {
    pub fn new(target: &Target) -> FragmentMemo {
        let mut cpu_levels: Vec<u64> = target.shapes().iter().map(|wanted| wanted.shape.cpu.get()).collect();
        cpu_levels.sort_unstable();
        cpu_levels.dedup();
        let share = |wanted: &TargetShape| wanted.shape.share.get();
        let mut shares: Vec<u32> = target.shapes().iter().map(share).collect();
        shares.sort_unstable();
        shares.dedup();
        let place = |wanted: &TargetShape| shares.partition_point(|known| *known < share(wanted));
        let share_of = target.shapes().iter().map(place).collect();
        FragmentMemo { cpu_levels, shares, share_of, ..FragmentMemo::default() }
    }

    /// How many of the target's CPU amounts fit in this free amount.
    pub fn cpu_level(&self, free: MilliCpu) -> usize {
        level(&self.cpu_levels, free.get()) as usize
    }

    /// The result of [`super::fragment::fragment`] for a node of the shape with this index. `None` if it must be
    /// computed plainly.
    pub fn fragment(&mut self, target: &Target, index: usize, shape: &NodeShape, free: &Free) -> Option<f64> {
        self.fragment_by_shares(target, (index, shape), free.cpu, &ascending(SmallVec::from_slice(&free.gpus)))
    }

    /// The fragmentation, from the free thousandths of each GPU in ascending order.
    fn fragment_by_shares(
        &mut self,
        target: &Target,
        (index, shape): (usize, &NodeShape),
        cpu: MilliCpu,
        ascending: &[u32],
    ) -> Option<f64> {
        while self.accepted.len() <= index {
            self.accepted.push(None);
        }
        if self.accepted[index].is_none() {
            self.accepted[index] = Some(accepted(target, shape)?);
        }
        let accepted = self.accepted[index].as_deref()?;
        let cpu = cpu.get();
        let level = level(&self.cpu_levels, cpu);
        let key = packed(index, ascending) | u128::from(level) << LEVEL_BIT;
        let compute = || {
            Full::of_each(ascending, &self.shares, &mut self.full);
            compute(target, accepted, cpu, ascending, |shape| self.full[self.share_of[shape]])
        };
        Some(*self.known.entry(key).or_insert_with(compute))
    }

    /// The result of [`super::fragment::score`] for a task on nodes of the shape with this index. The nodes must have
    /// room for the task, and their room must depend only on shares. `None` if the score must be computed plainly.
    pub(super) fn score_by_shares(
        &mut self,
        target: &Target,
        (index, shape): (usize, &NodeShape),
        (cpu, shares): (MilliCpu, &Shares),
        taken: Taken,
    ) -> Option<u32> {
        let free = &shares.ascending;
        let before = self.fragment_by_shares(target, (index, shape), cpu, free)?;
        let cpu = cpu.saturating_sub(taken.cpu);
        if taken.gpus == 0 || taken.share == GpuShare::WHOLE {
            // The free amounts are ascending, so the GPUs at the end are entirely free.
            let left = free.len() - taken.gpus as usize;
            let mut after: SmallVec<[u32; MOST_GPUS]> = SmallVec::from_elem(0, taken.gpus as usize);
            after.extend_from_slice(&free[..left]);
            return Some(gain(before, self.fragment_by_shares(target, (index, shape), cpu, &after)?));
        }
        let share = taken.share.get();
        let mut least: Option<f64> = None;
        for (place, left) in free.iter().enumerate() {
            // GPUs with equal free parts have equal results, so one of them is enough.
            if *left < share || free.get(place + 1) == Some(left) {
                continue;
            }
            let mut after = free.clone();
            let at = after[..place].partition_point(|other| *other < left - share);
            after.copy_within(at..place, at + 1);
            after[at] = left - share;
            let after = self.fragment_by_shares(target, (index, shape), cpu, &after)?;
            least = Some(least.map_or(after, |least| least.min(after)));
        }
        Some(least.map_or(0, |after| gain(before, after)))
    }

    /// The score of a task that takes `taken` on nodes in this state. The state comes with the index of its shape, and
    /// the nodes must have room for the task. `compute` runs only once for all states and tasks with equal scores.
    pub(super) fn score(
        &mut self,
        (index, state): (usize, &ClassState),
        taken: Taken,
        compute: impl FnOnce(&mut Self) -> u32,
    ) -> u32 {
        let Some(shares) = &state.shares else { return compute(self) };
        let level = |cpu: MilliCpu| level(&self.cpu_levels, cpu.get());
        let levels = (level(state.cpu), level(state.cpu.saturating_sub(taken.cpu)));
        let key = ScoreKey { state: packed(index, &shares.ascending), levels, gpus: taken.gpus, share: taken.share };
        if let Some(score) = self.scores.get(&key) {
            return *score;
        }
        let score = compute(self);
        self.scores.insert(key, score);
        score
    }
}

/// How many of the levels this amount reaches.
fn level(cpu_levels: &[u64], cpu: u64) -> u32 {
    cpu_levels.partition_point(|level| *level <= cpu) as u32
}

/// Packs a state into a key. The shape determines the number of GPUs, so no two states have the same key.
fn packed(shape: usize, ascending: &[u32]) -> u128 {
    let gpus = ascending.iter().fold(0, |key, left| key << GPU_BITS | u128::from(*left));
    (shape as u128) << SHAPE_BIT | gpus
}

fn accepted(target: &Target, shape: &NodeShape) -> Option<Box<[bool]>> {
    let first = shape.gpus.first();
    let is_uniform = shape.gpus.iter().all(|gpu| Some(&gpu.model) == first.map(|gpu| &gpu.model));
    if !is_uniform || shape.gpus.len() > MOST_GPUS {
        return None;
    }
    let accepts = |model: &str| target.shapes().iter().map(|wanted| wanted.shape.accepts(model)).collect();
    Some(first.map_or_else(|| vec![false; target.shapes().len()].into(), |gpu| accepts(&gpu.model)))
}

/// The GPUs that are too full for a share.
#[derive(Clone, Copy, Debug)]
struct Full {
    gpus: u32,
    /// The free thousandths of all these GPUs together.
    left: u32,
}

impl Full {
    /// Computes an entry for each of the shares. Both inputs are ascending.
    fn of_each(ascending: &[u32], shares: &[u32], full: &mut Vec<Full>) {
        full.clear();
        let mut so_far = Full { gpus: 0, left: 0 };
        for share in shares {
            while let Some(left) = ascending.get(so_far.gpus as usize).filter(|left| *left < share) {
                so_far = Full { gpus: so_far.gpus + 1, left: so_far.left + left };
            }
            full.push(so_far);
        }
    }
}

/// Computes the same sums by cause as `super::fragment::fragment`. `full` returns the full GPUs for a shape of the
/// target, given by its index.
fn compute(target: &Target, accepted: &[bool], cpu: u64, ascending: &[u32], full: impl Fn(usize) -> Full) -> f64 {
    let left: u32 = ascending.iter().sum();
    let [mut both, mut gpu, mut lacks_cpu, mut none, mut none_lacks_cpu, mut no_access] = [0.0; 6];
    for (index, (wanted, accepted)) in target.shapes().iter().zip(accepted).enumerate() {
        let cpu_fits = cpu >= wanted.shape.cpu.get();
        let all = wanted.part * f64::from(left);
        if wanted.shape.gpus == 0 {
            *(if cpu_fits { &mut none } else { &mut none_lacks_cpu }) += all;
            continue;
        }
        if !accepted {
            no_access += all;
            continue;
        }
        let Full { gpus: too_full, left: useless } = full(index);
        let gpu_fits = ascending.len() as u32 - too_full >= wanted.shape.gpus;
        match (gpu_fits, cpu_fits) {
            (true, true) => gpu += wanted.part * f64::from(useless),
            (true, false) => lacks_cpu += all,
            (false, true) => gpu += all,
            (false, false) => both += all,
        }
    }
    [both, gpu, lacks_cpu, none, none_lacks_cpu, no_access].into_iter().fold(0.0, |total, sum| total + sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::fragment;
    use crate::target::TaskShape;
    use dryrack_fleet::GpuShape;
    use dryrack_units::Bytes;

    /// A target of `parts` shapes: their CPU in cores, GPUs and share of each.
    fn target(parts: &[(u64, u32, u32)]) -> Target {
        let shape = |(cores, gpus, share): &(u64, u32, u32)| TaskShape {
            cpu: MilliCpu::from_cores(*cores),
            gpus: *gpus,
            share: GpuShare::new(*share),
            models_written: String::new(),
            models: Vec::new(),
        };
        Target::of(parts.iter().map(shape))
    }

    fn shape(gpus: usize) -> NodeShape {
        let gpu = GpuShape::of("a", Bytes::from_gib(80));
        NodeShape::of(MilliCpu::from_cores(64), Bytes::from_gib(64), vec![gpu; gpus])
    }

    proptest::proptest! {
        /// Nodes of forty shapes, with zero to eight GPUs, in one memo.
        #[test]
        fn what_is_remembered_is_what_the_plain_computation_says(
            nodes in proptest::collection::vec((0..40_usize, 0..65_u64, proptest::collection::vec(0..=1000_u32, 8)), 1..200),
        ) {
            let target = target(&[(1, 0, 0), (4, 1, 250), (8, 1, 1000), (16, 2, 1000), (0, 1, 500), (32, 8, 1000)]);
            let mut memo = FragmentMemo::new(&target);
            for (index, cores, free) in nodes {
                let shape = shape(index % 9);
                let free = Free { cpu: MilliCpu::from_cores(cores), gpus: SmallVec::from_slice(&free[..index % 9]) };
                let known = memo.fragment(&target, index, &shape, &free);
                assert_eq!(known, Some(fragment(&target, &shape, &free)), "{free:?} of shape {index}");
            }
        }
    }

    /// Few states, which recur with other numbers of free cores. The nodes have no GPU of the last two shapes.
    #[test]
    fn states_that_recur_are_told_apart_by_the_cores_that_the_target_asks_for() {
        let of_a = target(&[(1, 0, 0), (4, 1, 250), (8, 1, 1000), (16, 2, 1000), (0, 1, 500)]);
        let of_b = [(2, 1), (6, 2)].map(|(cores, gpus)| TaskShape {
            cpu: MilliCpu::from_cores(cores),
            gpus,
            share: GpuShare::WHOLE,
            models: vec!["b".into()],
            ..TaskShape::default()
        });
        let target = Target::of(of_a.shapes().iter().map(|part| part.shape.clone()).chain(of_b));
        let mut memo = FragmentMemo::new(&target);
        let mut draws = dryrack_rng::Stream::new(5, "memo test", 0);
        for _ in 0..5_000 {
            let count = draws.index(4);
            let (shape, cpu) = (shape(count), MilliCpu::from_cores(draws.between(0, 20)));
            let gpus = (0..count).map(|_| *draws.pick(&[0, 250, 500, 1000])).collect();
            let free = Free { cpu, gpus };
            let known = memo.fragment(&target, count, &shape, &free);
            assert_eq!(known, Some(fragment(&target, &shape, &free)), "{free:?}");
        }
    }

    #[test]
    fn states_of_nodes_with_other_numbers_of_gpus_are_told_apart() {
        let target = target(&[(1, 1, 1000)]);
        let mut memo = FragmentMemo::new(&target);
        // The last ten bits of a key belong to the last GPU alone.
        let cpu = MilliCpu::from_cores(1);
        let mut fragment_of = |index, gpus: &[u32]| {
            let free = Free { cpu, gpus: SmallVec::from_slice(gpus) };
            memo.fragment(&target, index, &shape(gpus.len()), &free)
        };
        assert_eq!(fragment_of(16, &[]), Some(0.0));
        assert_eq!(fragment_of(0, &[0, 1]), Some(1.0));
    }
}
