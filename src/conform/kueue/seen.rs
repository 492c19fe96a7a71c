//! The data of a step in a recording of Kueue, in the form of the file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// For each queue or cohort, the amount of each resource of each flavor.
pub type Amounts = BTreeMap<String, BTreeMap<String, i64>>;

#[derive(Clone, Debug, Deserialize)]
pub struct StepSeen {
    pub t: i64,
    pub ops: Vec<OpSeen>,
    #[serde(default)]
    pub released: Vec<String>,
    pub cycles: Vec<CycleSeen>,
    pub stop: String,
    pub end: EndSeen,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OpSeen {
    pub op: String,
    pub applied: bool,
    #[serde(default)]
    pub wl: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CycleSeen {
    pub n: u64,
    pub t: i64,
    pub heads: Vec<HeadSeen>,
    #[serde(default)]
    pub preempted: Vec<TargetSeen>,
    #[serde(default)]
    pub released: Vec<String>,
    #[serde(default)]
    pub usage: Option<Amounts>,
    #[serde(default)]
    pub borrowed: Option<Amounts>,
    #[serde(default)]
    pub share: Option<BTreeMap<String, String>>,
}

/// The usage after a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub usage: Amounts,
    pub borrowed: Amounts,
    pub share: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct HeadSeen {
    pub wl: String,
    pub cq: String,
    pub result: String,
    #[serde(flatten)]
    pub assignment: AssignmentSeen,
    /// The first assignment of the cycle, if it differs from the last one.
    #[serde(default)]
    pub nominated: Option<AssignmentSeen>,
    #[serde(default)]
    pub requeued: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct PodSetSeen {
    pub ps: String,
    pub count: u32,
    #[serde(default)]
    pub flavors: BTreeMap<String, String>,
    /// The mode of each resource, if one differs from the mode of the whole.
    #[serde(default)]
    pub modes: BTreeMap<String, String>,
    #[serde(default)]
    pub topo: Vec<DomainSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct DomainSeen {
    pub v: Vec<String>,
    pub n: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct TargetSeen {
    pub wl: String,
    pub cq: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct AssignmentSeen {
    pub mode: String,
    pub borrow: u32,
    pub podsets: Vec<PodSetSeen>,
    #[serde(default)]
    pub targets: Vec<TargetSeen>,
    #[serde(default)]
    pub msg: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct EndSeen {
    pub admitted: Vec<String>,
    pub active: BTreeMap<String, Vec<String>>,
    pub inadmissible: BTreeMap<String, Vec<String>>,
    pub usage: Amounts,
    pub borrowed: Amounts,
    pub share: BTreeMap<String, String>,
    pub status: BTreeMap<String, String>,
}
