//! The clouds of fleets: the instances that they make, and what is known of the instances that waiting replicas need. The
//! fleet is given to the methods that read it.

mod instances;
#[cfg(test)]
mod instances_tests;
mod scale_up;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use instances::{InstanceRecord, Instances};
pub use scale_up::{ScaleUp, WaitingChanges};

use super::store::ReplicaIndex;
use dryrack_fleet::{Cloud, Fleet, FleetPlacement, InstanceState, NodeState};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::{Money, SimTime};

#[derive(Default)]
pub struct Clouds {
    pub instances: Instances,
    pub scale_up: ScaleUp,
}

/// Places in which a cloud would make the next instances of an offer.
pub struct OfferPlaces {
    pub offer: u32,
    pub price: Money,
    pub places: Vec<NodeId>,
}

impl Clouds {
    /// Number of instances that exist or are on their way, not counting those that are being terminated.
    pub fn staying(&self, fleet: &Fleet, of: FleetId) -> u32 {
        fleet.live_instances(of) - self.instances.leaving(of)
    }

    /// The offers of a fleet, each with up to `count` places.
    pub fn absent_by_offer(&self, fleet: &Fleet, of: FleetId, count: u32) -> Vec<OfferPlaces> {
        let mut offers: BTreeMap<u32, (Money, Vec<NodeId>)> = BTreeMap::new();
        let near = self.cluster_of(fleet, of);
        for node in self.instances.of_fleet(of) {
            let shape = &fleet.node(node).shape;
            let Some(offer) = dryrack_fleet::offer_of(shape) else { continue };
            let left = fleet.instances_left(of).min(fleet.capacity_left(of, offer)).min(count);
            let is_near = near.is_none() || place_of(fleet, node) == near;
            let is_absent = fleet.is_unmade(node) && fleet.node(node).status.is_unused();
            let price = shape.price_per_hour.unwrap_or(Money::ZERO);
            let places = &mut offers.entry(offer).or_insert((price, Vec::new())).1;
            if is_near && is_absent && (places.len() as u32) < left {
                places.push(node);
            }
        }
        let each = offers.into_iter().map(|(offer, (price, places))| OfferPlaces { offer, price, places });
        each.filter(|offer| !offer.places.is_empty()).collect()
    }

    /// The backend and region of a cluster's instances. `None` if the fleet is not a cluster, or has no instances.
    fn cluster_of(&self, fleet: &Fleet, of: FleetId) -> Option<(Arc<str>, Arc<str>)> {
        match fleet.fleet(of).placement {
            FleetPlacement::Any => None,
            FleetPlacement::Cluster => {
                let is_there = |node: &NodeId| fleet.node(*node).status.state != NodeState::Gone;
                self.instances.of_fleet(of).find(is_there).and_then(|node| place_of(fleet, node))
            }
        }
    }

    /// The cheapest instance that the fleet's cloud would make. In a cluster, it must be in the region of the other
    /// instances.
    pub fn cheapest(&self, fleet: &Fleet, of: FleetId) -> Option<NodeId> {
        let offers = self.absent_by_offer(fleet, of, 1);
        offers.into_iter().map(|offer| (offer.price, offer.places[0])).min().map(|(_, node)| node)
    }

    /// Whether a cloud could make another instance for a waiting replica.
    pub fn may_scale_up(&self, fleet: &Fleet, now: SimTime) -> bool {
        let may_grow = |of: FleetId, cloud: &Cloud| {
            let may_make = |offer| fleet.capacity_left(of, offer) > 0 && !self.scale_up.is_backed_off((of, offer), now);
            fleet.instances_left(of) > 0 && (0..cloud.capacity.len() as u32).any(may_make)
        };
        self.scale_up.is_enabled && clouds(fleet).any(|(of, cloud)| may_grow(of, cloud))
    }

    /// For each offer, cheapest first: the places of up to `count` instances that the cloud could make. The flag is
    /// true if no offer is left out and each offer has places for `count` instances.
    pub fn places_to_make(&self, fleet: &Fleet, now: SimTime, count: u32) -> (Vec<Vec<NodeId>>, bool) {
        let mut offers = Vec::new();
        let mut is_whole = true;
        for (of, cloud) in clouds(fleet) {
            let found = self.absent_by_offer(fleet, of, count);
            is_whole &= found.len() == cloud.capacity.len();
            for OfferPlaces { offer, price, places } in found {
                let is_backed_off = self.scale_up.is_backed_off((of, offer), now);
                is_whole &= places.len() as u32 == count && !is_backed_off;
                if !is_backed_off {
                    offers.push((price, places));
                }
            }
        }
        offers.sort_by_key(|(price, places)| (*price, places.first().copied()));
        (offers.into_iter().map(|(_, places)| places).collect(), is_whole)
    }

    /// Forgets replicas that no longer wait, and replicas of which an instance was given up or has been taken by another
    /// replica. Such replicas are tried again.
    pub fn forget_served(&mut self, fleet: &Fleet, waits: impl Fn(ReplicaIndex) -> bool) {
        let Clouds { instances, scale_up } = self;
        let is_free = |node: NodeId| {
            let status = &fleet.node(node).status;
            instances.is_coming(node) || status.state == NodeState::Ready && status.is_unused()
        };
        scale_up
            .upcoming
            .retain(|index, placement| waits(*index) && placement.claims().iter().all(|claim| is_free(claim.node)));
    }

    /// Asserts that instances agree with their nodes, and that no fleet has more instances than its maximum.
    pub fn check(&self, fleet: &Fleet) {
        for (node, record) in self.instances.iter() {
            let status = &fleet.node(node).status;
            let name = &fleet.node(node).name;
            let gone = status.state == NodeState::Gone;
            assert_eq!(
                gone,
                record.state == InstanceState::Terminated,
                "{name} is {:?} while it is {:?}",
                record.state,
                status.state
            );
            match record.state {
                InstanceState::Pending | InstanceState::Provisioning => {
                    assert_eq!(status.state, NodeState::Joining, "{name}")
                }
                InstanceState::Idle => assert!(status.is_unused(), "{name} is idle, and something is there"),
                InstanceState::Busy => assert!(!status.is_unused(), "{name} is busy with nothing"),
                InstanceState::Terminating | InstanceState::Terminated => {}
            }
        }
        for (of, spec) in clouds(fleet).map(|(of, _)| (of, fleet.fleet(of))) {
            let most = spec.nodes.and_then(|nodes| nodes.max).unwrap_or(u32::MAX);
            assert!(fleet.live_instances(of) <= most, "{} has more instances than it may", spec.name);
        }
    }
}

/// The fleets whose instances a cloud makes.
fn clouds(fleet: &Fleet) -> impl Iterator<Item = (FleetId, &Cloud)> {
    fleet.fleets().filter_map(|(of, spec)| Some((of, spec.cloud.as_ref()?)))
}

/// The offer of an instance that a cloud makes, and its fleet.
pub fn offer_of(fleet: &Fleet, node: NodeId) -> Option<(FleetId, u32)> {
    let shape = &fleet.node(node).shape;
    Some((shape.instance.as_ref()?.fleet, dryrack_fleet::offer_of(shape)?))
}

/// The backend and region in which an instance is, or would be made.
fn place_of(fleet: &Fleet, node: NodeId) -> Option<(Arc<str>, Arc<str>)> {
    let instance = fleet.node(node).shape.instance.as_ref();
    instance.map(|own| (Arc::clone(&own.backend), Arc::clone(&own.region)))
}
