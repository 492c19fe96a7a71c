//! Nodes: labels, taints, allocatable resources and images.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{ObjectMeta, Quantity};

/// Amounts of resources, by name.
pub type ResourceList = BTreeMap<Arc<str>, Quantity>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub allocatable: ResourceList,
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Taint {
    pub key: Arc<str>,
    #[serde(default)]
    pub value: Arc<str>,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// An image that a node holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub names: Vec<Arc<str>>,
    pub size_bytes: i64,
}
