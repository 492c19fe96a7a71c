//! Why a node is refused, and why another is taken: the plain computation, node by node, with everything that an
//! explanation shows.

use super::decide::{Decision, decide_for, judge};
use super::deployment::{NodeFound, PlacementContext, findings};
use super::filter::{self, Verdict};
use super::fit;
use super::offers;
use super::options::{FilterName, SchedulerOptions, Ties};
use super::row::{Grouping, Row, rows};
use super::scorer::{self, ScorerName};
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, Node};
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, GpuShare, Score};
use dryrack_workload::{Demand, Deployment, GpuDemand, GpuTake};

/// One demand judged on every node.
#[derive(Clone, Debug)]
pub struct Examination {
    pub decision: Decision,
    /// In order of node ids.
    pub nodes: Vec<NodeFinding>,
}

#[derive(Clone, Debug)]
pub struct NodeFinding {
    pub node: NodeId,
    pub verdict: Verdict,
    /// Every filter that refuses the node, with its own reason. The first one counts.
    pub refusals: Vec<(FilterName, Reason)>,
    /// What is missing for one task, if resources are.
    pub shortages: Vec<Shortage>,
    /// For a model: each GPU, what would be taken of it, and what is free.
    pub gpus: Vec<GpuFinding>,
    /// How many tasks would fit there.
    pub capacity: u32,
    pub scores: Vec<(ScorerName, Score)>,
    pub total: Score,
}

/// One GPU, for one replica of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFinding {
    pub index: u16,
    pub total: Bytes,
    /// What would be taken if it were used alone.
    pub takes: Bytes,
    /// By the profile's accounting.
    pub free: Bytes,
}

/// An amount that is too small, in the unit that its name implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: &'static str,
    pub needed: String,
    pub free: String,
}

/// Examines a demand that is not submitted yet.
pub fn examine(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Examination {
    examine_for(options, demand, PlacementContext::UNSUBMITTED, fleet, 1)
}

/// Examines a demand as the decision about a job's replica does, which wants `keep` candidates and takes the first.
pub fn examine_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    keep: usize,
) -> Examination {
    if let Some(deployment) = &demand.deployment {
        return examine_deployment(options, demand, deployment, context, fleet);
    }
    let rows = rows(fleet, demand, Grouping::EachNode);
    let verdicts = match demand.requirements {
        Some(_) => offers::judge(&options.offers, demand, context, fleet, &rows),
        None => judge(options, demand, &rows),
    };
    let nodes = rows.iter().zip(verdicts).map(|(row, verdict)| find(options, demand, fleet, row, verdict)).collect();
    Examination { decision: decision(options, demand, context, fleet, keep), nodes }
}

/// Examines one node of a job whose nodes are placed one by one.
pub(super) fn examine_offers(
    options: &SchedulerOptions,
    demand: &Demand,
    ask: &offers::Ask<'_>,
    fleet: &Fleet,
) -> Examination {
    let decision = offers::seek(&options.offers, demand, ask, fleet, Grouping::EachNode, usize::MAX);
    let rows = rows(fleet, demand, Grouping::EachNode);
    let verdicts = offers::judge_for(&options.offers, ask, fleet, &rows);
    let nodes = rows.iter().zip(verdicts).map(|(row, verdict)| find(options, demand, fleet, row, verdict)).collect();
    Examination { decision, nodes }
}

/// The decision with every candidate. If one of several equal candidates is drawn, it comes first.
fn decision(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    keep: usize,
) -> Decision {
    let mut decision = decide_for(options, demand, context, fleet, Grouping::EachNode, usize::MAX);
    if options.ties == Ties::Random
        && keep == 1
        && let Decision::Place(candidates) = &mut decision
        && let Decision::Place(drawn) = decide_for(options, demand, context, fleet, Grouping::EachNode, 1)
    {
        candidates.retain(|candidate| candidate.placement != drawn[0].placement);
        candidates.insert(0, drawn[0].clone());
    }
    decision
}

/// Examines a model: the candidates with their scores, and why every other node is not one.
fn examine_deployment(
    options: &SchedulerOptions,
    demand: &Demand,
    deployment: &Deployment,
    context: PlacementContext,
    fleet: &Fleet,
) -> Examination {
    let decision = decision(options, demand, context, fleet, 1);
    let candidates = match &decision {
        Decision::Place(candidates) => candidates.as_slice(),
        Decision::Refuse { .. } => &[],
    };
    let (_, found) = findings(&options.deployments, demand, deployment, context, fleet);
    let find = |(node, found): ((NodeId, &Node), NodeFound)| {
        let reason = found.reason;
        let best = candidates.iter().find(|candidate| candidate.placement.touches(node.0));
        let verdict = match (best, reason) {
            (Some(_), _) | (None, None) => Verdict::Fit,
            (None, Some(reason)) => Verdict::Unfit(reason),
        };
        NodeFinding {
            node: node.0,
            verdict,
            shortages: if best.is_none() { memory_shortage(&found) } else { Vec::new() },
            refusals: found.refusals,
            gpus: found.gpus,
            capacity: u32::from(best.is_some()),
            scores: Vec::new(),
            total: best.map_or(Score::ZERO, |candidate| candidate.score),
        }
    };
    let nodes = fleet.iter().zip(found).map(find).collect();
    Examination { decision, nodes }
}

