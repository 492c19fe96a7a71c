//! Which workloads a queue's policy allows to preempt, and in which order.

use std::cmp::{Ordering, Reverse};

use super::need::Need;
use crate::cluster::Cluster;
use crate::objects::{ReclaimWithinCohort, WithinClusterQueue};
use crate::queue::QueueId;
use crate::workload::WorkloadId;

/// Whether the policy of the queue lets the workload preempt the candidate, and the candidate uses what is needed.
pub(crate) fn may_preempt(cluster: &Cluster, need: &Need<'_>, candidate: WorkloadId) -> bool {
    let (preemptor, workload) = (cluster.workload(need.id), cluster.workload(candidate));
    let uses = |admission: &crate::workload::Admission| {
        admission.usage.iter().any(|(pair, _)| need.pairs.binary_search(pair).is_ok())
    };
    if workload.is_gone || !workload.admission().is_some_and(uses) {
        return false;
    }
    let is_lower = workload.priority < preemptor.priority;
    let is_newer_equal = workload.priority == preemptor.priority && preemptor.created < workload.created;
    let policy = &cluster.queue(need.queue).preemption;
    if workload.queue == need.queue {
        match policy.within_cluster_queue {
            WithinClusterQueue::Never => false,
            WithinClusterQueue::LowerPriority => is_lower,
            WithinClusterQueue::LowerOrNewerEqualPriority => is_lower || is_newer_equal,
        }
    } else {
        match policy.reclaim_within_cohort {
            ReclaimWithinCohort::Never => false,
            ReclaimWithinCohort::LowerPriority => is_lower,
            ReclaimWithinCohort::LowerOrNewerEqualPriority => is_lower || is_newer_equal,
            ReclaimWithinCohort::Any => true,
        }
    }
}

/// The order of preemption: first workloads that are already evicted, then workloads of other queues before those of
/// the preemptor's own, lower priority, later quota reservation, smaller UID. `own` is the queue of the preemptor.
pub(crate) fn in_order(cluster: &Cluster, own: QueueId, now: i64, a: WorkloadId, b: WorkloadId) -> Ordering {
    let key = |id: WorkloadId| {
        let workload = cluster.workload(id);
        let reserved = workload.admission().map_or(now, |admission| admission.reserved_at);
        let is_own = workload.queue == own;
        (!workload.is_evicted(), is_own, workload.priority, Reverse(reserved), &workload.uid, id)
    };
    key(a).cmp(&key(b))
}
