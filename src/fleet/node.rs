//! A node. Its shape never changes, but its status does.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::blocks::BlockSet;
use super::claim::{GpuClaim, NodeClaim};
use super::device::{DeviceName, PublishedDevice};
use super::instance::Instance;
use super::ledger;
use super::payment::Payment;
use dryrack_catalog::{ComputeCapability, CpuArch, Os, Vendor};
use dryrack_units::{Bytes, GpuShare, MilliCpu, MilliWatts, Money};

/// A node as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub name: Arc<str>,
    pub shape: Arc<NodeShape>,
}

/// All fixed properties of a node except its name. Nodes of equal shape differ only in name and status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeShape {
    /// The name of the machine in the catalog, if the machine is in the catalog.
    pub machine: Option<Arc<str>>,
    pub os: Os,
    pub arch: CpuArch,
    /// The version of the GPU driver.
    pub driver: Option<Arc<str>>,
    /// The version of the vendor's runtime (CUDA, ROCm or CANN) that the driver supports.
    #[serde(default)]
    pub runtime: Option<Arc<str>>,
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub reserved: Reserved,
    pub gpus: Vec<GpuShape>,
    /// The price per hour, if the scenario gives one.
    pub price_per_hour: Option<Money>,
    /// The power draw, if the scenario gives one.
    #[serde(default)]
    pub power: Option<Power>,
    pub rack: Option<Arc<str>>,
    pub switch: Option<Arc<str>>,
    /// Set if the node is an instance of a fleet.
    #[serde(default)]
    pub instance: Option<Arc<Instance>>,
    /// Set if the node is declared as a node of a Kubernetes cluster. Left out if absent, so that digests of other
    /// nodes do not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Arc<KubernetesNode>>,
    /// The devices of the node that are GPUs or parts of GPUs, if drivers of dynamic resource allocation publish any.
    /// Their GPUs come last in `gpus`. This field and the next must stay last, and are left out if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PublishedDevice>,
    /// Set if the price is due whether or not the node is there. Left out if absent, so that digests of other nodes do
    /// not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<Payment>,
}

/// The fields of a Kubernetes node that the other fields of a node do not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesNode {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: dryrack_objects::Labels,
    /// Taints, and whether the node is cordoned.
    pub spec: dryrack_objects::NodeSpec,
    /// All allocatable resources, and the images on the node.
    pub status: dryrack_objects::NodeStatus,
}

/// The power draw of a machine. It increases linearly from `idle` to `busy` with the utilization of the machine's GPUs.
/// For a machine without GPUs, it increases linearly with the share of its CPU that is taken. Fan, Weber and Barroso
/// found this for whole servers (*Power Provisioning for a Warehouse-sized Computer*, ISCA 2007).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// The power draw when nothing runs on the machine.
    pub idle: MilliWatts,
    /// The power draw when the machine is fully used.
    pub busy: MilliWatts,
}

/// Resources that the system reserves for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    pub cpu: MilliCpu,
    pub ram: Bytes,
    /// The memory reserved on each GPU.
    pub gpu_memory: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuShape {
    /// The name of the model in the catalog, or a name that only the scenario defines.
    pub model: Arc<str>,
    pub vendor: Option<Vendor>,
    pub memory: Bytes,
    /// Whether the memory is part of the node's RAM.
    pub unified: bool,
    /// The CUDA compute capability, if known.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// The architecture, such as Hopper or gfx1101, if known.
    #[serde(default)]
    pub architecture: Option<Arc<str>>,
}

impl GpuShape {
    /// A GPU of which only the model name and the memory are known.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    Joining,
    Ready,
    NotReady,
    Unreachable,
    Maintenance,
    Gone,
}

/// The states that a node enters through silence. A heartbeat takes the node out of them.
pub const SILENT_STATES: [NodeState; 2] = [NodeState::NotReady, NodeState::Unreachable];

/// The state of a GPU. Use by other programs is not a state, because it is an amount: see [`Foreign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuState {
    Ready,
    /// The GPU works but is chosen last.
    Degraded,
    /// The GPU keeps its current work and gets no new work.
    Draining,
    Failed,
    Unknown,
}

