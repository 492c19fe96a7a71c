//! A node: its shape, which never changes, and its status, which does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::blocks::BlockSet;
use super::instance::Instance;
use super::ledger::{self, NodeClaim};
use dryrack_catalog::{ComputeCapability, CpuArch, Os, Vendor};
use dryrack_units::{Bytes, GpuShare, MilliCpu, MilliWatts, Money};

/// A node as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub name: Arc<str>,
    pub shape: Arc<NodeShape>,
}

/// Everything fixed about a node except its name: nodes of one shape differ only in their status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeShape {
    /// The catalog's machine, if it is one.
    pub machine: Option<Arc<str>>,
    pub os: Os,
    pub arch: CpuArch,
    /// The version of the GPU driver.
    pub driver: Option<Arc<str>>,
    /// The version of the vendor's runtime that the driver supports: CUDA, ROCm, CANN.
    #[serde(default)]
    pub runtime: Option<Arc<str>>,
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub reserved: Reserved,
    pub gpus: Vec<GpuShape>,
    /// Price per hour, if the user gave one.
    pub price_per_hour: Option<Money>,
    /// Its power draw, if the user gave one.
    #[serde(default)]
    pub power: Option<Power>,
    pub rack: Option<Arc<str>>,
    pub switch: Option<Arc<str>>,
    /// What makes it an instance of a fleet, if it is one.
    #[serde(default)]
    pub instance: Option<Arc<Instance>>,
}

/// The power draw of a machine. Between the two values it is linear in the utilization of its GPUs (for a machine
/// without GPUs, in the share of its CPU that is taken), as Fan, Weber and Barroso found for whole servers (*Power
/// Provisioning for a Warehouse-sized Computer*, ISCA 2007).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// When nothing runs there.
    pub idle: MilliWatts,
    /// When all of it is used.
    pub busy: MilliWatts,
}

/// Resources that the system reserves for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    pub cpu: MilliCpu,
    pub ram: Bytes,
    /// On each GPU.
    pub gpu_memory: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuShape {
    /// The model's name in the catalog, or the scenario's own.
    pub model: Arc<str>,
    pub vendor: Option<Vendor>,
    pub memory: Bytes,
    /// Whether the memory is part of the node's RAM.
    pub unified: bool,
    /// If known.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// Such as Hopper or gfx1101, if known.
    #[serde(default)]
    pub architecture: Option<Arc<str>>,
}

impl GpuShape {
    /// A model of which only the name and the memory are known.
    pub fn of(model: &str, memory: Bytes) -> GpuShape {
        GpuShape {
            model: Arc::from(model),
            vendor: None,
            memory,
            unified: false,
            compute_capability: None,
            architecture: None,
        }
    }
}

/// A node's state as the control plane knows it.
///
/// ```text
///  joining ──> ready <──> not_ready      a report, or silence longer than the grace period
///                │ ^         │
///                v │         v
///           maintenance   unreachable    a longer silence
///                    (any) ──> gone ──> joining
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    Joining,
    Ready,
    NotReady,
    Unreachable,
    Maintenance,
    Gone,
}

/// The states that silence can lead to; a heartbeat leads out of them.
pub const SILENT_STATES: [NodeState; 2] = [NodeState::NotReady, NodeState::Unreachable];

/// A GPU's own state. "Busy elsewhere" is not one of them: it is [`Foreign`] use, which has an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuState {
    Ready,
    /// Works, but is preferred last.
    Degraded,
    /// Keeps its current work and gets no new work.
    Draining,
    Failed,
    Unknown,
}

impl GpuState {
    /// Whether new work may be placed on it.
    pub fn is_usable(self) -> bool {
        matches!(self, GpuState::Ready | GpuState::Degraded)
    }
}

/// What others than this scheduler hold of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Foreign {
    pub share: GpuShare,
    pub memory: Bytes,
}

impl Foreign {
    pub const NONE: Foreign = Foreign { share: GpuShare::ZERO, memory: Bytes::ZERO };

    pub fn is_none(self) -> bool {
        self == Foreign::NONE
    }
}

/// How reliable a ready node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reliance {
    /// Whether a heartbeat is overdue.
    pub overdue: bool,
    /// How often it has recently ceased to be ready.
    pub flaps: u32,
}

/// The status of a node. Two nodes of one shape with equal status are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeStatus {
    pub state: NodeState,
    /// Maintained only if a scheduler asks for it.
    pub reliance: Reliance,
    pub cpu_taken: MilliCpu,
    pub ram_taken: Bytes,
    pub gpus: SmallVec<[GpuStatus; 8]>,
    /// The number of tasks of each kind that hold GPUs here. The kind is the number of whole GPUs of each task, or
    /// [`NodeStatus::PARTS`]. Sorted by kind, and maintained only on request ([`super::Fleet::with_kinds`]).
    pub kinds: SmallVec<[(u16, u32); 2]>,
    /// The blocks of an instance that are held.
    pub blocks: BlockSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuStatus {
    pub state: GpuState,
    pub taken: GpuShare,
    pub holders: u32,
    pub memory_taken: Bytes,
    pub foreign: Foreign,
}

