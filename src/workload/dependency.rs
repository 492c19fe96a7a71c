//! Dependencies between jobs, with the meanings of Slurm's `--dependency`.

use serde::{Deserialize, Serialize};

use dryrack_ids::JobId;

/// A job that must reach a state before the job with this dependency may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependency {
    /// The other job. It is submitted before the job that depends on it.
    pub job: JobId,
    pub when: Condition,
}

/// The state that the other job must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// The other job has completed (Slurm's `afterok`).
    Ok,
    /// The other job has ended in any way (Slurm's `afterany`).
    Any,
    /// The other job has ended without completing (Slurm's `afternotok`).
    NotOk,
    /// The other job has started, or has ended without starting (Slurm's `after`).
    Start,
}

impl Condition {
    /// All conditions with their names in scenario files.
    pub const ALL: [(&'static str, Condition); 4] =
        [("ok", Condition::Ok), ("any", Condition::Any), ("notok", Condition::NotOk), ("start", Condition::Start)];
}
