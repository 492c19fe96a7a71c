//! Floor 6. Public traces: what they recorded.
//!
//! Owns the readers of trace formats ([`swf`], [`openb`]), the rows they yield ([`TraceTask`], [`TraceNode`]) and the
//! [`Tally`] of what was odd in them. Must never invent what a trace does not say (it is `None`) or drop a row without
//! counting it. Reads no clock.

mod decimal;
mod error;
pub mod openb;
mod row;
pub mod swf;
mod tally;
mod text;

pub use error::TraceError;
pub use row::{NodeTrace, Outcome, RunBasis, TaskTrace, TraceNode, TraceTask};
pub use tally::{Fate, Oddity, Tally};
