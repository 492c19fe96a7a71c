//! Instances that clouds make. An instance is requested when an attempt finds no idle instance, or when a fleet has too
//! few. An instance that is idle for too long is terminated. The cloud's answers are inputs, like all other facts.

use std::sync::Arc;

use super::Core;
use super::parts::clouds::InstanceRecord;
use super::timer::Timer;
use dryrack_event::{Command, Event, Reason};
use dryrack_fleet::{FleetSpec, InstanceState, NodeSpec, NodeState, Placement};
use dryrack_ids::{FleetId, NodeId};
use dryrack_planted::planted;
use dryrack_policy::{InstancePurpose, idle_rule, longest_idle, may_give_back};
use dryrack_scheduler::offers::NewInstances;
use dryrack_units::SimDuration;
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
        self.clouds.instances.add_fleet(spec.cloud.is_some());
    }

    pub(super) fn declare_instance(&mut self, node: NodeId, state: NodeState, spec: &NodeSpec) {
        let Some(fleet) = spec.shape.instance.as_ref().map(|instance| instance.fleet) else { return };
        if self.clouds.instances.add(node, fleet, InstanceState::of(state), self.now) {
            self.time_instance(node);
        }
    }

    /// Requests the first instances of newly declared fleets.
    pub(crate) fn begin_fleets(&mut self) {
        for index in 0..self.clouds.instances.fleet_count() {
            let fleet = FleetId::new(index);
            let Some(cloud) = self.clouds.instances.cloud_of(fleet).filter(|cloud| !cloud.has_begun) else { continue };
            cloud.has_begun = true;
            let nodes = self.fleet.fleet(fleet).nodes;
            let target = nodes.map_or(0, |nodes| nodes.target);
            self.make_missing(fleet, target);
            self.schedule_minimum_check(fleet);
        }
    }

    /// Moves an instance from one state to another.
    fn change_instance(&mut self, node: NodeId, to: InstanceState, because: Reason) {
        let from = self.clouds.instances.enter(node, to, self.now);
        self.emit(Event::InstanceChanged { node, from, to, because });
        self.time_instance(node);
    }

    /// Sets the timer that limits the time in a state. Only states with such a limit have a timer.
    fn time_instance(&mut self, node: NodeId) {
        let InstanceRecord { fleet, state, made_for, of_run, since, epoch, .. } = *self.clouds.instances.of(node);
        match state {
            InstanceState::Pending => {
                let at = since.saturating_add(LONGEST_PROVISIONING);
                self.timers.set(at, Timer::NotProvisioned { node, asked: since });
            }
            InstanceState::Idle => {
                let cloud = self.fleet.fleet(fleet).cloud.as_ref().expect("its fleet is a cloud's");
                if let Some(longest) = longest_idle(idle_rule(cloud.idle_duration, of_run), made_for) {
                    let waits_for_pass = made_for == InstancePurpose::Run && self.clouds.scale_up.is_enabled;
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
        self.clouds.instances.request(node, made_for, of_run, self.now);
        self.set_reported(node, NodeState::Joining, because);
        self.change_instance(node, InstanceState::Pending, because);
        self.command(Command::Provision { node });
    }

    /// Terminates instances that were kept for the minimum and are no longer needed, because the instances of the
    /// placement count towards it. The placement may use one of the kept instances. So call this only when the whole
    /// placement is in the ledger.
    pub(crate) fn give_back_beside(&mut self, placement: &Placement) {
        for claim in placement.claims() {
            if let Some(fleet) = self.clouds.instances.get(claim.node).map(|record| record.fleet) {
                self.give_back_kept(fleet);
            }
        }
    }

    /// Updates an instance after its node reported a state. Returns whether the instance has just come up.
    pub(crate) fn instance_reported(&mut self, node: NodeId, state: NodeState) -> bool {
        let Some(InstanceRecord { fleet, state: known, .. }) = self.clouds.instances.get(node) else { return false };
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
        if self.clouds.instances.get(node).is_some_and(|record| record.state == InstanceState::Idle) {
            self.change_instance(node, InstanceState::Busy, Reason::InstanceWanted);
        }
    }

    /// Updates an instance after a claim on it was released.
    pub(super) fn instance_released(&mut self, node: NodeId) {
        let Some(record) = self.clouds.instances.get(node) else { return };
        if !self.fleet.node(node).status.is_unused() {
            return;
        }
        match record.state {
            InstanceState::Busy => self.change_instance(node, InstanceState::Idle, Reason::NotNeeded),
            // The attempt for which the instance was made has ended before the instance is up.
            InstanceState::Pending | InstanceState::Provisioning
                if record.made_for == InstancePurpose::Run && !planted!(InstanceOfEndedRunIsKept) =>
            {
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
        let is_awaited = self.clouds.scale_up.is_awaited(node, |index| self.store.waits_for_room(index));
        if is_awaited {
            let epoch = self.clouds.instances.of(node).epoch;
            self.timers.set(self.now.saturating_add(LEAST_IDLE), Timer::IdleTooLong { node, epoch });
            return;
        }
        let fleet = self.clouds.instances.keep(node);
        self.give_back_kept(fleet);
    }

    /// Terminates instances that were idle for too long, as far as the fleet's minimum allows.
    fn give_back_kept(&mut self, fleet: FleetId) {
        let nodes = self.fleet.fleet(fleet).nodes;
        while may_give_back(nodes, self.clouds.staying(&self.fleet, fleet)) {
            let Some(node) = self.clouds.instances.first_kept(fleet) else { return };
            self.give_back_instance(node, Reason::IdleTooLong);
        }
    }

    pub(crate) fn give_back_instance(&mut self, node: NodeId, because: Reason) {
        let fleet = self.clouds.instances.of(node).fleet;
        // From now on, no replica is placed on this node.
        self.set_reported(node, NodeState::NotReady, because);
        self.change_instance(node, InstanceState::Terminating, because);
        self.command(Command::Terminate { node });
        self.schedule_minimum_check(fleet);
    }

    /// Sets the timer after which a silent instance is terminated.
    pub(super) fn await_report_of(&mut self, node: NodeId) {
        if self.clouds.instances.is_up(node) {
            let Some(since) = self.nodes[node.index()].silent_since else { return };
            self.timers.set(self.now.saturating_add(LONGEST_SILENCE), Timer::SilentForLong { node, since });
        }
    }

    pub(crate) fn silent_for_long(&mut self, node: NodeId) {
        if self.clouds.instances.is_up(node) {
            self.give_back_instance(node, Reason::HeartbeatLost);
        }
    }

    /// Schedules a check for missing instances if a fleet has fewer than its minimum.
    fn schedule_minimum_check(&mut self, fleet: FleetId) {
        let min = self.fleet.fleet(fleet).nodes.map_or(0, |nodes| nodes.min);
        let is_short = self.clouds.staying(&self.fleet, fleet) < min && self.makes_instances();
        let now = self.now;
        let cloud = self.clouds.instances.cloud(fleet);
        if is_short && cloud.check_at.is_none() {
            let at = now.saturating_add(cloud.consolidation.pause());
            cloud.check_at = Some(at);
            self.timers.set(at, Timer::CheckMinimum { fleet, at });
        }
    }

    pub(crate) fn check_minimum(&mut self, fleet: FleetId) {
        let min = self.fleet.fleet(fleet).nodes.map_or(0, |nodes| nodes.min);
        let is_short = self.clouds.staying(&self.fleet, fleet) < min;
        let now = self.now;
        let cloud = self.clouds.instances.cloud(fleet);
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
        self.clouds.scale_up.is_enabled
            || self.profile.program.is_some()
            || self.profile.scheduler.offers.new_instances != NewInstances::Never
    }

    /// Requests the cheapest instances until the fleet has `wanted` instances, as far as capacity allows.
    fn make_missing(&mut self, fleet: FleetId, wanted: u32) {
        while self.makes_instances()
            && self.clouds.staying(&self.fleet, fleet) < wanted
            && self.fleet.instances_left(fleet) > 0
        {
            let Some(node) = self.clouds.cheapest(&self.fleet, fleet) else { return };
            self.make(node, (InstancePurpose::Fleet, None), Reason::FleetMinimum);
            self.give_back_kept(fleet);
        }
    }
}
