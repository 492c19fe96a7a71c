//! Options and nodes for unit tests. All nodes have 16 cores and 64 GiB of RAM, and all GPUs have 80 GiB of memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::options::SchedulerOptions;
use dryrack_fleet::{Fleet, GpuClaim, GpuShape, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Backend, Deployment, GpuDemand, GpuTake, Strategy, TaskDemand};

pub const GPU_MEMORY: Bytes = Bytes::from_gib(80);

/// The first node that fits, in order of declaration, as in the profile `first-fit`.
const FIRST_FIT: &str = include_str!("test_options.json");

pub fn options() -> SchedulerOptions {
    serde_json::from_str(FIRST_FIT).expect("options of a profile")
}

/// A node with GPUs of these models.
pub fn node(models: &[&str]) -> NodeShape {
    let gpus = models.iter().map(|model| GpuShape::of(model, GPU_MEMORY)).collect();
    NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus)
}

/// A node with this many GPUs of the model `a`.
pub fn with_gpus(count: usize) -> NodeShape {
    node(&vec!["a"; count])
}

/// Ready nodes of these shapes, in this order.
pub fn fleet(shapes: impl IntoIterator<Item = NodeShape>) -> Fleet {
    let mut fleet = Fleet::default();
    for (number, shape) in shapes.into_iter().enumerate() {
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) };
        fleet.declare(&spec, NodeState::Ready);
    }
    fleet
}

/// Lets another job hold these cores and whole GPUs of a node.
pub fn hold(fleet: &mut Fleet, node: usize, cores: u64, gpus: &[u16]) {
    let whole = |index: &u16| GpuClaim { index: *index, share: GpuShare::WHOLE, memory: GPU_MEMORY };
    let claim = NodeClaim {
        tasks: 1,
        cpu: MilliCpu::from_cores(cores),
        gpus: gpus.iter().map(whole).collect(),
        ..NodeClaim::of_nothing(NodeId::new(node))
    };
    fleet.take(&Placement::new([claim].into()));
}

/// A task that takes these cores and nothing else.
pub fn cpu_task(cores: u64) -> TaskDemand {
    TaskDemand::cpu_only(MilliCpu::from_cores(cores))
}

/// A task that takes so much of each of these GPUs, and nothing else. Without models, it takes any GPUs.
pub fn gpu_task(count: u32, take: GpuTake, models: &[&str]) -> TaskDemand {
    let models = models.iter().copied().map(Arc::from).collect();
    let gpus = GpuDemand { count, take, models, min_memory: None };
    TaskDemand { gpus: Some(gpus), ..cpu_task(0) }
}

/// A task that takes whole GPUs.
pub fn whole_gpus(count: u32) -> TaskDemand {
    gpu_task(count, GpuTake::Whole, &[])
}

/// A task that takes this share, in thousandths, of each of these GPUs.
pub fn shares(count: u32, thousandths: u32) -> TaskDemand {
    gpu_task(count, GpuTake::Share(GpuShare::new(thousandths)), &[])
}

/// A model for vLLM that needs this much GPU memory in GiB, in equal parts, and reserves nothing more.
pub fn model(need: u64, arguments: &str) -> Deployment {
    let facts = r#"{"name": "m", "categories": [], "architecture": null, "weights": 0, "heads": null, "vision_heads": null,
        "vocabulary": null, "quantization": null}"#;
    let need = Bytes::from_gib(need).get().to_string();
    let arguments = format!("--gpu-memory-utilization=0 {arguments}");
    Deployment {
        model: serde_json::from_str(facts).expect("facts of a model"),
        backend: Backend::Vllm,
        strategy: Strategy::Spread,
        distributable: true,
        selector: None,
        gpus_per_replica: None,
        arguments: arguments.split_whitespace().map(Arc::from).collect(),
        environment: BTreeMap::from([("GPUSTACK_MODEL_VRAM_CLAIM".into(), need.into())]),
    }
}
