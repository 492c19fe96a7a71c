//! Instances that clouds make. An instance is requested when an attempt finds no idle instance, or when a fleet has too
//! few. An instance that is idle for too long is terminated. The cloud's answers are inputs, like all other facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Core;
use super::parts::instances::InstanceRecord;
use super::timer::Timer;
use dryrack_event::{Command, Event, Reason};
use dryrack_fleet::{Fleet, FleetPlacement, FleetSpec, InstanceState, NodeSpec, NodeState, Placement};
use dryrack_ids::{FleetId, NodeId};
use dryrack_policy::{InstancePurpose, idle_rule, longest_idle, may_give_back};
use dryrack_scheduler::offers::NewInstances;
use dryrack_units::{Money, SimDuration};
use dryrack_workload::IdleLimit;

/// Time limit from the request of an instance until it is up. After that, the instance is given up.
///
/// Source: dstack 0.22.5, provisioning timeout of most backends.
pub const LONGEST_PROVISIONING: SimDuration = SimDuration::from_secs(10 * 60);

/// Time from noticing that an instance is silent until the instance is terminated, even if attempts are on it.
///
/// Source: dstack 0.22.5, offset of the termination deadline of instances.
const LONGEST_SILENCE: SimDuration = SimDuration::from_secs(20 * 60);

/// Minimum idle time of an instance that was requested for a waiting replica. In this time, a pass can place a replica
/// on the instance.
const LEAST_IDLE: SimDuration = SimDuration::from_secs(2 * 60);

impl Core {
    pub(crate) fn declare_fleet(&mut self, fleet: FleetId, spec: &Arc<FleetSpec>) {
        let declared = self.fleet.declare_fleet(Arc::clone(spec));
        assert_eq!(declared, fleet, "fleets are declared in order of their ids");
        self.instances.add_fleet(spec.cloud.is_some());
    }

    pub(super) fn declare_instance(&mut self, node: NodeId, state: NodeState, spec: &NodeSpec) {
        let Some(fleet) = spec.shape.instance.as_ref().map(|instance| instance.fleet) else { return };
        if self.instances.add(node, fleet, InstanceState::of(state), self.now) {
            self.time_instance(node);
        }
    }

    /// Requests the first instances of newly declared fleets.
    pub(crate) fn begin_fleets(&mut self) {
        for index in 0..self.instances.fleet_count() {
            let fleet = FleetId::new(index);
            let Some(cloud) = self.instances.cloud_of(fleet).filter(|cloud| !cloud.has_begun) else { continue };
            cloud.has_begun = true;
            let nodes = self.fleet.fleet(fleet).nodes;
            let target = nodes.map_or(0, |nodes| nodes.target);
            self.make_missing(fleet, target);
            self.schedule_minimum_check(fleet);
        }
    }

    /// Moves an instance from one state to another.
    fn change_instance(&mut self, node: NodeId, to: InstanceState, because: Reason) {
        let from = self.instances.enter(node, to, self.now);
        self.emit(Event::InstanceChanged { node, from, to, because });
        self.time_instance(node);
    }

    /// Sets the timer that limits the time in a state. Only states with such a limit have a timer.
    fn time_instance(&mut self, node: NodeId) {
        let InstanceRecord { fleet, state, made_for, of_run, since, epoch, .. } = *self.instances.of(node);
        match state {
            InstanceState::Pending => {
                let at = since.saturating_add(LONGEST_PROVISIONING);
                self.timers.set(at, Timer::NotProvisioned { node, asked: since });
            }
            InstanceState::Idle => {
                let cloud = self.fleet.fleet(fleet).cloud.as_ref().expect("its fleet is a cloud's");
                if let Some(longest) = longest_idle(idle_rule(cloud.idle_duration, of_run), made_for) {
                    let waits_for_pass = made_for == InstancePurpose::Run && self.scale_up.is_enabled;
                    let longest = if waits_for_pass { longest.max(LEAST_IDLE) } else { longest };
                    self.timers.set(since.saturating_add(longest), Timer::IdleTooLong { node, epoch });
                }
            }
            InstanceState::Provisioning
            | InstanceState::Busy
            | InstanceState::Terminating
            | InstanceState::Terminated => {}
        }
    }

