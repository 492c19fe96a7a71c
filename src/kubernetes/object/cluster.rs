//! Namespaces, services, disruption budgets and workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{LabelSelector, Labels, ObjectMeta};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub metadata: ObjectMeta,
    pub spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// `None` selects no pod.
    pub selector: Option<Labels>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DisruptionBudget {
    pub metadata: ObjectMeta,
    pub spec: DisruptionBudgetSpec,
    pub status: DisruptionBudgetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DisruptionBudgetSpec {
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionBudgetStatus {
    pub disruptions_allowed: i32,
    /// The names of pods that are already evicted. `disruptions_allowed` takes them into account.
    pub disrupted_pods: BTreeMap<Arc<str>, IgnoredAny>,
}

/// A workload: groups of pods that are scheduled by a common policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    pub metadata: ObjectMeta,
    pub spec: WorkloadSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    pub pod_groups: Vec<PodGroup>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PodGroup {
    pub name: Arc<str>,
    #[serde(default)]
    pub policy: PodGroupPolicy,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupPolicy {
    /// `None` means that the pods are scheduled one by one.
    pub gang: Option<GangPolicy>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GangPolicy {
    /// The smallest number of pods that must hold a node before any of them is bound.
    pub min_count: i32,
}
