//! The states of an instance that a cloud makes, which say what the instance is doing. Whether the instance can be used
//! is shown by the states of its node. An unreachable instance is shown by the state of its node, and an unhealthy GPU
//! by the state of the GPU.
//!
//! ```text
//!  terminated ──> pending ──> provisioning ──> idle <──> busy      requested, accepted, up
//!      ^             │              │           │  \       │
//!      │             v              v           v   └──┐   │
//!      ├─────────────┴──────────────┴── (taken away) ──┼───┘
//!      │                            v                  v
//!      └────────────────────── terminating <───────────┘           idle or silent for too long, or no longer needed
//! ```

use dryrack_fleet::InstanceState;

/// Whether an instance may go from `from` to `to`.
pub fn is_instance_edge(from: InstanceState, to: InstanceState) -> bool {
    use InstanceState::{Busy, Idle, Pending, Provisioning, Terminated, Terminating};
    match from {
        Pending => matches!(to, Provisioning | Terminating | Terminated),
        Provisioning => matches!(to, Idle | Busy | Terminating | Terminated),
        Idle => matches!(to, Busy | Terminating | Terminated),
        Busy => matches!(to, Idle | Terminating | Terminated),
        Terminating => to == Terminated,
        Terminated => to == Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_can_always_be_taken_away_and_nothing_is_used_that_was_not_made() {
        for from in InstanceState::ALL {
            let is_there = from != InstanceState::Terminated;
            assert_eq!(is_instance_edge(from, InstanceState::Terminated), is_there, "{from:?}");
            let may_be_used = matches!(from, InstanceState::Provisioning | InstanceState::Idle);
            assert_eq!(is_instance_edge(from, InstanceState::Busy), may_be_used, "{from:?}");
        }
    }
}