    /// Requests the instances that a placement needs and that do not exist yet.
    pub(crate) fn make_for(&mut self, placement: &Placement, of_run: Option<IdleLimit>) {
        for claim in placement.claims() {
            if self.fleet.is_unmade(claim.node) {
                self.make(claim.node, (InstancePurpose::Run, of_run), Reason::InstanceWanted);
            }
        }
    }

    fn make(&mut self, node: NodeId, (made_for, of_run): (InstancePurpose, Option<IdleLimit>), because: Reason) {
        self.instances.request(node, made_for, of_run, self.now);
        self.set_reported(node, NodeState::Joining, because);
        self.change_instance(node, InstanceState::Pending, because);
        self.command(Command::Provision { node });
    }

    /// Terminates instances that were kept for the minimum and are no longer needed, because the instances of the
    /// placement count towards it. The placement may use one of the kept instances. So call this only when the whole
    /// placement is in the ledger.
    pub(crate) fn give_back_beside(&mut self, placement: &Placement) {
        for claim in placement.claims() {
            if let Some(fleet) = self.instances.get(claim.node).map(|record| record.fleet) {
                self.give_back_kept(fleet);
            }
        }
    }

    /// Whether the instance was requested and is not up yet.
    pub(crate) fn is_coming(&self, node: NodeId) -> bool {
        self.instances.is_coming(node)
    }

    /// Whether a report of this state about an instance must be ignored.
    pub(crate) fn ignores_report(&self, node: NodeId, state: NodeState) -> bool {
        self.instances.ignores_report(node, state)
    }

    /// Updates an instance after its node reported a state. Returns whether the instance has just come up.
    pub(crate) fn instance_reported(&mut self, node: NodeId, state: NodeState) -> bool {
        let Some(InstanceRecord { fleet, state: known, .. }) = self.instances.get(node) else { return false };
        let (fleet, known) = (*fleet, *known);
        match (state, known) {
            (NodeState::Joining, InstanceState::Pending) => {
                self.change_instance(node, InstanceState::Provisioning, Reason::Reported);
            }
            (NodeState::Ready, InstanceState::Pending | InstanceState::Provisioning) => {
                if known == InstanceState::Pending {
                    self.change_instance(node, InstanceState::Provisioning, Reason::Reported);
                }
                let is_free = self.fleet.node(node).status.is_unused();
                let to = if is_free { InstanceState::Idle } else { InstanceState::Busy };
                self.change_instance(node, to, Reason::Provisioned);
                self.offer_holds(node);
                return true;
            }
            (NodeState::Gone, InstanceState::Terminated) => {}
            (NodeState::Gone, _) => {
                let because = match known {
                    InstanceState::Pending => Reason::CapacityTaken,
                    InstanceState::Provisioning => Reason::StartFailed,
                    InstanceState::Idle | InstanceState::Busy => Reason::TakenAway,
                    InstanceState::Terminating | InstanceState::Terminated => Reason::Reported,
                };
                self.change_instance(node, InstanceState::Terminated, because);
                if known.is_coming() {
                    self.offer_failed(node);
                }
                self.schedule_minimum_check(fleet);
            }
            (
                NodeState::Joining
                | NodeState::Ready
                | NodeState::NotReady
                | NodeState::Unreachable
                | NodeState::Maintenance,
                _,
            ) => {}
        }
        false
    }

    /// Makes an idle instance busy, after a claim was placed on it.
    pub(super) fn instance_taken(&mut self, node: NodeId) {
        if self.instances.get(node).is_some_and(|record| record.state == InstanceState::Idle) {
            self.change_instance(node, InstanceState::Busy, Reason::InstanceWanted);
        }
    }

