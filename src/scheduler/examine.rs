//! Why not, and why here: the plain computation, node by node, with everything that an explanation shows.

use super::decide::{Decision, decide, judge};
use super::deployment::{Asking, NodeFound, findings};
use super::filter::{self, Verdict};
use super::fit;
use super::offers;
use super::options::{FilterName, SchedulerOptions, ScorerName};
use super::row::{Grouping, Row, rows};
use super::scorer;
use crate::event::Reason;
use crate::fleet::{Fleet, Node};
use crate::ids::NodeId;
use crate::units::{Bytes, Score};
use crate::workload::{Demand, Deployment, GpuTake};

/// One demand against every node.
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
    /// Every filter that refuses the node, with its own reason; the first is the one that counts.
    pub refusals: Vec<(FilterName, Reason)>,
    /// What is missing for one task, where resources are.
    pub shortages: Vec<Shortage>,
    /// Of a model: each GPU, what would be taken of it, and what is free.
    pub gpus: Vec<GpuFinding>,
    /// Tasks that would fit there.
    pub capacity: u32,
    pub scores: Vec<(ScorerName, Score)>,
    pub total: Score,
}

/// One GPU, for one replica of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFinding {
    pub index: u16,
    pub total: Bytes,
    /// If it were used alone.
    pub takes: Bytes,
    /// By the profile's accounting.
    pub free: Bytes,
}

/// An amount that is too small, in the unit its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: &'static str,
    pub needed: String,
    pub free: String,
}

pub fn examine(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Examination {
    if let Some(deployment) = &demand.deployment {
        return examine_deployment(options, demand, deployment, fleet);
    }
    let rows = rows(fleet, demand, Grouping::EachNode);
    let verdicts = match demand.requirements {
        Some(_) => offers::judge(&options.offers, demand, Asking::NOBODY, fleet, &rows),
        None => judge(options, demand, &rows),
    };
    let nodes = rows.iter().zip(verdicts).map(|(row, verdict)| find(options, demand, fleet, row, verdict)).collect();
    Examination { decision: decide(options, demand, fleet, Grouping::EachNode, usize::MAX), nodes }
}

/// Of a model: the candidates with their scores, and why each other node is none.
fn examine_deployment(
    options: &SchedulerOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
) -> Examination {
    let decision = decide(options, demand, fleet, Grouping::EachNode, usize::MAX);
    let candidates = match &decision {
        Decision::Place(candidates) => candidates.as_slice(),
        Decision::Refuse { .. } => &[],
    };
    let (_, found) = findings(&options.deployments, demand, deployment, fleet);
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

/// Of the GPU with most free, which lacks least of all.
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
    if let Some(gpus) = &task.gpus {
        let right = |index: &usize| row.allows_gpu(*index) && fit::is_of_type(gpus, &shape.gpus[*index]);
        let free = (0..shape.gpus.len()).filter(right).filter(|index| {
            let usable = status.gpus[*index].state.is_usable();
            usable
                && match gpus.take {
                    GpuTake::Whole => status.gpu_is_idle(*index),
                    GpuTake::Share(share) => status.gpu_share_free(*index) >= share,
                    GpuTake::Memory(memory) => status.gpu_memory_free(shape, *index) >= memory,
                }
        });
        let (needed, free) = (row.gpus_per_task(demand), free.count());
        compare("GPUs", u64::from(needed), free as u64, needed.to_string(), free.to_string());
    }
    found
}
