//! Does a model fit, before anything is deployed: the run up to a moment, then one replica after the other by the very
//! decisions of the scheduler; and if not all of them fit, which single change would help, each tried and not guessed.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::run::{RunOptions, run};
use super::swarm::Records;
use dryrack_control::Profile;
use dryrack_event::{Reason, Refusal};
use dryrack_fleet::{Fleet, Hosting, NodeSpec, NodeState, Placement};
use dryrack_ids::{GpuId, JobId, NodeId, RunId};
use dryrack_scheduler::deployment::{Need, findings};
use dryrack_scheduler::{Decision, Examination, Grouping, PlacementContext, decide_for, ever_fits, examine_for};
use dryrack_units::{Bytes, SimTime};
use dryrack_workload::{Backend, Demand, Deployment, ModelFacts};

/// What was found.
pub struct Fitting {
    pub at: SimTime,
    /// As it stood before.
    pub fleet: Fleet,
    pub need: Result<Need, Reason>,
    pub replicas: u32,
    /// Of those that are placed, in order; as many as `replicas` if all are.
    pub placements: Vec<Placement>,
    /// GPUs that hold more than they can with these placements, which only a historic profile makes.
    pub overcommitted: Vec<Overcommitted>,
    /// Why the next one is not placed, with the others in place.
    pub refused: Option<Refused>,
    /// Each makes all replicas fit, the least first.
    pub changes: Vec<Change>,
}

impl Fitting {
    /// Whether all replicas have a place, and in it the memory that they need.
    pub fn fits(&self) -> bool {
        self.refused.is_none() && self.overcommitted.is_empty()
    }
}

/// A GPU on which a replica was placed that it cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommitted {
    /// Counted from 0.
    pub replica: u32,
    pub gpu: GpuId,
    /// By the ledger, before the replica.
    pub free: Bytes,
    /// What is booked for it.
    pub takes: Bytes,
    /// An equal part of what the replica needs. A backend divides a model evenly.
    pub part: Bytes,
}

pub struct Refused {
    pub refusal: Refusal,
    pub examination: Examination,
    /// With those replicas in place that fit.
    pub fleet: Fleet,
}

/// One thing that would be otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A replica may lie on several nodes.
    Distributed,
    /// Without its selector.
    NoSelector,
    /// Nothing picked by hand.
    NoPick,
    /// Without the arguments that say how many GPUs it takes.
    NoParallelism,
    /// So large a part of each GPU, in hundredths.
    Utilization { part: u32, instead_of: u32 },
    /// A node that is not ready is.
    Ready(NodeId),
    /// Weights of no more than this.
    Weights(Bytes),
    /// So many more nodes such as this one, ready and empty.
    MoreNodes {
        like: NodeId,
        count: u32,
        /// And a replica may lie on several nodes.
        distributed: bool,
    },
}

/// More nodes than these are not tried.
const MOST_NODES: u32 = 64;

/// Of one job that is not in the rehearsal, after everything of the instant `at` has happened; without it, before anything
/// has.
pub fn fitting(rehearsal: &Rehearsal, demand: &Demand, replicas: u32, at: Option<SimTime>) -> Fitting {
    let fleet = fleet_at(rehearsal, at);
    let deployment = demand.deployment.as_ref().expect("it is asked of models alone");
    let case = Case { profile: &rehearsal.profile, job: JobId::new(rehearsal.arrivals.len()), replicas };
    let (need, _) = findings(&case.profile.scheduler.deployments, demand, deployment, case.context(), &fleet);
    let Placed { placements, overcommitted, refused } = case.place_all(demand, fleet.clone());
    let at = at.unwrap_or(SimTime::ZERO);
    let mut found = Fitting { at, fleet, need, replicas, placements, overcommitted, refused, changes: Vec::new() };
    if !found.fits() {
        found.changes = case.changes(demand, deployment, &found.fleet);
    }
    found
}

/// The nodes as they are declared, before anything has happened.
pub fn declared_fleet(rehearsal: &Rehearsal) -> Fleet {
    fleet_at(rehearsal, None)
}

fn fleet_at(rehearsal: &Rehearsal, at: Option<SimTime>) -> Fleet {
    let part = Rehearsal { until: Some(at.unwrap_or(SimTime::ZERO)), ..rehearsal.clone() };
    let part = match at {
        Some(_) => part,
        // The nodes as they are declared, and nothing that comes in the first instant.
        None => Rehearsal { arrivals: Vec::new(), cancellations: Vec::new(), scalings: Vec::new(), ..part },
    };
    let part = Rehearsal { evaluations: Vec::new(), ..part };
    let mut records = Records::default();
    run(&part, RunOptions::default(), &mut [&mut records]);
    let mut replay = Replay::new(Arc::clone(&rehearsal.profile), rehearsal.seed);
    for record in &records.0 {
        replay.take(record).expect("what was just recorded replays");
    }
    replay.control.fleet().clone()
}

