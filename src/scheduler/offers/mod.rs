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

mod ask;
mod assign;
mod choose;
mod claim;
mod gang;
mod matching;
mod offer;
mod options;
mod pool;
#[cfg(test)]
mod tests;

pub use ask::Ask;
pub use assign::{PLAN_OFFERS_MAX, assign, plan, seek};
pub use choose::needs_spare_room;
pub(crate) use gang::OfferPlacer;
pub use matching::smallest_slice;
pub use offer::{Assigned, Availability, Network, NoOffer, Offer, Plan};
pub use options::{
    FitTest, GangRule, MultinodeTakes, NetworkHost, NewInstances, OfferKey, OfferOptions, OfferPool, PinsRegion,
    SplitHosts, WithoutGpus,
};
