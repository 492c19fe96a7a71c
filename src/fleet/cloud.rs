//! Counts the cloud instances of each fleet: those that exist, and those that the cloud could still create.
//!
//! A fleet that creates instances on demand has a place for each instance that it could have. A place is a node. The
//! node is `gone` until an instance is requested, `joining` while the instance is provisioned, and `gone` again after
//! the instance has ended. So a possible instance is a node like any other, and all ids and names are known from the
//! start.

use serde::{Deserialize, Serialize};

use super::Fleet;
use super::instance::Cloud;
use super::instance::Instance;
use super::node::{NodeShape, NodeState};
use dryrack_ids::{FleetId, NodeId};

/// The state of a cloud instance, which is kept in addition to the state of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// The instance was requested, and its cloud has not answered.
    Pending,
    /// The cloud is creating the instance.
    Provisioning,
    /// The instance is up and empty.
    Idle,
    Busy,
    /// The cloud was told to terminate the instance, and has not confirmed that it is gone.
    Terminating,
    /// There is no instance in this place now.
    Terminated,
}

impl InstanceState {
    pub const ALL: [InstanceState; 6] = [
        InstanceState::Pending,
        InstanceState::Provisioning,
        InstanceState::Idle,
        InstanceState::Busy,
        InstanceState::Terminating,
        InstanceState::Terminated,
    ];

    pub fn name(self) -> &'static str {
        match self {
            InstanceState::Pending => "pending",
            InstanceState::Provisioning => "provisioning",
            InstanceState::Idle => "idle",
            InstanceState::Busy => "busy",
            InstanceState::Terminating => "terminating",
            InstanceState::Terminated => "terminated",
        }
    }

    /// The initial state of an instance whose node is declared in this state.
    pub fn of(node: NodeState) -> InstanceState {
        match node {
            NodeState::Gone => InstanceState::Terminated,
            NodeState::Joining => InstanceState::Provisioning,
            NodeState::Ready | NodeState::NotReady | NodeState::Unreachable | NodeState::Maintenance => {
                InstanceState::Idle
            }
        }
    }

    /// Whether the instance was requested and is not up yet.
    pub fn is_coming(self) -> bool {
        matches!(self, InstanceState::Pending | InstanceState::Provisioning)
    }

    pub fn is_up(self) -> bool {
        matches!(self, InstanceState::Idle | InstanceState::Busy)
    }
}

/// The counts of one fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// The number of instances that are not gone.
    live: u32,
    /// For each offer, the number of its instances that are not gone, and its capacity.
    offers: Vec<(u32, u32)>,
}

impl Fleet {
    /// Whether the node is a place of an on-demand instance and no instance is there.
    pub fn is_unmade(&self, node: NodeId) -> bool {
        let known = self.node(node);
        known.status.state == NodeState::Gone && offer_of(&known.shape).is_some()
    }

    /// The number of instances of this fleet that exist or are being created.
    pub fn live_instances(&self, fleet: FleetId) -> u32 {
        self.counted[fleet.index()].live
    }

    /// How many more instances the fleet may have.
    pub fn instances_left(&self, fleet: FleetId) -> u32 {
        let most = self.fleet(fleet).nodes.and_then(|nodes| nodes.max);
        most.map_or(u32::MAX, |most| most.saturating_sub(self.live_instances(fleet)))
    }

    /// How many more instances of an offer the cloud could create. Ignores the fleet's own limit.
    pub fn capacity_left(&self, fleet: FleetId, offer: u32) -> u32 {
        let counted = self.counted[fleet.index()].offers.get(offer as usize);
        counted.map_or(0, |(live, most)| most.saturating_sub(*live))
    }

    /// How many instances of an offer can exist at the same time, including those that exist already.
    pub fn capacity(&self, fleet: FleetId, offer: u32) -> u32 {
        self.counted[fleet.index()].offers.get(offer as usize).map_or(0, |(_, most)| *most)
    }

    pub fn knows_offer(&self, fleet: FleetId, offer: u32) -> bool {
        self.counted.get(fleet.index()).is_some_and(|counted| (offer as usize) < counted.offers.len())
    }

    /// Sets how many instances of an offer can exist at the same time. Existing instances stay.
    pub fn set_capacity(&mut self, fleet: FleetId, offer: u32, capacity: u32) {
        self.counted[fleet.index()].offers[offer as usize].1 = capacity;
        self.version += 1;
        self.growth += 1;
    }

    pub(super) fn count_instance(&mut self, node: NodeId, from: NodeState, to: NodeState) {
        let shape = std::sync::Arc::clone(&self.node(node).shape);
        let Some(Instance { fleet, offer, .. }) = shape.instance.as_deref() else { return };
        // In a fleet that a test builds by hand, an instance may be declared before its fleet.
        let Some(counted) = self.counted.get_mut(fleet.index()) else { return };
        let change = |live: &mut u32| match (from == NodeState::Gone, to == NodeState::Gone) {
            (true, false) => *live += 1,
            (false, true) => *live -= 1,
            (true, true) | (false, false) => {}
        };
        change(&mut counted.live);
        if let Some((live, _)) = offer.and_then(|offer| counted.offers.get_mut(offer as usize)) {
            change(live);
        }
    }

    /// Checks the counts against the nodes.
    pub(super) fn assert_instances_counted(&self) {
        for (id, _) in self.fleets() {
            let own = |node: &&super::Node| node.shape.instance.as_ref().is_some_and(|own| own.fleet == id);
            let live = self.nodes.iter().filter(own).filter(|node| node.status.state != NodeState::Gone);
            assert_eq!(
                live.clone().count(),
                self.live_instances(id) as usize,
                "instances of {} are miscounted",
                id.index()
            );
            for (offer, (count, _)) in self.counted[id.index()].offers.iter().enumerate() {
                let of_offer = live.clone().filter(|node| offer_of(&node.shape) == Some(offer as u32)).count();
                assert_eq!(of_offer, *count as usize, "instances of offer {offer} are miscounted");
            }
        }
    }
}

impl Counted {
    pub fn of(cloud: Option<&Cloud>) -> Counted {
        let offers = cloud.map_or(Vec::new(), |cloud| cloud.capacity.iter().map(|most| (0, *most)).collect());
        Counted { live: 0, offers }
    }
}

/// The index of the offer from which an on-demand instance is created. `None` for other nodes.
pub fn offer_of(shape: &NodeShape) -> Option<u32> {
    shape.instance.as_ref().and_then(|instance| instance.offer)
}
