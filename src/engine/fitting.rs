//! Checks whether a model fits before it is deployed. Simulates the run up to a moment, then places one replica after
//! the other by the scheduler's own decisions. If a replica does not fit, tries single changes to the request or the
//! fleet and reports the changes that help.

use std::sync::Arc;

use super::records::Records;
use super::rehearsal::Rehearsal;
use super::replay::Replay;
use super::run::{RunOptions, run};
use dryrack_control::Profile;
use dryrack_event::{Reason, Refusal};
use dryrack_fleet::{Fleet, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_scheduler::deployment::{Need, findings};
use dryrack_scheduler::{Decision, Examination, Grouping, PlacementContext, decide_for, ever_fits, examine_for};
use dryrack_units::{Bytes, SimTime};
use dryrack_workload::{Backend, Demand, Deployment, JobSpec, ModelFacts};

/// The result of the check.
pub struct Fitting {
    pub at: SimTime,
    /// The fleet before the replicas were placed.
    pub fleet: Fleet,
    pub need: Result<Need, Reason>,
    pub replicas: u32,
    /// The placements of the replicas that fit, in order.
    pub placements: Vec<Placement>,
    /// GPUs that these placements overcommit. Only a historic profile overcommits GPUs.
    pub overcommitted: Vec<Overcommitted>,
    /// Why the next replica does not fit once the earlier replicas are placed.
    pub refused: Option<Refused>,
    /// Changes to the request or the fleet. Each of them alone makes all replicas fit. The smallest change comes first.
    pub changes: Vec<Change>,
}

impl Fitting {
    /// Whether all replicas are placed and have the memory that they need.
    pub fn fits(&self) -> bool {
        self.refused.is_none() && self.overcommitted.is_empty()
    }
}

/// A GPU on which a replica gets less memory than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overcommitted {
    /// The number of the replica, counted from 0.
    pub replica: u32,
    pub gpu: GpuId,
    /// Free memory of the GPU before the replica was placed, by the ledger.
    pub free: Bytes,
    /// Memory booked on the GPU for the replica.
    pub takes: Bytes,
    /// The memory that the replica needs on each of its GPUs. The backend divides a model evenly over them.
    pub part: Bytes,
}

pub struct Refused {
    pub refusal: Refusal,
    pub examination: Examination,
    /// The fleet after the replicas that fit were placed.
    pub fleet: Fleet,
}

/// A single change to the model or the fleet.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A replica may span several nodes.
    Distributed,
    /// The model is requested without a node selector.
    NoSelector,
    /// The model is requested without a hand pick of GPUs or nodes.
    NoPick,
    /// The backend arguments that set the number of GPUs are removed.
    NoParallelism,
    /// The backend reserves a different part of each GPU, in hundredths.
    Utilization { part: u32, instead_of: u32 },
    /// This node becomes ready.
    Ready(NodeId),
    /// The model's weights are at most this large.
    Weights(Bytes),
    /// The fleet gets more nodes like this one, ready and empty.
    MoreNodes {
        like: NodeId,
        count: u32,
        /// Whether a replica may also span several nodes.
        distributed: bool,
    },
}

/// The largest number of additional nodes that is tried.
const MOST_NODES: u32 = 64;

/// Checks a job that is not in the rehearsal. The check sees the fleet after all events of the instant `at`. If `at` is
/// `None`, it sees the fleet before any event.
pub fn fitting(rehearsal: &Rehearsal, demand: &Demand, replicas: u32, at: Option<SimTime>) -> Fitting {
    let fleet = fleet_at(rehearsal, at);
    // Filters that read other fields of the job see a job that states none of them.
    let demand = &*rehearsal.profile.scheduler.demand_of(&JobSpec::of("".into(), demand.clone()));
    let deployment = demand.model().expect("it is asked of models alone");
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

/// The fleet as the scenario declares it, before any event.
pub fn declared_fleet(rehearsal: &Rehearsal) -> Fleet {
    fleet_at(rehearsal, None)
}

fn fleet_at(rehearsal: &Rehearsal, at: Option<SimTime>) -> Fleet {
    let part = Rehearsal { until: Some(at.unwrap_or(SimTime::ZERO)), ..rehearsal.clone() };
    let part = match at {
        Some(_) => part,
        // Without a time, keep only the declared nodes and drop everything that happens in the first instant.
        None => Rehearsal {
            arrivals: Vec::new(),
            cancellations: Vec::new(),
            scalings: Vec::new(),
            faults: Vec::new(),
            ..part
        },
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

/// The result of placing the replicas one after another.
#[derive(Default)]
struct Placed {
    placements: Vec<Placement>,
    overcommitted: Vec<Overcommitted>,
    refused: Option<Refused>,
}

/// The parameters that all tries have in common.
struct Case<'a> {
    profile: &'a Profile,
    job: JobId,
    replicas: u32,
}

impl Case<'_> {
    fn context(&self) -> PlacementContext {
        PlacementContext { job: Some(self.job), replicas: self.replicas, ..PlacementContext::UNSUBMITTED }
    }

    /// Places the replicas one after another until one does not fit.
    fn place_all(&self, demand: &Demand, mut fleet: Fleet) -> Placed {
        let mut placed = Placed::default();
        let deployment = demand.model().expect("it is asked of models alone");
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
        let deployment = demand.model().expect("it is asked of models alone");
        let hosting = PlacementContext::hosting(self.job, deployment);
        fleet.host(AttemptId { job: self.job, replica: number, number: 1 }, placement, &hosting);
    }

    fn all_fit(&self, demand: &Demand, fleet: Fleet) -> bool {
        let placed = self.place_all(demand, fleet);
        placed.refused.is_none() && placed.overcommitted.is_empty()
    }

    /// Finds the changes that make all replicas fit. Changes to the request come first, then changes to existing nodes,
    /// then additional nodes.
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

    /// The part of each GPU to reserve, in steps of five hundredths, that makes all replicas fit and is nearest to the
    /// part that is reserved now. On a tie, takes the smaller part.
    fn nearest_utilization(&self, demand: &Demand, deployment: &Deployment, fleet: &Fleet) -> Option<Change> {
        let (need, _) = findings(&self.profile.scheduler.deployments, demand, deployment, self.context(), fleet);
        // A model that reserves no part of a GPU takes only what it needs, so another part cannot help.
        let reserved = need.ok().map(|need| hundredths(need.reserved.largest())).filter(|reserved| *reserved > 0)?;
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

    /// The largest weights with which all replicas fit, in steps of 64 MiB. The binary search assumes that a lighter
    /// model never needs more memory, so the result is checked again at the end.
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

    /// The kind of node that needs the fewest additional nodes. On a tie, takes the kind with the fewest GPUs, then the
    /// one that was declared first.
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

/// The GPUs of a placement that are overcommitted. Either the booked memory exceeds the free memory of the GPU, or it
/// is smaller than an equal part of what the replica needs. The equal part is rounded down.
fn overcommitted(
    replica: u32,
    need: &Result<Need, Reason>,
    deployment: &Deployment,
    placement: &Placement,
    fleet: &Fleet,
) -> Vec<Overcommitted> {
    let gpus: usize = placement.claims().iter().map(|claim| claim.gpus.len()).sum();
    // llama-box does not divide layers evenly over GPUs. So its booked memory is not compared with an equal part.
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

/// Converts a fraction to hundredths, rounded to the nearest.
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

/// Whether an argument tells a backend how many GPUs to use (vLLM 0.33.0, `vllm serve --help`; SGLang 0.5.9,
/// `server_args.py`).
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
    demand.kind = Arc::new(deployment).into();
    demand
}
