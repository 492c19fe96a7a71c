//! Nodes of a cluster as nodes of the fleet.

use std::sync::Arc;

use dryrack_catalog::{self as catalog, CpuArch, Os, Vendor};
use dryrack_engine::{InitialNode, ModelFiles};
use dryrack_fleet::{GpuShape, KubernetesNode, NodeShape, NodeSpec, NodeState};
use dryrack_objects::{Labels, Node, Quantity};
use dryrack_units::{Bytes, MilliCpu, counted};
use dryrack_yaml::{Report, Span};

use super::super::world::World;

const PRODUCTS: [&str; 3] = ["nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product"];

/// Adds the node to the world. Its state is ready: whether pods may use it is said by its taints.
pub(super) fn declare(node: &Node, span: Span, world: &mut World, report: &mut Report) {
    let amount = |name: &str| node.status.allocatable.get(name).copied().unwrap_or_default();
    let cpu = MilliCpu::new(u64::try_from(amount("cpu").milli_value()).unwrap_or(0));
    let ram = Bytes::new(u64::try_from(amount("memory").value()).unwrap_or(0));
    let mut shape = NodeShape::of(cpu, ram, gpus(node));
    let label = |key: &str| node.metadata.labels.get(key).map(|value| &**value);
    if let Some(os) = label("kubernetes.io/os").and_then(|os| os.parse::<Os>().ok()) {
        shape.os = os;
    }
    match label("kubernetes.io/arch") {
        Some("arm64") => shape.arch = CpuArch::Aarch64,
        Some("amd64") => shape.arch = CpuArch::X86_64,
        _ => {}
    }
    shape.labels = node.metadata.labels.clone();
    let stated = KubernetesNode {
        annotations: node.metadata.annotations.clone(),
        spec: node.spec.clone(),
        status: node.status.clone(),
    };
    shape.kubernetes = Some(Arc::new(stated));
    if let Err(excess) = shape.check_size() {
        return report.error_with_help(span, excess, "write what the machine has");
    }
    let name = &node.metadata.name;
    if world.node_names.add(Arc::clone(name)).is_err() {
        let message = format!("two nodes are named `{name}`");
        return report.error_with_help(span, message, "leave one of them out");
    }
    world.gpu_types.extend(shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
    let spec = NodeSpec { name: Arc::clone(name), shape: world.shared_shape(shape) };
    world.nodes.push(InitialNode { spec, state: NodeState::Ready, gpus: Vec::new(), files: ModelFiles::default() });
}

/// Says once which nodes report each of their GPUs several times.
pub(super) fn tell_shared(nodes: &[(Node, Span)], report: &mut Report) {
    let replicas =
        |node: &Node| node.metadata.labels.get(REPLICAS)?.parse::<i64>().ok().filter(|replicas| *replicas > 1);
    let gpus = |node: &Node| node.status.allocatable.get("nvidia.com/gpu").map_or(0, |amount| amount.value());
    let shared: Vec<(&Node, i64, Span)> = (nodes.iter())
        .filter_map(|(node, span)| Some((node, replicas(node)?, *span)))
        .filter(|(node, ..)| gpus(node) > 0)
        .collect();
    let Some((first, _, span)) = shared.first() else { return };
    let all: i64 = shared.iter().map(|(node, ..)| gpus(node)).sum();
    let real: i64 = shared.iter().map(|(node, replicas, _)| (gpus(node) - 1) / replicas + 1).sum();
    let which = match shared.len() {
        1 => format!("node `{}` shares", first.metadata.name),
        count => format!("node `{}` and {} more share", first.metadata.name, count - 1),
    };
    let message = format!(
        "{which} each GPU (`{REPLICAS}`): {} of {} count as whole GPUs, also in metrics",
        counted(usize::try_from(all).unwrap_or(0), "replica"),
        counted(usize::try_from(real).unwrap_or(0), "GPU"),
    );
    report.warning(*span, message, "divide numbers of GPUs by the replicas to get those of the machines");
}

/// The label with the number of replicas of each GPU, by time-slicing or MPS (NVIDIA's GPU feature discovery).
const REPLICAS: &str = "nvidia.com/gpu.replicas";

/// The GPUs that pods can request whole, with the model and memory that the labels of feature discovery state.
fn gpus(node: &Node) -> Vec<GpuShape> {
    let mut gpus = Vec::new();
    for (resource, amount) in node.status.allocatable.iter().filter(|(name, _)| dryrack_control::is_gpu(name)) {
        let count = usize::try_from(amount.value()).unwrap_or(0);
        let gpu = gpu(resource, &node.metadata.labels);
        gpus.extend(std::iter::repeat_n(gpu, count.min(MOST_GPUS + 1)));
    }
    gpus
}

/// More GPUs of a node are refused.
const MOST_GPUS: usize = 1024;

fn gpu(resource: &str, labels: &Labels) -> GpuShape {
    let vendor = match resource.split(['.', '/']).next() {
        Some("nvidia") => Some(Vendor::Nvidia),
        Some("amd") => Some(Vendor::Amd),
        Some("gpu") => Some(Vendor::Intel),
        Some("huawei") => Some(Vendor::Ascend),
        Some("apple") => Some(Vendor::Apple),
        _ => None,
    };
    let product = PRODUCTS.iter().find_map(|key| labels.get(*key)).map_or("", |value| &**value);
    let stated = memory(labels);
    // Feature discovery writes hyphens for spaces.
    let known = catalog::gpu_reported(&product.replace('-', " "), stated).or_else(|| catalog::gpu(product));
    let plain = if product.is_empty() { resource.split('/').next().unwrap_or(resource) } else { product };
    let model = known.map_or_else(|| plain.to_ascii_lowercase(), |model| model.name.to_string());
    let memory = stated.or_else(|| known.and_then(|model| model.memory)).unwrap_or(Bytes::ZERO);
    GpuShape { vendor: vendor.or_else(|| known.map(|model| model.vendor)), ..GpuShape::of(&model, memory) }
}

/// The memory of each GPU: NVIDIA's label is in MiB, AMD's is a quantity.
fn memory(labels: &Labels) -> Option<Bytes> {
    let nvidia = labels.get("nvidia.com/gpu.memory").and_then(|mib| mib.parse::<u64>().ok());
    let amd = || {
        let text = labels.get("amd.com/gpu.vram")?.replace('G', "Gi");
        u64::try_from(text.parse::<Quantity>().ok()?.value()).ok()
    };
    nvidia.and_then(|mib| mib.checked_mul(1 << 20)).or_else(amd).map(Bytes::new)
}
