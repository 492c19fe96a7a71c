//! The records of instances that clouds make, and of the fleets that they belong to.

use std::collections::{BTreeMap, BTreeSet};

use dryrack_fleet::{InstanceState, NodeState};
use dryrack_ids::{FleetId, NodeId};
use dryrack_lifecycle::is_instance_edge;
use dryrack_policy::{Consolidation, InstancePurpose};
use dryrack_units::SimTime;
use dryrack_workload::IdleLimit;

/// The instances of all fleets, and the records of the fleets whose instances a cloud makes.
#[derive(Default)]
pub struct Instances {
    /// For each fleet, its cloud record. `None` for a fleet whose instances all exist from the start.
    clouds: Vec<Option<CloudRecord>>,
    /// Records of all instances of cloud fleets. A record exists even for a place without an instance.
    records: BTreeMap<NodeId, InstanceRecord>,
}

/// A fleet whose instances a cloud makes.
#[derive(Default)]
pub struct CloudRecord {
    pub consolidation: Consolidation,
    /// When the fleet next checks for missing instances; `None` if no check is due.
    pub check_at: Option<SimTime>,
    /// Whether the first instances of the fleet have been requested.
    pub has_begun: bool,
    /// Instances that are being terminated.
    leaving: u32,
    /// Instances that were idle for too long but are kept for the fleet's minimum. The longest idle instance comes
    /// first.
    kept: BTreeSet<(SimTime, NodeId)>,
}

/// An instance, or a place where an instance can be made.
pub struct InstanceRecord {
    pub fleet: FleetId,
    pub state: InstanceState,
    pub made_for: InstancePurpose,
    /// The idle limit stated by the attempt for which the instance was made.
    pub of_run: Option<IdleLimit>,
    /// When the instance entered its state.
    pub since: SimTime,
    /// When the instance was requested.
    pub asked: SimTime,
    /// Increases with every change of the state. An increase makes all timers of the old state void.
    pub epoch: u64,
}

impl Instances {
    /// Adds the next fleet.
    pub fn add_fleet(&mut self, has_cloud: bool) {
        self.clouds.push(has_cloud.then(CloudRecord::default));
    }

    /// Number of declared fleets.
    pub fn fleet_count(&self) -> usize {
        self.clouds.len()
    }

    /// The cloud of a fleet. `None` if all instances of the fleet exist from the start.
    pub fn cloud_of(&mut self, fleet: FleetId) -> Option<&mut CloudRecord> {
        self.clouds[fleet.index()].as_mut()
    }

    /// The cloud of a fleet that has one.
    pub fn cloud(&mut self, fleet: FleetId) -> &mut CloudRecord {
        self.cloud_of(fleet).expect("its fleet is a cloud's")
    }

    /// Adds an instance of a fleet, or a place for one. Returns whether a cloud makes the instances of this fleet;
    /// others have no record.
    pub fn add(&mut self, node: NodeId, fleet: FleetId, state: InstanceState, now: SimTime) -> bool {
        let has_cloud = self.clouds[fleet.index()].is_some();
        if has_cloud {
            let made_for = InstancePurpose::Fleet;
            let record = InstanceRecord { fleet, state, made_for, of_run: None, since: now, asked: now, epoch: 0 };
            self.records.insert(node, record);
        }
        has_cloud
    }

    /// The record of an instance. `None` if no cloud makes it.
    pub fn get(&self, node: NodeId) -> Option<&InstanceRecord> {
        self.records.get(&node)
    }

    /// The record of an instance that a cloud makes.
    pub fn of(&self, node: NodeId) -> &InstanceRecord {
        &self.records[&node]
    }

