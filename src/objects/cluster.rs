//! Namespaces, priority classes, services, controllers of pods, disruption budgets and workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    DeviceClass, LabelSelector, Labels, ObjectMeta, PreemptionPolicy, ResourceClaim, ResourceSlice, Seconds, is_default,
};

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
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionBudgetSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "is_default")]
    pub min_available: Option<CountOrPercent>,
    #[serde(skip_serializing_if = "is_default")]
    pub max_unavailable: Option<CountOrPercent>,
}

/// A number of pods, or a percentage of them such as `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "IntOrText", into = "IntOrText")]
pub enum CountOrPercent {
    Count(u32),
    Percent(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum IntOrText {
    Int(u32),
    Text(String),
}

impl TryFrom<IntOrText> for CountOrPercent {
    type Error = String;

    fn try_from(value: IntOrText) -> Result<CountOrPercent, String> {
        match value {
            IntOrText::Int(count) => Ok(CountOrPercent::Count(count)),
            IntOrText::Text(text) => {
                let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
                percent.map(CountOrPercent::Percent).ok_or_else(|| format!("`{text}` is no percentage"))
            }
        }
    }
}

impl From<CountOrPercent> for IntOrText {
    fn from(value: CountOrPercent) -> IntOrText {
        match value {
            CountOrPercent::Count(count) => IntOrText::Int(count),
            CountOrPercent::Percent(percent) => IntOrText::Text(format!("{percent}%")),
        }
    }
}

impl CountOrPercent {
    /// The number of pods that this means of `all`. A share of a pod counts as a pod.
    pub fn of(self, all: u64) -> u64 {
        match self {
            CountOrPercent::Count(count) => u64::from(count),
            CountOrPercent::Percent(percent) => (all * u64::from(percent)).div_ceil(100),
        }
    }
}

impl DisruptionBudgetSpec {
    /// How many disruptions the limit allows. `None` without a limit. `expected` is the number of pods that should
    /// exist (`pkg/controller/disruption/disruption.go` of Kubernetes 1.35).
    pub fn allows(&self, healthy: u64, expected: u64) -> Option<u64> {
        let desired = match (self.min_available, self.max_unavailable) {
            (Some(least), _) => least.of(expected),
            (None, Some(most)) => expected.saturating_sub(most.of(expected)),
            (None, None) => return None,
        };
        Some(healthy.saturating_sub(desired))
    }
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

/// A priority that pods name. Each pod states the value itself, so only a scheduler in another process reads the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    pub value: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub global_default: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub preemption_policy: PreemptionPolicy,
}

impl PriorityClass {
    /// The names and values of the classes that every cluster has.
    pub const SYSTEM: [(&str, i32); 2] =
        [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
}

/// The objects of a cluster, besides nodes and pods, on which the placement of pods depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClusterObjects {
    #[serde(skip_serializing_if = "is_default")]
    pub namespaces: Vec<Namespace>,
    #[serde(skip_serializing_if = "is_default")]
    pub priority_classes: Vec<PriorityClass>,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>: a share of a pod is rounded up.
    #[test]
    fn a_budget_allows_what_its_limit_leaves() {
        let spec = |text: &str| serde_json::from_str::<DisruptionBudgetSpec>(text).expect("a spec");
        for (text, healthy, expected, allowed) in [
            (r#"{"minAvailable": 2}"#, 3, 3, Some(1)),
            (r#"{"minAvailable": 2}"#, 2, 3, Some(0)),
            (r#"{"minAvailable": 2}"#, 1, 3, Some(0)),
            (r#"{"minAvailable": "50%"}"#, 7, 7, Some(3)),
            (r#"{"minAvailable": "60%"}"#, 3, 3, Some(1)),
            (r#"{"maxUnavailable": 1}"#, 3, 3, Some(1)),
            (r#"{"maxUnavailable": 1}"#, 2, 3, Some(0)),
            (r#"{"maxUnavailable": "30%"}"#, 10, 10, Some(3)),
            (r#"{"maxUnavailable": "50%"}"#, 7, 7, Some(4)),
            ("{}", 3, 3, None),
        ] {
            let read = spec(text);
            assert_eq!(read.allows(healthy, expected), allowed, "{text} with {healthy} of {expected}");
            assert_eq!(spec(&serde_json::to_string(&read).expect("JSON")), read, "{text}");
        }
    }
}
