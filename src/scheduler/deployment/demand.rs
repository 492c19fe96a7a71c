//! Conversions from a demand and a fleet to a request and its inputs, and from a candidate to a placement.

use std::sync::Arc;

use smallvec::SmallVec;

use super::candidate::{Candidate, CandidatePart};
use super::request::{PickedGpu, Picks, Request};
use crate::context::PlacementContext;
use crate::decision::Candidate as Placeable;
use dryrack_fleet::{Fleet, GpuClaim, GpuKind, NodeClaim, Placement};
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, GpuShare, Score};
use dryrack_workload::{Demand, Deployment, Pick};

/// A candidate that has only the main part of a placement, so that the part can be scored.
pub(super) fn candidate_of(placement: &Placement) -> Candidate {
    let main = placement.claims().iter().find(|claim| claim.tasks > 0).expect("a replica has its task on a node");
    let claims = main.gpus.iter().map(|gpu| (u32::from(gpu.index), gpu.memory.get()));
    let indexes = main.gpus.iter().map(|gpu| u32::from(gpu.index)).collect();
    let main = CandidatePart { node: main.node.index(), indexes, claims: claims.collect(), ram: main.ram.get() };
    Candidate { main, ..Candidate::default() }
}

impl<'d> Request<'d> {
    /// The request for one replica of the deployment with this demand. A manual pick is translated into the names that the fleet uses.
    pub fn of(
        deployment: &'d Deployment,
        demand: &'d Demand,
        context: PlacementContext,
        fleet: &'d Fleet,
    ) -> Request<'d> {
        let model = context.job.map(PlacementContext::key);
        let picks = demand.pick.as_ref().map_or(Picks::Free, |pick| picks_of(pick, fleet));
        let (fields, replicas) = (demand.fields.as_deref(), context.replicas);
        Request { deployment, picks, model, replicas, runners: None, fields, fleet, is_ideal: false }
    }
}

fn picks_of(pick: &Pick, fleet: &Fleet) -> Picks {
    match pick {
        Pick::Nodes(nodes) => Picks::Nodes(nodes.iter().map(|node| Arc::clone(&fleet.node(*node).name)).collect()),
        Pick::Gpus(gpus) | Pick::AllGpus(gpus) => {
            let picked = gpus.iter().map(|gpu| {
                let node = fleet.node(gpu.node);
                let shape = node.shape.gpus.get(usize::from(gpu.index)).or(node.shape.gpus.first());
                PickedGpu {
                    node: Arc::clone(&node.name),
                    kind: shape.map_or(GpuKind::Unknown, |shape| GpuKind::of(shape.vendor)),
                    index: u32::from(gpu.index),
                }
            });
            Picks::Gpus(picked.collect())
        }
    }
}

/// Makes a placement. A replica has one task, on its main node. The task distinguishes the main node from the
/// subordinates.
pub(super) fn placeable(found: &Candidate, score: f64) -> Placeable {
    let main = node_claim(&found.main, 1);
    let claims = std::iter::once(main).chain(found.subordinates.iter().map(|share| node_claim(share, 0)));
    Placeable { placement: Placement::new(claims.collect()), score: Score::new(score) }
}

fn node_claim(share: &CandidatePart, tasks: u32) -> NodeClaim {
    let mut gpus: SmallVec<[GpuClaim; 2]> = (share.claims.iter())
        .map(|(index, bytes)| GpuClaim { index: *index as u16, share: GpuShare::ZERO, memory: Bytes::new(*bytes) })
        .collect();
    gpus.sort_by_key(|gpu| gpu.index);
    NodeClaim { tasks, ram: Bytes::new(share.ram), gpus, ..NodeClaim::of_nothing(NodeId::new(share.node)) }
}
