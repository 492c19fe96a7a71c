//! Devices that a driver publishes for pods to claim, as parts of the GPUs of a node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_units::{Bytes, GpuShare};

/// The name of a device: its driver, its pool and its name in the pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceName {
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    pub device: Arc<str>,
}

/// A device of dynamic resource allocation, and the part of a GPU that it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedDevice {
    pub name: DeviceName,
    /// The index of the GPU on its node.
    pub gpu: u16,
    /// A device that is a partition of a GPU, such as one of MIG, is less than the whole.
    pub share: GpuShare,
    pub memory: Bytes,
}
