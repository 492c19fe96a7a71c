//! A decision that takes time.

use crate::core::store::ReplicaIndex;
use dryrack_ids::NodeId;
use dryrack_scheduler::Decision;

/// A decision in progress.
pub struct OpenDecision {
    pub replica: ReplicaIndex,
    pub version: u64,
    pub decision: Decision,
    /// The fleet's growth when the fleet was read.
    pub growth: u64,
    /// The nodes of all candidates, with their versions when the fleet was read.
    pub read: Vec<(NodeId, u64)>,
}
