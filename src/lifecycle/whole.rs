//! The states of a whole run: all nodes of all its replicas.
//!
//! ```text
//!  submitted ──> provisioning ──> running        as far as its most advanced node
//!    ^  │ \            │ ^          │ │
//!    │  v  \           v └──────────┘ │
//!   pending \──────────┼──────────────┤          pending: all nodes are stopped, and are retried after a pause
//!       │              v              │
//!       └────────> terminating <──────┘          a node failed, all nodes are done, or the run was cancelled
//!                      │
//!                      v
//!                    ended
//! ```

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WholeState {
    Submitted,
    Provisioning,
    Running,
    /// The run waits for the next submission of all its nodes.
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

    /// Whether some nodes of the run should be running.
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

    #[test]
    fn the_edges_are_those_of_the_diagram() {
        use WholeState::{Ended, Pending, Provisioning, Running, Submitted, Terminating};
        let edges: [(WholeState, &[WholeState]); 6] = [
            (Submitted, &[Provisioning, Running, Pending, Terminating]),
            (Provisioning, &[Submitted, Running, Pending, Terminating]),
            (Running, &[Submitted, Provisioning, Pending, Terminating]),
            (Pending, &[Submitted, Terminating]),
            (Terminating, &[Ended]),
            (Ended, &[]),
        ];
        for ((from, next), to) in edges.into_iter().flat_map(|edge| WholeState::ALL.map(|to| (edge, to))) {
            assert_eq!(is_whole_edge(from, to), next.contains(&to), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn a_run_is_active_before_it_pauses_or_ends() {
        let active = WholeState::ALL.into_iter().filter(|state| state.is_active());
        assert!(active.eq([WholeState::Submitted, WholeState::Provisioning, WholeState::Running]));
    }
}
