//! How clouds make and take instances: what a world draws from, apart from the draws.

use serde::Serialize;

use dryrack_ids::FleetId;
use dryrack_rng::Lengths;
use dryrack_units::{Permille, SimDuration, SimTime};

/// How the clouds of all fleets behave.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CloudModels {
    /// The offers of each fleet. The list of a fleet is empty if the fleet does not create instances.
    pub offers: Vec<Vec<OfferModel>>,
    /// Changes of capacity in order of time. Each entry is the time, the fleet, the index of the offer, and the number
    /// of instances that are available from then on.
    pub capacity: Vec<(SimTime, FleetId, u32, u32)>,
}

/// How one offer of a cloud behaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfferModel {
    /// The time from the request until an instance is up.
    pub provisioning: Lengths,
    /// The time from termination until the instance is gone.
    pub termination: SimDuration,
    /// How long an instance is up before the cloud takes it away. `None` if the cloud never does.
    pub interrupted: Option<Lengths>,
    /// The share of requests that the cloud refuses although it reported capacity.
    pub refused: Permille,
    /// The share of accepted requests for which the instance never comes up.
    pub failed: Permille,
}

impl OfferModel {
    /// An offer whose instances start at once and are never taken away.
    pub const IDEAL: OfferModel = OfferModel {
        provisioning: Lengths::Fixed(SimDuration::ZERO),
        termination: SimDuration::ZERO,
        interrupted: None,
        refused: Permille::ZERO,
        failed: Permille::ZERO,
    };
}

/// What happens to an instance or to a request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceTurn {
    Accepted,
    Up,
    /// The request was refused, or the instance was terminated or taken away.
    Gone,
}
