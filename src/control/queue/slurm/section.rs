//! Partitions and advance reservations with their nodes.

use dryrack_ids::NodeId;
use dryrack_scheduler::slurm::{Partition, Requested};
use dryrack_units::SimTime;

/// A partition with its nodes.
pub struct Section {
    pub options: Partition,
    pub nodes: Vec<NodeId>,
    /// The same nodes as bits.
    pub bits: Vec<u64>,
    pub has: Requested,
    /// The cores of all nodes, in thousandths.
    pub cpu: u64,
    /// The priority factor of the partition, relative to the largest factor of all partitions.
    pub factor: f64,
}

/// An advance reservation with its nodes as bits.
pub struct ReservedNodes {
    pub from: SimTime,
    pub until: SimTime,
    pub bits: Vec<u64>,
}
