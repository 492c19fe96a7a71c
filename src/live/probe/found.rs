//! What a look finds: nodes and their GPUs, and for each quantity a reading or the reason why there is none.

use std::collections::BTreeMap;

use super::missing::Missing;
use crate::clock::Stamp;
use dryrack_catalog::{ComputeCapability, CpuArch, Os, Vendor};
use dryrack_fleet::{GpuState, NodeState};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Permille};

/// A quantity in its unit, or why it is not known.
pub type Reading<T> = Result<T, Missing>;

/// One look at a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// In the order of the source.
    pub nodes: Vec<NodeFound>,
    /// What the source said that does not fit in a reading, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeFound {
    pub name: String,
    /// When it was read.
    pub at: Stamp,
    pub state: NodeState,
    pub os: Option<Os>,
    pub arch: Option<CpuArch>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// All that is available here: what the machine has, or what its cgroup may take.
    pub cpu: Reading<MilliCpu>,
    /// The part of it that is in use or promised to others.
    pub cpu_used: Reading<MilliCpu>,
    pub ram: Reading<Bytes>,
    pub ram_used: Reading<Bytes>,
    /// What the source's own scheduler gives to nobody: of the RAM, and of the memory of each GPU.
    pub set_aside: (Bytes, Bytes),
    /// By index.
    pub gpus: Vec<GpuFound>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GpuFound {
    /// The number by which its node counts it.
    pub index: u32,
    /// An identifier that never changes, if the source has one.
    pub uuid: Option<String>,
    /// When it was read.
    pub at: Stamp,
    pub vendor: Option<Vendor>,
    /// As the driver or the server calls it.
    pub name: Reading<String>,
    pub memory: Reading<Bytes>,
    pub memory_used: Reading<Bytes>,
    pub utilization: Reading<Permille>,
    /// The share that the source's own scheduler has given to somebody.
    pub held: GpuShare,
    /// Who has it, if the source says so: a pod, a job.
    pub holder: Option<String>,
    /// Whether its memory is a part of the node's RAM.
    pub unified: bool,
    pub compute_capability: Option<ComputeCapability>,
    pub state: GpuState,
}

impl NodeFound {
    /// A node of which only the name is known yet.
    pub fn named(name: &str, at: Stamp, source: &str) -> NodeFound {
        NodeFound {
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

impl GpuFound {
    /// A GPU of which only the index is known yet.
    pub fn numbered(index: u32, at: Stamp, source: &str) -> GpuFound {
        GpuFound {
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

    /// What stays the same when indices change: its UUID, or else its index.
    pub fn key(&self) -> String {
        self.uuid.clone().unwrap_or_else(|| self.index.to_string())
    }
}
