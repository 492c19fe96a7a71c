//! Conversions from a demand and a fleet to a request and its inputs, and from a candidate to a placement.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::candidate::{Candidate, Found, Share};
use super::evaluate::{first_refusal, with_selector};
use super::options::DeploymentOptions;
use super::request::{PickedGpu, Picks, Request};
use super::search::Search;
use super::{Answer, Evaluation, evaluate, filter, hardware, place, plan, score};
use crate::decide::{Candidate as Placeable, Decision};
use crate::draw::Draw;
use dryrack_event::{Reason, Refusal};
use dryrack_fleet::{Fleet, GpuClaim, GpuKind, ModelKey, NodeClaim, Placement, Serving};
use dryrack_ids::{FleetId, JobId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Score};
use dryrack_workload::{Demand, Deployment, Pick, Strategy};

/// The context of a decision: what it reads in addition to the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementContext {
    /// The job whose replicas count as the model's own; `None` before it is submitted.
    pub job: Option<JobId>,
    /// The total number of its replicas.
    pub replicas: u32,
    /// Its source of random numbers, if the options leave something to chance.
    pub draw: Draw,
    /// The fleet that its other replicas are in; it goes to no other one.
    pub fleet: Option<FleetId>,
    /// Its minimum number of replicas: a fleet is chosen only if it has room for this many.
    pub least: u32,
}

impl PlacementContext {
    /// The context of an evaluation before deployment, of one replica.
    pub const UNSUBMITTED: PlacementContext =
        PlacementContext { job: None, replicas: 1, draw: Draw::NONE, fleet: None, least: 1 };

    /// The key that marks a job's instances as instances of one model.
    pub fn key(job: JobId) -> ModelKey {
        ModelKey(job.index() as u64)
    }
}

/// Decides for one replica of a model. `keep` is the number of candidates wanted.
pub fn decide_deployment(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
    context: PlacementContext,
    keep: usize,
) -> Decision {
    let picks = picks_of(demand, fleet);
    let deployment = with_selector(options, &picks, Cow::Borrowed(deployment));
    let request = request(&deployment, picks, context);
    let serving = fleet.serving();
    match place(options, &request, &serving, keep) {
        Answer::Place(ranked) => {
            Decision::Place(ranked.iter().map(|(found, score)| placeable(found, *score)).collect())
        }
        Answer::Refuse(reasons) => {
            let ever = place(options, &request, fleet.idle_serving(), 1);
            let refusal = if matches!(ever, Answer::Place(_)) { Refusal::Unfit } else { Refusal::Never };
            Decision::Refuse { refusal, reasons }
        }
    }
}

/// The evaluation of a model before it is deployed, with reasons if it does not fit.
pub fn evaluate_deployment(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
) -> Evaluation {
    evaluate(options, &request(deployment, picks_of(demand, fleet), PlacementContext::UNSUBMITTED), &fleet.serving())
}

/// Whether the model would be judged compatible if every node were ready, healthy and empty.
pub fn ever_compatible(options: &DeploymentOptions, demand: &Demand, deployment: &Deployment, fleet: &Fleet) -> bool {
    let request = request(deployment, picks_of(demand, fleet), PlacementContext::UNSUBMITTED);
    first_refusal(&options.evaluation.checks, options, &request, fleet.idle_serving()).is_none()
        && ever_fits_deployment(options, demand, deployment, fleet)
}

/// Why the model is refused as soon as it is submitted, and whether an empty fleet would refuse it too.
pub fn refused_at_submission(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
) -> Option<(Refusal, Reason)> {
    let checks = &options.evaluation.at_submission;
    if checks.is_empty() {
        return None;
    }
    let request = request(deployment, picks_of(demand, fleet), PlacementContext::UNSUBMITTED);
    let reason = first_refusal(checks, options, &request, &fleet.serving())?;
    let for_ever = first_refusal(checks, options, &request, fleet.idle_serving()).is_some();
    Some((if for_ever { Refusal::Never } else { Refusal::Unfit }, reason))
}

