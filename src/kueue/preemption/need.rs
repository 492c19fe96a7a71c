//! What a workload needs that other workloads must release.

use crate::cluster::{Cluster, Placing};
use crate::names::FlavorResource;
use crate::queue::QueueId;
use crate::topology::Occupancy;
use crate::workload::WorkloadId;

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
