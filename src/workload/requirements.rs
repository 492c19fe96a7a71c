//! The resources that a job requires of one instance of a fleet, as inclusive ranges in dstack's terms.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_catalog::{ComputeCapability, CpuArch, Vendor};
use dryrack_units::{Bytes, Money};

/// An inclusive range. A missing end means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds<T> {
    pub min: Option<T>,
    pub max: Option<T>,
}

impl<T: Ord + Copy> Bounds<T> {
    pub const fn from(min: T) -> Bounds<T> {
        Bounds { min: Some(min), max: None }
    }

    pub const fn exactly(value: T) -> Bounds<T> {
        Bounds { min: Some(value), max: Some(value) }
    }

    pub fn contains(&self, value: T) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }
}

/// The requirements of each node of a job. All bounds are inclusive. A slice of a host with more than an upper bound
/// does not match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// The number of whole cores.
    pub cpu: Bounds<u64>,
    /// The architecture; x86 if absent.
    pub arch: Option<CpuArch>,
    pub memory: Bounds<Bytes>,
    pub disk: Option<Bounds<Bytes>>,
    /// The GPUs. `None` if GPUs do not matter.
    pub gpu: Option<GpuRequirements>,
    /// The maximum price of the whole host for each hour.
    pub max_price: Option<Money>,
    pub spot: SpotPolicy,
    /// The acceptable providers. Any provider is acceptable if the list is empty.
    pub backends: Vec<Arc<str>>,
    pub regions: Vec<Arc<str>>,
    /// The only fleets that may be used. Any fleet may be used if the list is empty.
    pub fleets: Vec<Arc<str>>,
    pub creation: CreationPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuRequirements {
    pub vendor: Option<Vendor>,
    /// The names of acceptable GPUs. Case is ignored. Any GPU is acceptable if the list is empty.
    pub names: Vec<Arc<str>>,
    pub count: Bounds<u32>,
    /// The memory of each GPU.
    pub memory: Option<Bounds<Bytes>>,
    /// The memory of all GPUs together.
    pub total_memory: Option<Bounds<Bytes>>,
    pub compute_capability: Option<ComputeCapability>,
}

/// Which instances a job may use: spot, on-demand or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpotPolicy {
    Spot,
    OnDemand,
    /// Both kinds.
    #[default]
    Auto,
}

/// Whether new instances may be created for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreationPolicy {
    Reuse,
    #[default]
    ReuseOrCreate,
}

impl Default for GpuRequirements {
    /// Any number of GPUs of any kind.
    fn default() -> GpuRequirements {
        GpuRequirements {
            vendor: None,
            names: Vec::new(),
            count: Bounds::from(0),
            memory: None,
            total_memory: None,
            compute_capability: None,
        }
    }
}

impl Default for Requirements {
    /// dstack's defaults (0.19.9 to 0.22.5): at least two cores, at least 8 GB of memory, and at least 100 GB of disk.
    fn default() -> Requirements {
        Requirements {
            cpu: Bounds::from(2),
            arch: None,
            memory: Bounds::from(Bytes::from_gib(8)),
            disk: Some(Bounds::from(Bytes::from_gib(100))),
            gpu: Some(GpuRequirements::default()),
            max_price: None,
            spot: SpotPolicy::default(),
            backends: Vec::new(),
            regions: Vec::new(),
            fleets: Vec::new(),
            creation: CreationPolicy::default(),
        }
    }
}
