//! The workloads that must release their quota.

use super::need::{Borrowing, Need};
use crate::cluster::Cluster;
use crate::reason::PreemptionReason;
use crate::workload::WorkloadId;

/// A workload that must release its quota, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub workload: WorkloadId,
    pub reason: PreemptionReason,
}

/// Restores targets that are not needed. They are tried in reverse order, except the last one, and each target without
/// which the workload still fits is dropped. The last target takes the place of a dropped one, so the order changes.
pub(crate) fn spare(cluster: &mut Cluster, need: &Need<'_>, borrowing: Borrowing, targets: &mut Vec<Target>) {
    for index in (0..targets.len().saturating_sub(1)).rev() {
        let target = targets[index];
        cluster.give_back(target.workload);
        if need.fits(cluster, borrowing) {
            targets.swap_remove(index);
        } else {
            cluster.take_away(target.workload);
        }
    }
}
