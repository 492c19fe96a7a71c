//! Why each node is refused or taken. This is the plain computation: it judges each node, and collects everything that
//! an explanation shows.

use std::sync::Arc;

use super::decide::Decision;
use super::deployment::PlacementContext;
use super::filter::Verdict;
use super::options::SchedulerOptions;
use super::placer::with_placer;
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, Score};
use dryrack_workload::Demand;

/// One demand judged on every node.
#[derive(Clone, Debug)]
pub struct Examination {
    pub decision: Decision,
    /// The findings, in order of node ids.
    pub nodes: Vec<NodeFinding>,
    /// What the modelled program says of the decision, in its own words.
    pub message: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub struct NodeFinding {
    pub node: NodeId,
    pub verdict: Verdict,
    /// Every filter that refuses the node, by its name and with its own reason. The first filter decides the verdict.
    pub refusals: Vec<(&'static str, Reason)>,
    /// The resources that are missing for one task, if any.
    pub shortages: Vec<Shortage>,
    /// For a model: each GPU, the memory that would be taken, and the memory that is free.
    pub gpus: Vec<GpuFinding>,
    /// How many tasks would fit on the node.
    pub capacity: u32,
    /// The score of each scorer, by its name.
    pub scores: Vec<(&'static str, Score)>,
    pub total: Score,
}

/// One GPU, judged for one replica of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFinding {
    pub index: u16,
    pub total: Bytes,
    /// The memory that the replica would take if it used this GPU alone.
    pub takes: Bytes,
    /// The free memory, as the profile accounts for it.
    pub free: Bytes,
}

/// A resource that a node does not have enough of. The name of the resource implies the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: &'static str,
    pub needed: String,
    pub free: String,
}

impl NodeFinding {
    /// A finding with only a verdict. Nothing else is known about the node.
    pub fn of(node: NodeId, verdict: Verdict) -> NodeFinding {
        NodeFinding {
            node,
            verdict,
            refusals: Vec::new(),
            shortages: Vec::new(),
            gpus: Vec::new(),
            capacity: u32::from(verdict.is_fit()),
            scores: Vec::new(),
            total: Score::ZERO,
        }
    }
}

/// Examines a demand that is not submitted yet.
pub fn examine(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Examination {
    examine_for(options, demand, PlacementContext::UNSUBMITTED, fleet, 1)
}

/// Examines a demand by the rules of a decision about a replica. The decision uses the first of at most `keep`
/// candidates.
pub fn examine_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    keep: usize,
) -> Examination {
    with_placer(options, demand, context, fleet, |placer| {
        let decision = placer.decide_with_all(keep);
        Examination { nodes: placer.findings(&decision), decision, message: None }
    })
}
