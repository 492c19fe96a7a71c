//! The inputs of a decision. So a later question about the decision can use the same fleet and the same demand.

use std::sync::Arc;

use super::context::PlacementContext;
use super::examine::{Examination, examine_for};
use super::node_class::Grouping;
use super::offers::{Ask, OfferPlacer, Plan, plan, seek};
use super::options::SchedulerOptions;
use super::placer::Placer;
use super::select::{Selectable, select_for};
use dryrack_fleet::Fleet;
use dryrack_ids::NodeId;
use dryrack_workload::Demand;

/// Everything that a decision reads besides the profile's options.
#[derive(Clone, Debug)]
pub struct SchedulerView {
    pub fleet: Fleet,
    pub demand: Arc<Demand>,
    pub context: PlacementContext,
    pub gang_part: GangPart,
    /// How many candidates the decision wants. A decision that wants one candidate draws it from several equal ones.
    pub keep: usize,
}

/// The nodes of a job that one decision covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangPart {
    /// All nodes of the demand.
    Whole,
    /// One node, with its own offer. For every node after the first, `master` is the place of the first node.
    Node { master: Option<NodeId> },
}

impl SchedulerView {
    /// The request for instances, if the demand has requirements.
    pub fn ask(&self) -> Option<Ask<'_>> {
        self.demand.requirements()?;
        let master = match self.gang_part {
            GangPart::Whole => None,
            GangPart::Node { master } => master,
        };
        Some(Ask { master, ..Ask::of_whole(&self.demand, self.context) })
    }

    /// Makes the decision again by the plain computation, with everything that an explanation shows.
    pub fn examine(&self, options: &SchedulerOptions) -> Examination {
        match (self.gang_part, self.ask()) {
            (GangPart::Node { .. }, Some(ask)) => {
                let (options, every) = (&options.offers, usize::MAX);
                let decision = seek(options, &self.demand, &ask, &self.fleet, Grouping::EachNode, every);
                let placer = OfferPlacer::new(options, &self.demand, ask, &self.fleet);
                Examination { nodes: placer.findings(&decision), decision, message: None }
            }
            (GangPart::Whole | GangPart::Node { .. }, _) => {
                examine_for(options, &self.demand, self.context, &self.fleet, self.keep)
            }
        }
    }

    /// The nodes and GPUs that could be picked manually.
    pub fn select(&self, options: &SchedulerOptions) -> Vec<Selectable> {
        select_for(options, &self.demand, self.context, &self.fleet)
    }

    /// The list of offers that a user sees.
    pub fn plan(&self, options: &SchedulerOptions) -> Option<Plan> {
        Some(plan(&options.offers, &self.ask()?, &self.fleet))
    }
}
