//! The cores that dryrack may use, and pinning of processes to some of them.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this thread may use, in ascending order.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Pins the processes that `work` starts to the allowed cores with these indexes. With an empty list, nothing is
/// pinned.
pub fn pinned<T>(cores: &[u16], work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return work();
    }
    let before = sched_getaffinity(None)?;
    let allowed = allowed()?;
    let mut wanted = CpuSet::new();
    for core in cores {
        let place = allowed.get(usize::from(*core));
        let found = place.ok_or_else(|| io::Error::other(format!("core {core} of {} is asked for", allowed.len())))?;
        wanted.set(*found);
    }
    // A child has the core affinity of the thread that starts it, from its first instruction on.
    sched_setaffinity(None, &wanted)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    done
}
