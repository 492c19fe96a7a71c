//! Offers: what fleet instances have for one node of a job, in which order, and which of them it takes.
//!
//! A job that requires ranges of resources is offered a *slice* of each instance: the fewest blocks that match, or
//! all of them for a multi-node job. An offer is idle if that many blocks are idle, and busy otherwise. For an absent
//! instance that its cloud would make, the offer is new, and comes after the idle ones. Which fleets are considered,
//! in which order offers come, what a multi-node job takes and how its nodes stay together are options of the profile
//! ([`OfferOptions`]), each named after its rule.
//!
//! Pure: reads a fleet, changes nothing and knows no time. [`seek`] places a whole job. [`assign`] places one of
//! its nodes, for control planes that place them one after the other, and [`plan`] computes what the user is shown
//! before.

mod assign;
mod choose;
mod gang;
mod matching;
mod options;
mod pool;

pub use assign::{PLAN_OFFERS_MAX, assign, plan, seek};
pub(crate) use gang::OfferPlacer;
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

/// One node of a job, as far as the places of the others are known.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub requirements: &'a Requirements,
    /// The number of nodes of the whole job.
    pub nodes: u32,
    /// The number of nodes that a fleet must have room for: the job's nodes, or for a service one for each of its
    /// minimum replicas.
    pub room_for: u32,
    /// The fleet of the job, once it has one.
    pub fleet: Option<FleetId>,
    /// The place of its first node, for the later ones.
    pub master: Option<NodeId>,
}

impl<'a> Ask<'a> {
    /// The request for all nodes of one replica together.
    pub fn of_whole(demand: &'a Demand, context: PlacementContext) -> Ask<'a> {
        let requirements = demand.requirements().expect("offers are for a demand with requirements");
        let room_for = if demand.tasks == 1 { context.least } else { demand.tasks };
        Ask { requirements, nodes: demand.tasks, room_for, fleet: context.fleet, master: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    Idle,
    /// The instance is absent, and would be made.
    New,
    /// The slice would match, but fewer blocks are idle.
    Busy,
}

/// A slice of one instance that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub node: NodeId,
    pub fleet: FleetId,
    pub slice: Slice,
    pub total_blocks: u32,
    /// Price of the whole instance, per hour.
    pub price: Money,
    pub availability: Availability,
}

/// The offers that a user is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The fleet of the offers; `None` if there is none, or if they are from all fleets.
    pub fleet: Option<FleetId>,
    pub offers: Vec<Offer>,
}

/// The place of one node of a job.
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

/// Why one node of a job gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOffer {
    /// No fleet is considered.
    NoFleet,
    /// A fleet is considered, but has nothing idle.
    NoIdleInstance,
}
