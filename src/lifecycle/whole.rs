//! A run as a whole: all nodes of all its replicas.
//!
//! ```text
//!  submitted ──> provisioning ──> running        the furthest that any of its nodes is
//!    ^  │ \            │ ^          │ │
//!    │  v  \           v └──────────┘ │
//!   pending \──────────┼──────────────┤          pending: all nodes are stopped, and tried again after a pause
//!       │              v              │
//!       └────────> terminating <──────┘          a node failed, all are done, or it was cancelled
//!                      │
//!                      v
//!                    ended
//! ```

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WholeState {
    Submitted,
    Provisioning,
    Running,
    /// Waits for the next submission of all its nodes.
    Pending,
    Terminating,
    Ended,
}

impl WholeState {
    pub const ALL: [WholeState; 6] = [
        WholeState::Submitted,
        WholeState::Provisioning,
        WholeState::Running,
        WholeState::Pending,
        WholeState::Terminating,
        WholeState::Ended,
    ];

    /// Whether some of its nodes should run.
    pub fn is_active(self) -> bool {
        matches!(self, WholeState::Submitted | WholeState::Provisioning | WholeState::Running)
    }
}

/// Whether a run may go from `from` to `to`.
pub fn is_whole_edge(from: WholeState, to: WholeState) -> bool {
    match from {
        WholeState::Submitted | WholeState::Provisioning | WholeState::Running => from != to && to != WholeState::Ended,
        WholeState::Pending => matches!(to, WholeState::Submitted | WholeState::Terminating),
        WholeState::Terminating => to == WholeState::Ended,
        WholeState::Ended => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_but_the_last_leads_to_terminating_and_only_that_to_the_end() {
        for state in WholeState::ALL {
            let is_last = matches!(state, WholeState::Terminating | WholeState::Ended);
            assert_eq!(is_whole_edge(state, WholeState::Terminating), !is_last, "{state:?}");
            assert_eq!(is_whole_edge(state, WholeState::Ended), state == WholeState::Terminating, "{state:?}");
        }
    }
}
