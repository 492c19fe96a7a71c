//! What is really run for a job, where the world is a real machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_units::SimDuration;

/// How long what was told to stop may take before it is killed, where the job does not say it: Docker's default
/// (`docker stop`, Docker Engine 28).
pub const DEFAULT_GRACE: SimDuration = SimDuration::from_secs(10);

/// One process for each task of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program and what is typed behind it; never empty.
    pub arguments: Vec<Arc<str>>,
    /// Over the environment in which dryrack itself runs.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// From being told to stop to being killed; `None`: it is never killed but for an interruption.
    pub grace: Option<SimDuration>,
    /// Where it is written: file, line and column.
    pub place: (Arc<str>, u32, u32),
}
