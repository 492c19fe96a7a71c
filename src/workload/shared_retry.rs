//! Failures that count together, such as those of the pods of a Job, which are jobs here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The group of a job whose failed attempts count together, against the limit of retries that each of its jobs states.
///
/// Once more attempts of the group have failed than the limit allows, all its jobs end. The pause before another attempt
/// grows with the failures of the group since an attempt of it completed, and none of its jobs is tried again before that
/// pause is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedRetry {
    pub group: Arc<str>,
    /// The attempts that failed before the run. They count against the limit, but make no pause longer.
    pub failed: u32,
    /// The name of several groups that end together: if one of them reaches its limit, all jobs of all of them end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_with: Option<Arc<str>>,
    /// How the groups that end together start again instead. `None` if they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Restarts>,
}

/// How several groups start again instead of ending together, as the Jobs of a JobSet do. All attempts stop, and no failure
/// before that counts any longer. The next attempts of a group begin once all its last ones are gone from their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    /// How many times they do.
    pub most: u32,
    /// Whether the next attempts wait until those of all groups are gone, and not only those of their own.
    pub wait_for_all: bool,
}
