//! Passes only picked nodes and nodes with picked GPUs. Passes every node if there is no pick.

use super::Verdict;
use crate::node_class::NodeClass;
use dryrack_event::Reason;
use dryrack_workload::{Pick, TaskGroup};

/// Judges a node. `has_gpus` says whether the node has the GPUs that are picked on it.
pub fn judge(is_picked: bool, has_gpus: impl FnOnce() -> bool) -> Verdict {
    if !is_picked {
        return Verdict::Never(Reason::NotPicked);
    }
    if has_gpus() { Verdict::Fit } else { Verdict::Never(Reason::PickedGpuMissing) }
}

/// Whether a node of this class has the GPUs that are picked on it.
pub fn has_gpus(demand: TaskGroup<'_>, class: &NodeClass) -> bool {
    let Some(picked) = &class.gpus else { return true };
    let there = picked.iter().filter(|index| usize::from(**index) < class.shape.gpus.len()).count();
    match demand.pick {
        // Every picked GPU must exist. Silently dropping a missing one is the fault of GPUStack issue 1850.
        Some(Pick::AllGpus(_)) => there == picked.len(),
        // One existing GPU is enough here. Another filter refuses nodes that have too few of the picked GPUs.
        Some(Pick::Gpus(_) | Pick::Nodes(_)) | None => there > 0,
    }
}
