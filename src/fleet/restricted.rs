//! Cores that only jobs with GPUs may use, like Slurm's `RestrictedCoresPerGPU` (slurm.conf, version 24.11).
//!
//! A node label gives the number of such cores for each GPU: `restricted_cores_per_gpu: 1`. A task uses the restricted
//! cores of the GPUs that it holds before any other cores. A task that holds a share of a GPU may use the same share of
//! the GPU's restricted cores. No other job uses them, whether the GPU is held or not. So the end of an attempt never
//! takes cores away from others.

use super::claim::NodeClaim;
use super::node::{NodeShape, NodeStatus};
use dryrack_units::{GpuShare, MilliCpu};

/// The name of the node label.
pub const RESTRICTED_CORES_LABEL: &str = "restricted_cores_per_gpu";

impl NodeShape {
    /// The number of restricted cores of each GPU. Zero if the label is missing or is not a number.
    pub fn restricted_cores_per_gpu(&self) -> u32 {
        self.labels.get(RESTRICTED_CORES_LABEL).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The cores that a task without GPUs can use on the empty node.
    pub fn cpu_unrestricted(&self) -> MilliCpu {
        let each = self.restricted_cores_per_gpu();
        self.cpu_capacity().saturating_sub(restricted(each, whole_gpus(self.gpus.len() as u64)))
    }
}

impl NodeStatus {
    /// The free cores that are not restricted.
    pub fn cpu_unrestricted_free(&self, shape: &NodeShape) -> MilliCpu {
        shape.cpu_unrestricted().saturating_sub(self.cpu_taken.saturating_sub(self.cpu_restricted_taken))
    }
}

impl NodeClaim {
    /// The restricted cores that the claim takes on a node with this number for each GPU.
    pub fn restricted_cpu(&self, each: u32) -> MilliCpu {
        let shares = || self.gpus.iter().map(|part| u64::from(part.share.get())).sum();
        if each == 0 { MilliCpu::ZERO } else { self.cpu.min(restricted(each, shares())) }
    }

    /// The cores that the claim takes of those that are not restricted.
    pub fn unrestricted_cpu(&self, each: u32) -> MilliCpu {
        self.cpu.saturating_sub(self.restricted_cpu(each))
    }
}

/// Thousandths of GPUs, as in [`GpuShare`], of this many whole GPUs.
fn whole_gpus(count: u64) -> u64 {
    count.saturating_mul(u64::from(GpuShare::WHOLE.get()))
}

/// The restricted cores of this many thousandths of GPUs. A thousandth of a GPU has as many thousandths of a core as
/// the GPU has cores.
pub fn restricted(each: u32, thousandths: u64) -> MilliCpu {
    MilliCpu::new(thousandths.saturating_mul(u64::from(each)))
}
