//! Preemption: finds the workloads that must release quota so that another workload fits.
//!
//! Candidates are preempted one by one until the workload fits. Then, in reverse order, each candidate that is not
//! needed is restored. The classical rules ([`classical`]) or fair sharing ([`fair`](super::fair)) determine the
//! candidates and their order. The rules are those of Kueue's `pkg/scheduler/preemption`.

mod classical;
mod policy;

use super::cluster::{Cluster, Placing};
use super::fair;
use super::names::FlavorResource;
use super::queue::QueueId;
use super::reason::PreemptionReason;
use super::topology::Occupancy;
use super::workload::WorkloadId;

pub(crate) use policy::{in_order, may_preempt};

/// A workload that must release its quota, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub workload: WorkloadId,
    pub reason: PreemptionReason,
}

/// The needs of a workload that other workloads must release.
pub(crate) struct Need<'a> {
    pub id: WorkloadId,
    pub queue: QueueId,
    pub now: i64,
    /// The pairs without enough quota, sorted.
    pub pairs: &'a [FlavorResource],
    /// The complete usage of the workload.
    pub usage: &'a [(FlavorResource, i64)],
    /// The pod sets that must find room in a topology.
    pub placing: &'a [Placing],
}

/// Whether the workload may borrow in an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Borrowing {
    Allowed,
    Forbidden,
}

/// The possible result of preemption for one flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Possibility {
    NoCandidates,
    /// Workloads of the preemptor's own queue would have to release quota, and perhaps others too.
    Preempt,
    /// Only workloads of other queues would have to release quota.
    Reclaim,
}

impl Need<'_> {
    /// Whether the workload fits now.
    pub fn fits(&self, cluster: &Cluster, borrowing: Borrowing) -> bool {
        let node = cluster.queue(self.queue).node;
        let has_quota = self.usage.iter().all(|(pair, amount)| {
            let may = borrowing == Borrowing::Allowed || !cluster.tree.borrows_with(node, *pair, *amount);
            may && *amount <= cluster.tree.available(node, *pair)
        });
        has_quota && cluster.place_all(self.id, self.placing, Occupancy::AsUsed).is_ok()
    }
}

/// The workloads that must release quota; empty if no set of them would be enough.
pub(crate) fn targets(cluster: &mut Cluster, need: &Need<'_>) -> Vec<Target> {
    match cluster.fair.clone() {
        None => classical::targets(cluster, need),
        Some(strategies) => fair::targets(cluster, need, &strategies),
    }
}

/// The possible result of preemption for one pair, and the height of the subtree that would then have the quota.
pub(crate) fn possibility(
    cluster: &mut Cluster,
    id: WorkloadId,
    now: i64,
    pair: FlavorResource,
    amount: i64,
) -> (Possibility, u32) {
    let queue = cluster.workload(id).queue;
    let node = cluster.queue(queue).node;
    let need = Need { id, queue, now, pairs: &[pair], usage: &[(pair, amount)], placing: &[] };
    let targets = targets(cluster, &need);
    let mark = cluster.mark();
    targets.iter().for_each(|target| cluster.take_away(target.workload));
    let (borrow, _) = cluster.tree.lowest_fit(node, pair, amount);
    cluster.undo_to(&mark);
    let is_own = |target: &Target| cluster.workload(target.workload).queue == queue;
    let possibility = match targets.as_slice() {
        [] => Possibility::NoCandidates,
        targets if targets.iter().any(is_own) => Possibility::Preempt,
        _ => Possibility::Reclaim,
    };
    (possibility, borrow)
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
