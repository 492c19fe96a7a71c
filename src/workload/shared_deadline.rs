//! A time limit of several jobs together, such as `activeDeadlineSeconds` of a Job whose pods are jobs here.

use std::sync::Arc;

use dryrack_units::SimDuration;
use serde::{Deserialize, Serialize};

/// The group of a job, and how long after its start all jobs of the group are ended. The group starts when its first job
/// is submitted. If the jobs wait for admission, it starts when they are admitted, and again after each eviction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedDeadline {
    pub group: Arc<str>,
    pub after: SimDuration,
    /// The time that the group has when it starts again, if it had begun before the run. `None` if this is `after` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<SimDuration>,
}
