//! Claims of devices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DeviceSelector, NodeSelector, ObjectMeta, is_default};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "is_default")]
    pub spec: ClaimSpec,
    #[serde(skip_serializing_if = "is_default")]
    pub status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    #[serde(skip_serializing_if = "is_default")]
    pub devices: ClaimDevices,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimDevices {
    #[serde(skip_serializing_if = "is_default")]
    pub requests: Vec<DeviceRequest>,
    #[serde(skip_serializing_if = "is_default")]
    pub constraints: Vec<Constraint>,
}

/// The requested devices: exactly these, or the first available alternative.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRequest {
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub exactly: Option<ExactRequest>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_available: Vec<ExactRequest>,
}

/// A request for devices of one class: an exact one, or an alternative.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExactRequest {
    /// The name of an alternative. An exact request has that of its [`DeviceRequest`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Arc<str>>,
    pub device_class_name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub selectors: Vec<DeviceSelector>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub allocation_mode: AllocationMode,
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: Option<i64>,
    /// Access to devices that are in use by others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub admin_access: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllocationMode {
    #[default]
    ExactCount,
    /// All devices that match. At least one device must match.
    All,
}

/// What the devices of some requests must have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// The names of requests, or of alternatives as `request/alternative`. An empty list means all requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: Vec<Arc<str>>,
    /// The attribute in which they must agree. `None` for a constraint of another kind, which is not followed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_attribute: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    #[serde(skip_serializing_if = "is_default")]
    pub allocation: Option<Allocation>,
    #[serde(skip_serializing_if = "is_default")]
    pub reserved_for: Vec<Consumer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    #[serde(skip_serializing_if = "is_default")]
    pub devices: AllocatedDevices,
    /// The nodes that can reach the devices. `None` means all nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub node_selector: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    #[serde(skip_serializing_if = "is_default")]
    pub results: Vec<DeviceResult>,
}

/// A device that is allocated for a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceResult {
    /// The request, or `request/alternative`.
    pub request: Arc<str>,
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    pub device: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub admin_access: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Consumer {
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub uid: Arc<str>,
}
