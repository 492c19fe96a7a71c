//! The workloads that wait in one cluster queue: those to try next, and those that did not fit and for which nothing
//! has changed since.
//!
//! The rules are those of Kueue's `pkg/cache/queue/cluster_queue.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::QueueingStrategy;
use super::workload::{ShapeId, Workload, WorkloadId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId(pub(crate) u32);

/// Higher priority first, then the older workload, then the smaller UID.
type Rank = (Reverse<i32>, i64, Arc<str>, WorkloadId);

/// Why a workload comes back from a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// It lost to another workload of the cycle, or waits for the preemptions of another.
    Skipped,
    /// It preempts others and waits for their quota.
    Preempting,
    /// It does not fit, or it would have to preempt but may not.
    Unfit,
}

#[derive(Debug, Default)]
pub(crate) struct PendingWorkloads {
    active: BTreeSet<Rank>,
    inadmissible: BTreeSet<WorkloadId>,
    /// The active workloads of each shape.
    shapes: BTreeMap<ShapeId, BTreeSet<Rank>>,
    /// The shapes that do not fit, until something changes. Workloads of such a shape are not tried.
    unfit_shapes: BTreeSet<ShapeId>,
    /// The last workload that preempted others. In a queue without strict order, it stays at the head until it is
    /// admitted.
    sticky: Option<Rank>,
    /// Whether something changed since the last head was taken.
    woke_since_pop: bool,
}

fn rank(id: WorkloadId, workload: &Workload) -> Rank {
    (Reverse(workload.priority), workload.created, Arc::clone(&workload.uid), id)
}

impl PendingWorkloads {
    fn insert_active(&mut self, id: WorkloadId, workload: &Workload) {
        let rank = rank(id, workload);
        self.shapes.entry(workload.shape).or_default().insert(rank.clone());
        self.active.insert(rank);
    }

    fn remove_active(&mut self, rank: &Rank, shape: ShapeId) {
        if self.active.remove(rank)
            && let Some(of_shape) = self.shapes.get_mut(&shape)
        {
            of_shape.remove(rank);
            if of_shape.is_empty() {
                self.shapes.remove(&shape);
            }
        }
    }

    /// Queues a workload that is new or has released its quota. A drained workload is not queued.
    pub fn push(&mut self, id: WorkloadId, workload: &Workload, strategy: QueueingStrategy, is_drained: bool) {
        self.inadmissible.remove(&id);
        let is_known_unfit = match strategy {
            QueueingStrategy::StrictFIFO => false,
            QueueingStrategy::BestEffortFIFO => self.unfit_shapes.contains(&workload.shape),
        };
        if is_drained || is_known_unfit {
            self.inadmissible.insert(id);
        } else {
            self.insert_active(id, workload);
        }
    }

    pub fn remove(&mut self, id: WorkloadId, workload: &Workload) {
        let rank = rank(id, workload);
        self.remove_active(&rank, workload.shape);
        self.inadmissible.remove(&id);
        if self.sticky.as_ref() == Some(&rank) {
            self.sticky = None;
        }
    }

    /// Takes the head.
    pub fn pop(&mut self, workloads: &[Workload]) -> Option<WorkloadId> {
        self.woke_since_pop = false;
        let sticky = self.sticky.as_ref().filter(|sticky| self.active.contains(sticky));
        let head = sticky.or_else(|| self.active.first()).cloned()?;
        let id = head.3;
        self.remove_active(&head, workloads[id.0 as usize].shape);
        Some(id)
    }

    /// Puts a head that was not admitted back into the queue.
    pub fn requeue(&mut self, id: WorkloadId, workloads: &[Workload], strategy: QueueingStrategy, why: Requeue) {
        let workload = &workloads[id.0 as usize];
        let head = rank(id, workload);
        if why == Requeue::Preempting {
            self.sticky = (strategy == QueueingStrategy::BestEffortFIFO).then_some(head);
        }
        let has_more_flavors = workload.scan.as_ref().is_some_and(|scan| scan.is_unfinished());
        let is_strict = strategy == QueueingStrategy::StrictFIFO;
        if is_strict || why != Requeue::Unfit || self.woke_since_pop || has_more_flavors {
            self.insert_active(id, workload);
            return;
        }
        self.inadmissible.insert(id);
        self.unfit_shapes.insert(workload.shape);
        for same in self.shapes.remove(&workload.shape).unwrap_or_default() {
            self.active.remove(&same);
            self.inadmissible.insert(same.3);
        }
    }

    /// Makes every workload active again, except drained ones.
    pub fn wake(&mut self, workloads: &[Workload], is_drained: impl Fn(&Workload) -> bool) {
        self.woke_since_pop = true;
        self.unfit_shapes.clear();
        for id in std::mem::take(&mut self.inadmissible) {
            let workload = &workloads[id.0 as usize];
            if is_drained(workload) {
                self.inadmissible.insert(id);
            } else {
                self.insert_active(id, workload);
            }
        }
    }

    /// The active workloads, in the order in which they become heads.
    pub fn in_order(&self) -> impl Iterator<Item = WorkloadId> {
        let sticky = self.sticky.as_ref().filter(|sticky| self.active.contains(sticky));
        let others = self.active.iter().filter(move |rank| Some(*rank) != sticky);
        sticky.into_iter().chain(others).map(|rank| rank.3)
    }

    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    pub fn is_active(&self, id: WorkloadId, workload: &Workload) -> bool {
        self.active.contains(&rank(id, workload))
    }

    pub fn inadmissible(&self) -> impl Iterator<Item = WorkloadId> {
        self.inadmissible.iter().copied()
    }
}
