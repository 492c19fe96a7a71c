//! The states of one node of a run, in a profile with runs. They are finer than the phases, and each state belongs to
//! one phase.
//!
//! ```text
//!  waiting ──> submitted ──> assigned ──> provisioning ──> pulling ──> running
//!     └────────────┼─────────────┴──────────────┴─────────────┴──────────┘
//!    the master    │                  refused, failed, lost, stopped, or the run has ended
//!    has a place   v
//!             terminating ────> draining ────> ended ──> waiting, submitted   (a new submission)
//!                  └───────────────────────────^
//!                     never ran: at once
//! ```

use dryrack_event::Phase;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// A worker that waits until its master has a place.
    Waiting,
    Submitted,
    /// The node of the run has a place, but no command was sent to its host yet.
    Assigned,
    Provisioning,
    /// The host was told to prepare.
    Pulling,
    Running,
    Terminating,
    /// The node has run. Its place is freed once its final report arrives.
    Draining,
    Ended,
}

impl MemberState {
    pub const ALL: [MemberState; 9] = [
        MemberState::Waiting,
        MemberState::Submitted,
        MemberState::Assigned,
        MemberState::Provisioning,
        MemberState::Pulling,
        MemberState::Running,
        MemberState::Terminating,
        MemberState::Draining,
        MemberState::Ended,
    ];

    /// The phase of this state. A node that terminates without ever having had a place is still pending.
    pub fn phase(self, has_place: bool) -> Phase {
        match self {
            MemberState::Waiting | MemberState::Submitted => Phase::Pending,
            MemberState::Assigned | MemberState::Provisioning => Phase::Scheduled,
            MemberState::Pulling => Phase::Preparing,
            MemberState::Running => Phase::Running,
            MemberState::Terminating | MemberState::Draining if has_place => Phase::Stopping,
            MemberState::Terminating | MemberState::Draining => Phase::Pending,
            MemberState::Ended => Phase::Ended,
        }
    }

    /// Whether the node has neither ended nor begun to terminate.
    pub fn is_live(self) -> bool {
        !matches!(self, MemberState::Terminating | MemberState::Draining | MemberState::Ended)
    }
}

/// Whether a node of a run may go from `from` to `to`. From the last state, a new submission leads back to the first
/// state.
pub fn is_member_edge(from: MemberState, to: MemberState) -> bool {
    use MemberState::{Assigned, Draining, Ended, Provisioning, Pulling, Running, Submitted, Terminating, Waiting};
    match from {
        // If a gang is placed as a whole, its workers are assigned together with their master.
        Waiting => matches!(to, Submitted | Assigned | Terminating),
        Submitted => matches!(to, Assigned | Terminating),
        Assigned => matches!(to, Provisioning | Terminating),
        Provisioning => matches!(to, Pulling | Terminating),
        Pulling => matches!(to, Running | Terminating),
        Running => matches!(to, Terminating),
        Terminating => matches!(to, Draining | Ended),
        Draining => matches!(to, Ended),
        Ended => matches!(to, Waiting | Submitted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_attempt_edge;

    #[test]
    fn every_edge_keeps_its_phase_or_takes_an_edge_of_the_phases() {
        for (from, to) in MemberState::ALL.into_iter().flat_map(|from| MemberState::ALL.map(|to| (from, to))) {
            if !is_member_edge(from, to) || from == MemberState::Ended {
                continue;
            }
            let has_place = from > MemberState::Submitted;
            let (from, to) = (from.phase(has_place), to.phase(has_place));
            assert!(from == to || is_attempt_edge(from, to), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn the_edges_are_those_of_the_diagram() {
        use MemberState::{Assigned, Draining, Ended, Provisioning, Pulling, Running, Submitted, Terminating, Waiting};
        let edges: [(MemberState, &[MemberState]); 9] = [
            (Waiting, &[Submitted, Assigned, Terminating]),
            (Submitted, &[Assigned, Terminating]),
            (Assigned, &[Provisioning, Terminating]),
            (Provisioning, &[Pulling, Terminating]),
            (Pulling, &[Running, Terminating]),
            (Running, &[Terminating]),
            (Terminating, &[Draining, Ended]),
            (Draining, &[Ended]),
            (Ended, &[Waiting, Submitted]),
        ];
        for ((from, next), to) in edges.into_iter().flat_map(|edge| MemberState::ALL.map(|to| (edge, to))) {
            assert_eq!(is_member_edge(from, to), next.contains(&to), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn a_node_of_a_run_has_the_phase_of_its_state() {
        use MemberState::{Assigned, Draining, Ended, Provisioning, Pulling, Running, Submitted, Terminating, Waiting};
        // Each row is a state, its phase with a place, and its phase without one.
        let rows = [
            (Waiting, Phase::Pending, Phase::Pending),
            (Submitted, Phase::Pending, Phase::Pending),
            (Assigned, Phase::Scheduled, Phase::Scheduled),
            (Provisioning, Phase::Scheduled, Phase::Scheduled),
            (Pulling, Phase::Preparing, Phase::Preparing),
            (Running, Phase::Running, Phase::Running),
            (Terminating, Phase::Stopping, Phase::Pending),
            (Draining, Phase::Stopping, Phase::Pending),
            (Ended, Phase::Ended, Phase::Ended),
        ];
        for (state, with_place, without) in rows {
            assert_eq!((state.phase(true), state.phase(false)), (with_place, without), "{state:?}");
        }
    }

    #[test]
    fn every_state_leads_to_the_end() {
        for state in MemberState::ALL.into_iter().filter(|state| state.is_live()) {
            assert!(is_member_edge(state, MemberState::Terminating), "{state:?}");
        }
        assert!(is_member_edge(MemberState::Terminating, MemberState::Ended));
        assert!(is_member_edge(MemberState::Draining, MemberState::Ended));
    }
}
