//! Fair sharing: preemption of workloads of the queues with the largest share.
//!
//! The rules are those of Kueue's `pkg/scheduler/preemption/fairsharing`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::need::{Borrowing, Need};
use super::policy::{in_order, may_preempt};
use super::strategy::FairStrategy;
use super::target::{Target, spare};
use crate::cluster::Cluster;
use crate::objects::ReclaimWithinCohort;
use crate::queue::QueueId;
use crate::reason::PreemptionReason;
use crate::share::Share;
use crate::tree::NodeId;
use crate::workload::WorkloadId;

/// The queues that still have workloads to preempt.
struct Givers {
    now: i64,
    own_queue: QueueId,
    own: NodeId,
    above_own: BTreeSet<NodeId>,
    candidates: BTreeMap<NodeId, VecDeque<WorkloadId>>,
    cut: BTreeSet<NodeId>,
}

pub(crate) fn targets(cluster: &mut Cluster, need: &Need<'_>, strategies: &[FairStrategy]) -> Vec<Target> {
    let candidates = collect(cluster, need);
    let Some(first) = strategies.first().filter(|_| !candidates.is_empty()) else { return Vec::new() };
    let node = cluster.queue(need.queue).node;
    let (mark, mut taken) = (cluster.mark(), Vec::new());
    // Shares count the preemptor as if it were admitted.
    cluster.add_usage(node, need.usage);
    let (mut fits, rejected) = by_first_strategy(cluster, need, candidates, *first, &mut taken);
    if !fits && strategies.len() > 1 {
        fits = by_initial_share(cluster, need, rejected, &mut taken);
    }
    cluster.remove_usage(node, need.usage);
    if fits {
        spare(cluster, need, Borrowing::Allowed, &mut taken);
    } else {
        taken.clear();
    }
    cluster.undo_to(&mark);
    taken
}

fn collect(cluster: &Cluster, need: &Need<'_>) -> Vec<WorkloadId> {
    let queue = cluster.queue(need.queue);
    let mut found: Vec<WorkloadId> =
        queue.admitted.iter().copied().filter(|id| may_preempt(cluster, need, *id)).collect();
    let may_reclaim = queue.preemption.reclaim_within_cohort != ReclaimWithinCohort::Never;
    if may_reclaim && cluster.tree.parent(queue.node).is_some() {
        let mut open = vec![cluster.tree.root(queue.node)];
        while let Some(cohort) = open.pop() {
            open.extend(cluster.tree.child_cohorts(cohort));
            for node in cluster.tree.child_queues(cohort) {
                if node != queue.node && cluster.tree.exceeds_quota(node, need.pairs) {
                    let admitted = &cluster.queue(cluster.queue_of_node[&node]).admitted;
                    found.extend(admitted.iter().copied().filter(|id| may_preempt(cluster, need, *id)));
                }
            }
        }
    }
    found.sort_by(|a, b| in_order(cluster, need.queue, need.now, *a, *b));
    found
}

/// Preempts a workload. Returns whether the preemptor then fits.
fn take(
    cluster: &mut Cluster,
    need: &Need<'_>,
    workload: WorkloadId,
    reason: PreemptionReason,
    taken: &mut Vec<Target>,
) -> bool {
    let node = cluster.queue(need.queue).node;
    cluster.take_away(workload);
    taken.push(Target { workload, reason });
    cluster.remove_usage(node, need.usage);
    let fits = need.fits(cluster, Borrowing::Allowed);
    cluster.add_usage(node, need.usage);
    fits
}

/// Returns whether the preemptor fits, and the candidates that the strategy rejected.
fn by_first_strategy(
    cluster: &mut Cluster,
    need: &Need<'_>,
    candidates: Vec<WorkloadId>,
    strategy: FairStrategy,
    taken: &mut Vec<Target>,
) -> (bool, Vec<WorkloadId>) {
    let own = cluster.queue(need.queue).node;
    let is_within_nominal =
        need.pairs.iter().all(|pair| cluster.tree.usage(own, *pair) <= cluster.tree.quota(own, *pair).nominal);
    let mut givers = Givers::new(cluster, need, candidates);
    let mut rejected = Vec::new();
    while let Some(giver) = givers.next(cluster) {
        let unconditional = match giver == own {
            true => Some(PreemptionReason::InClusterQueue),
            false => is_within_nominal.then_some(PreemptionReason::InCohortReclamation),
        };
        if let Some(reason) = unconditional {
            let Some(workload) = givers.pop(giver) else { continue };
            if take(cluster, need, workload, reason, taken) {
                return (true, rejected);
            }
            continue;
        }
        let (below_own, below_giver) = givers.below_common(cluster, giver);
        let preemptor_new = Share::of(&cluster.tree, below_own);
        let target_old = Share::of(&cluster.tree, below_giver);
        while let Some(workload) = givers.pop(giver) {
            let passes = match strategy {
                FairStrategy::LessThanInitialShare => preemptor_new.compare(&target_old).is_lt(),
                FairStrategy::LessThanOrEqualToFinalShare => {
                    let mark = cluster.mark();
                    cluster.take_away(workload);
                    let target_new = Share::of(&cluster.tree, below_giver);
                    cluster.undo_to(&mark);
                    preemptor_new.compare(&target_new).is_le()
                }
            };
            if !passes {
                rejected.push(workload);
                continue;
            }
            if take(cluster, need, workload, PreemptionReason::InCohortFairSharing, taken) {
                return (true, rejected);
            }
            // Shares changed, so another queue may have the largest one.
            break;
        }
    }
    (false, rejected)
}

