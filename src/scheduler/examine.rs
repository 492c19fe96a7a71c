//! Why a node is refused, and why another is taken: the plain computation, node by node, with everything that an
//! explanation shows.

use super::decide::Decision;
use super::deployment::PlacementContext;
use super::filter::FilterName;
use super::filter::Verdict;
use super::options::SchedulerOptions;
use super::placer::with_placer;
use super::scorer::ScorerName;
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, Score};
use dryrack_workload::Demand;

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

impl NodeFinding {
    /// A node of which nothing but the verdict is known.
    pub(super) fn of(node: NodeId, verdict: Verdict) -> NodeFinding {
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

/// Examines a demand as the decision about a job's replica does, which wants `keep` candidates and takes the first.
pub fn examine_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    keep: usize,
) -> Examination {
    with_placer(options, demand, context, fleet, |placer| {
        let decision = placer.decide_with_all(keep);
        Examination { nodes: placer.findings(&decision), decision }
    })
}
