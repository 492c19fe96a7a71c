//! Preemption: who gives quota back so that a workload fits.
//!
//! Candidates are taken one by one until the workload fits, and then given back in reverse order where it still fits.
//! Which candidates there are, and in which order, is a matter of the classical rules ([`classical`]) or of fair
//! sharing ([`fair`](super::fair)). The rules are those of Kueue's `pkg/scheduler/preemption`.

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

/// A workload that is to give its quota back, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub workload: WorkloadId,
    pub reason: PreemptionReason,
}

/// What a workload needs others to give back.
pub(crate) struct Need<'a> {
    pub id: WorkloadId,
    pub queue: QueueId,
    pub now: i64,
    /// The pairs of which there is not enough, sorted.
    pub pairs: &'a [FlavorResource],
    /// All that the workload would use.
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

/// What preemption can do for one flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Possibility {
    NoCandidates,
    /// Workloads of the own queue would have to give quota back, maybe among others.
    Preempt,
    /// Workloads of other queues alone.
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

/// The workloads that are to give quota back. Empty if no set of them would do.
pub(crate) fn targets(cluster: &mut Cluster, need: &Need<'_>) -> Vec<Target> {
    match cluster.fair.clone() {
        None => classical::targets(cluster, need),
        Some(strategies) => fair::targets(cluster, need, &strategies),
    }
}

/// What preemption can do for one pair alone, and the height of the subtree that then has the quota.
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

/// Gives targets back in reverse order, except the last, where the workload fits without them. A target that is dropped
/// is replaced by the last one, so the order changes.
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