/// Tries the initial shares, once for each queue.
fn by_initial_share(
    cluster: &mut Cluster,
    need: &Need<'_>,
    candidates: Vec<WorkloadId>,
    taken: &mut Vec<Target>,
) -> bool {
    let mut givers = Givers::new(cluster, need, candidates);
    while let Some(giver) = givers.next(cluster) {
        let (below_own, below_giver) = givers.below_common(cluster, giver);
        let preemptor_new = Share::of(&cluster.tree, below_own);
        let passes = preemptor_new.compare(&Share::of(&cluster.tree, below_giver)).is_lt();
        let workload = givers.pop(giver);
        if passes
            && workload
                .is_some_and(|workload| take(cluster, need, workload, PreemptionReason::InCohortFairSharing, taken))
        {
            return true;
        }
        givers.cut.insert(giver);
    }
    false
}

impl Givers {
    fn new(cluster: &Cluster, need: &Need<'_>, candidates: Vec<WorkloadId>) -> Givers {
        let own = cluster.queue(need.queue).node;
        let mut by_queue: BTreeMap<NodeId, VecDeque<WorkloadId>> = BTreeMap::new();
        for id in candidates {
            by_queue.entry(cluster.node_of(id)).or_default().push_back(id);
        }
        let above_own = cluster.tree.path(own).collect();
        Givers { now: need.now, own_queue: need.queue, own, above_own, candidates: by_queue, cut: BTreeSet::new() }
    }

    fn pop(&mut self, queue: NodeId) -> Option<WorkloadId> {
        self.candidates.get_mut(&queue)?.pop_front()
    }

    fn has_candidates(&self, queue: NodeId) -> bool {
        self.candidates.get(&queue).is_some_and(|of_queue| !of_queue.is_empty())
    }

    /// Greater if the next candidate of a queue comes before the next one of the other.
    fn compare_next(&self, cluster: &Cluster, queue: NodeId, other: Option<NodeId>) -> Ordering {
        let next = |queue: NodeId| self.candidates.get(&queue).and_then(|of_queue| of_queue.front().copied());
        match (next(queue), other.and_then(next)) {
            (Some(one), Some(other)) => in_order(cluster, self.own_queue, self.now, other, one),
            (_, None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
        }
    }

    /// The queue from which the next workload is taken. The search goes down from the root, to the child with the
    /// largest share at each level.
    fn next(&mut self, cluster: &Cluster) -> Option<NodeId> {
        let root = cluster.tree.root(self.own);
        if root == self.own {
            return self.has_candidates(self.own).then_some(self.own);
        }
        while !self.cut.contains(&root) {
            if let Some(found) = self.next_below(cluster, root) {
                return Some(found);
            }
        }
        None
    }

    /// `None` if a branch was removed, so that the search must start again.
    fn next_below(&mut self, cluster: &Cluster, cohort: NodeId) -> Option<NodeId> {
        let mut best_queue = (Share::lowest(), None);
        for queue in cluster.tree.child_queues(cohort) {
            if self.cut.contains(&queue) {
                continue;
            }
            let share = Share::of(&cluster.tree, queue);
            if !self.has_candidates(queue) || (queue != self.own && !share.is_borrowing()) {
                self.cut.insert(queue);
            } else {
                let order = share.compare(&best_queue.0).then_with(|| self.compare_next(cluster, queue, best_queue.1));
                if order.is_gt() {
                    best_queue = (share, Some(queue));
                }
            }
        }
        let mut best_cohort = (Share::lowest(), None);
        for below in cluster.tree.child_cohorts(cohort) {
            if self.cut.contains(below) {
                continue;
            }
            let share = Share::of(&cluster.tree, *below);
            if !self.above_own.contains(below) && !share.is_borrowing() {
                self.cut.insert(*below);
            } else if share.compare(&best_cohort.0).is_ge() {
                best_cohort = (share, Some(*below));
            }
        }
        match (best_queue, best_cohort) {
            ((_, None), (_, None)) => {
                self.cut.insert(cohort);
                None
            }
            ((queue_share, Some(queue)), (cohort_share, _)) if cohort_share.compare(&queue_share).is_lt() => {
                Some(queue)
            }
            (_, (_, Some(below))) => self.next_below(cluster, below),
            ((_, queue), (_, None)) => queue,
        }
    }

    /// The two nodes directly below the lowest common cohort of both queues.
    fn below_common(&self, cluster: &Cluster, giver: NodeId) -> (NodeId, NodeId) {
        let common = cluster.tree.path(giver).find(|above| self.above_own.contains(above));
        let below = |queue: NodeId| {
            let path = std::iter::once(queue).chain(cluster.tree.path(queue));
            path.take_while(|node| Some(*node) != common).last().unwrap_or(queue)
        };
        (below(self.own), below(giver))
    }
}
