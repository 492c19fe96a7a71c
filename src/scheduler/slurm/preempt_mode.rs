//! How jobs are preempted: the rule, and what becomes of the preempted job.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What decides which jobs preempt which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptType {
    /// `preempt/partition_prio`: jobs of a partition with a higher tier preempt jobs of a lower one.
    PartitionPrio,
    /// `preempt/qos`: jobs of a QOS preempt jobs of the QOS that it names.
    Qos,
}

/// What becomes of a preempted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreemptMode {
    /// The jobs of this partition or QOS are not preempted.
    Off,
    /// The job waits again, and starts from its beginning.
    Requeue,
    /// The job is cancelled.
    Cancel,
}

/// What becomes of a preempted job. In slurm.conf, `PreemptMode=OFF` of the whole cluster goes only with
/// `PreemptType=preempt/none`, which is the default here.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterPreemptMode {
    /// The job waits again, and starts from its beginning.
    Requeue,
    /// The job is cancelled.
    Cancel,
}

pub(super) fn mode_of_cluster<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PreemptMode, D::Error> {
    Ok(match ClusterPreemptMode::deserialize(deserializer)? {
        ClusterPreemptMode::Requeue => PreemptMode::Requeue,
        ClusterPreemptMode::Cancel => PreemptMode::Cancel,
    })
}
