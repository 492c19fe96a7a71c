//! Passes only what was picked manually, if anything was.

use super::Verdict;
use crate::row::Row;
use dryrack_event::Reason;
use dryrack_workload::{Pick, TaskGroup};

pub fn judge(demand: TaskGroup<'_>, row: &Row) -> Verdict {
    if !row.picked {
        return Verdict::Never(Reason::NotPicked);
    }
    let Some(picked) = &row.gpus else { return Verdict::Fit };
    let there = picked.iter().filter(|index| usize::from(**index) < row.shape.gpus.len()).count() as u32;
    let enough = match demand.pick {
        // None of these may be missing: dropping one silently is what GPUStack issue 1850 reports.
        Some(Pick::AllGpus(_)) => there == picked.len() as u32,
        // Another filter refuses nodes that have too few of them.
        Some(Pick::Gpus(_) | Pick::Nodes(_)) | None => there > 0,
    };
    if enough { Verdict::Fit } else { Verdict::Never(Reason::PickedGpuMissing) }
}
