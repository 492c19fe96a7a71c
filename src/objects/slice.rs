//! Devices as drivers publish them, and classes of devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{NodeSelector, ObjectMeta, Quantity, is_default};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: DeviceClassSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClassSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub selectors: Vec<DeviceSelector>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceSelector {
    pub cel: CelSelector,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CelSelector {
    pub expression: Arc<str>,
}

/// Devices of one pool. A pool can consist of several slices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceSlice {
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    pub spec: SliceSpec,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceSpec {
    pub driver: Arc<str>,
    pub pool: Pool,
    /// The only node that can reach the devices.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub all_nodes: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_selector: Option<NodeSelector>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    pub name: Arc<str>,
    /// Slices of an older generation do not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub generation: i64,
    /// The number of slices of the pool. With fewer, the pool is not used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_slice_count: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Device {
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub attributes: BTreeMap<Arc<str>, Attribute>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub capacity: BTreeMap<Arc<str>, Capacity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    Int(i64),
    Bool(bool),
    String(Arc<str>),
    Version(Arc<str>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capacity {
    pub value: Quantity,
}
