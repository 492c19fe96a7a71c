//! CPU shares that stand in for accelerators, for a machine that has none or should not use them.

use std::collections::BTreeMap;

use dryrack_ids::{GpuId, NodeId};
use dryrack_units::MilliCpu;

/// One stand-in accelerator of a node: an amount of CPU on certain cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandInGpu {
    /// Indexes into the list of cores that dryrack itself may use, in ascending order. Processes that hold the share
    /// are pinned to these cores. Never empty.
    pub cores: Vec<u16>,
    /// The CPU use that counts as 100 % utilization. It is more than zero and at most all of the cores.
    pub cpu: MilliCpu,
}

/// The CPU shares of each node that uses them: one for each GPU that the node declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares(BTreeMap<NodeId, Vec<StandInGpu>>);

impl Shares {
    pub fn set(&mut self, node: NodeId, shares: Vec<StandInGpu>) {
        self.0.insert(node, shares);
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }

    pub fn get(&self, gpu: GpuId) -> Option<&StandInGpu> {
        self.0.get(&gpu.node)?.get(usize::from(gpu.index))
    }

    pub fn iter(&self) -> impl Iterator<Item = &StandInGpu> {
        self.0.values().flatten()
    }

    /// The highest core index in any share.
    pub fn last_core(&self) -> Option<u16> {
        self.iter().flat_map(|share| share.cores.iter().copied()).max()
    }
}
