//! Floor 8. What runs are held against, beyond the checks within each run: other runs of a changed world, plain
//! implementations of the same rules, and the list of states that some run should reach.
//!
//! Owns the checks and the marks. Must never change what a run decides. A plain implementation must never use the code
//! that it judges.

#![warn(clippy::unwrap_used)]

mod checks;
mod endless;
mod marks;

pub use checks::{CHECKS, Case, Check, CheckResult, Judged, checks_of};
pub use endless::EndlessRun;
pub use marks::{Marks, RunMarks};
