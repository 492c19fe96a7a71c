//! How jobs are preempted: the rule, and what becomes of the preempted job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The jobs of this partition are not preempted.
    Off,
    /// The job waits again, and starts from its beginning.
    Requeue,
    /// The job is cancelled.
    Cancel,
}
