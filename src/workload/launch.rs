//! The program that is executed for a job if the world is a real machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use dryrack_units::SimDuration;

/// The time between the request to stop a process and its kill, if the job does not set it. This is Docker's default
/// (`docker stop`, Docker Engine 28).
pub const DEFAULT_GRACE: SimDuration = SimDuration::from_secs(10);

/// The program of a job. Each task of a run is one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// The program and its arguments. Never empty.
    pub arguments: Vec<Arc<str>>,
    /// Environment variables that are added to dryrack's own environment.
    pub environment: BTreeMap<Arc<str>, Arc<str>>,
    /// The time between the request to stop and the kill. If `None`, the process is killed only when dryrack is
    /// interrupted.
    pub grace: Option<SimDuration>,
    /// Where the scenario defines the program: file, line and column.
    pub place: (Arc<str>, u32, u32),
}