/// The scores of the places that replicas of this model have, by its strategy and with everything that is there. For
/// a packed model all scores are zero: each replica is part of what fills its own GPU, so replicas cannot be
/// compared.
pub fn placement_scores(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
    context: PlacementContext,
    placements: &[&Placement],
) -> Vec<Score> {
    let none = || vec![Score::ZERO; placements.len()];
    if deployment.strategy == Strategy::Binpack {
        return none();
    }
    let request = request(deployment, picks_of(demand, fleet), context);
    let serving: Cow<Serving> = fleet.serving();
    let nodes: Vec<u32> = (0..serving.hosts().len() as u32).collect();
    let Ok(plan) = plan(options, &request) else { return none() };
    let hardware = hardware(options, &request, &serving);
    let search =
        Search { options, request: &request, serving: &serving, plan: &plan, nodes: &nodes, hardware: &hardware };
    let written = placements.iter().map(|placement| candidate_of(placement)).collect();
    let scores = score::scores(&search, &Found::Written(written));
    scores.map_or_else(|_| none(), |scores| scores.into_iter().map(Score::new).collect())
}

/// A candidate for scoring a placement by its main part.
fn candidate_of(placement: &Placement) -> Candidate {
    let main = placement.claims().iter().find(|claim| claim.tasks > 0).expect("a replica has its task on a node");
    let claims = main.gpus.iter().map(|gpu| (u32::from(gpu.index), gpu.memory.get()));
    let indexes = main.gpus.iter().map(|gpu| u32::from(gpu.index)).collect();
    let main = Share { node: main.node.index(), indexes, claims: claims.collect(), ram: main.ram.get() };
    Candidate { main, ..Candidate::default() }
}

/// Whether the model would fit if every node were ready, healthy and empty.
pub fn ever_fits_deployment(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
) -> bool {
    let picks = picks_of(demand, fleet);
    let deployment = with_selector(options, &picks, Cow::Borrowed(deployment));
    let request = request(&deployment, picks, PlacementContext::UNSUBMITTED);
    matches!(place(options, &request, fleet.idle_serving(), 1), Answer::Place(_))
}

/// Whether a placement decided earlier still passes every filter and still has its room.
pub fn still_fits_deployment(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
    placement: &Placement,
) -> bool {
    let picks = picks_of(demand, fleet);
    let deployment = with_selector(options, &picks, Cow::Borrowed(deployment));
    let request = request(&deployment, picks, PlacementContext::UNSUBMITTED);
    let serving = fleet.serving();
    let passing = filter::passing(options, &request, &serving, &hardware(options, &request, &serving));
    placement.claims().iter().all(|claim| {
        let node = fleet.node(claim.node);
        let (shape, status) = (&node.shape, &node.status);
        let pooled: Bytes =
            claim.gpus.iter().filter(|part| shape.gpus[usize::from(part.index)].unified).map(|part| part.memory).sum();
        let is_free = |part: &GpuClaim| {
            let index = usize::from(part.index);
            status.gpus[index].state.is_usable() && status.gpu_memory_free(shape, index) >= part.memory
        };
        passing.binary_search(&(claim.node.index() as u32)).is_ok()
            && status.ram_free(shape) >= pooled + claim.ram
            && claim.gpus.iter().all(is_free)
    })
}

pub(super) fn request<'d>(deployment: &'d Deployment, picks: Picks, context: PlacementContext) -> Request<'d> {
    let model = context.job.map(PlacementContext::key);
    Request { deployment, picks, model, replicas: context.replicas, runners: None }
}

pub(super) fn picks_of(demand: &Demand, fleet: &Fleet) -> Picks {
    match &demand.pick {
        None => Picks::Free,
        Some(Pick::Nodes(nodes)) => {
            Picks::Nodes(nodes.iter().map(|node| Arc::clone(&fleet.node(*node).name)).collect())
        }
        Some(Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
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

/// Makes a placement. A replica has one task, on its main node, which distinguishes that node from the subordinates.
fn placeable(found: &Candidate, score: f64) -> Placeable {
    let main = node_claim(&found.main, 1);
    let claims = std::iter::once(main).chain(found.subordinates.iter().map(|share| node_claim(share, 0)));
    Placeable { placement: Placement::new(claims.collect()), score: Score::new(score) }
}

fn node_claim(share: &Share, tasks: u32) -> NodeClaim {
    let mut gpus: SmallVec<[GpuClaim; 2]> = (share.claims.iter())
        .map(|(index, bytes)| GpuClaim { index: *index as u16, share: GpuShare::ZERO, memory: Bytes::new(*bytes) })
        .collect();
    gpus.sort_by_key(|gpu| gpu.index);
    NodeClaim {
        node: NodeId::new(share.node),
        tasks,
        cpu: MilliCpu::ZERO,
        ram: Bytes::new(share.ram),
        gpus,
        blocks: SmallVec::new(),
    }
}