/// What became of the replicas, one after the other.
#[derive(Default)]
struct Placed {
    placements: Vec<Placement>,
    overcommitted: Vec<Overcommitted>,
    refused: Option<Refused>,
}

/// What does not change from one try to the next.
struct Case<'a> {
    profile: &'a Profile,
    job: JobId,
    replicas: u32,
}

impl Case<'_> {
    fn context(&self) -> PlacementContext {
        PlacementContext { job: Some(self.job), replicas: self.replicas, ..PlacementContext::UNSUBMITTED }
    }

    /// One replica after the other, until one is not placed.
    fn place_all(&self, demand: &Demand, mut fleet: Fleet) -> Placed {
        let mut placed = Placed::default();
        let deployment = demand.deployment.as_ref().expect("it is asked of models alone");
        let (need, _) = findings(&self.profile.scheduler.deployments, demand, deployment, self.context(), &fleet);
        for number in 0..self.replicas {
            match self.decide(demand, &fleet) {
                Some(placement) => {
                    placed.overcommitted.extend(overcommitted(number, &need, deployment, &placement, &fleet));
                    self.host(demand, number, &placement, &mut fleet);
                    placed.placements.push(placement);
                }
                None => {
                    let options = &self.profile.scheduler;
                    let ever = ever_fits(options, demand, &fleet);
                    let refusal = if ever { Refusal::Unfit } else { Refusal::Never };
                    let examination = examine_for(options, demand, self.context(), &fleet, 1);
                    placed.refused = Some(Refused { refusal, examination, fleet });
                    break;
                }
            }
        }
        placed
    }

    fn decide(&self, demand: &Demand, fleet: &Fleet) -> Option<Placement> {
        match decide_for(&self.profile.scheduler, demand, self.context(), fleet, Grouping::Classes, 1) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0).placement),
            Decision::Refuse { .. } => None,
        }
    }

    fn host(&self, demand: &Demand, number: u32, placement: &Placement, fleet: &mut Fleet) {
        let deployment = demand.deployment.as_ref().expect("it is asked of models alone");
        let hosting = Hosting {
            model: PlacementContext::key(self.job),
            model_name: Arc::clone(&deployment.model.name),
            backend: Arc::from(deployment.backend.name()),
        };
        fleet.host(RunId { job: self.job, replica: number, attempt: 1 }, placement, &hosting);
    }

    fn all_fit(&self, demand: &Demand, fleet: Fleet) -> bool {
        let placed = self.place_all(demand, fleet);
        placed.refused.is_none() && placed.overcommitted.is_empty()
    }

    /// What is only said otherwise first, then what is at hand, then what must be bought.
    fn changes(&self, demand: &Demand, deployment: &Deployment, fleet: &Fleet) -> Vec<Change> {
        let mut helpful: Vec<Change> = said_otherwise(demand, deployment);
        helpful.retain(|change| self.all_fit(&changed(demand, deployment, change), fleet.clone()));
        helpful.extend(self.nearest_utilization(demand, deployment, fleet));
        let silent = fleet.iter().filter(|(_, node)| node.status.state != NodeState::Ready).map(|(id, _)| id);
        helpful.extend(silent.filter(|node| self.fits_once_ready(demand, *node, fleet)).map(Change::Ready));
        helpful.extend(self.largest_weights(demand, deployment, fleet));
        helpful.extend(self.more_nodes(demand, false, fleet).or_else(|| {
            let distributed = changed(demand, deployment, &Change::Distributed);
            (!deployment.distributable).then(|| self.more_nodes(&distributed, true, fleet)).flatten()
        }));
        helpful
    }

    /// The part nearest to what is reserved that helps, in steps of five hundredths; of two as near, the smaller.
    fn nearest_utilization(&self, demand: &Demand, deployment: &Deployment, fleet: &Fleet) -> Option<Change> {
        let (need, _) = findings(&self.profile.scheduler.deployments, demand, deployment, self.context(), fleet);
        // What reserves nothing takes what it needs already.
        let reserved = need.ok().map(|need| hundredths(need.utilization)).filter(|reserved| *reserved > 0)?;
        let mut parts: Vec<u32> = (6..=19).map(|step| step * 5).filter(|part| *part != reserved).collect();
        parts.sort_by_key(|part| (part.abs_diff(reserved), *part));
        let changes = parts.into_iter().map(|part| Change::Utilization { part, instead_of: reserved });
        let mut helpful = changes.filter(|change| self.all_fit(&changed(demand, deployment, change), fleet.clone()));
        helpful.next()
    }

    fn fits_once_ready(&self, demand: &Demand, node: NodeId, fleet: &Fleet) -> bool {
        let mut fleet = fleet.clone();
        fleet.set_node_state(node, NodeState::Ready);
        self.all_fit(demand, fleet)
    }

    /// In steps of 64 MiB; that a lighter model never needs more is what the search rests on, so its end is tried.
    fn largest_weights(&self, demand: &Demand, deployment: &Deployment, fleet: &Fleet) -> Option<Change> {
        const STEP: u64 = 64 << 20;
        let fits = |steps: u64| {
            let change = Change::Weights(Bytes::new(steps * STEP));
            self.all_fit(&changed(demand, deployment, &change), fleet.clone())
        };
        let (mut low, mut high) = (0, deployment.model.weights.get() / STEP);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        let is_gguf = matches!(deployment.backend, Backend::LlamaBox(_));
        (low > 0 && !is_gguf && fits(low)).then(|| Change::Weights(Bytes::new(low * STEP)))
    }

    /// The kind of node of which fewest are needed; of those, the one with fewest GPUs, then the first.
    fn more_nodes(&self, demand: &Demand, distributed: bool, fleet: &Fleet) -> Option<Change> {
        if demand.pick.is_some() {
            return None;
        }
        let shapes = fleet.shapes().iter().filter(|group| !group.shape.gpus.is_empty());
        let needed = |first: NodeId| {
            let mut grown = fleet.clone();
            let most = self.replicas.saturating_mul(8).min(MOST_NODES);
            (1..=most).find(|number| {
                let like = fleet.node(first);
                let spec = NodeSpec { name: format!("{}+{number}", like.name).into(), shape: Arc::clone(&like.shape) };
                grown.declare(&spec, NodeState::Ready);
                self.all_fit(demand, grown.clone())
            })
        };
        let counted = shapes.filter_map(|group| Some((needed(group.first)?, group.shape.gpus.len(), group.first)));
        counted.min().map(|(count, _, like)| Change::MoreNodes { like, count, distributed })
    }
}

