//! Claims of devices.

use std::sync::Arc;

use serde::Deserialize;

use super::{DeviceSelector, NodeSelector, ObjectMeta};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    pub metadata: ObjectMeta,
    pub spec: ClaimSpec,
    pub status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    pub devices: ClaimDevices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimDevices {
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<Constraint>,
}

/// The requested devices: exactly these, or the first available alternative.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRequest {
    pub name: Arc<str>,
    #[serde(default)]
    pub exactly: Option<ExactRequest>,
    #[serde(default)]
    pub first_available: Vec<SubRequest>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExactRequest {
    pub device_class_name: Arc<str>,
    #[serde(default)]
    pub selectors: Vec<DeviceSelector>,
    #[serde(default)]
    pub allocation_mode: AllocationMode,
    #[serde(default)]
    pub count: Option<i64>,
    /// Access to devices that are in use by others.
    #[serde(default)]
    pub admin_access: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SubRequest {
    pub name: Arc<str>,
    #[serde(flatten)]
    pub request: ExactRequest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum AllocationMode {
    #[default]
    ExactCount,
    /// All devices that match. At least one device must match.
    All,
}

/// The devices of these requests must agree in an attribute.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// The names of requests, or of alternatives as `request/alternative`. An empty list means all requests.
    #[serde(default)]
    pub requests: Vec<Arc<str>>,
    pub match_attribute: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub allocation: Option<Allocation>,
    pub reserved_for: Vec<Consumer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    pub devices: AllocatedDevices,
    /// The nodes that can reach the devices. `None` means all nodes.
    pub node_selector: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    pub results: Vec<DeviceResult>,
}

/// A device that is allocated for a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceResult {
    /// The request, or `request/alternative`.
    pub request: Arc<str>,
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    pub device: Arc<str>,
    #[serde(default)]
    pub admin_access: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Consumer {
    pub name: Arc<str>,
    #[serde(default)]
    pub uid: Arc<str>,
}
