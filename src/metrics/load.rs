//! GPU allocation as a function of the requested load instead of time.

use std::collections::BTreeMap;

use dryrack_units::SimTime;
use dryrack_workload::{Demand, GpuTake};

/// The totals of the fleet after an instant, in thousandths of a GPU or core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: SimTime,
    pub waiting: u64,
    pub gpu_taken: u64,
    pub cpu_taken: u64,
    /// The GPUs in a usable state on ready nodes.
    pub gpu_ready: u64,
}

/// The mean GPU allocation at each load, measured in each instant in which jobs arrived.
///
/// The load is the GPU demand of all jobs that have arrived so far, divided by all GPUs, in whole percents, rounded
/// half to even. The allocation is the GPU capacity taken after the instant, divided by all GPUs, in hundredths of a
/// percent, rounded half up. This is the GPU allocation of Weng and others (USENIX ATC 2023), whose table shows its
/// mean at a load of 130 %.
///
/// A demand for GPU memory alone does not count in the load, because it takes no share of a GPU's time.
#[derive(Clone, Debug, Default)]
pub struct LoadAccount {
    /// The capacity of all GPUs, in thousandths of a GPU.
    capacity: u64,
    asked: u128,
    has_asked: bool,
    /// For each percent of load, the sum of the allocations and their number.
    sums: BTreeMap<u32, (u64, u64)>,
    /// The load of the last instant, with the sum and the number of its allocations. They are added to `sums` later,
    /// because the next instant usually has the same load.
    last: (u32, u64, u64),
}

impl LoadAccount {
    pub(super) fn add_gpus(&mut self, gpus: usize) {
        self.capacity += 1000 * gpus as u64;
    }

    pub(super) fn add_demand(&mut self, demand: &Demand, replicas: u32) {
        self.has_asked = true;
        for (tasks, task) in demand.kinds_of_tasks() {
            let Some(gpus) = &task.gpus else { continue };
            let each = match gpus.take {
                GpuTake::Whole => 1000,
                GpuTake::Share(share) => u64::from(share.get()),
                GpuTake::Memory(_) => 0,
            };
            self.asked += u128::from(each * u64::from(gpus.count)) * u128::from(tasks) * u128::from(replicas);
        }
    }

    /// Closes an instant. `taken` is the GPU capacity taken at its end, in thousandths of a GPU.
    pub(super) fn settle(&mut self, taken: u64) {
        if !std::mem::take(&mut self.has_asked) || self.capacity == 0 {
            return;
        }
        let percent = u32::try_from(half_to_even(100 * self.asked, u128::from(self.capacity))).unwrap_or(u32::MAX);
        let hundredths = (20_000 * taken + self.capacity) / (2 * self.capacity);
        if percent != self.last.0 {
            let (before, more, times) = std::mem::replace(&mut self.last, (percent, 0, 0));
            if times > 0 {
                let (sum, count) = self.sums.entry(before).or_default();
                (*sum, *count) = (*sum + more, *count + times);
            }
        }
        self.last.1 += hundredths;
        self.last.2 += 1;
    }

    /// The mean allocation at this load, rounded half up to hundredths of a percent. `None` if the load never had this
    /// value.
    pub fn allocated_at(&self, percent: u32) -> Option<f64> {
        let (before, times) = self.sums.get(&percent).copied().unwrap_or_default();
        let (last, more, last_times) = self.last;
        let (more, last_times) = if last == percent { (more, last_times) } else { (0, 0) };
        let (sum, count) = (before + more, times + last_times);
        (count > 0).then(|| ((2 * sum + count) / (2 * count)) as f64 / 10_000.0)
    }
}

fn half_to_even(part: u128, whole: u128) -> u128 {
    let (quotient, rest) = (part / whole, part % whole);
    let up = match (2 * rest).cmp(&whole) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient % 2 == 1,
        std::cmp::Ordering::Greater => true,
    };
    quotient + u128::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_comes_again_has_the_mean_of_all_its_instants() {
        let mut load = LoadAccount::default();
        load.add_gpus(100);
        // Each of the first two instants requests one of 100 GPUs. Then the number of GPUs doubles.
        let mut instant = |gpus: u64, more: usize, taken: u64| {
            load.asked += u128::from(1000 * gpus);
            load.has_asked = true;
            load.add_gpus(more);
            load.settle(taken);
        };
        instant(1, 0, 1000);
        instant(1, 0, 3000);
        instant(0, 100, 4000);
        instant(0, 0, 8000);
        let means = [0, 1, 2, 3].map(|percent| load.allocated_at(percent));
        // At a load of 1 %: 1 % of 100 GPUs, then 2 % and 4 % of 200. At a load of 2 %: 3 % of 100.
        assert_eq!(means, [None, Some(0.0233), Some(0.03), None]);
    }

    #[test]
    fn halves_go_to_the_even_percent() {
        let rows = [(129, 2, 64), (131, 2, 66), (259, 2, 130), (261, 2, 130), (1, 3, 0), (2, 3, 1)];
        for (part, whole, rounded) in rows {
            assert_eq!(half_to_even(part, whole), rounded, "{part}/{whole}");
        }
    }
}
