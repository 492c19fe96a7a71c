//! Floor 10. Comparison: one scenario decided by several schedulers, and the first decision in which they differ.
//!
//! Owns which records are decisions, and when two decisions are the same. Scores and reasons do not make a decision
//! another one. Must never judge which of the schedulers is right: that is what expectations are for.

#![warn(clippy::unwrap_used)]

mod decisions;
mod difference;

#[cfg(test)]
mod tests;

pub use decisions::{Decision, Decisions};
pub use difference::{Difference, DifferenceKind, RunDecisions, SideDecision, decide, first_difference};
