//! Classical preemption: within the queue by priority, and in the cohort from queues that use more than their quota.
//!
//! The rules are those of Kueue's `pkg/scheduler/preemption/classical`.

use super::need::{Borrowing, Need};
use super::policy::{in_order, may_preempt};
use super::target::{Target, spare};
use crate::cluster::Cluster;
use crate::objects::{BorrowPolicy, ReclaimWithinCohort, WithinClusterQueue};
use crate::reason::PreemptionReason;
use crate::tree::NodeId;
use crate::workload::WorkloadId;

/// Why a candidate may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is in the same queue.
    OwnQueue,
    /// The request is within the quota of a subtree that contains the preemptor but not the candidate.
    Hierarchy,
    /// The preemptor must not borrow.
    WithoutBorrowing,
    /// The preemptor may borrow.
    WhileBorrowing,
}

impl Claim {
    fn reason(self) -> PreemptionReason {
        match self {
            Claim::OwnQueue => PreemptionReason::InClusterQueue,
            Claim::Hierarchy | Claim::WithoutBorrowing => PreemptionReason::InCohortReclamation,
            Claim::WhileBorrowing => PreemptionReason::InCohortReclaimWhileBorrowing,
        }
    }
}

struct Candidate {
    id: WorkloadId,
    claim: Claim,
    /// The lowest cohort above both queues, if they are different.
    common: Option<NodeId>,
}

/// The candidates of one claim, in order. Candidates that are already evicted come first.
struct Candidates {
    hierarchy: Vec<Candidate>,
    priority: Vec<Candidate>,
    own: Vec<Candidate>,
}

pub(crate) fn targets(cluster: &mut Cluster, need: &Need<'_>) -> Vec<Target> {
    let found = collect(cluster, need);
    let attempts: &[Borrowing] = {
        let no_others = found.hierarchy.is_empty() && found.priority.is_empty();
        let may_not_borrow = !may_borrow_within_cohort(cluster, need);
        if no_others || (may_not_borrow && !is_below_nominal(cluster, need)) {
            &[Borrowing::Allowed]
        } else if may_not_borrow && found.hierarchy.is_empty() {
            &[Borrowing::Forbidden, Borrowing::Allowed]
        } else {
            &[Borrowing::Allowed, Borrowing::Forbidden]
        }
    };
    let lists = [found.hierarchy, found.priority, found.own];
    let is_evicted = |candidate: &&Candidate| cluster.workload(candidate.id).is_evicted();
    let evicted = lists.iter().flat_map(|list| list.iter().filter(is_evicted));
    let others = lists.iter().flat_map(|list| list.iter().filter(|candidate| !is_evicted(candidate)));
    let candidates: Vec<&Candidate> = evicted.chain(others).collect();
    let mut taken = Vec::new();
    for borrowing in attempts {
        taken = attempt(cluster, need, &candidates, *borrowing);
        if !taken.is_empty() {
            break;
        }
    }
    taken
}

fn may_borrow_within_cohort(cluster: &Cluster, need: &Need<'_>) -> bool {
    let borrow = cluster.queue(need.queue).preemption.borrow_within_cohort;
    borrow.is_some_and(|borrow| borrow.policy != BorrowPolicy::Never)
}

fn is_below_nominal(cluster: &Cluster, need: &Need<'_>) -> bool {
    let node = cluster.queue(need.queue).node;
    need.pairs.iter().all(|pair| cluster.tree.usage(node, *pair) < cluster.tree.quota(node, *pair).nominal)
}

fn attempt(cluster: &mut Cluster, need: &Need<'_>, candidates: &[&Candidate], borrowing: Borrowing) -> Vec<Target> {
    let (mark, mut taken, mut fits) = (cluster.mark(), Vec::new(), false);
    for candidate in candidates {
        if !is_valid(cluster, need, candidate, borrowing) {
            continue;
        }
        cluster.take_away(candidate.id);
        taken.push(Target { workload: candidate.id, reason: candidate.claim.reason() });
        fits = need.fits(cluster, borrowing);
        if fits {
            break;
        }
    }
    if fits {
        spare(cluster, need, borrowing, &mut taken);
    } else {
        taken.clear();
    }
    cluster.undo_to(&mark);
    taken
}

