//! Floor 10. How closely a run on a real machine and a rehearsal of it agree: decision by decision, and in time.
//!
//! Owns what is compared between two runs, what is not, and why. It reads only records. Must never run anything on a
//! machine, nor ignore a difference: what cannot be compared is counted and named.
//!
//! There are three grades. Each is stronger than the one before it and tests something else:
//!
//! | grade | what is rerun | what it shows |
//! | --- | --- | --- |
//! | replay | the recorded inputs, through the control plane | the control plane did not know which world it was in |
//! | re-rehearsal | recorded arrivals, run times and usage, in the simulated world | the simulator's sampler, timers and delays match the machine's |
//! | blind | nothing: the prediction made before the run began is compared | the rehearsal predicted what would happen |

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
