//! CPU shares that stand in for accelerators, if a machine has none or is not to use them.

use std::collections::BTreeMap;

use dryrack_ids::{GpuId, NodeId};
use dryrack_units::MilliCpu;

/// One accelerator of a node: this much CPU of these cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Indexes into the cores that dryrack itself may use, lowest first; its processes are pinned to them. Never
    /// empty.
    pub cores: Vec<u16>,
    /// The CPU that counts as 100 % utilization: at most that of the cores, never zero.
    pub cpu: MilliCpu,
}

/// The CPU shares of each node whose accelerators they are, one for each GPU that the node declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares(BTreeMap<NodeId, Vec<Share>>);

impl Shares {
    pub fn set(&mut self, node: NodeId, shares: Vec<Share>) {
        self.0.insert(node, shares);
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }

    pub fn get(&self, gpu: GpuId) -> Option<&Share> {
        self.0.get(&gpu.node)?.get(usize::from(gpu.index))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Share> {
        self.0.values().flatten()
    }

    /// The highest core that any share names.
    pub fn last_core(&self) -> Option<u16> {
        self.iter().flat_map(|share| share.cores.iter().copied()).max()
    }
}
