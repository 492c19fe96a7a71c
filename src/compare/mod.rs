//! Floor 10. Comparison: one scenario decided by several schedulers, and the first decision in which they differ.
//!
//! Owns which records count as decisions, and when two decisions are the same. A difference in scores or reasons does
//! not make two decisions different. Must never judge which of the schedulers is right, which is the purpose of
//! expectations.

#![warn(clippy::unwrap_used)]

mod decisions;
mod difference;

#[cfg(test)]
mod tests;

pub use decisions::{Decision, DecisionAbout, Decisions};
pub use difference::{
    Difference, DifferenceKind, RunDecisions, SideDecision, decide, first_difference, first_different_decision,
};
