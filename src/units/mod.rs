//! Floor 0. Quantities: simulated time, memory, shares, money and scores.
//!
//! Owns every unit of the crate, its text form and its arithmetic. Time and quantities are integers, so a sum is the same
//! on every machine; a float appears only as [`Score`] and at the door ([`finite`]), where a reading from outside is
//! turned into a unit or refused by name. Must never use a float for time, memory or money.

#![warn(clippy::unwrap_used)]

mod amount;
mod score;
mod text;
mod time;

pub use amount::{Bytes, GpuShare, MilliCpu, MilliWatts, Money, Permille, RequestRate};
pub use score::Score;
pub use text::{UnitError, counted, finite, text_form};
pub use time::{SimDuration, SimTime};
