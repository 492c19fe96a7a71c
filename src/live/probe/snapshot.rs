//! The result of one poll of a source: nodes and their GPUs, with a reading or a reason for each quantity.

use std::collections::BTreeMap;

use super::missing::Missing;
use crate::clock::Stamp;
use dryrack_catalog::{ComputeCapability, CpuArch, Os, Vendor};
use dryrack_fleet::{GpuState, NodeState};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Permille};

/// A quantity in its unit, or the reason why it is unknown.
pub type Reading<T> = Result<T, Missing>;

/// The result of one poll of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The nodes, in the order of the source.
    pub nodes: Vec<NodeSnapshot>,
    /// Remarks about the poll, one sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeSnapshot {
    pub name: String,
    /// When the node was read.
    pub at: Stamp,
    pub state: NodeState,
    pub os: Option<Os>,
    pub arch: Option<CpuArch>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// The available CPU: all CPUs of the machine, or the limit of its cgroup.
    pub cpu: Reading<MilliCpu>,
    /// The part of `cpu` that is in use or promised to others.
    pub cpu_used: Reading<MilliCpu>,
    pub ram: Reading<Bytes>,
    pub ram_used: Reading<Bytes>,
    /// The RAM, and the memory of each GPU, that the source's own scheduler never assigns.
    pub set_aside: (Bytes, Bytes),
    /// The GPUs, in the order of their indices.
    pub gpus: Vec<GpuSnapshot>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GpuSnapshot {
    /// The index of the GPU on its node.
    pub index: u32,
    /// An identifier that never changes, such as a UUID, if the source has one.
    pub uuid: Option<String>,
    /// When the GPU was read.
    pub at: Stamp,
    pub vendor: Option<Vendor>,
    /// The name that the driver or the server uses.
    pub name: Reading<String>,
    pub memory: Reading<Bytes>,
    pub memory_used: Reading<Bytes>,
    pub utilization: Reading<Permille>,
    /// The share that the source's own scheduler has assigned.
    pub held: GpuShare,
    /// The pod or job that holds the GPU, if the source says so.
    pub holder: Option<String>,
    /// Whether its memory is a part of the node's RAM.
    pub unified: bool,
    pub compute_capability: Option<ComputeCapability>,
    pub state: GpuState,
}

impl NodeSnapshot {
    /// A node with a name and no readings yet.
    pub fn named(name: &str, at: Stamp, source: &str) -> NodeSnapshot {
        NodeSnapshot {
            name: name.to_string(),
            at,
            state: NodeState::Ready,
            os: None,
            arch: None,
            driver: None,
            labels: BTreeMap::new(),
            cpu: Err(Missing::unsaid(source)),
            cpu_used: Err(Missing::unsaid(source)),
            ram: Err(Missing::unsaid(source)),
            ram_used: Err(Missing::unsaid(source)),
            set_aside: (Bytes::ZERO, Bytes::ZERO),
            gpus: Vec::new(),
        }
    }
}

impl GpuSnapshot {
    /// A GPU with an index and no readings yet.
    pub fn numbered(index: u32, at: Stamp, source: &str) -> GpuSnapshot {
        GpuSnapshot {
            index,
            uuid: None,
            at,
            vendor: None,
            name: Err(Missing::unsaid(source)),
            memory: Err(Missing::unsaid(source)),
            memory_used: Err(Missing::unsaid(source)),
            utilization: Err(Missing::unsaid(source)),
            held: GpuShare::ZERO,
            holder: None,
            unified: false,
            compute_capability: None,
            state: GpuState::Ready,
        }
    }

    /// The key that identifies the GPU in later snapshots: its UUID, or else its index.
    pub fn key(&self) -> String {
        self.uuid.clone().unwrap_or_else(|| self.index.to_string())
    }
}
