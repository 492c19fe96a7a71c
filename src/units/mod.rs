//! Floor 0. Quantities: simulated time, memory, shares, money and scores.
//!
//! Owns every unit of the crate, its text form and its arithmetic. Time and quantities are integers, so a sum is the
//! same on every machine. Floats appear only in [`Score`] and in [`finite`]. [`finite`] turns a reading from outside
//! into a unit, or rejects it with a named error. Must never use a float for time, memory or money.

#![warn(clippy::unwrap_used)]

mod amount;
pub mod date;
mod named;
mod score;
mod text;
mod time;

pub use amount::{Bytes, GpuShare, MilliCpu, MilliWatts, Money, Permille, RequestRate, grouped};
pub use named::present;
pub use score::Score;
pub use text::{OptionalTextForm, TextForm, UnitError, counted, decimal, finite, printable, wrapped};
pub use time::{SimDuration, SimTime};
