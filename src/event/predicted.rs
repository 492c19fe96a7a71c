//! What was foretold of a run on a real machine, and written down before anything of it began.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::output::Outcome;
use super::reason::Reason;
use dryrack_units::SimTime;

/// The way of one attempt, in names, as its events tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptTimeline {
    pub job: Arc<str>,
    pub replica: u32,
    /// Counted from 1.
    pub attempt: u32,
    /// Its GPUs as `node/index`, or its nodes where it has none.
    pub on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<SimTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<SimTime>,
    /// A utilization policy held first, whatever followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired: Option<SimTime>,
    /// It was told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<SimTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<SimTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Reason>,
}

/// A rehearsal of the scenario, run before the first process was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The digest of that rehearsal: whoever rehearses the log's source again must find the same.
    pub digest: String,
    pub records: u64,
    pub end: SimTime,
    /// In order of jobs, replicas and attempts.
    pub runs: Vec<AttemptTimeline>,
}
