//! Which edges were taken since the process started. The states of multi-node runs are not in the log, so a report of
//! the edges that nothing took cannot read them there. No decision reads this.

use std::sync::atomic::{AtomicU16, Ordering};

use super::{MemberState, WholeState, is_member_edge, is_whole_edge};

/// For each state, one bit for each state that followed it.
struct Taken([AtomicU16; 16]);

static MEMBER: Taken = Taken::none();
static WHOLE: Taken = Taken::none();

impl Taken {
    const fn none() -> Taken {
        Taken([const { AtomicU16::new(0) }; 16])
    }

    fn note(&self, from: usize, to: usize) {
        let bit = 1 << to;
        // Most edges were taken before, and a read does not take the cache line from other threads.
        if self.0[from].load(Ordering::Relaxed) & bit == 0 {
            self.0[from].fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn has(&self, from: usize, to: usize) -> bool {
        self.0[from].load(Ordering::Relaxed) & (1 << to) != 0
    }
}

/// Asserts that a node of a run may go from `from` to `to`, and notes that it did.
pub fn take_member_edge(from: MemberState, to: MemberState) {
    assert!(is_member_edge(from, to), "a node of a run cannot go from {from:?} to {to:?}");
    MEMBER.note(from as usize, to as usize);
}

/// Asserts that a run may go from `from` to `to`, and notes that it did.
pub fn take_whole_edge(from: WholeState, to: WholeState) {
    assert!(is_whole_edge(from, to), "a run cannot go from {from:?} to {to:?}");
    WHOLE.note(from as usize, to as usize);
}

/// Whether a node of any run has gone from `from` to `to` in this process.
pub fn is_member_edge_taken(from: MemberState, to: MemberState) -> bool {
    MEMBER.has(from as usize, to as usize)
}

/// Whether any run has gone from `from` to `to` in this process.
pub fn is_whole_edge_taken(from: WholeState, to: WholeState) -> bool {
    WHOLE.has(from as usize, to as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_that_were_taken_are_noted_and_no_others() {
        let edges = [
            (MemberState::Pulling, MemberState::Running),
            (MemberState::Pulling, MemberState::Terminating),
            (MemberState::Running, MemberState::Terminating),
            (MemberState::Ended, MemberState::Waiting),
        ];
        // Once more for those that were noted before.
        edges.into_iter().chain(edges).for_each(|(from, to)| take_member_edge(from, to));
        for (from, to) in MemberState::ALL.into_iter().flat_map(|from| MemberState::ALL.map(|to| (from, to))) {
            assert_eq!(is_member_edge_taken(from, to), edges.contains(&(from, to)), "{from:?} to {to:?}");
        }
        let edge = (WholeState::Running, WholeState::Pending);
        take_whole_edge(edge.0, edge.1);
        for (from, to) in WholeState::ALL.into_iter().flat_map(|from| WholeState::ALL.map(|to| (from, to))) {
            assert_eq!(is_whole_edge_taken(from, to), (from, to) == edge, "{from:?} to {to:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a node of a run cannot go from Ended to Running")]
    fn a_node_of_a_run_takes_no_other_edge() {
        take_member_edge(MemberState::Ended, MemberState::Running);
    }

    #[test]
    #[should_panic(expected = "a run cannot go from Ended to Running")]
    fn a_run_takes_no_other_edge() {
        take_whole_edge(WholeState::Ended, WholeState::Running);
    }
}
