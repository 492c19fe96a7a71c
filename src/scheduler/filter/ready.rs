//! Passes only nodes that are ready.

use super::Verdict;
use dryrack_event::Reason;
use dryrack_fleet::NodeState;
use dryrack_planted::planted;

pub fn judge(state: NodeState) -> Verdict {
    match state {
        NodeState::Ready => Verdict::Fit,
        NodeState::Joining => Verdict::Unfit(Reason::NodeJoining),
        NodeState::NotReady if planted!(NotReadyIsReady) => Verdict::Fit,
        NodeState::NotReady => Verdict::Unfit(Reason::NodeNotReady),
        NodeState::Unreachable => Verdict::Unfit(Reason::NodeUnreachable),
        NodeState::Maintenance => Verdict::Unfit(Reason::NodeMaintenance),
        NodeState::Gone => Verdict::Unfit(Reason::NodeGone),
    }
}
