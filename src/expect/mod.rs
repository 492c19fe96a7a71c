//! Floor 6. Expectations: what a scenario says must be so, judged by folding the event log.
//!
//! Owns the meaning of `expect:` and of `reproduces:`. Reads records alone and must never look into the engine: what the
//! log does not say cannot be expected.

mod expectation;

pub use expectation::{
    Comparison, EventName, Expectation, Mode, Reproduction, SourcePlace, State, Subject, What, Window,
};
