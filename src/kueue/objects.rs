//! The objects of Kueue's API that decide about quota, with the fields that this room reads.
//!
//! Field names and defaults are those of `kueue.x-k8s.io/v1beta2`. If a field has a different name in `v1beta1`, that
//! name is read too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use dryrack_kubernetes::object::Quantity;
pub use dryrack_kubernetes::object::{Effect, NodeSelectorTerm, Taint, Toleration, TolerationOperator};

/// The name of an object, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<S> {
    pub name: Arc<str>,
    pub spec: S,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueSpec {
    #[serde(default, rename = "cohortName", alias = "cohort")]
    pub cohort: Option<Arc<str>>,
    #[serde(default)]
    pub queueing_strategy: QueueingStrategy,
    #[serde(default)]
    pub stop_policy: StopPolicy,
    #[serde(default)]
    pub fair_sharing: FairSharingWeight,
    #[serde(default)]
    pub preemption: PreemptionSpec,
    #[serde(default)]
    pub flavor_fungibility: FungibilitySpec,
    #[serde(default)]
    pub resource_groups: Vec<ResourceGroup>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CohortSpec {
    #[serde(default, rename = "parentName", alias = "parent")]
    pub parent: Option<Arc<str>>,
    #[serde(default)]
    pub fair_sharing: FairSharingWeight,
    #[serde(default)]
    pub resource_groups: Vec<ResourceGroup>,
}

/// The weight in fair sharing. Absent means 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FairSharingWeight {
    #[serde(default)]
    pub weight: Option<Quantity>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum QueueingStrategy {
    /// The first workload blocks all later ones.
    StrictFIFO,
    /// If a workload cannot be admitted, later ones may be admitted before it.
    #[default]
    BestEffortFIFO,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum StopPolicy {
    #[default]
    None,
    /// No new admissions.
    Hold,
    /// No new admissions, and admitted workloads release their quota.
    HoldAndDrain,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionSpec {
    #[serde(default)]
    pub within_cluster_queue: WithinClusterQueue,
    #[serde(default)]
    pub reclaim_within_cohort: ReclaimWithinCohort,
    #[serde(default)]
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum WithinClusterQueue {
    #[default]
    Never,
    LowerPriority,
    LowerOrNewerEqualPriority,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ReclaimWithinCohort {
    #[default]
    Never,
    LowerPriority,
    LowerOrNewerEqualPriority,
    Any,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BorrowWithinCohort {
    #[serde(default)]
    pub policy: BorrowPolicy,
    #[serde(default)]
    pub max_priority_threshold: Option<i32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum BorrowPolicy {
    #[default]
    Never,
    LowerPriority,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FungibilitySpec {
    #[serde(default = "FlavorSearch::stop")]
    pub when_can_borrow: FlavorSearch,
    #[serde(default = "FlavorSearch::next")]
    pub when_can_preempt: FlavorSearch,
    #[serde(default)]
    pub preference: FungibilityPreference,
}

impl Default for FungibilitySpec {
    fn default() -> FungibilitySpec {
        FungibilitySpec {
            when_can_borrow: FlavorSearch::MayStopSearch,
            when_can_preempt: FlavorSearch::TryNextFlavor,
            preference: FungibilityPreference::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum FlavorSearch {
    #[serde(alias = "Borrow", alias = "Preempt")]
    MayStopSearch,
    TryNextFlavor,
}

impl FlavorSearch {
    fn stop() -> FlavorSearch {
        FlavorSearch::MayStopSearch
    }

    fn next() -> FlavorSearch {
        FlavorSearch::TryNextFlavor
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FungibilityPreference {
    #[default]
    BorrowingOverPreemption,
    PreemptionOverBorrowing,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGroup {
    pub covered_resources: Vec<Arc<str>>,
    pub flavors: Vec<FlavorQuotas>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FlavorQuotas {
    pub name: Arc<str>,
    pub resources: Vec<ResourceQuota>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    pub name: Arc<str>,
    pub nominal_quota: Quantity,
    #[serde(default)]
    pub borrowing_limit: Option<Quantity>,
    #[serde(default)]
    pub lending_limit: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFlavorSpec {
    #[serde(default)]
    pub node_labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    pub node_taints: Vec<Taint>,
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    #[serde(default)]
    pub topology_name: Option<Arc<str>>,
}

/// A topology: the keys of node labels, from the widest domain to the narrowest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TopologySpec {
    pub levels: Vec<TopologyLevel>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    pub node_label: Arc<str>,
}

/// A node, as topology-aware placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyNode {
    pub name: Arc<str>,
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    pub taints: Vec<Taint>,
    /// The resources that are free for workloads: allocatable resources minus those of other pods.
    pub capacity: BTreeMap<Arc<str>, Quantity>,
}

/// A workload that asks for quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    pub name: Arc<str>,
    /// Breaks ties, in the order of strings.
    pub uid: Arc<str>,
    /// The cluster queue.
    pub queue: Arc<str>,
    pub priority: i32,
    /// When it was created, in seconds.
    pub created: i64,
    pub pod_sets: Vec<PodSetSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetSpec {
    pub name: Arc<str>,
    pub count: u32,
    /// The smallest count with which the workload may be admitted.
    pub min_count: Option<u32>,
    /// The requests of one pod.
    pub requests: BTreeMap<Arc<str>, Quantity>,
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// The node affinity that is required: one of these terms must match. Empty if nothing is required.
    pub affinity: Vec<NodeSelectorTerm>,
    pub tolerations: Vec<Toleration>,
    pub topology: Option<TopologyRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TopologyRequest {
    /// One domain of this level must hold all pods.
    Required(Arc<str>),
    /// One domain of this level should hold all pods if possible.
    Preferred(Arc<str>),
    Unconstrained,
}
