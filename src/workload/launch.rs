//! What is executed for a job if the world is a real machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_units::SimDuration;

/// The time that a process gets to stop before it is killed, if the job does not set it: Docker's default (`docker
/// stop`, Docker Engine 28).
pub const DEFAULT_GRACE: SimDuration = SimDuration::from_secs(10);

/// One process for each task of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments; never empty.
    pub arguments: Vec<Arc<str>>,
    /// Environment variables, added to dryrack's own environment.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// The time from being told to stop until being killed; `None`: it is killed only on an interruption.
    pub grace: Option<SimDuration>,
    /// Where it is defined: file, line and column.
    pub place: (Arc<str>, u32, u32),
}