impl GpuState {
    /// Whether new work may be placed on the GPU.
    pub fn is_usable(self) -> bool {
        matches!(self, GpuState::Ready | GpuState::Degraded)
    }
}

/// The part of a GPU that programs outside this scheduler use.
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

/// How reliable a ready node has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reliance {
    /// Whether the node's heartbeat is overdue.
    pub overdue: bool,
    /// How often the node has recently stopped being ready.
    pub flaps: u32,
}

/// The status of a node. Two nodes of one shape with equal status are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeStatus {
    pub state: NodeState,
    /// Whether the node has reported that it is ready although its Kubernetes object says otherwise.
    pub is_ready_again: bool,
    /// Kept up to date only if a scheduler uses it.
    pub reliance: Reliance,
    pub cpu_taken: MilliCpu,
    /// The number of restricted cores in `cpu_taken`: see [`super::RESTRICTED_CORES_LABEL`].
    pub cpu_restricted_taken: MilliCpu,
    pub ram_taken: Bytes,
    pub gpus: SmallVec<[GpuStatus; 8]>,
    /// The number of tasks of each kind that hold GPUs of this node, sorted by kind. The kind is the number of whole
    /// GPUs of each task, or [`NodeStatus::PARTS`]. Counted only in a fleet from [`super::Fleet::with_kinds`].
    pub kinds: SmallVec<[(u16, u32); 2]>,
    /// The blocks that are held, if the node is an instance.
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
    /// A Linux node on x86-64 with only these resources: no labels, nothing reserved, no price, no rack and no fleet.
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
            payment: None,
            power: None,
            rack: None,
            switch: None,
            instance: None,
            kubernetes: None,
            devices: Vec::new(),
        }
    }

    /// Limits far beyond any real machine. They are small enough that a sum over one node cannot overflow.
    const MOST_CPU: MilliCpu = MilliCpu::from_cores(1_000_000_000);
    const MOST_RAM: Bytes = Bytes::from_gib(1 << 30);
    const MOST_GPU_MEMORY: Bytes = Bytes::from_gib(1 << 20);
    const MOST_GPUS: usize = 1024;
    const MOST_POWER: MilliWatts = MilliWatts::new(1_000_000_000);

    /// Rejects an impossibly large machine. The error says what is too large.
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
            return Err("a node that draws less power when busy than at rest");
        }
        let Reserved { cpu, ram, gpu_memory } = self.reserved;
        if cpu > NodeShape::MOST_CPU || ram > NodeShape::MOST_RAM || gpu_memory > NodeShape::MOST_GPU_MEMORY {
            return Err("a node that reserves more than a node can have");
        }
        Ok(())
    }

    /// The number of GPUs that are not devices. They are the first ones.
    pub fn gpus_without_devices(&self) -> usize {
        self.devices.iter().map(|device| usize::from(device.gpu)).min().unwrap_or(self.gpus.len())
    }

    /// Whether the GPU with this index is, or consists of, devices that pods claim by name.
    pub fn is_of_devices(&self, gpu: u16) -> bool {
        usize::from(gpu) >= self.gpus_without_devices()
    }

    /// The parts of GPUs that these devices are, by GPU. Names of other devices are passed over.
    pub fn parts_of<'n>(&self, names: impl IntoIterator<Item = &'n DeviceName>) -> SmallVec<[GpuClaim; 2]> {
        let mut parts: SmallVec<[GpuClaim; 2]> = SmallVec::new();
        for name in names {
            let Some(device) = self.devices.iter().find(|device| device.name == *name) else { continue };
            match parts.binary_search_by_key(&device.gpu, |part| part.index) {
                Ok(place) => {
                    let part = &mut parts[place];
                    part.share = GpuShare::WHOLE.min(part.share + device.share);
                    part.memory = part.memory + device.memory;
                }
                Err(place) => {
                    parts.insert(place, GpuClaim { index: device.gpu, share: device.share, memory: device.memory });
                }
            }
        }
        parts
    }

    /// Whether any GPU's memory is part of the node's RAM.
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

    /// Whether the node's Kubernetes object says that it is not ready.
    pub fn is_tainted_as_not_ready(&self) -> bool {
        self.kubernetes.as_ref().is_some_and(|stated| stated.spec.is_tainted_as_not_ready())
    }
}

