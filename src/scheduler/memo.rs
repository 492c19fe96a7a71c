//! Fragmentation, remembered: [`super::fragment`] for nodes of one kind of GPUs, by what it depends on.
//!
//! Whatever shape of the target a node can hold depends on its CPU only by which of the target's amounts it reaches, and
//! on its GPUs only by how much of each is free, in any order. Few such states occur, and they come back. Each is
//! computed with the additions of the plain computation in their order, so that not a bit differs.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::fragment::Free;
use super::target::Target;
use crate::fleet::NodeShape;

/// GPUs of one node that a key has room for.
const MOST_GPUS: usize = 8;
/// Bits of a key for what is free of a GPU, up to 1,000 thousandths.
const GPU_BITS: u32 = 10;

#[derive(Default)]
pub struct FragmentMemo {
    /// The amounts of CPU that the target asks for, ascending, each once.
    cpu_levels: Vec<u64>,
    /// For each shape of nodes, whether each shape of the target may use its GPUs; `None` where they are of several types,
    /// or too many.
    accepted: Vec<Option<Box<[bool]>>>,
    known: HashMap<u128, f64, foldhash::fast::FixedState>,
}

impl FragmentMemo {
    pub fn new(target: &Target) -> FragmentMemo {
        let mut cpu_levels: Vec<u64> = target.shapes().iter().map(|wanted| wanted.shape.cpu.get()).collect();
        cpu_levels.sort_unstable();
        cpu_levels.dedup();
        FragmentMemo { cpu_levels, ..FragmentMemo::default() }
    }

    /// [`super::fragment::fragment`] of a node of the shape with this index; `None` where it has to be computed plainly.
    pub fn fragment(&mut self, target: &Target, index: usize, shape: &NodeShape, free: &Free) -> Option<f64> {
        while self.accepted.len() <= index {
            self.accepted.push(None);
        }
        if self.accepted[index].is_none() {
            self.accepted[index] = Some(accepted(target, shape)?);
        }
        let accepted = self.accepted[index].as_deref()?;
        let mut left: SmallVec<[u32; MOST_GPUS]> = SmallVec::from_slice(&free.gpus);
        // Most are in order already but for one.
        for end in 1..left.len() {
            let mut at = end;
            while at > 0 && left[at - 1] > left[at] {
                left.swap(at - 1, at);
                at -= 1;
            }
        }
        let cpu = free.cpu.get();
        let level = self.cpu_levels.partition_point(|level| *level <= cpu);
        let mut key = (index as u128) << 16 | level as u128;
        for left in &left {
            key = key << GPU_BITS | u128::from(*left);
        }
        Some(*self.known.entry(key).or_insert_with(|| compute(target, accepted, cpu, &left)))
    }
}

/// The number of GPUs is the shape's, so a key needs no more than what is free of each.
fn accepted(target: &Target, shape: &NodeShape) -> Option<Box<[bool]>> {
    let first = shape.gpus.first();
    let is_uniform = shape.gpus.iter().all(|gpu| Some(&gpu.model) == first.map(|gpu| &gpu.model));
    if !is_uniform || shape.gpus.len() > MOST_GPUS {
        return None;
    }
    let accepts = |model: &str| target.shapes().iter().map(|wanted| wanted.shape.accepts(model)).collect();
    Some(first.map_or_else(|| vec![false; target.shapes().len()].into(), |gpu| accepts(&gpu.model)))
}

/// The sums are those of `super::fragment::fragment`, by the same causes.
fn compute(target: &Target, accepted: &[bool], cpu: u64, ascending: &[u32]) -> f64 {
    let left: u32 = ascending.iter().sum();
    let [mut both, mut gpu, mut lacks_cpu, mut none, mut none_lacks_cpu, mut no_access] = [0.0; 6];
    for (wanted, accepted) in target.shapes().iter().zip(accepted) {
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
        let share = wanted.shape.share.get();
        let full = ascending.iter().take_while(|left| **left < share);
        let (mut too_full, mut useless) = (0, 0);
        for left in full {
            too_full += 1;
            useless += left;
        }
        let gpu_fits = (ascending.len() - too_full) as u32 >= wanted.shape.gpus;
        match (gpu_fits, cpu_fits) {
            (true, true) => gpu += wanted.part * f64::from(useless),
            (true, false) => lacks_cpu += all,
            (false, true) => gpu += all,
            (false, false) => both += all,
        }
    }
    [both, gpu, lacks_cpu, none, none_lacks_cpu, no_access].into_iter().fold(0.0, |total, sum| total + sum)
}
