//! Floor 10. How closely a run on a real machine agrees with a rehearsal of it, in its decisions and in its times.
//!
//! Owns the rules for comparing two runs: what is compared, what is not compared, and why. Reads only records. Must
//! never run anything on a machine. Must never ignore a difference: everything that cannot be compared is counted and
//! named.
//!
//! There are three grades of validation. Each is stronger than the grade before it and tests something else:
//!
//! | grade | what is run again | what it shows |
//! | --- | --- | --- |
//! | replay | the control plane, with the recorded inputs | the control plane did not depend on the kind of its world |
//! | re-rehearsal | the simulated world, with recorded arrivals, run times and usage | sampler, timers and delays match the machine's |
//! | blind | nothing: the prediction from before the run is compared | the rehearsal predicted what would happen |

#![warn(clippy::unwrap_used)]

mod again;
mod calibrate;
mod compare;
mod outside;
mod readings;
mod source;
mod spread;
mod timelines;

pub use again::{RecordedRehearsal, again};
pub use calibrate::{Delays, Recording, calibrate, exactness};
pub use compare::{Agreement, Decision, TimeError, compare};
pub use outside::{Calibrated, Calibration, Outside, calibrate_outside};
pub use readings::{Readings, readings};
pub use source::not_of_source;
pub use spread::Spread;
pub use timelines::{Timelines, timelines};
