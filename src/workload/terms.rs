//! How a multi-node run is started, ended and retried.

use serde::{Deserialize, Serialize};

use dryrack_units::SimDuration;

/// What a job says about its nodes as one run. Only a control plane that has runs reads it
/// ([`crate::JobSpec::terms`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// `None`: if a node fails, the run fails.
    #[serde(default)]
    pub retry: Option<EventRetry>,
    #[serde(default)]
    pub startup: StartupOrder,
    #[serde(default)]
    pub stop: StopCriteria,
    /// How long an instance made for it may be idle; `None`: as its fleet says.
    #[serde(default)]
    pub idle: Option<IdleLimit>,
}

/// How long an instance may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleLimit {
    After(SimDuration),
    /// Forever.
    Off,
}

/// Restarts all nodes when one of them meets one of these events.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRetry {
    /// Sorted, without duplicates.
    pub on: Vec<RetryEvent>,
    /// The longest time to retry. For lack of capacity it is counted from submission until a node first had a place;
    /// otherwise from the last time that the node was checked while it had a place.
    pub duration: SimDuration,
}

/// An event that a node may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryEvent {
    /// There was no place for it.
    NoCapacity,
    /// The node it ran on was taken away.
    Interruption,
    /// It failed by itself, or never started.
    Error,
}

impl RetryEvent {
    pub const ALL: [RetryEvent; 3] = [RetryEvent::NoCapacity, RetryEvent::Interruption, RetryEvent::Error];

    pub fn name(self) -> &'static str {
        match self {
            RetryEvent::NoCapacity => "no_capacity",
            RetryEvent::Interruption => "interruption",
            RetryEvent::Error => "error",
        }
    }
}

/// Which nodes start working first. Node 0 is the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartupOrder {
    #[default]
    Any,
    MasterFirst,
    WorkersFirst,
}

/// When a multi-node run has completed its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCriteria {
    #[default]
    AllDone,
    /// When its master is done; the workers are stopped.
    MasterDone,
}

impl RunTerms {
    pub fn is_default(&self) -> bool {
        *self == RunTerms::default()
    }
}