    /// All records, in order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &InstanceRecord)> {
        self.records.iter().map(|(node, record)| (*node, record))
    }

    /// The instances of a fleet that a cloud makes, in order of the nodes.
    pub fn of_fleet(&self, fleet: FleetId) -> impl Iterator<Item = NodeId> {
        self.iter().filter(move |(_, record)| record.fleet == fleet).map(|(node, _)| node)
    }

    /// Moves an instance from one state to another, and returns the state that it leaves.
    pub fn enter(&mut self, node: NodeId, to: InstanceState, now: SimTime) -> InstanceState {
        let record = self.records.get_mut(&node).expect("only what a cloud makes changes so");
        let (from, fleet, since) = (record.state, record.fleet, record.since);
        assert!(is_instance_edge(from, to), "an instance cannot go from {from:?} to {to:?}");
        (record.state, record.since) = (to, now);
        record.epoch += 1;
        let cloud = self.cloud(fleet);
        cloud.kept.remove(&(since, node));
        cloud.leaving += u32::from(to == InstanceState::Terminating);
        cloud.leaving -= u32::from(from == InstanceState::Terminating);
        from
    }

    /// Notes for what an instance is requested.
    pub fn request(&mut self, node: NodeId, made_for: InstancePurpose, of_run: Option<IdleLimit>, now: SimTime) {
        let record = self.records.get_mut(&node).expect("only a cloud makes instances");
        (record.made_for, record.of_run, record.asked) = (made_for, of_run, now);
    }

    /// Number of instances of a fleet that are being terminated.
    pub fn leaving(&self, fleet: FleetId) -> u32 {
        self.clouds[fleet.index()].as_ref().map_or(0, |cloud| cloud.leaving)
    }

    /// Keeps an instance that was idle for too long for the fleet's minimum. Returns its fleet.
    pub fn keep(&mut self, node: NodeId) -> FleetId {
        let InstanceRecord { fleet, since, .. } = *self.of(node);
        self.cloud(fleet).kept.insert((since, node));
        fleet
    }

    /// The instance that has been kept for a fleet's minimum for the longest time.
    pub fn first_kept(&self, fleet: FleetId) -> Option<NodeId> {
        let cloud = self.clouds[fleet.index()].as_ref().expect("it is a cloud's");
        cloud.kept.first().map(|(_, node)| *node)
    }

    /// Whether the instance was requested and is not up yet.
    pub fn is_coming(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|record| record.state.is_coming())
    }

    /// Whether the instance was requested at `asked` and is not up yet.
    pub fn is_coming_since(&self, node: NodeId, asked: SimTime) -> bool {
        self.get(node).is_some_and(|record| record.state.is_coming() && record.asked == asked)
    }

    /// Whether the instance is up.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|record| record.state.is_up())
    }

    /// Whether the instance has not changed since this epoch.
    pub fn is_unchanged(&self, node: NodeId, epoch: u64) -> bool {
        self.get(node).is_some_and(|record| record.epoch == epoch)
    }

    pub fn is_minimum_check_due(&self, fleet: FleetId, at: SimTime) -> bool {
        self.clouds[fleet.index()].as_ref().is_some_and(|cloud| cloud.check_at == Some(at))
    }

    /// The instances that were requested and are not up yet.
    pub fn coming(&self) -> impl Iterator<Item = NodeId> {
        self.iter().filter(|(_, record)| record.state.is_coming()).map(|(node, _)| node)
    }

    /// Whether a report of this state must be ignored. One reason is that the instance has been given up. Another is
    /// that the report can only be about an earlier instance in the same place, because this one is not up yet. Of an
    /// instance that is not up yet, only the reports joining, ready and gone count.
    pub fn ignores_report(&self, node: NodeId, state: NodeState) -> bool {
        let Some(record) = self.get(node) else { return false };
        match state {
            NodeState::Gone => false,
            NodeState::Joining | NodeState::Ready => record.state == InstanceState::Terminating,
            NodeState::NotReady | NodeState::Unreachable | NodeState::Maintenance => {
                record.state == InstanceState::Terminating || record.state.is_coming()
            }
        }
    }
}
