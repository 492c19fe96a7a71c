//! Probes: what a machine or a server says of nodes and GPUs, each behind one interface.
//!
//! A [`Probe`] takes one [`Look`] at its source. It either finds nodes or says in one [`Missing`] why there is nothing;
//! what is missing of a single GPU is said at its reading. A look ends before its deadline: programs are run in process
//! groups of their own and killed, answers are bounded, and what cannot be stopped is left to [`Guarded`].
//!
//! | source | how |
//! | --- | --- |
//! | this machine | procfs and cgroups |

mod command;
mod found;
mod guarded;
mod machine;
mod missing;

pub use command::{Command, Limits};
pub use found::{GpuFound, Look, NodeFound, Reading};
pub use guarded::Guarded;
pub use machine::{Machine, Roots};
pub use missing::{Missing, shown};

use super::clock::{Clock, Deadline};

/// A source of readings.
pub trait Probe: Send {
    /// What it asks, as a person would name it.
    fn source(&self) -> String;

    /// One look, over before the deadline as far as that is in its hands.
    fn look(&mut self, clock: &Clock, deadline: Deadline) -> Result<Look, Missing>;
}
