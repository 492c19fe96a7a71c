//! Offers: what instances of fleets offer to one node of a job, in which order, and which offer the node takes.
//!
//! A job states ranges of resources. Each instance offers it a *slice*: all blocks for a multi-node job, and the fewest
//! blocks that match for any other job. An offer is idle if that many blocks are idle, and busy otherwise. An offer is
//! new if the instance does not exist yet and its cloud would create it. New offers come after idle ones. The options
//! of the profile ([`OfferOptions`]) decide which fleets are considered, how offers are ordered, what a multi-node job
//! takes, and how its nodes stay together. Each option is named after its rule.
//!
//! This module reads a fleet, changes nothing and knows no time. [`seek`] decides about one node, for control planes
//! that place the nodes of a job one after the other. [`assign`] finds the instance of one node, and [`plan`] lists the
//! offers that a user sees before submitting.

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

/// The request of one node of a job, and what is known about the places of the other nodes.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub requirements: &'a Requirements,
    /// The number of nodes of the whole job.
    pub nodes: u32,
    /// The number of nodes for which a fleet must have room. For a service, this is one node for each of its minimum
    /// replicas; for other jobs, all nodes of the job.
    pub room_for: u32,
    /// The fleet of the job, if it already has one.
    pub fleet: Option<FleetId>,
    /// The place of the job's first node, if it is already placed. Later nodes may have to be near it.
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
    /// The instance does not exist yet and would be created.
    New,
    /// The slice matches, but too few blocks are idle.
    Busy,
}

/// A matching slice of one instance.
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

/// The offers that a user sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The fleet of the offers. `None` if there is no offer, or if the offers come from all fleets.
    pub fleet: Option<FleetId>,
    pub offers: Vec<Offer>,
}

/// The place of one node of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub offer: Offer,
    /// The assigned blocks.
    pub claim: NodeClaim,
    pub network: Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Host,
    Bridge,
}

/// Why one node of a job gets no offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOffer {
    /// No fleet is considered.
    NoFleet,
    /// Fleets are considered, but they have no idle instance.
    NoIdleInstance,
}