impl NodeShape {
    /// A Linux node on x86-64 with nothing else specified: no labels, nothing reserved, no price, in no rack and no
    /// fleet.
    pub fn of(cpu: MilliCpu, ram: Bytes, gpus: Vec<GpuShape>) -> NodeShape {
        NodeShape {
            machine: None,
            os: Os::Linux,
            arch: CpuArch::X86_64,
            driver: None,
            runtime: None,
            labels: BTreeMap::new(),
            cpu,
            ram,
            reserved: Reserved::default(),
            gpus,
            price_per_hour: None,
            power: None,
            rack: None,
            switch: None,
            instance: None,
        }
    }

    /// Limits far beyond any machine, and small enough that sums over one node fit their integers.
    const MOST_CPU: MilliCpu = MilliCpu::from_cores(1_000_000_000);
    const MOST_RAM: Bytes = Bytes::from_gib(1 << 30);
    const MOST_GPU_MEMORY: Bytes = Bytes::from_gib(1 << 20);
    const MOST_GPUS: usize = 1024;
    const MOST_POWER: MilliWatts = MilliWatts::new(1_000_000_000);

    /// Rejects an impossible machine, naming what is too large.
    pub fn check_size(&self) -> Result<(), &'static str> {
        if self.cpu > NodeShape::MOST_CPU {
            return Err("a node of more than a billion cores");
        }
        if self.ram > NodeShape::MOST_RAM {
            return Err("a node of more than 1 EiB of RAM");
        }
        if self.gpus.len() > NodeShape::MOST_GPUS {
            return Err("a node of more than 1,024 GPUs");
        }
        if self.gpus.iter().any(|gpu| gpu.memory > NodeShape::MOST_GPU_MEMORY) {
            return Err("a GPU of more than 1 PiB of memory");
        }
        if self.power.is_some_and(|power| power.busy > NodeShape::MOST_POWER) {
            return Err("a node that draws more than 1 MW");
        }
        if self.power.is_some_and(|power| power.busy < power.idle) {
            return Err("a node that draws less while it is used than at rest");
        }
        Ok(())
    }

    /// Whether the memory of some GPU is part of RAM.
    pub fn has_unified_gpus(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.unified)
    }

    pub fn cpu_capacity(&self) -> MilliCpu {
        self.cpu.saturating_sub(self.reserved.cpu)
    }

    pub fn ram_capacity(&self) -> Bytes {
        self.ram.saturating_sub(self.reserved.ram)
    }

    pub fn gpu_memory_capacity(&self, index: usize) -> Bytes {
        self.gpus[index].memory.saturating_sub(self.reserved.gpu_memory)
    }
}

impl NodeStatus {
    /// The kind of tasks that hold parts of GPUs.
    pub const PARTS: u16 = 0;

    pub fn idle(state: NodeState, shape: &NodeShape) -> NodeStatus {
        let gpu = GpuStatus {
            state: GpuState::Ready,
            taken: GpuShare::ZERO,
            holders: 0,
            memory_taken: Bytes::ZERO,
            foreign: Foreign::NONE,
        };
        NodeStatus {
            state,
            reliance: Reliance::default(),
            cpu_taken: MilliCpu::ZERO,
            ram_taken: Bytes::ZERO,
            gpus: shape.gpus.iter().map(|_| gpu).collect(),
            kinds: SmallVec::new(),
            blocks: BlockSet::default(),
        }
    }

    /// Releases a claim; for a copy of the status. Panics if the claim was not there.
    pub fn give_back(&mut self, shape: &NodeShape, claim: &NodeClaim) {
        ledger::release(shape, self, claim);
    }

    /// Whether nothing is taken here.
    pub fn is_unused(&self) -> bool {
        let is_free = |gpu: &GpuStatus| gpu.taken == GpuShare::ZERO && gpu.memory_taken == Bytes::ZERO;
        let has_none = self.blocks.is_empty() && self.cpu_taken == MilliCpu::ZERO && self.ram_taken == Bytes::ZERO;
        has_none && self.gpus.iter().all(is_free)
    }

    pub fn cpu_free(&self, shape: &NodeShape) -> MilliCpu {
        shape.cpu_capacity().saturating_sub(self.cpu_taken)
    }

    /// RAM that nobody holds, either as RAM or as the memory of a GPU that shares it.
    pub fn ram_free(&self, shape: &NodeShape) -> Bytes {
        let left = shape.ram_capacity().saturating_sub(self.ram_taken);
        if !shape.has_unified_gpus() {
            return left;
        }
        let unified: Bytes = (self.gpus.iter().zip(&shape.gpus))
            .filter(|(_, gpu)| gpu.unified)
            .map(|(status, _)| status.memory_taken + status.foreign.memory)
            .sum();
        left.saturating_sub(unified)
    }

    pub fn gpu_share_free(&self, index: usize) -> GpuShare {
        let gpu = &self.gpus[index];
        GpuShare::WHOLE.saturating_sub(gpu.taken).saturating_sub(gpu.foreign.share)
    }

    /// Memory of one GPU that nobody holds; if it is part of RAM, at most the RAM that is left.
    pub fn gpu_memory_free(&self, shape: &NodeShape, index: usize) -> Bytes {
        let gpu = &self.gpus[index];
        let own = shape.gpu_memory_capacity(index).saturating_sub(gpu.memory_taken).saturating_sub(gpu.foreign.memory);
        if shape.gpus[index].unified { own.min(self.ram_free(shape)) } else { own }
    }

    /// Whether nobody holds any part of this GPU.
    pub fn gpu_is_idle(&self, index: usize) -> bool {
        let gpu = &self.gpus[index];
        gpu.holders == 0 && gpu.foreign.is_none()
    }
}