/// Whether a candidate may be preempted in this attempt. Its queue, and every cohort below the common one, must still
/// use more than their quota.
fn is_valid(cluster: &Cluster, need: &Need<'_>, candidate: &Candidate, borrowing: Borrowing) -> bool {
    let Some(common) = candidate.common else { return true };
    if borrowing == Borrowing::Allowed && candidate.claim == Claim::WithoutBorrowing {
        return false;
    }
    let node = cluster.node_of(candidate.id);
    let path = std::iter::once(node).chain(cluster.tree.path(node));
    path.take_while(|node| *node != common).all(|node| cluster.tree.exceeds_quota(node, need.pairs))
}

fn collect(cluster: &Cluster, need: &Need<'_>) -> Candidates {
    let mut found = Candidates { hierarchy: Vec::new(), priority: Vec::new(), own: Vec::new() };
    let queue = cluster.queue(need.queue);
    if queue.preemption.within_cluster_queue != WithinClusterQueue::Never {
        let own = queue.admitted.iter().filter(|id| may_preempt(cluster, need, **id));
        found.own = own.map(|id| Candidate { id: *id, claim: Claim::OwnQueue, common: None }).collect();
    }
    if queue.preemption.reclaim_within_cohort != ReclaimWithinCohort::Never {
        let mut request = need.usage.to_vec();
        let mut has_advantage = passes_up(cluster, queue.node, &mut request);
        let mut below = None;
        for cohort in cluster.tree.path(queue.node) {
            let list = if has_advantage { &mut found.hierarchy } else { &mut found.priority };
            collect_below(cluster, need, cohort, (cohort, below), has_advantage, list);
            has_advantage |= passes_up(cluster, cohort, &mut request);
            below = Some(cohort);
        }
    }
    for list in [&mut found.hierarchy, &mut found.priority, &mut found.own] {
        list.sort_by(|a, b| in_order(cluster, need.queue, need.now, a.id, b.id));
    }
    found
}

/// Whether the quota of the node is enough for the request. Leaves in `request` the amounts that must come from above.
fn passes_up(cluster: &Cluster, node: NodeId, request: &mut [(crate::names::FlavorResource, i64)]) -> bool {
    let holds = request.iter().all(|(pair, amount)| !cluster.tree.borrows_with(node, *pair, *amount));
    for (pair, amount) in request {
        *amount = (*amount - cluster.tree.local_available(node, *pair)).max(0);
    }
    holds
}

/// Collects the candidates below `at`, except below `done`. Subtrees within their quota have no candidates.
fn collect_below(
    cluster: &Cluster,
    need: &Need<'_>,
    at: NodeId,
    (common, done): (NodeId, Option<NodeId>),
    has_advantage: bool,
    list: &mut Vec<Candidate>,
) {
    for cohort in cluster.tree.child_cohorts(at) {
        if Some(*cohort) != done && cluster.tree.exceeds_quota(*cohort, need.pairs) {
            collect_below(cluster, need, *cohort, (common, done), has_advantage, list);
        }
    }
    for node in cluster.tree.child_queues(at) {
        let queue = cluster.queue_of_node[&node];
        if queue == need.queue || !cluster.tree.exceeds_quota(node, need.pairs) {
            continue;
        }
        for id in &cluster.queue(queue).admitted {
            if may_preempt(cluster, need, *id) {
                let claim = claim(cluster, need, *id, has_advantage);
                list.push(Candidate { id: *id, claim, common: Some(common) });
            }
        }
    }
}

fn claim(cluster: &Cluster, need: &Need<'_>, candidate: WorkloadId, has_advantage: bool) -> Claim {
    if has_advantage {
        return Claim::Hierarchy;
    }
    let borrow = cluster.queue(need.queue).preemption.borrow_within_cohort;
    let Some(borrow) = borrow.filter(|borrow| borrow.policy != BorrowPolicy::Never) else {
        return Claim::WithoutBorrowing;
    };
    let priority = cluster.workload(candidate).priority;
    let is_below_threshold = borrow.max_priority_threshold.is_none_or(|threshold| priority <= threshold);
    if priority < cluster.workload(need.id).priority && is_below_threshold {
        Claim::WhileBorrowing
    } else {
        Claim::WithoutBorrowing
    }
}
