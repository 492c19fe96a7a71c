//! The order of heads under fair sharing: a tournament in each tree.
//!
//! At each cohort, first the child whose head does not borrow any requested resource, then the one with the lowest share
//! if its head were admitted, then the one with the higher priority, then the older one. A share depends only on the
//! usage below its node. So after a head is processed, only the cohorts above its queue are decided again.
//!
//! The rules are those of Kueue's `pkg/scheduler/fair_sharing_iterator.go`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::names::FlavorResource;
use super::share::Share;
use super::tree::NodeId;
use super::workload::WorkloadId;

/// A head that takes part.
pub(crate) struct Contender {
    pub id: WorkloadId,
    /// The node of its queue.
    pub node: NodeId,
    pub usage: Vec<(FlavorResource, i64)>,
}

pub(crate) struct Tournament {
    root: NodeId,
    /// The heads of a tree, each with its queue as the key.
    contenders: BTreeMap<NodeId, Contender>,
    /// For each node with a head below it, the queue of the head that won there, and the share of the node with that
    /// head admitted.
    winners: BTreeMap<NodeId, (NodeId, Share)>,
}

impl Tournament {
    pub fn new(cluster: &mut Cluster, root: NodeId, contenders: Vec<Contender>) -> Tournament {
        let contenders = contenders.into_iter().map(|contender| (contender.node, contender)).collect();
        let mut tournament = Tournament { root, contenders, winners: BTreeMap::new() };
        tournament.decide_below(cluster, root);
        tournament
    }

    fn decide_below(&mut self, cluster: &mut Cluster, node: NodeId) {
        for cohort in cluster.tree.child_cohorts(node).to_vec() {
            self.decide_below(cluster, cohort);
        }
        for queue in cluster.tree.child_queues(node).collect::<Vec<NodeId>>() {
            if self.contenders.contains_key(&queue) {
                self.wins(cluster, queue, queue);
            }
        }
        self.decide(cluster, node);
    }

    /// The head that comes next. It takes part no more.
    pub fn next(&mut self) -> Option<WorkloadId> {
        let queue = match self.winners.get(&self.root) {
            Some((queue, _)) => *queue,
            // A queue without a cohort is a tree of its own.
            None => *self.contenders.keys().next()?,
        };
        self.winners.remove(&queue);
        self.contenders.remove(&queue).map(|contender| contender.id)
    }

    /// Decides again above a queue whose head was processed.
    pub fn processed(&mut self, cluster: &mut Cluster, queue: NodeId) {
        for cohort in cluster.tree.path(queue).collect::<Vec<NodeId>>() {
            self.decide(cluster, cohort);
        }
    }

    fn decide(&mut self, cluster: &mut Cluster, node: NodeId) {
        let children = cluster.tree.child_cohorts(node).iter().copied().chain(cluster.tree.child_queues(node));
        let winners = children.filter_map(|child| self.winners.get(&child));
        let best = winners.reduce(|best, next| if self.compare(cluster, next, best).is_lt() { next } else { best });
        match best.map(|(queue, _)| *queue) {
            Some(queue) => self.wins(cluster, node, queue),
            None => {
                self.winners.remove(&node);
            }
        }
    }

    fn wins(&mut self, cluster: &mut Cluster, node: NodeId, queue: NodeId) {
        let mark = cluster.mark();
        cluster.add_usage(queue, &self.contenders[&queue].usage);
        let share = Share::of(&cluster.tree, node);
        cluster.undo_to(&mark);
        self.winners.insert(node, (queue, share));
    }

    fn compare(&self, cluster: &Cluster, one: &(NodeId, Share), other: &(NodeId, Share)) -> Ordering {
        let (contender, rival) = (&self.contenders[&one.0], &self.contenders[&other.0]);
        let (workload, rival_workload) = (cluster.workload(contender.id), cluster.workload(rival.id));
        let borrows = one.1.is_borrowing_on(&contender.usage);
        (borrows.cmp(&other.1.is_borrowing_on(&rival.usage)))
            .then_with(|| one.1.compare(&other.1))
            .then_with(|| rival_workload.priority.cmp(&workload.priority))
            .then_with(|| workload.created.cmp(&rival_workload.created))
    }
}
