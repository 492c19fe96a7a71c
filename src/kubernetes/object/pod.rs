//! Pods.

use std::sync::Arc;

use serde::Deserialize;

use super::node::{Effect, ResourceList, Taint};
use super::{LabelSelector, Labels, NodeSelector, NodeSelectorTerm, ObjectMeta, Seconds};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub overhead: ResourceList,
    /// Requests of the pod as a whole.
    pub resources: ResourceRequirements,
    /// The node to which a pod is bound, or the only node that it accepts.
    pub node_name: Option<Arc<str>>,
    pub node_selector: Labels,
    pub affinity: Affinity,
    pub tolerations: Vec<Toleration>,
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    pub priority: Option<i32>,
    pub preemption_policy: PreemptionPolicy,
    pub scheduling_gates: Vec<SchedulingGate>,
    pub resource_claims: Vec<PodClaim>,
    pub workload_ref: Option<WorkloadReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub start_time: Option<Seconds>,
    pub nominated_node_name: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub image: Arc<str>,
    pub resources: ResourceRequirements,
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar, which runs beside all containers after it.
    pub restart_policy: Option<RestartPolicy>,
}

impl Container {
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    pub requests: ResourceList,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// 0 if the port is not a port of the node.
    pub host_port: i32,
    #[serde(rename = "hostIP")]
    pub host_ip: Arc<str>,
    pub protocol: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub node_affinity: NodeAffinity,
    pub pod_affinity: PodAffinity,
    pub pod_anti_affinity: PodAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<PreferredNodes>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PreferredNodes {
    pub weight: i32,
    pub preference: NodeSelectorTerm,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<AffinityTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<WeightedAffinityTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityTerm {
    pub label_selector: Option<LabelSelector>,
    pub namespaces: Vec<Arc<str>>,
    pub namespace_selector: Option<LabelSelector>,
    pub topology_key: Arc<str>,
    pub match_label_keys: Vec<Arc<str>>,
    pub mismatch_label_keys: Vec<Arc<str>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedAffinityTerm {
    pub weight: i32,
    pub pod_affinity_term: AffinityTerm,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// An empty key with the operator `Exists` tolerates every key.
    pub key: Arc<str>,
    pub operator: TolerationOperator,
    pub value: Arc<str>,
    /// `None` tolerates every effect.
    #[serde(deserialize_with = "effect")]
    pub effect: Option<Effect>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    pub max_skew: i32,
    pub topology_key: Arc<str>,
    pub when_unsatisfiable: WhenUnsatisfiable,
    #[serde(default)]
    pub label_selector: Option<LabelSelector>,
    #[serde(default)]
    pub min_domains: Option<i32>,
    #[serde(default)]
    pub node_affinity_policy: Option<InclusionPolicy>,
    #[serde(default)]
    pub node_taints_policy: Option<InclusionPolicy>,
    #[serde(default)]
    pub match_label_keys: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Whether nodes that the pod cannot use are left out of the domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum InclusionPolicy {
    Honor,
    Ignore,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PreemptionPolicy {
    #[default]
    PreemptLowerPriority,
    Never,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SchedulingGate {
    pub name: Arc<str>,
}

/// A claim that the pod uses.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodClaim {
    pub name: Arc<str>,
    #[serde(default)]
    pub resource_claim_name: Option<Arc<str>>,
}

/// The gang to which the pod belongs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    pub name: Arc<str>,
    pub pod_group: Arc<str>,
}
