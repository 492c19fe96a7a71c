//! Pods.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::node::{Effect, ResourceList, Taint};
use super::{LabelSelector, Labels, NodeSelector, NodeSelectorTerm, ObjectMeta, Seconds, is_default};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: PodSpec,
    #[serde(skip_serializing_if = "is_default")]
    pub status: PodStatus,
}

impl Pod {
    /// Whether a StatefulSet makes the pod, which therefore keeps its name.
    pub fn is_of_stateful_set(&self) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.controller && &*owner.kind == "StatefulSet")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub containers: Vec<Container>,
    #[serde(skip_serializing_if = "is_default")]
    pub init_containers: Vec<Container>,
    #[serde(skip_serializing_if = "is_default")]
    pub overhead: ResourceList,
    /// Requests of the pod as a whole.
    #[serde(skip_serializing_if = "is_default")]
    pub resources: ResourceRequirements,
    /// The node to which a pod is bound, or the only node that it accepts.
    #[serde(skip_serializing_if = "is_default")]
    pub node_name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "is_default")]
    pub node_selector: Labels,
    #[serde(skip_serializing_if = "is_default")]
    pub affinity: Affinity,
    #[serde(skip_serializing_if = "is_default")]
    pub tolerations: Vec<Toleration>,
    #[serde(skip_serializing_if = "is_default")]
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    #[serde(skip_serializing_if = "is_default")]
    pub priority: Option<i32>,
    /// The class that the priority is from. Only a scheduler in another process reads it.
    #[serde(skip_serializing_if = "is_default")]
    pub priority_class_name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "is_default")]
    pub preemption_policy: PreemptionPolicy,
    #[serde(skip_serializing_if = "is_default")]
    pub scheduling_gates: Vec<SchedulingGate>,
    #[serde(skip_serializing_if = "is_default")]
    pub resource_claims: Vec<PodClaim>,
    #[serde(skip_serializing_if = "is_default")]
    pub workload_ref: Option<WorkloadReference>,
    /// The scheduler that decides about the pod. `None` means the default scheduler.
    #[serde(skip_serializing_if = "is_default")]
    pub scheduler_name: Option<Arc<str>>,
    /// The longest time that the pod has to stop.
    #[serde(skip_serializing_if = "is_default")]
    pub termination_grace_period_seconds: Option<i64>,
}

impl PodSpec {
    /// The name of the scheduler of pods that name none.
    pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

    /// The name of the scheduler that decides about the pod.
    pub fn scheduler(&self) -> &str {
        self.scheduler_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(PodSpec::DEFAULT_SCHEDULER)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub start_time: Option<Seconds>,
    #[serde(skip_serializing_if = "is_default")]
    pub nominated_node_name: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    #[serde(skip_serializing_if = "is_default")]
    pub image: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub resources: ResourceRequirements,
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar, which runs beside all containers after it.
    #[serde(skip_serializing_if = "is_default")]
    pub restart_policy: Option<RestartPolicy>,
}

impl Container {
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    #[serde(skip_serializing_if = "is_default")]
    pub requests: ResourceList,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// 0 if the port is not a port of the node.
    #[serde(skip_serializing_if = "is_default")]
    pub host_port: i32,
    #[serde(rename = "hostIP", skip_serializing_if = "is_default")]
    pub host_ip: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    #[serde(skip_serializing_if = "is_default")]
    pub node_affinity: NodeAffinity,
    #[serde(skip_serializing_if = "is_default")]
    pub pod_affinity: PodAffinity,
    #[serde(skip_serializing_if = "is_default")]
    pub pod_anti_affinity: PodAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "is_default")]
    pub required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "is_default")]
    pub preferred: Vec<PreferredNodes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PreferredNodes {
    pub weight: i32,
    pub preference: NodeSelectorTerm,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "is_default")]
    pub required: Vec<AffinityTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "is_default")]
    pub preferred: Vec<WeightedAffinityTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityTerm {
    #[serde(skip_serializing_if = "is_default")]
    pub label_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "is_default")]
    pub namespaces: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "is_default")]
    pub namespace_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "is_default")]
    pub topology_key: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub match_label_keys: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "is_default")]
    pub mismatch_label_keys: Vec<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedAffinityTerm {
    pub weight: i32,
    pub pod_affinity_term: AffinityTerm,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// An empty key with the operator `Exists` tolerates every key.
    #[serde(skip_serializing_if = "is_default")]
    pub key: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub operator: TolerationOperator,
    #[serde(skip_serializing_if = "is_default")]
    pub value: Arc<str>,
    /// `None` tolerates every effect.
    #[serde(deserialize_with = "effect", skip_serializing_if = "is_default")]
    pub effect: Option<Effect>,
    /// How long a pod stays on a node with a matching taint `NoExecute`. `None` means forever.
    #[serde(rename = "tolerationSeconds", skip_serializing_if = "is_default")]
    pub toleration_seconds: Option<i64>,
}

/// In the API, an empty text also means an absent effect.
fn effect<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Effect>, D::Error> {
    #[derive(Deserialize)]
    enum Stated {
        #[serde(rename = "")]
        Any,
        NoSchedule,
        PreferNoSchedule,
        NoExecute,
    }
    Ok(match Option::<Stated>::deserialize(deserializer)? {
        None | Some(Stated::Any) => None,
        Some(Stated::NoSchedule) => Some(Effect::NoSchedule),
        Some(Stated::PreferNoSchedule) => Some(Effect::PreferNoSchedule),
        Some(Stated::NoExecute) => Some(Effect::NoExecute),
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    #[default]
    #[serde(alias = "")]
    Equal,
    Exists,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
            }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    pub max_skew: i32,
    pub topology_key: Arc<str>,
    pub when_unsatisfiable: WhenUnsatisfiable,
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_selector: Option<LabelSelector>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_domains: Option<i32>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_affinity_policy: Option<InclusionPolicy>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_taints_policy: Option<InclusionPolicy>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_label_keys: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Whether nodes that the pod cannot use are left out of the domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InclusionPolicy {
    Honor,
    Ignore,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PreemptionPolicy {
    #[default]
    PreemptLowerPriority,
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchedulingGate {
    pub name: Arc<str>,
}

/// A claim that the pod uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodClaim {
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_claim_name: Option<Arc<str>>,
    /// The template from which a claim is made for this pod alone. The claim ends with the pod.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_claim_template_name: Option<Arc<str>>,
}

/// The gang to which the pod belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    pub name: Arc<str>,
    pub pod_group: Arc<str>,
}
