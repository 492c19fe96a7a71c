//! The phases of one attempt to run a replica.
//!
//! ```text
//!            ┌──────────────┐
//!            v              │ analysed
//!  (new) > pending ────> analysing                    a new attempt begins at pending again
//!            │ placed       │ placed
//!            v              │
//!          scheduled <──────┘
//!            │  │ └─────> preparing ──> running
//!            │  └─────────────┼─────────^ │
//!            │                │           │  cancelled, time limit, deadline
//!            └────────────────┴────┬──────┘
//!                                  v
//!                              stopping
//!                                  │
//!  (every state but ended) ──────> ended
//! ```

use dryrack_event::Phase;

/// Whether an attempt may go from `from` to `to`. `Ended` has no successor, because the next attempt is another one.
pub fn is_attempt_edge(from: Phase, to: Phase) -> bool {
    match from {
        Phase::Pending => matches!(to, Phase::Analysing | Phase::Scheduled | Phase::Ended),
        Phase::Analysing => matches!(to, Phase::Pending | Phase::Scheduled | Phase::Ended),
        Phase::Scheduled => matches!(to, Phase::Preparing | Phase::Running | Phase::Stopping | Phase::Ended),
        Phase::Preparing => matches!(to, Phase::Running | Phase::Stopping | Phase::Ended),
        Phase::Running => matches!(to, Phase::Stopping | Phase::Ended),
        Phase::Stopping => matches!(to, Phase::Ended),
        Phase::Ended => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_but_the_last_leads_to_the_end() {
        for phase in Phase::ALL {
            assert_eq!(is_attempt_edge(phase, Phase::Ended), phase != Phase::Ended, "{phase:?}");
            assert!(!is_attempt_edge(Phase::Ended, phase), "a final phase has no way out");
            assert!(!is_attempt_edge(phase, phase), "an edge leads somewhere else");
        }
    }

    #[test]
    fn the_edges_are_those_of_the_diagram() {
        use Phase::{Analysing, Ended, Pending, Preparing, Running, Scheduled, Stopping};
        let edges: [(Phase, &[Phase]); 7] = [
            (Pending, &[Analysing, Scheduled, Ended]),
            (Analysing, &[Pending, Scheduled, Ended]),
            (Scheduled, &[Preparing, Running, Stopping, Ended]),
            (Preparing, &[Running, Stopping, Ended]),
            (Running, &[Stopping, Ended]),
            (Stopping, &[Ended]),
            (Ended, &[]),
        ];
        for ((from, next), to) in edges.into_iter().flat_map(|edge| Phase::ALL.map(|to| (edge, to))) {
            assert_eq!(is_attempt_edge(from, to), next.contains(&to), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn nothing_runs_that_was_not_placed() {
        assert!(!is_attempt_edge(Phase::Pending, Phase::Running));
        assert!(!is_attempt_edge(Phase::Analysing, Phase::Running));
    }
}
