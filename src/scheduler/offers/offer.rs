//! Offers, and what a node of a job gets of them.

use dryrack_fleet::{NodeClaim, Slice};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::Money;

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