/// The shortage of the GPU that lacks least, if no GPU has enough.
fn memory_shortage(found: &NodeFound) -> Vec<Shortage> {
    let short = found.gpus.iter().filter(|gpu| gpu.free < gpu.takes);
    let least = short.min_by_key(|gpu| (gpu.takes.saturating_sub(gpu.free), gpu.index));
    let is_any_free = found.gpus.iter().any(|gpu| gpu.free >= gpu.takes);
    let said = |gpu: &GpuFinding| Shortage {
        resource: "GPU memory",
        needed: gpu.takes.to_string(),
        free: gpu.free.to_string(),
    };
    least.filter(|_| !is_any_free).map(said).into_iter().collect()
}

fn find(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, row: &Row, verdict: Verdict) -> NodeFinding {
    if demand.requirements.is_some() {
        return NodeFinding {
            node: row.first(),
            verdict,
            refusals: Vec::new(),
            gpus: Vec::new(),
            shortages: Vec::new(),
            capacity: u32::from(verdict.is_fit()),
            scores: Vec::new(),
            total: Score::ZERO,
        };
    }
    let mut refusals = Vec::new();
    for stage in &options.filters {
        let mut alone = [Verdict::Fit];
        filter::apply(stage, options.gpus, demand, std::slice::from_ref(row), &mut alone);
        refusals.extend(alone[0].reason().map(|reason| (stage.stage, reason)));
    }
    let capacity = if verdict.is_fit() { fit::capacity(demand, options.gpus, row, demand.tasks) } else { 0 };
    let score = |stage| scorer::score(options, stage, fleet.largest(), demand, row);
    NodeFinding {
        node: row.first(),
        verdict,
        shortages: shortages(demand, row),
        gpus: Vec::new(),
        refusals,
        capacity,
        scores: options.scorers.iter().map(|scorer| (scorer.stage, score(scorer.stage))).collect(),
        total: scorer::total(options, fleet.largest(), demand, row),
    }
}

fn shortages(demand: &Demand, row: &Row) -> Vec<Shortage> {
    let (task, shape, status) = (&demand.task, row.shape, row.status);
    let mut found = Vec::new();
    let mut compare = |resource, needed: u64, free: u64, needed_text: String, free_text: String| {
        if free < needed {
            found.push(Shortage { resource, needed: needed_text, free: free_text });
        }
    };
    let (cpu, ram) = (status.cpu_free(shape), status.ram_free(shape));
    compare("CPU", task.cpu.get(), cpu.get(), task.cpu.to_string(), cpu.to_string());
    compare("RAM", task.ram.get(), ram.get(), task.ram.to_string(), ram.to_string());
    let gpus = task.gpus.as_ref().and_then(|gpus| gpu_shortage(demand, gpus, row));
    found.extend(gpus);
    found
}

/// The shortage of GPUs that would fit if more of them were free: for whole GPUs, how many are idle; otherwise, the
/// most that is free on one of them.
fn gpu_shortage(demand: &Demand, gpus: &GpuDemand, row: &Row) -> Option<Shortage> {
    let (shape, status) = (row.shape, row.status);
    let would_do = |index: &usize| {
        row.allows_gpu(*index) && fit::is_of_type(gpus, &shape.gpus[*index]) && status.gpus[*index].state.is_usable()
    };
    let usable = || (0..shape.gpus.len()).filter(would_do);
    let needed = row.gpus_per_task(demand);
    let short = |resource, count: usize, part: String, most: String| {
        let is_short = (count as u32) < needed;
        let (needed, free) = match needed {
            0 | 1 => (part, most),
            _ => (format!("{needed} x {part}"), format!("{count} x {part}")),
        };
        is_short.then_some(Shortage { resource, needed, free })
    };
    match gpus.take {
        GpuTake::Whole => {
            let idle = usable().filter(|index| status.gpu_is_idle(*index)).count();
            let (needed_text, free) = (needed.to_string(), idle.to_string());
            ((idle as u32) < needed).then_some(Shortage { resource: "GPUs", needed: needed_text, free })
        }
        GpuTake::Share(share) => {
            let free = || usable().map(|index| status.gpu_share_free(index));
            let most = free().max().unwrap_or(GpuShare::ZERO);
            short("GPU", free().filter(|free| *free >= share).count(), share.to_string(), most.to_string())
        }
        GpuTake::Memory(memory) => {
            let free = || usable().map(|index| status.gpu_memory_free(shape, index));
            let most = free().max().unwrap_or(Bytes::ZERO);
            short("GPU memory", free().filter(|free| *free >= memory).count(), memory.to_string(), most.to_string())
        }
    }
}
