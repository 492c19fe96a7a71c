//! Floor 8. Expectations: the conditions that a scenario states, checked against the event log.
//!
//! It owns the meaning of `expect:` and `reproduces:`. It reads only records and must never look into the engine, so an
//! expectation can be only about facts that are in the log. The values of metrics come from the crate `metrics`, which
//! computes them from the same records.
//!
//! `docs/src/expectations.md` shows every form with an example and its meaning. A test checks that file.

#![warn(clippy::unwrap_used)]

mod expectation;
mod fold;
mod history;
mod judge;
mod metric;
mod named;
mod reproduction;
mod share;
mod window;
mod words;

#[cfg(test)]
mod table;

pub use expectation::{
    BlockCount, Bound, Comparison, CountedJobs, EventName, Expectation, ExpectationKind, Judgement, Landmark,
    MetricCheck, Mode, Quantity, ReproducedUnder, Reproduction, Restriction, Sign, SourcePlace, State, Subject,
    Unplaced, Window,
};
pub use fold::{Fold, StateCondition, gpu_state_name, node_state_name};
pub use judge::{DecidedBy, Judge, NEVER_RUNS_HELP, Verdict};
pub use metric::{COLD_START, NOT_DECIDED};
pub use reproduction::{is_cured, judge_reproduction};
pub use share::{SeedShare, ShareAt};
pub use window::Horizon;