/// The GPUs of a placement that have less free than is booked of them, or of which less is booked than an equal part of
/// what is needed. A byte that was lost to rounding is none.
fn overcommitted(
    replica: u32,
    need: &Result<Need, Reason>,
    deployment: &Deployment,
    placement: &Placement,
    fleet: &Fleet,
) -> Vec<Overcommitted> {
    let gpus: usize = placement.claims().iter().map(|claim| claim.gpus.len()).sum();
    // Layers are not divided evenly, and what is booked for them is what they take.
    let divided = need.as_ref().ok().filter(|_| !matches!(deployment.backend, Backend::LlamaBox(_)));
    let part = divided.map_or(Bytes::ZERO, |need| Bytes::new(need.memory.get() / gpus.max(1) as u64));
    let mut found = Vec::new();
    for claim in placement.claims() {
        let node = fleet.node(claim.node);
        for taken in &claim.gpus {
            let free = node.status.gpu_memory_free(&node.shape, usize::from(taken.index));
            if taken.memory > free || taken.memory < part {
                let gpu = GpuId { node: claim.node, index: taken.index };
                found.push(Overcommitted { replica, gpu, free, takes: taken.memory, part });
            }
        }
    }
    found
}

/// A part of a whole, to the hundredth.
fn hundredths(part: f64) -> u32 {
    (part * 100.0 + 0.5) as u32
}

fn said_otherwise(demand: &Demand, deployment: &Deployment) -> Vec<Change> {
    let mut changes = Vec::new();
    changes.extend((!deployment.distributable).then_some(Change::Distributed));
    changes
        .extend(deployment.arguments.iter().any(|argument| is_parallelism(argument)).then_some(Change::NoParallelism));
    changes.extend(deployment.selector.as_ref().is_some_and(|asked| !asked.is_empty()).then_some(Change::NoSelector));
    changes.extend(demand.pick.is_some().then_some(Change::NoPick));
    changes
}

/// Names of arguments by which a backend is told on how many GPUs to lie (vLLM 0.33.0, `vllm serve
/// --help`; SGLang 0.5.9, `server_args.py`).
fn is_parallelism(argument: &str) -> bool {
    let name = argument.split(['=', ' ']).next().unwrap_or("").trim_start_matches('-');
    let words = ["tensor-parallel-size", "tp", "pipeline-parallel-size", "pp", "data-parallel-size", "dp"];
    words.contains(&name) || ["tp-size", "pp-size", "dp-size"].contains(&name)
}

fn changed(demand: &Demand, deployment: &Deployment, change: &Change) -> Demand {
    let mut demand = demand.clone();
    let mut deployment = deployment.clone();
    match change {
        Change::Distributed => deployment.distributable = true,
        Change::NoSelector => deployment.selector = None,
        Change::NoPick => {
            demand.pick = None;
            deployment.gpus_per_replica = None;
        }
        Change::NoParallelism => deployment.arguments.retain(|argument| !is_parallelism(argument)),
        Change::Utilization { part, .. } => {
            let name = deployment.backend.utilization();
            deployment.arguments.retain(|argument| !argument.trim_start_matches('-').starts_with(name));
            deployment.arguments.push(format!("--{name}=0.{part:02}").into());
        }
        Change::Weights(weights) => {
            deployment.model = ModelFacts { weights: *weights, ..deployment.model };
        }
        Change::Ready(_) | Change::MoreNodes { .. } => {}
    }
    demand.deployment = Some(Arc::new(deployment));
    demand
}
