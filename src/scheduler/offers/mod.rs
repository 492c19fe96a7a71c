//! Offers: what instances of fleets have for one node of a job, in which order, and which of them it takes.
//!
//! A job that requires a range of this and a range of that is offered a *slice* of each instance: the fewest of its
//! blocks that match, all of them for a job of several nodes. An offer is idle if so many blocks are, else busy; of an instance that is not there, but
//! would be made by its cloud, it is new, and comes after those that are idle. Which
//! fleets are looked at, in which order offers come, what a job of several nodes takes and how its nodes stay together are
//! options of the profile ([`OfferOptions`]), each named for its rule.
//!
//! Pure: reads a fleet, changes nothing, knows no time. [`decide`] gives a whole job its place; [`assign`] gives one node
//! of it, for control planes that place one after the other, and [`plan`] what its user is shown before.

mod assign;
mod choose;
mod gang;
mod matching;
mod options;
mod pool;

pub use assign::{PLAN_OFFERS_MAX, assign, plan, seek};
pub use gang::{decide, ever_fits, judge, judge_for, still_fits};
pub use matching::smallest_slice;
pub use options::{
    FitTest, GangRule, MultinodeTakes, NetworkHost, NewInstances, OfferKey, OfferOptions, OfferPool, PinsRegion,
    SplitHosts, WithoutGpus,
};

use crate::PlacementContext;
use dryrack_fleet::{NodeClaim, Slice};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::Money;
use dryrack_workload::{Demand, Requirements};

/// One node of a job, as far as it is known where the others are.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub requirements: &'a Requirements,
    /// Of the whole job.
    pub nodes: u32,
    /// How many nodes a fleet is to have room for: those, or of a service one for each replica that it has at least.
    pub room_for: u32,
    /// The fleet the job has, once it has one.
    pub fleet: Option<FleetId>,
    /// Where its first node is, for the later ones.
    pub master: Option<NodeId>,
}

impl<'a> Ask<'a> {
    /// All nodes of one replica together.
    pub fn of_whole(demand: &'a Demand, context: PlacementContext) -> Ask<'a> {
        let Some(requirements) = demand.requirements.as_deref() else { panic!("a demand without requirements") };
        let room_for = if demand.tasks == 1 { context.least } else { demand.tasks };
        Ask { requirements, nodes: demand.tasks, room_for, fleet: context.fleet, master: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    Idle,
    /// The instance is not there, and would be made.
    New,
    /// The slice would match, but fewer blocks are idle.
    Busy,
}

/// A slice of one instance that would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub node: NodeId,
    pub fleet: FleetId,
    pub slice: Slice,
    pub total_blocks: u32,
    /// Of the whole instance, per hour.
    pub price: Money,
    pub availability: Availability,
}

/// The offers a user is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The one they are of; `None` where there is none, or where they are of all.
    pub fleet: Option<FleetId>,
    pub offers: Vec<Offer>,
}

/// Where one node of a job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub offer: Offer,
    /// The blocks themselves.
    pub claim: NodeClaim,
    pub network: Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Host,
    Bridge,
}

/// Why one node of a job goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOffer {
    /// No fleet is looked at.
    NoFleet,
    /// A fleet is, and has nothing idle.
    NoIdleInstance,
}
