//! Passes only what was picked manually, if anything was.

use super::Verdict;
use crate::row::Row;
use dryrack_event::Reason;
use dryrack_workload::{Pick, TaskGroup};

/// `has_gpus` says whether the node has the GPUs that are picked on it.
pub fn judge(is_picked: bool, has_gpus: impl FnOnce() -> bool) -> Verdict {
    if !is_picked {
        return Verdict::Never(Reason::NotPicked);
    }
    if has_gpus() { Verdict::Fit } else { Verdict::Never(Reason::PickedGpuMissing) }
}

/// Whether a node of this row has the GPUs that are picked on it.
pub fn has_gpus(demand: TaskGroup<'_>, row: &Row) -> bool {
    let Some(picked) = &row.gpus else { return true };
    let there = picked.iter().filter(|index| usize::from(**index) < row.shape.gpus.len()).count();
    match demand.pick {
        // None of these may be missing: dropping one silently is what GPUStack issue 1850 reports.
        Some(Pick::AllGpus(_)) => there == picked.len(),
        // Another filter refuses nodes that have too few of them.
        Some(Pick::Gpus(_) | Pick::Nodes(_)) | None => there > 0,
    }
}