impl NodeStatus {
    /// The kind of a task that holds parts of GPUs.
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
            is_ready_again: false,
            reliance: Reliance::default(),
            cpu_taken: MilliCpu::ZERO,
            cpu_restricted_taken: MilliCpu::ZERO,
            ram_taken: Bytes::ZERO,
            gpus: shape.gpus.iter().map(|_| gpu).collect(),
            kinds: SmallVec::new(),
            blocks: BlockSet::default(),
        }
    }

    /// Releases a claim from a copy of the status. Panics if the status does not include the claim.
    pub fn give_back(&mut self, shape: &NodeShape, claim: &NodeClaim) {
        ledger::release(shape, self, claim);
    }

    /// Whether no claim takes anything of this node.
    pub fn is_unused(&self) -> bool {
        let is_free = |gpu: &GpuStatus| gpu.taken == GpuShare::ZERO && gpu.memory_taken == Bytes::ZERO;
        let has_none = self.blocks.is_empty() && self.cpu_taken == MilliCpu::ZERO && self.ram_taken == Bytes::ZERO;
        has_none && self.gpus.iter().all(is_free)
    }

    pub fn cpu_free(&self, shape: &NodeShape) -> MilliCpu {
        shape.cpu_capacity().saturating_sub(self.cpu_taken)
    }

    /// The free RAM. If GPUs share the node's RAM, their taken memory is not free either.
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

    /// The free memory of one GPU. If the memory is part of the RAM, at most the free RAM.
    pub fn gpu_memory_free(&self, shape: &NodeShape, index: usize) -> Bytes {
        let gpu = &self.gpus[index];
        let own = shape.gpu_memory_capacity(index).saturating_sub(gpu.memory_taken).saturating_sub(gpu.foreign.memory);
        if shape.gpus[index].unified { own.min(self.ram_free(shape)) } else { own }
    }

    /// Whether no claim and no foreign use holds any part of this GPU.
    pub fn gpu_is_idle(&self, index: usize) -> bool {
        let gpu = &self.gpus[index];
        gpu.holders == 0 && gpu.foreign.is_none()
    }
}

