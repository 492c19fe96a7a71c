//! What a job requires of one node of a fleet: inclusive ranges, as dstack states resources.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_catalog::{ComputeCapability, CpuArch, Vendor};
use dryrack_units::{Bytes, Money};

/// An inclusive range; a missing end means no limit.
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

/// What each node of a job must have. All bounds are inclusive; a slice of a host that exceeds an upper bound does
/// not match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Whole cores.
    pub cpu: Bounds<u64>,
    pub arch: Option<CpuArch>,
    pub memory: Bounds<Bytes>,
    pub disk: Option<Bounds<Bytes>>,
    /// `None`: GPUs do not matter.
    pub gpu: Option<GpuRequirements>,
    /// Per hour, for the whole host.
    pub max_price: Option<Money>,
    pub spot: SpotPolicy,
    /// Any if empty; the same holds for the fields below.
    pub backends: Vec<Arc<str>>,
    pub regions: Vec<Arc<str>>,
    /// The only fleets that may be used.
    pub fleets: Vec<Arc<str>>,
    pub creation: CreationPolicy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuRequirements {
    pub vendor: Option<Vendor>,
    /// Any if empty; case is ignored.
    pub names: Vec<Arc<str>>,
    pub count: Bounds<u32>,
    /// Memory of each GPU.
    pub memory: Option<Bounds<Bytes>>,
    /// Memory of all GPUs together.
    pub total_memory: Option<Bounds<Bytes>>,
    pub compute_capability: Option<ComputeCapability>,
}

/// Which instances a job may use or have created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpotPolicy {
    Spot,
    OnDemand,
    /// Either.
    #[default]
    Auto,
}

/// Whether a job may have instances created for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreationPolicy {
    Reuse,
    #[default]
    ReuseOrCreate,
}

impl Default for GpuRequirements {
    /// Any number of any GPUs.
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
    /// dstack's defaults (0.19.9 to 0.22.5): at least two cores, 8 GB and a disk of 100 GB.
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
