//! Floor 10. How far a run on a real machine and a rehearsal of it agree: decision by decision, and in time.
//!
//! Owns what is compared of two runs and what is not, and why. It reads records alone. Must never run anything on a
//! machine, nor forgive a difference: what cannot be compared is counted and named.
//!
//! Three grades, each stronger than the one before it, and each of something else:
//!
//! | grade | what is run again | what it shows |
//! | --- | --- | --- |
//! | replay | the recorded inputs, through the control plane | it did not know which world it was in |
//! | re-rehearsal | recorded arrivals, lengths and usage, in the simulated world | the simulator's sampler, timers and delays are the machine's |
//! | blind | nothing: what was foretold before it began | the rehearsal knew what would happen |

#![warn(clippy::unwrap_used)]

mod again;
mod calibrate;
mod compare;
mod outside;
mod readings;
mod source;
mod spread;
mod timelines;

pub use again::{Again, again};
pub use calibrate::{Delays, Recording, calibrate, exactness};
pub use compare::{Agreement, Decision, TimeError, compare};
pub use outside::{Found, Outside, Told, calibrate_outside};
pub use readings::{Readings, readings};
pub use source::not_of_source;
pub use spread::Spread;
pub use timelines::{Timelines, timelines};
