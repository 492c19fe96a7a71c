//! Why not, and why here: the plain computation, node by node, with everything that an explanation shows.

use super::decide::{Decision, decide, judge};
use super::filter::{self, Verdict};
use super::fit;
use super::options::{FilterName, SchedulerOptions, ScorerName};
use super::row::{Grouping, Row, rows};
use super::scorer;
use crate::event::Reason;
use crate::fleet::Fleet;
use crate::ids::NodeId;
use crate::units::Score;
use crate::workload::{Demand, GpuTake};

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
    /// Tasks that would fit there.
    pub capacity: u32,
    pub scores: Vec<(ScorerName, Score)>,
    pub total: Score,
}

/// An amount that is too small, in the unit its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: &'static str,
    pub needed: String,
    pub free: String,
}

pub fn examine(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Examination {
    let rows = rows(fleet, demand, Grouping::EachNode);
    let verdicts = judge(options, demand, &rows);
    let nodes = rows.iter().zip(verdicts).map(|(row, verdict)| find(options, demand, fleet, row, verdict)).collect();
    Examination { decision: decide(options, demand, fleet, Grouping::EachNode, usize::MAX), nodes }
}

fn find(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, row: &Row, verdict: Verdict) -> NodeFinding {
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
