//! What a decision reads: a question about it is put to the same fleet, in the same words.

use std::sync::Arc;

use super::deployment::PlacementContext;
use super::examine::{Examination, examine_for, examine_offers};
use super::offers::{Ask, Plan, plan};
use super::options::SchedulerOptions;
use super::select::{Selectable, select_for};
use dryrack_fleet::Fleet;
use dryrack_ids::NodeId;
use dryrack_workload::Demand;

/// All that a decision reads beside the options.
#[derive(Clone, Debug)]
pub struct Sight {
    pub fleet: Fleet,
    pub demand: Arc<Demand>,
    pub context: PlacementContext,
    pub seats: Seats,
    /// How many candidates the decision wants: of equals one is drawn where that is one.
    pub keep: usize,
}

/// How many nodes of a job are decided about at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    /// All that the demand has.
    All,
    /// One, on an offer of its own; where the first node is, for those after it.
    One { master: Option<NodeId> },
}

impl Sight {
    /// What is asked of instances, where they are asked for.
    pub fn ask(&self) -> Option<Ask<'_>> {
        self.demand.requirements.as_ref()?;
        let master = match self.seats {
            Seats::All => None,
            Seats::One { master } => master,
        };
        Some(Ask { master, ..Ask::of_whole(&self.demand, self.context) })
    }

    /// The decision again, by the plain computation and with everything that an explanation shows.
    pub fn examine(&self, options: &SchedulerOptions) -> Examination {
        match (self.seats, self.ask()) {
            (Seats::One { .. }, Some(ask)) => examine_offers(options, &self.demand, &ask, &self.fleet),
            (Seats::All | Seats::One { .. }, _) => {
                examine_for(options, &self.demand, self.context, &self.fleet, self.keep)
            }
        }
    }

    /// What could be picked by hand instead.
    pub fn select(&self, options: &SchedulerOptions) -> Vec<Selectable> {
        select_for(options, &self.demand, self.context, &self.fleet)
    }

    /// The list of offers that a user is shown.
    pub fn plan(&self, options: &SchedulerOptions) -> Option<Plan> {
        Some(plan(&options.offers, &self.ask()?, &self.fleet))
    }
}
