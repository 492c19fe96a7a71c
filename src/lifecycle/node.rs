//! The states of a node that the control plane knows.
//!
//! ```text
//!  joining ──> ready <────> not_ready      the node reports it, or is silent beyond the grace period
//!     │          │ ^ \          │ ^
//!     │          v │  \         v │
//!     │     maintenance └──> unreachable   likewise; the profile says which of the two states silence leads to
//!     v
//!    gone <── (any)                        and back: a node that returns is ready or joining
//! ```

use dryrack_fleet::NodeState;

/// Whether a node may go from `from` to `to`.
pub fn is_node_edge(from: NodeState, to: NodeState) -> bool {
    from != to
        && match from {
            // A node that has joined cannot join again, unless it is gone first.
            NodeState::Ready | NodeState::NotReady | NodeState::Unreachable | NodeState::Maintenance => {
                to != NodeState::Joining
            }
            NodeState::Joining | NodeState::Gone => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_joined_joins_again_only_after_it_was_gone() {
        assert!(!is_node_edge(NodeState::Ready, NodeState::Joining));
        assert!(is_node_edge(NodeState::Gone, NodeState::Joining));
        assert!(is_node_edge(NodeState::Joining, NodeState::Ready));
        assert!(!is_node_edge(NodeState::Ready, NodeState::Ready));
    }

    #[test]
    fn all_other_states_follow_each_other() {
        use NodeState::{Gone, Joining, Maintenance, NotReady, Ready, Unreachable};
        let states = [Joining, Ready, NotReady, Unreachable, Maintenance, Gone];
        for (from, to) in states.into_iter().flat_map(|from| states.map(|to| (from, to))) {
            let is_edge = from != to && (to != Joining || from == Gone);
            assert_eq!(is_node_edge(from, to), is_edge, "{from:?} to {to:?}");
        }
    }
}
