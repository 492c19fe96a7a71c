//! Converts the nodes of a trace to nodes of the run.

use std::sync::Arc;

use super::gpu_nodes::VC;
use crate::machines::from_catalog;
use crate::world::World;
use dryrack_engine::{InitialNode, ModelFiles};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState};
use dryrack_trace::TraceNode;
use dryrack_units::Bytes;
use dryrack_yaml::{Report, Span};

pub(super) fn add_node(node: &TraceNode, span: Span, world: &mut World, report: &mut Report) {
    let model = node.gpu_model.as_deref().unwrap_or("unknown");
    let known = from_catalog(model, node.gpus, None);
    let unknown = GpuShape::of(model, Bytes::ZERO);
    let gpus = if known.is_empty() { vec![unknown; node.gpus as usize] } else { known };
    let labels = node.virtual_cluster.iter().map(|cluster| (Arc::from(VC), Arc::from(cluster.as_str()))).collect();
    let shape =
        NodeShape { labels, switch: node.switch.as_deref().map(Arc::from), ..NodeShape::of(node.cpu, node.ram, gpus) };
    let name: Arc<str> = Arc::from(node.name.as_str());
    if world.node_names.add(Arc::clone(&name)).is_err() {
        let message = format!("the file and the trace both have a node named `{name}`");
        return report.error_with_help(span, message, "give the node another name in the file");
    }
    world.gpu_types.extend(shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
    let spec = NodeSpec { name, shape: world.shared_shape(shape) };
    let files = ModelFiles::default();
    world.nodes.push(InitialNode { spec, state: NodeState::Ready, gpus: Vec::new(), files });
}
