//! The inputs of a decision. A question about the decision is put to the same fleet, with the same demand.

use std::sync::Arc;

use super::deployment::PlacementContext;
use super::examine::{Examination, examine_for};
use super::offers::{Ask, OfferPlacer, Plan, plan, seek};
use super::options::SchedulerOptions;
use super::placer::Placer;
use super::row::Grouping;
use super::select::{Selectable, select_for};
use dryrack_fleet::Fleet;
use dryrack_ids::NodeId;
use dryrack_workload::Demand;

/// Everything that a decision reads besides the options.
#[derive(Clone, Debug)]
pub struct Sight {
    pub fleet: Fleet,
    pub demand: Arc<Demand>,
    pub context: PlacementContext,
    pub seats: Seats,
    /// How many candidates the decision wants. If it wants one, one of several equal candidates is drawn.
    pub keep: usize,
}

/// How many nodes of a job one decision covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    /// All nodes of the demand.
    All,
    /// One node, with an offer of its own. For nodes after the first, `master` is where the first one is.
    One { master: Option<NodeId> },
}

impl Sight {
    /// What is asked of instances, if the demand requires any.
    pub fn ask(&self) -> Option<Ask<'_>> {
        self.demand.requirements()?;
        let master = match self.seats {
            Seats::All => None,
            Seats::One { master } => master,
        };
        Some(Ask { master, ..Ask::of_whole(&self.demand, self.context) })
    }

    /// Makes the decision again, by the plain computation and with everything that an explanation shows.
    pub fn examine(&self, options: &SchedulerOptions) -> Examination {
        match (self.seats, self.ask()) {
            (Seats::One { .. }, Some(ask)) => {
                let (options, every) = (&options.offers, usize::MAX);
                let decision = seek(options, &self.demand, &ask, &self.fleet, Grouping::EachNode, every);
                let placer = OfferPlacer::new(options, &self.demand, ask, &self.fleet);
                Examination { nodes: placer.findings(&decision), decision }
            }
            (Seats::All | Seats::One { .. }, _) => {
                examine_for(options, &self.demand, self.context, &self.fleet, self.keep)
            }
        }
    }

    /// What could be picked manually instead.
    pub fn select(&self, options: &SchedulerOptions) -> Vec<Selectable> {
        select_for(options, &self.demand, self.context, &self.fleet)
    }

    /// The list of offers that a user is shown.
    pub fn plan(&self, options: &SchedulerOptions) -> Option<Plan> {
        Some(plan(&options.offers, &self.ask()?, &self.fleet))
    }
}