    /// Updates an instance after a claim on it was released.
    pub(super) fn instance_released(&mut self, node: NodeId) {
        let Some(record) = self.instances.get(node) else { return };
        if !self.fleet.node(node).status.is_unused() {
            return;
        }
        match record.state {
            InstanceState::Busy => self.change_instance(node, InstanceState::Idle, Reason::NotNeeded),
            // The attempt for which the instance was made has ended before the instance is up.
            InstanceState::Pending | InstanceState::Provisioning if record.made_for == InstancePurpose::Run => {
                self.give_back_instance(node, Reason::NotNeeded);
            }
            InstanceState::Pending
            | InstanceState::Provisioning
            | InstanceState::Idle
            | InstanceState::Terminating
            | InstanceState::Terminated => {}
        }
    }

    pub(crate) fn idle_too_long(&mut self, node: NodeId) {
        // A waiting replica may still need this instance. For example, other instances of its gang are on their way.
        if self.is_awaited(node) {
            let epoch = self.instances.of(node).epoch;
            self.timers.set(self.now.saturating_add(LEAST_IDLE), Timer::IdleTooLong { node, epoch });
            return;
        }
        let fleet = self.instances.keep(node);
        self.give_back_kept(fleet);
    }

    /// Terminates instances that were idle for too long, as far as the fleet's minimum allows.
    fn give_back_kept(&mut self, fleet: FleetId) {
        let nodes = self.fleet.fleet(fleet).nodes;
        while may_give_back(nodes, self.staying(fleet)) {
            let Some(node) = self.instances.first_kept(fleet) else { return };
            self.give_back_instance(node, Reason::IdleTooLong);
        }
    }

    /// Number of instances that exist or are on their way, not counting those that are being terminated.
    fn staying(&self, fleet: FleetId) -> u32 {
        self.fleet.live_instances(fleet) - self.instances.leaving(fleet)
    }

    pub(crate) fn give_back_instance(&mut self, node: NodeId, because: Reason) {
        let fleet = self.instances.of(node).fleet;
        // From now on, no replica is placed on this node.
        self.set_reported(node, NodeState::NotReady, because);
        self.change_instance(node, InstanceState::Terminating, because);
        self.command(Command::Terminate { node });
        self.schedule_minimum_check(fleet);
    }

    /// Sets the timer after which a silent instance is terminated.
    pub(super) fn await_report_of(&mut self, node: NodeId) {
        if self.instances.is_up(node) {
            let Some(since) = self.nodes[node.index()].silent_since else { return };
            self.timers.set(self.now.saturating_add(LONGEST_SILENCE), Timer::SilentForLong { node, since });
        }
    }

    pub(crate) fn silent_for_long(&mut self, node: NodeId) {
        if self.instances.is_up(node) {
            self.give_back_instance(node, Reason::HeartbeatLost);
        }
    }

    /// Schedules a check for missing instances if a fleet has fewer than its minimum.
    fn schedule_minimum_check(&mut self, fleet: FleetId) {
        let min = self.fleet.fleet(fleet).nodes.map_or(0, |nodes| nodes.min);
        let is_short = self.staying(fleet) < min && self.makes_instances();
        let now = self.now;
        let cloud = self.instances.cloud(fleet);
        if is_short && cloud.check_at.is_none() {
            let at = now.saturating_add(cloud.consolidation.pause());
            cloud.check_at = Some(at);
            self.timers.set(at, Timer::CheckMinimum { fleet, at });
        }
    }

    pub(crate) fn check_minimum(&mut self, fleet: FleetId) {
        let min = self.fleet.fleet(fleet).nodes.map_or(0, |nodes| nodes.min);
        let is_short = self.staying(fleet) < min;
        let now = self.now;
        let cloud = self.instances.cloud(fleet);
        cloud.check_at = None;
        if !is_short {
            return cloud.consolidation.found_whole();
        }
        if cloud.consolidation.found_missing() {
            let at = now.saturating_add(cloud.consolidation.pause());
            cloud.check_at = Some(at);
            self.timers.set(at, Timer::CheckMinimum { fleet, at });
        }
        self.make_missing(fleet, min);
    }

