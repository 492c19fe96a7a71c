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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::GpuClaim;
    use crate::{GpuShape, NodeState};
    use dryrack_ids::NodeId;
    use dryrack_units::Bytes;

    #[test]
    fn a_claim_takes_the_restricted_cores_of_its_gpus_first() {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); 4];
        let mut shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus);
        assert_eq!((shape.restricted_cores_per_gpu(), shape.cpu_unrestricted()), (0, MilliCpu::from_cores(16)));
        shape.labels.insert(RESTRICTED_CORES_LABEL.into(), "3".into());
        assert_eq!((shape.restricted_cores_per_gpu(), shape.cpu_unrestricted()), (3, MilliCpu::from_cores(4)));
        let part = |index, share| GpuClaim { index, share: GpuShare::new(share), memory: Bytes::ZERO };
        let of = |cores| NodeClaim {
            cpu: MilliCpu::from_cores(cores),
            gpus: [part(0, 1000), part(1, 500)].into_iter().collect(),
            ..NodeClaim::of_nothing(NodeId::new(0))
        };
        // One and a half GPUs restrict four and a half cores.
        let parts = |claim: NodeClaim| (claim.restricted_cpu(3), claim.unrestricted_cpu(3));
        assert_eq!(parts(of(6)), (MilliCpu::new(4500), MilliCpu::new(1500)));
        assert_eq!(parts(of(4)), (MilliCpu::from_cores(4), MilliCpu::ZERO));
        assert_eq!(of(6).restricted_cpu(0), MilliCpu::ZERO);
        // Six cores are taken, of which four and a half are restricted.
        let mut status = NodeStatus::idle(NodeState::Ready, &shape);
        (status.cpu_taken, status.cpu_restricted_taken) = (MilliCpu::from_cores(6), MilliCpu::new(4500));
        assert_eq!(status.cpu_unrestricted_free(&shape), MilliCpu::new(2500));
    }
}
