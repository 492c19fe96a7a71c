//! Whether a backend runs on a GPU at all, by the compatibility table. The table is queried once for each kind of node.

use crate::filter::{model_refusal, model_refusal_without_gpu};
use dryrack_event::Reason;
use dryrack_fleet::{NodeShape, Serving};
use dryrack_workload::Deployment;

/// The answers of the compatibility table for one deployment.
#[derive(Clone, Debug, Default)]
pub struct HardwareVerdicts {
    /// For each shape of nodes and each of its GPUs, why the GPU cannot be used.
    gpus: Vec<Vec<Option<Reason>>>,
    /// For each shape, why its nodes cannot be used. `None` if at least one of its GPUs can be used.
    nodes: Vec<Option<Reason>>,
    refuses: bool,
}

impl HardwareVerdicts {
    pub fn new(deployment: &Deployment, serving: &Serving) -> HardwareVerdicts {
        let mut verdicts = HardwareVerdicts::default();
        for shape in serving.shapes() {
            let gpus = of_gpus(deployment, shape);
            // If the GPUs differ, the GPU that passes the most checks counts. Reasons are in the order of the checks.
            let node = match gpus.iter().copied().collect::<Option<Vec<Reason>>>() {
                Some(refusals) if refusals.is_empty() => model_refusal_without_gpu(deployment, shape),
                refusals => refusals.and_then(|refusals| refusals.into_iter().max()),
            };
            verdicts.refuses |= gpus.iter().any(Option::is_some);
            verdicts.gpus.push(gpus);
            verdicts.nodes.push(node);
        }
        verdicts
    }

    /// Why a node cannot be used. `None` if it can be used, or if only the kinds of its GPUs are known.
    pub fn of_node(&self, serving: &Serving, node: u32) -> Option<Reason> {
        let shape = serving.hosts()[node as usize].shape?;
        self.nodes.get(shape as usize).copied().flatten()
    }

    /// Why a GPU cannot be used. The GPU is given by its node and its index in the columns.
    #[inline]
    pub fn of_gpu(&self, serving: &Serving, node: u32, at: usize) -> Option<Reason> {
        let host = &serving.hosts()[node as usize];
        let gpus = self.gpus.get(host.shape? as usize)?;
        gpus.get(at - host.gpus.start).copied().flatten()
    }

    /// Whether any GPU cannot be used.
    pub fn refuses(&self) -> bool {
        self.refuses
    }
}

/// Queries the table for each GPU. Adjacent equal GPUs are queried only once.
fn of_gpus(deployment: &Deployment, shape: &NodeShape) -> Vec<Option<Reason>> {
    let mut gpus: Vec<Option<Reason>> = Vec::with_capacity(shape.gpus.len());
    for (index, gpu) in shape.gpus.iter().enumerate() {
        gpus.push(match index.checked_sub(1) {
            Some(before) if shape.gpus[before] == *gpu => gpus[before],
            Some(_) | None => model_refusal(deployment, shape, index),
        });
    }
    gpus
}
