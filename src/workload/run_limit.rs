//! Limits on the number of jobs of a group that run at a time: job arrays with a limit, and singletons. The meanings
//! are those of Slurm's `--array` and `--dependency=singleton`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The group of a job, and the number of jobs of the group that may run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RunLimit {
    /// The job is a task of an array. At most this many tasks of the array run at a time.
    ArrayTasks { array: Arc<str>, most: u32 },
    /// The job starts after all jobs of this name and the same user that were submitted before it have ended.
    Singleton { name: Arc<str> },
}