/// One node: its shape and its status.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: Arc<str>,
    /// The same `Arc` for all nodes of equal shape.
    pub shape: Arc<NodeShape>,
    pub status: NodeStatus,
    /// Incremented by every change of `status`. A commit compares it to detect changes since the read.
    pub version: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> GpuShape {
        GpuShape::of("a", Bytes::from_gib(80))
    }

    fn node(gpus: usize) -> NodeShape {
        NodeShape::of(MilliCpu::from_cores(8), Bytes::from_gib(64), vec![gpu(); gpus])
    }

    #[test]
    fn a_machine_up_to_the_limits_is_possible() {
        let power = |idle, busy| Some(Power { idle: MilliWatts::new(idle), busy: MilliWatts::new(busy) });
        let largest = NodeShape {
            gpus: vec![GpuShape::of("a", Bytes::from_gib(1 << 20)); 1024],
            power: power(1_000_000_000, 1_000_000_000),
            ..NodeShape::of(MilliCpu::from_cores(1_000_000_000), Bytes::from_gib(1 << 30), Vec::new())
        };
        assert_eq!(largest.check_size(), Ok(()));
        assert_eq!(node(1).check_size(), Ok(()));
        let gpus_of = |gib: u64| vec![gpu(), GpuShape::of("a", Bytes::from_gib(gib))];
        let rows = [
            (NodeShape { cpu: MilliCpu::new(1_000_000_000_001), ..node(0) }, "a node of more than a billion cores"),
            (NodeShape { ram: Bytes::new((1 << 60) + 1), ..node(0) }, "a node of more than 1 EiB of RAM"),
            (node(1025), "a node of more than 1,024 GPUs"),
            (NodeShape { gpus: gpus_of((1 << 20) + 1), ..node(0) }, "a GPU of more than 1 PiB of memory"),
            (NodeShape { power: power(5, 1_000_000_001), ..node(0) }, "a node that draws more than 1 MW"),
            (NodeShape { power: power(5, 4), ..node(0) }, "a node that draws less power when busy than at rest"),
        ];
        for (shape, fault) in rows {
            assert_eq!(shape.check_size(), Err(fault));
        }
        assert_eq!(NodeShape { power: power(4, 5), ..node(0) }.check_size(), Ok(()));
    }

    #[test]
    fn a_node_is_unused_if_nothing_of_it_is_taken() {
        let shape = node(2);
        let idle = NodeStatus::idle(NodeState::Ready, &shape);
        let changes: [fn(&mut NodeStatus); 5] = [
            |status| status.cpu_taken = MilliCpu::new(1),
            |status| status.ram_taken = Bytes::new(1),
            |status| assert!(status.blocks.insert(0)),
            |status| status.gpus[1].taken = GpuShare::new(1),
            |status| status.gpus[1].memory_taken = Bytes::new(1),
        ];
        assert!(idle.is_unused());
        for (number, change) in changes.into_iter().enumerate() {
            let mut status = idle.clone();
            change(&mut status);
            assert!(!status.is_unused(), "change {number}");
        }
    }

    #[test]
    fn memory_of_unified_gpus_is_taken_from_the_ram() {
        let mut shape = node(2);
        shape.reserved.ram = Bytes::from_gib(4);
        let mut status = NodeStatus::idle(NodeState::Ready, &shape);
        status.ram_taken = Bytes::from_gib(10);
        for gpu in &mut status.gpus {
            gpu.memory_taken = Bytes::from_gib(20);
            gpu.foreign.memory = Bytes::from_gib(3);
        }
        // 64 GiB without 4 and 10.
        assert_eq!((shape.has_unified_gpus(), status.ram_free(&shape)), (false, Bytes::from_gib(50)));
        assert_eq!(status.gpu_memory_free(&shape, 1), Bytes::from_gib(57));
        shape.gpus[1].unified = true;
        assert_eq!((shape.has_unified_gpus(), status.ram_free(&shape)), (true, Bytes::from_gib(27)));
        // At most the free RAM, for the one that is a part of it.
        assert_eq!(status.gpu_memory_free(&shape, 0), Bytes::from_gib(57));
        assert_eq!(status.gpu_memory_free(&shape, 1), Bytes::from_gib(27));
    }

    #[test]
    fn devices_of_one_gpu_are_parts_of_it_together() {
        let mut shape = node(2);
        let name = |device: &str| DeviceName { driver: "d".into(), pool: "p".into(), device: device.into() };
        let device = |text: &str, gpu, share, gib| PublishedDevice {
            name: name(text),
            gpu,
            share: GpuShare::new(share),
            memory: Bytes::from_gib(gib),
        };
        shape.devices = vec![device("a", 1, 250, 20), device("b", 1, 500, 40), device("c", 1, 400, 10)];
        assert_eq!((shape.is_of_devices(0), shape.is_of_devices(1)), (false, true));
        let part = |share, gib| GpuClaim { index: 1, share: GpuShare::new(share), memory: Bytes::from_gib(gib) };
        assert_eq!(shape.parts_of(&[name("b"), name("a"), name("x")]).to_vec(), [part(750, 60)]);
        assert_eq!(shape.parts_of(&[name("a"), name("b"), name("c")]).to_vec(), [part(1000, 70)]);
    }

    #[test]
    fn a_gpu_is_idle_without_holders_and_foreign_use() {
        let mut status = NodeStatus::idle(NodeState::Ready, &node(3));
        status.gpus[0].holders = 1;
        status.gpus[1].foreign.share = GpuShare::new(1);
        assert_eq!([0, 1, 2].map(|index| status.gpu_is_idle(index)), [false, false, true]);
        assert!(Foreign::NONE.is_none());
        assert!(!Foreign { memory: Bytes::new(1), ..Foreign::NONE }.is_none());
        status.gpus[1].taken = GpuShare::new(300);
        assert_eq!(status.gpu_share_free(1), GpuShare::new(699));
    }
}