    /// Whether instances are requested at all. The profile can forbid it for a flow that requests instances when it
    /// places replicas.
    fn makes_instances(&self) -> bool {
        self.scale_up.is_enabled
            || self.profile.program.is_some()
            || self.profile.scheduler.offers.new_instances != NewInstances::Never
    }

    /// The offers of a fleet. Each entry has the number of the offer, its price, and up to `count` places in which the
    /// cloud would make the next instances.
    pub(super) fn absent_by_offer(&self, fleet: FleetId, count: u32) -> Vec<(u32, Money, Vec<NodeId>)> {
        let mut offers: BTreeMap<u32, (Money, Vec<NodeId>)> = BTreeMap::new();
        let near = self.cluster_of(fleet);
        for node in self.instances.of_fleet(fleet) {
            let shape = &self.fleet.node(node).shape;
            let Some(offer) = dryrack_fleet::offer_of(shape) else { continue };
            let left = self.fleet.instances_left(fleet).min(self.fleet.capacity_left(fleet, offer)).min(count);
            let is_near = near.is_none() || place_of(&self.fleet, node) == near;
            let is_absent = self.fleet.is_unmade(node) && self.fleet.node(node).status.is_unused();
            let price = shape.price_per_hour.unwrap_or(Money::ZERO);
            let places = &mut offers.entry(offer).or_insert((price, Vec::new())).1;
            if is_near && is_absent && (places.len() as u32) < left {
                places.push(node);
            }
        }
        let each = offers.into_iter().map(|(offer, (price, places))| (offer, price, places));
        each.filter(|(.., places)| !places.is_empty()).collect()
    }

    /// The backend and region of a cluster's instances. `None` if the fleet is not a cluster, or has no instances.
    fn cluster_of(&self, fleet: FleetId) -> Option<(Arc<str>, Arc<str>)> {
        match self.fleet.fleet(fleet).placement {
            FleetPlacement::Any => None,
            FleetPlacement::Cluster => {
                let is_there = |node: &NodeId| self.fleet.node(*node).status.state != NodeState::Gone;
                self.instances.of_fleet(fleet).find(is_there).and_then(|node| place_of(&self.fleet, node))
            }
        }
    }

    /// Requests the cheapest instances until the fleet has `wanted` instances, as far as capacity allows.
    fn make_missing(&mut self, fleet: FleetId, wanted: u32) {
        while self.makes_instances() && self.staying(fleet) < wanted && self.fleet.instances_left(fleet) > 0 {
            let Some(node) = self.cheapest(fleet) else { return };
            self.make(node, (InstancePurpose::Fleet, None), Reason::FleetMinimum);
            self.give_back_kept(fleet);
        }
    }

    /// The cheapest instance that the fleet's cloud would make. In a cluster, it must be in the region of the other
    /// instances.
    fn cheapest(&self, fleet: FleetId) -> Option<NodeId> {
        let offers = self.absent_by_offer(fleet, 1);
        offers.into_iter().map(|(_, price, places)| (price, places[0])).min().map(|(_, node)| node)
    }

    /// Asserts that instances agree with their nodes, and that no fleet has more instances than its maximum.
    pub(super) fn assert_instances(&self) {
        for (node, record) in self.instances.iter() {
            let status = &self.fleet.node(node).status;
            let name = &self.fleet.node(node).name;
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
        for (fleet, spec) in self.fleet.fleets().filter(|(_, spec)| spec.cloud.is_some()) {
            let most = spec.nodes.and_then(|nodes| nodes.max).unwrap_or(u32::MAX);
            assert!(self.fleet.live_instances(fleet) <= most, "{} has more instances than it may", spec.name);
        }
    }
}

/// The backend and region in which an instance is, or would be made.
fn place_of(fleet: &Fleet, node: NodeId) -> Option<(Arc<str>, Arc<str>)> {
    let instance = fleet.node(node).shape.instance.as_ref();
    instance.map(|own| (Arc::clone(&own.backend), Arc::clone(&own.region)))
}
