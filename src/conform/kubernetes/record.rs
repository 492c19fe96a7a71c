//! The form of the records.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use dryrack_kubernetes::object::{
    DeviceClass, DisruptionBudget, Namespace, Node, Pod, ResourceClaim, ResourceSlice, Service, Workload,
};

#[derive(Deserialize)]
pub struct Record {
    pub id: String,
    pub class: String,
    pub world: World,
    pub expect: Expected,
}

/// A cluster, and the pods to schedule.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct World {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "class")]
    _class: IgnoredAny,
    #[serde(rename = "profiles")]
    _profiles: IgnoredAny,
    /// When a pod that preempted others is tried again. It is not read, because the steps show it.
    #[serde(rename = "retry")]
    _retry: IgnoredAny,
    #[serde(default)]
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub bound_pods: Vec<Pod>,
    #[serde(default)]
    pub pods: Vec<Pod>,
    #[serde(default)]
    pub namespaces: Vec<Namespace>,
    #[serde(default)]
    pub services: Vec<Service>,
    #[serde(default)]
    pub pod_disruption_budgets: Vec<DisruptionBudget>,
    #[serde(default)]
    pub device_classes: Vec<DeviceClass>,
    #[serde(default)]
    pub resource_slices: Vec<ResourceSlice>,
    #[serde(default)]
    pub resource_claims: Vec<ResourceClaim>,
    #[serde(default)]
    pub workloads: Vec<Workload>,
}

type Name = Arc<str>;

/// One attempt, recorded or computed. Empty fields are left out of a record.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Step {
    pub pod: String,
    pub attempt: u32,
    pub outcome: String,
    pub gate: Option<Refused>,
    pub prefilter: Option<Refused>,
    pub prefilter_nodes: Vec<Name>,
    pub nominated: Option<Name>,
    pub via_nominated: bool,
    pub rejected: BTreeMap<Name, Refused>,
    pub feasible: Vec<Name>,
    pub score_plugins: Vec<String>,
    pub scores: BTreeMap<Name, Vec<i64>>,
    pub total: BTreeMap<Name, i64>,
    pub tied: Vec<Name>,
    pub node: Option<Name>,
    pub preemption: Option<Preempting>,
    pub message: String,
    pub allocations: BTreeMap<Name, Vec<String>>,
    pub released: Vec<Name>,
    pub reserve: Option<Refused>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Refused {
    /// Empty if no plugin refused.
    pub plugin: String,
    pub code: String,
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Preempting {
    pub candidates: BTreeMap<Name, Candidate>,
    pub failed: BTreeMap<Name, Refused>,
    pub tied: Vec<Name>,
    pub node: Option<Name>,
    pub victims: Vec<Name>,
    pub cleared_nominations: Vec<Name>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Candidate {
    pub victims: Vec<Name>,
    pub pdb_violations: usize,
}

/// Steps by profile.
type Expected = BTreeMap<String, Vec<Step>>;
