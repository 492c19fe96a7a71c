//! A workload that waits for admission: what a job says to Kueue before its pods may exist.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_objects::{Labels, NodeSelectorTerm, ResourceList, Toleration};

/// The part that a job has in a workload. All jobs of one workload are admitted and evicted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedPart {
    pub workload: Arc<QueuedWorkload>,
    /// The index of the pod set to which the tasks of the job belong. Each task is one pod of the set. `None` if the job
    /// is a gang of several kinds of tasks, which are the pod sets in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_set: Option<u32>,
}

/// A workload, as Kueue makes it of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedWorkload {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Breaks ties, in the order of strings. Empty if the workload has none; the order of submission counts then.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub uid: Arc<str>,
    /// When the workload was created, in seconds from the beginning of the run. Older workloads go first. `None` if it
    /// is created when it is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<i64>,
    /// The LocalQueue, in the namespace.
    pub queue: Arc<str>,
    pub priority: i32,
    pub pod_sets: Vec<QueuedPodSet>,
    /// The quota that it holds from the beginning, because Kueue admitted it before. `None` if it waits then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldQuota>,
}

/// What Kueue gave to a workload before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldQuota {
    pub cluster_queue: Arc<str>,
    /// When it was admitted, in seconds from the beginning of the run.
    pub since: i64,
    /// One for each pod set of the workload.
    pub pod_sets: Vec<HeldPodSet>,
}

/// What a pod set of an admitted workload holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldPodSet {
    /// The number of pods that were admitted.
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: Labels,
    /// What all of its pods use.
    pub usage: ResourceList,
}

/// Equal pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedPodSet {
    pub name: Arc<str>,
    pub count: u32,
    /// The smallest count with which the workload may be admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u32>,
    /// Whether pods beyond the admitted count run in turn, when others have completed. Otherwise they never run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
    /// The requests of one pod.
    pub requests: ResourceList,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub node_selector: Labels,
    /// The node affinity that is required: one of these terms must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affinity: Vec<NodeSelectorTerm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<QueuedTopology>,
}

/// The topology that a pod set asks for. Each text is the key of a node label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueuedTopology {
    Required(Arc<str>),
    Preferred(Arc<str>),
    Unconstrained,
}
