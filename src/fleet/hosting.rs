//! Models on the fleet: keeps [`Serving`] consistent with the ledger once there is a model.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::claim::{NodeClaim, Placement};
use super::node::Node;
use super::node::{NodeSpec, NodeStatus};
use super::serving::{GpuKind, GpuStanding, Labels, ModelKey, Part, ServedInstance, Serving, ServingGpu, ServingNode};
use dryrack_catalog::CpuArch;
use dryrack_ids::{AttemptId, NodeId};

/// The model of a replica, as recorded with the replica's placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosting {
    pub model: ModelKey,
    pub model_name: Arc<str>,
    pub backend: Arc<str>,
}

/// The fleet's state about models. It is empty while there is no model.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    pub(super) serving: Option<Box<Serving>>,
    /// The number of each attempt's instance in [`Serving`].
    pub(super) numbers: BTreeMap<AttemptId, usize>,
    /// The same nodes when they are all idle. Computed on first use.
    pub(super) idle: OnceLock<Box<Serving>>,
}

impl Hosts {
    /// Whether the state about models is kept up to date.
    pub fn is_used(&self) -> bool {
        self.serving.is_some()
    }

    pub fn declare(&mut self, spec: &NodeSpec, status: &NodeStatus) {
        self.idle.take();
        if let Some(serving) = &mut self.serving {
            let number = serving.add(node_of(&spec.name, &spec.shape, status));
            sync(serving, number, status);
        }
    }

    pub fn changed(&mut self, id: NodeId, status: &NodeStatus) {
        if let Some(serving) = &mut self.serving {
            sync(serving, id.index(), status);
        }
    }

    /// Asserts that the maintained state equals the state computed from scratch.
    pub fn assert_adds_up(&self, nodes: &[Node]) {
        let Some(serving) = &self.serving else { return };
        assert!(**serving == serving.rebuilt(), "what is kept of models is not what they hold");
        let mut synced = serving.clone();
        nodes.iter().enumerate().for_each(|(number, node)| sync(&mut synced, number, &node.status));
        assert!(*synced == **serving, "what is kept of models is not what the ledger says");
    }
}

pub(super) fn serving_of(nodes: &[Node]) -> Serving {
    let mut serving = Serving::default();
    for node in nodes {
        let number = serving.add(node_of(&node.name, &node.shape, &node.status));
        sync(&mut serving, number, &node.status);
    }
    serving
}

/// Updates a node of [`Serving`] from the node's status. Everything in the ledger beyond the claims of model instances
/// belongs to other jobs.
fn sync(serving: &mut Serving, node: usize, status: &NodeStatus) {
    serving.set_state(node, status.state);
    let mut memory: SmallVec<[u64; 8]> = status.gpus.iter().map(|gpu| gpu.memory_taken.get()).collect();
    let mut ram = status.ram_taken.get();
    for instance in serving.instances_on(node) {
        for (part, _) in instance.parts_on(node) {
            ram = ram.saturating_sub(part.ram);
            for (index, bytes) in &part.claims {
                if let Some(taken) = memory.get_mut(*index as usize) {
                    *taken = taken.saturating_sub(*bytes);
                }
            }
        }
    }
    let standing = |(gpu, other): (&super::node::GpuStatus, u64)| GpuStanding {
        other,
        foreign: gpu.foreign.memory.get(),
        state: gpu.state,
    };
    serving.set_others(node, status.reliance, ram, status.gpus.iter().zip(memory).map(standing));
}

fn node_of(name: &Arc<str>, shape: &Arc<super::NodeShape>, status: &NodeStatus) -> ServingNode {
    let gpus = shape.gpus.iter().enumerate().map(|(index, gpu)| ServingGpu {
        index: index as u32,
        kind: GpuKind::of(gpu.vendor),
        total: gpu.memory.get(),
    });
    ServingNode {
        name: Arc::clone(name),
        labels: labels_of(shape),
        state: status.state,
        ram: shape.ram.get(),
        unified: shape.gpus.iter().any(|gpu| gpu.unified),
        reserved_ram: shape.reserved.ram.get(),
        reserved_memory: shape.reserved.gpu_memory.get(),
        gpus: gpus.collect(),
        shape: Some(Arc::clone(shape)),
    }
}

/// The node's own labels, and the labels that model schedulers derive from a node's properties.
fn labels_of(shape: &super::NodeShape) -> Arc<Labels> {
    let arch = match shape.arch {
        CpuArch::X86_64 => "amd64",
        CpuArch::Aarch64 => "arm64",
    };
    let mut labels = shape.labels.clone();
    labels.entry("os".into()).or_insert_with(|| shape.os.to_string().into());
    labels.entry("arch".into()).or_insert_with(|| arch.into());
    Arc::new(labels)
}

pub(super) fn instance(nodes: &[Node], placement: &Placement, hosting: &Hosting) -> ServedInstance {
    let part = |claim: &NodeClaim| Part {
        node: Some(claim.node.index()),
        indexes: claim.gpus.iter().map(|gpu| u32::from(gpu.index)).collect(),
        claims: claim.gpus.iter().map(|gpu| (u32::from(gpu.index), gpu.memory.get())).collect(),
        ram: claim.ram.get(),
    };
    let claims = placement.claims();
    let main = claims.iter().position(|claim| claim.tasks > 0).expect("a replica has its task on a node");
    let kind = claims[main].gpus.first().map(|gpu| {
        let shape = &nodes[claims[main].node.index()].shape;
        GpuKind::of(shape.gpus[usize::from(gpu.index)].vendor)
    });
    ServedInstance {
        model: hosting.model,
        model_name: Arc::clone(&hosting.model_name),
        backend: Arc::clone(&hosting.backend),
        kind,
        is_distributed: claims.len() > 1,
        main: Some(part(&claims[main])),
        subordinates: claims.iter().enumerate().filter(|(at, _)| *at != main).map(|(_, claim)| part(claim)).collect(),
    }
}
