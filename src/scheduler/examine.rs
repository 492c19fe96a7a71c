//! Why each node is refused or taken. This is the plain computation: it judges each node, and collects everything that
//! an explanation shows.

use std::sync::Arc;

use super::context::PlacementContext;
use super::decision::Decision;
use super::dispatch::with_placer;
use super::finding::NodeFinding;
use super::options::SchedulerOptions;
use dryrack_fleet::Fleet;
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
