//! Waiting replicas whose instances are on their way, and what is known about offers and demands.

use std::collections::{BTreeMap, BTreeSet};

use super::super::store::ReplicaIndex;
use dryrack_fleet::Placement;
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::{SimDuration, SimTime};

/// Version of the list of waiting replicas: how often the list has changed, and the current time if the order depends
/// on time. If two versions are equal, the same replicas wait in the same order.
pub type WaitingChanges = (u64, SimTime);

/// An offer of a fleet's cloud, by its number.
pub type Offer = (FleetId, u32);

/// How long no further instances of an offer are requested after one of its instances failed to come up. Each further
/// failure doubles the time, up to the longest back-off.
///
/// Source: Kubernetes cluster-autoscaler 1.31, `main.go`, defaults of `--initial-node-group-backoff-duration` and
/// `--max-node-group-backoff-duration`.
const FIRST_BACKOFF: SimDuration = SimDuration::from_secs(5 * 60);
const LONGEST_BACKOFF: SimDuration = SimDuration::from_secs(30 * 60);

/// Waiting replicas whose instances are on their way, and what is known about offers and demands.
pub struct ScaleUp {
    /// Whether the core requests instances for waiting replicas. False if the flow requests instances itself.
    pub is_enabled: bool,
    /// The place of each of these replicas once its instances are up.
    pub upcoming: BTreeMap<ReplicaIndex, Placement>,
    /// Demands that fit on no instance of any cloud.
    pub never_fit: BTreeSet<u32>,
    /// Offers in back-off, because an instance failed to come up: the end and the length of each back-off.
    backoffs: BTreeMap<(FleetId, u32), (SimTime, SimDuration)>,
    /// The fleet's growth and the version of the waiting list at the end of the last search.
    pub searched: Option<(u64, WaitingChanges)>,
}

impl Default for ScaleUp {
    fn default() -> ScaleUp {
        ScaleUp {
            is_enabled: true,
            upcoming: BTreeMap::new(),
            never_fit: BTreeSet::new(),
            backoffs: BTreeMap::new(),
            searched: None,
        }
    }
}

impl ScaleUp {
    /// Starts the back-off of an offer whose instance has failed to come up, and returns its end.
    pub fn back_off(&mut self, offer: Offer, now: SimTime) -> SimTime {
        let before = self.backoffs.get(&offer).map(|(_, length)| length.saturating_mul(2));
        let length = before.unwrap_or(FIRST_BACKOFF).min(LONGEST_BACKOFF);
        let until = now.saturating_add(length);
        self.backoffs.insert(offer, (until, length));
        until
    }

    /// Clears the failures of an offer, because one of its instances is up.
    pub fn forget_failures(&mut self, offer: Offer) {
        self.backoffs.remove(&offer);
    }

    pub fn is_backed_off(&self, offer: Offer, now: SimTime) -> bool {
        self.backoffs.get(&offer).is_some_and(|(until, _)| *until > now)
    }

    pub fn is_backed_off_until(&self, offer: Offer, at: SimTime) -> bool {
        self.backoffs.get(&offer).is_some_and(|(until, _)| *until == at)
    }

    /// Whether a replica that still waits needs this instance.
    pub fn is_awaited(&self, node: NodeId, waits: impl Fn(ReplicaIndex) -> bool) -> bool {
        self.upcoming.iter().any(|(index, placement)| waits(*index) && placement.touches(node))
    }

    /// Makes the next search try all waiting replicas again, because fleets or their clouds have changed.
    pub fn search_again(&mut self) {
        self.never_fit.clear();
        self.searched = None;
    }
}
