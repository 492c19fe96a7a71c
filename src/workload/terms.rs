//! How the nodes of a multi-node run are started, ended and retried.

use serde::{Deserialize, Serialize};

use dryrack_units::SimDuration;

/// A job's settings for its nodes as one run. Only a profile with multi-node runs reads them
/// ([`crate::JobSpec::terms`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// When to retry. If `None`, the run fails as soon as one of its nodes fails.
    #[serde(default)]
    pub retry: Option<EventRetry>,
    #[serde(default)]
    pub startup: StartupOrder,
    #[serde(default)]
    pub stop: StopCriteria,
    /// How long an instance that was created for this run may be idle. If `None`, the fleet's setting applies.
    #[serde(default)]
    pub idle: Option<IdleLimit>,
}

/// How long an instance may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleLimit {
    After(SimDuration),
    /// The instance may be idle forever.
    Off,
}

/// Restarts all nodes of a run when one of these events happens to one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRetry {
    /// The events, sorted and without duplicates.
    pub on: Vec<RetryEvent>,
    /// The longest time to retry. For `NoCapacity`, it is counted from the submission, as long as the node has never
    /// been placed. In all other cases, it is counted from the last time that the control plane checked the node while
    /// it was placed.
    pub duration: SimDuration,
}

/// An event that may happen to a node of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryEvent {
    /// There was no capacity for the node.
    NoCapacity,
    /// The node's instance was taken away.
    Interruption,
    /// The node failed by itself, or never started.
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

/// The order in which the nodes of a run start to work. Node 0 is the master.
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
    /// The run is complete when its master is done. Its workers are then stopped.
    MasterDone,
}

impl RunTerms {
    pub fn is_default(&self) -> bool {
        *self == RunTerms::default()
    }
}
