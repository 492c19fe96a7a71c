//! Preemption: finds the workloads that must release quota so that another workload fits.
//!
//! Candidates are preempted one by one until the workload fits. Then, in reverse order, each candidate that is not
//! needed is restored. The classical rules ([`classical`]) or fair sharing ([`fair`]) determine the
//! candidates and their order. The rules are those of Kueue's `pkg/scheduler/preemption`.

mod classical;
mod fair;
mod need;
mod policy;
mod strategy;
mod target;

use super::cluster::Cluster;
use super::names::FlavorResource;
use super::workload::WorkloadId;

pub(crate) use need::Need;
pub use strategy::FairStrategy;
pub use target::Target;

/// The possible result of preemption for one flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Possibility {
    NoCandidates,
    /// Workloads of the preemptor's own queue would have to release quota, and perhaps others too.
    Preempt,
    /// Only workloads of other queues would have to release quota.
    Reclaim,
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
