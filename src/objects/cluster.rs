//! Namespaces, services, controllers of pods, disruption budgets and workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DeviceClass, LabelSelector, Labels, ObjectMeta, ResourceClaim, ResourceSlice, Seconds, is_default};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// `None` selects no pod.
    #[serde(skip_serializing_if = "is_default")]
    pub selector: Option<Labels>,
}

/// A ReplicaSet or a StatefulSet, with the selector of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodController {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: PodControllerSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodControllerSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub selector: Option<LabelSelector>,
}

/// A ReplicationController selects its pods by plain labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicationController {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: ReplicationControllerSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicationControllerSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub selector: Labels,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DisruptionBudget {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: DisruptionBudgetSpec,
    #[serde(skip_serializing_if = "is_default")]
    pub status: DisruptionBudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DisruptionBudgetSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionBudgetStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub disruptions_allowed: i32,
    /// The names of pods that are already evicted. `disruptions_allowed` takes them into account.
    #[serde(skip_serializing_if = "is_default")]
    pub disrupted_pods: BTreeMap<Arc<str>, Seconds>,
}

/// The objects of a cluster, besides nodes and pods, on which the placement of pods depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClusterObjects {
    #[serde(skip_serializing_if = "is_default")]
    pub namespaces: Vec<Namespace>,
    #[serde(skip_serializing_if = "is_default")]
    pub services: Vec<Service>,
    #[serde(skip_serializing_if = "is_default")]
    pub replica_sets: Vec<PodController>,
    #[serde(skip_serializing_if = "is_default")]
    pub stateful_sets: Vec<PodController>,
    #[serde(skip_serializing_if = "is_default")]
    pub replication_controllers: Vec<ReplicationController>,
    #[serde(skip_serializing_if = "is_default")]
    pub pod_disruption_budgets: Vec<DisruptionBudget>,
    #[serde(skip_serializing_if = "is_default")]
    pub workloads: Vec<Workload>,
    #[serde(skip_serializing_if = "is_default")]
    pub device_classes: Vec<DeviceClass>,
    #[serde(skip_serializing_if = "is_default")]
    pub resource_slices: Vec<ResourceSlice>,
    #[serde(skip_serializing_if = "is_default")]
    pub resource_claims: Vec<ResourceClaim>,
}

/// A workload: groups of pods that are scheduled by a common policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: WorkloadSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub pod_groups: Vec<PodGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodGroup {
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: PodGroupPolicy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodGroupPolicy {
    /// `None` means that the pods are scheduled one by one.
    #[serde(skip_serializing_if = "is_default")]
    pub gang: Option<GangPolicy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GangPolicy {
    /// The smallest number of pods that must hold a node before any of them is bound.
    pub min_count: i32,
}
