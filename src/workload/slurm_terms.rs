//! What a job says to Slurm besides its resources: `sbatch --partition`, `--account`, `--qos`,
//! `--reservation` and `--no-requeue`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The terms of a job in a Slurm cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlurmTerms {
    /// The partition of the job, or several that are separated by commas, of which it runs in one. `None` if the cluster
    /// has no partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Arc<str>>,
    /// The advance reservation that the job runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Arc<str>>,
    /// Whether the job waits again after it was preempted or has lost a node (`--requeue`, `--no-requeue`). Otherwise it
    /// is lost.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub requeue: bool,
}

impl SlurmTerms {
    pub fn has_several_partitions(&self) -> bool {
        self.partition.as_deref().is_some_and(|names| names.contains(','))
    }
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}
