//! The prediction for a run on a real machine. It is recorded before the run begins.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::output::Outcome;
use super::reason::Reason;
use dryrack_units::SimTime;

/// The timeline of one attempt, taken from the attempt's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptTimeline {
    pub job: Arc<str>,
    pub replica: u32,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The attempt's GPUs as `node/index`, or its nodes if it has no GPUs.
    pub on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<SimTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<SimTime>,
    /// When a utilization policy first fired for the attempt, in any mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired: Option<SimTime>,
    /// When the attempt was told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<SimTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<SimTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Reason>,
}

/// The result of a rehearsal of the scenario, made before the first process was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The digest of the rehearsal. Rehearsing the log's source again must give the same digest.
    pub digest: String,
    pub records: u64,
    pub end: SimTime,
    /// The attempts, in order of job, replica and attempt.
    #[serde(rename = "runs")]
    pub attempts: Vec<AttemptTimeline>,
}
