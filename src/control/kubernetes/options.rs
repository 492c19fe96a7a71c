//! The options of the Kubernetes flow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile_error::ProfileError;
use dryrack_kubernetes::cycle::Profile as SchedulerProfile;
use dryrack_objects::PodSpec;
use dryrack_units::{SimDuration, TextForm};

/// How pods are scheduled, and what else the control plane of Kubernetes does with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesOptions {
    /// The plugins of kube-scheduler, with their weights and arguments.
    pub scheduler: SchedulerProfile,
    /// The scheduler that pods must name. Pods of other schedulers wait, unless they state their node.
    #[serde(default = "default_scheduler", skip_serializing_if = "is_default_scheduler")]
    pub scheduler_name: String,
    pub queue: QueueOptions,
    /// How long a pod stays on a node that is not ready or unreachable, if the pod does not state it. This is what the
    /// admission plugin `DefaultTolerationSeconds` adds to each pod.
    #[serde(with = "TextForm")]
    pub default_toleration: SimDuration,
    /// Gang scheduling: the alpha feature of 1.35 behind the gates `GenericWorkload` and `GangScheduling`. Without it,
    /// each pod of a gang is scheduled by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang_scheduling: Option<GangScheduling>,
}

fn default_scheduler() -> String {
    PodSpec::DEFAULT_SCHEDULER.to_string()
}

fn is_default_scheduler(name: &str) -> bool {
    name == PodSpec::DEFAULT_SCHEDULER
}

/// How the pods of a gang wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GangScheduling {
    /// How long a pod keeps its node while it waits for others of its gang.
    #[serde(with = "TextForm")]
    pub timeout: SimDuration,
}

/// How refused pods return to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueOptions {
    /// The back-off after the first attempt. It doubles with each further attempt.
    #[serde(with = "TextForm")]
    pub initial_backoff: SimDuration,
    /// The longest back-off.
    #[serde(with = "TextForm")]
    pub max_backoff: SimDuration,
    /// Whether a pod in back-off is tried as soon as no other pod is ready (KEP-5142, the default since 1.33). A pod
    /// whose attempt failed with an error waits for its back-off nevertheless.
    pub pop_from_backoff: bool,
    /// Whether a refused pod returns only after an event that may help it, as its plugins judge (the queueing hints of
    /// KEP-4247). Otherwise every event but the removal of a node returns every refused pod.
    pub hints: bool,
    /// After this time, a refused pod is tried again even without an event.
    #[serde(with = "TextForm")]
    pub max_unschedulable: SimDuration,
}

impl KubernetesOptions {
    pub(crate) fn faults(&self) -> Vec<ProfileError> {
        let mut faults: Vec<ProfileError> =
            self.scheduler.faults().into_iter().map(|fault| ProfileError::Kubernetes(fault.to_string())).collect();
        if self.queue.max_backoff < self.queue.initial_backoff {
            faults.push(ProfileError::Kubernetes("the longest back-off is shorter than the first".to_string()));
        }
        if self.queue.max_unschedulable.is_zero() {
            faults.push(ProfileError::NoTime("flow.kubernetes.queue.max_unschedulable"));
        }
        if self.gang_scheduling.is_some_and(|gangs| gangs.timeout.is_zero()) {
            faults.push(ProfileError::NoTime("flow.kubernetes.gang_scheduling.timeout"));
        }
        faults
    }
}
