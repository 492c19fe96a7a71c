//! A demand with another pick, or without its pick.

use std::sync::Arc;

use dryrack_ids::{GpuId, NodeId};
use dryrack_workload::{Demand, DemandKind, Deployment, Pick};

/// The demand with this node as its pick.
pub fn on_node(demand: &Demand, node: NodeId) -> Demand {
    Demand { pick: Some(Pick::Nodes(vec![node])), ..without_pick(demand) }
}

/// The demand with exactly this GPU as its pick, for one task.
pub fn on_gpu(demand: &Demand, gpu: GpuId) -> Demand {
    Demand { tasks: 1, pick: Some(Pick::AllGpus(vec![gpu])), ..without_pick(demand) }
}

/// The demand without its pick. The conditions of an exact pick for each picked node then apply to every node.
pub(super) fn without_pick(demand: &Demand) -> Demand {
    let kind = match &demand.kind {
        // This number applies only to a pick.
        DemandKind::Model(deployment) if deployment.gpus_per_replica.is_some() => {
            Arc::new(Deployment { gpus_per_replica: None, ..(**deployment).clone() }).into()
        }
        kind => kind.clone(),
    };
    Demand { kind, pick: None, ..demand.clone() }
}
