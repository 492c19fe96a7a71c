//! The result of planning a waiting replica.

use dryrack_ids::NodeId;
use dryrack_scheduler::Candidate;
use dryrack_units::SimTime;

/// The result of planning a waiting replica.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// The replica begins now. The list holds the nodes that it could have used.
    Start(Candidate, Vec<NodeId>),
    /// The replica could begin now on the first nodes if jobs that it may preempt were gone. The second list holds the
    /// nodes that it could have used.
    Preempt(Vec<NodeId>, Vec<NodeId>),
    /// The replica reserves these nodes from this time on.
    Reserve(SimTime, Vec<NodeId>),
    Nothing,
}
