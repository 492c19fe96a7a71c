//! Work for each number of a range, by several workers that each keep a process.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The results in the order of the numbers. They do not depend on how many workers there are if `work` does not depend
/// on what its worker did before.
pub fn each_seed<W, R: Send>(
    seeds: RangeInclusive<u64>,
    workers: Option<u16>,
    start: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, u64) -> R + Sync,
) -> Vec<R> {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (from, to) = seeds.into_inner();
    let (next, results) = (AtomicU64::new(from), Mutex::new(BTreeMap::new()));
    let take = || {
        let mut worker = start();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > to || seed < from {
                return;
            }
            let result = work(&mut worker, seed);
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.map_or_else(cores, usize::from) {
            scope.spawn(take);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_workers() {
        for workers in [1, 2, 7] {
            assert_eq!(each_seed(3..=9, Some(workers), || (), |(), seed| seed * 2), [6, 8, 10, 12, 14, 16, 18]);
        }
    }

    #[test]
    fn the_last_number_of_all_is_reached() {
        assert_eq!(each_seed(u64::MAX..=u64::MAX, Some(2), || (), |(), seed| seed), [u64::MAX]);
    }
}
