//! How a run of several nodes is started, ended and tried again.

use serde::{Deserialize, Serialize};

use dryrack_units::SimDuration;

/// What a job says of its nodes as one run. Only a control plane that has runs ([`crate::JobSpec::terms`])
/// reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// `None`: a node that fails fails the run.
    #[serde(default)]
    pub retry: Option<EventRetry>,
    #[serde(default)]
    pub startup: StartupOrder,
    #[serde(default)]
    pub stop: StopCriteria,
    /// For how long an instance that is made for it may be idle; `None`: as its fleet says.
    #[serde(default)]
    pub idle: Option<IdleLimit>,
}

/// How long an instance may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleLimit {
    After(SimDuration),
    /// For ever.
    Off,
}

/// All nodes are started again when one of them meets such an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRetry {
    /// In order, each once.
    pub on: Vec<RetryEvent>,
    /// For want of capacity, counted from submission until a node first had a place; otherwise from the last time it
    /// was looked at while it had one. Longer than this is too long.
    pub duration: SimDuration,
}

/// What a node may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryEvent {
    /// There was no place for it.
    NoCapacity,
    /// What it ran on was taken away.
    Interruption,
    /// It failed by itself, or never came up.
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

/// Which nodes begin their work first. Node 0 is the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartupOrder {
    #[default]
    Any,
    MasterFirst,
    WorkersFirst,
}

/// When a run of several nodes has done its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCriteria {
    #[default]
    AllDone,
    /// With its master; the workers are stopped.
    MasterDone,
}

impl RunTerms {
    pub fn is_default(&self) -> bool {
        *self == RunTerms::default()
    }
}
