//! Floor 10. Minimization: the smallest scenario that still fails in the same way.
//!
//! Owns which parts of a file are left out and which numbers are lowered, in which order, and when two failures are the
//! same. Must never decide what happens in a run: the function that tries a candidate is its only view of a run. Must
//! never change what the expectation says.
//!
//! | module | does |
//! | --- | --- |
//! | `document` | leaves out and replaces parts of a text, and keeps its comments, order and style |
//! | `ddmin` | finds the parts that are needed, and the lowest number that is enough |
//! | `changes` | each single change of a text, to see whether an expectation can fail |
//! | `failing` | runs a candidate, and decides whether it still fails in the same way |
//! | `reduce` | faults, then jobs, then nodes, then settings, then numbers, until nothing more can go |
//!
//! [`minimize`] takes this function as an argument, so that another judge, such as the properties of a hunt, can replace
//! [`Rehearser::still_fails`].

#![warn(clippy::unwrap_used)]

mod changes;
mod ddmin;
mod document;
mod failing;
mod reduce;

#[cfg(test)]
mod tests;

pub use changes::{changes, with_included, with_one_expectation};
pub use document::{is_composed, named_profile, with_entries, without_entry};
pub use failing::{CandidateResult, Failing, Failures, Rehearser, Size, Unrun};
pub use reduce::{Limits, MinimizeProgress, Minimized, Numbers, minimize};
