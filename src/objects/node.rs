//! Nodes: labels, taints, allocatable resources and images.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ObjectMeta, Quantity, is_default};

/// Amounts of resources, by name.
pub type ResourceList = BTreeMap<Arc<str>, Quantity>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: NodeSpec,
    #[serde(skip_serializing_if = "is_default")]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub taints: Vec<Taint>,
    #[serde(skip_serializing_if = "is_default")]
    pub unschedulable: bool,
}

impl NodeSpec {
    /// Whether the node has a taint that the node lifecycle controller sets for a node that is not ready.
    pub fn is_tainted_as_not_ready(&self) -> bool {
        self.taints.iter().any(Taint::is_of_readiness)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub allocatable: ResourceList,
    #[serde(skip_serializing_if = "is_default")]
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    pub key: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Arc<str>,
    pub effect: Effect,
}

impl Taint {
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

    /// Whether the node lifecycle controller sets and removes the taint.
    pub fn is_of_readiness(&self) -> bool {
        matches!(&*self.key, Taint::NOT_READY | Taint::UNREACHABLE)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// An image that a node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    #[serde(skip_serializing_if = "is_default")]
    pub names: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "is_default")]
    pub size_bytes: i64,
}
