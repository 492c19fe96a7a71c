//! Floor 2. The resources: nodes, GPUs, their states, and the ledger of claims.
//!
//! Owns the facts that a scheduler reads. Nodes in equal state form classes, and every change updates the classes. So a
//! decision examines each class once instead of each node. Must never decide where anything is placed.

#![warn(clippy::unwrap_used)]

mod blocks;
mod changes;
mod claim;
mod classes;
mod cloud;
mod device;
mod electricity;
mod gpu_keys;
mod hosting;
mod instance;
mod islands;
mod ledger;
mod node;
mod node_blocks;
mod node_changes;
mod payment;
mod restricted;
mod serving;
mod steps;

pub use blocks::{BlockSet, Blocks, Cut, GpuParts, MOST_BLOCKS, Slice};
pub use claim::{GpuClaim, NodeClaim, Placement};
pub use classes::{Class, ClassHead, ClassId, ShapeGroup};
pub use cloud::{InstanceState, offer_of};
pub use device::{DeviceName, PublishedDevice};
pub use electricity::Electricity;
pub use hosting::Hosting;
pub use instance::{Cloud, FleetKind, FleetNodes, FleetPlacement, FleetSpec, IdleDuration, Instance};
pub use islands::{ISLANDS_LABEL, Islands, IslandsError, read_islands};
pub use node::{
    Foreign, GpuShape, GpuState, GpuStatus, KubernetesNode, Node, NodeShape, NodeSpec, NodeState, NodeStatus, Power,
    Reliance, Reserved, SILENT_STATES,
};

pub use payment::Payment;
pub use restricted::{RESTRICTED_CORES_LABEL, restricted};
pub use serving::{
    Accounting, Columns, GpuKind, GpuStanding, Host, Labels, Left, ModelKey, Part, ServedInstance, Serving, ServingGpu,
    ServingNode,
};

use std::borrow::Cow;
use std::sync::Arc;

use classes::Classes;
use dryrack_ids::{AttemptId, FleetId, GpuId, NodeId};
use dryrack_units::SimTime;
use hosting::Hosts;
use node_changes::NodeChanges;
use steps::{Step, common_key};

/// The largest amount of each resource on any one node. Scorers use it to normalize leftover amounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Largest {
    pub cpu: u64,
    pub ram: u64,
    pub gpu_milli: u64,
    pub gpu_memory: u64,
}

/// What custom stages read besides nodes and jobs. A value that no stage reads stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time, in whole minutes.
    pub time: SimTime,
    /// Number of pending replicas when the scheduler last began to decide.
    pub pending: u32,
}

/// All nodes. Every change to a node goes through this type, so versions and classes are always up to date.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    nodes: Vec<Node>,
    fleets: Vec<Arc<FleetSpec>>,
    /// The instance counts of each fleet.
    counted: Vec<cloud::Counted>,
    /// For each fleet, whether any of its instances is split into several blocks.
    split: Vec<bool>,
    classes: Classes,
    largest: Largest,
    hosts: Hosts,
    version: u64,
    growth: u64,
    moment: Moment,
    keeps_kinds: bool,
    has_unified_gpus: bool,
    /// Set once a caller has asked to track changes of nodes.
    node_changes: Option<NodeChanges>,
}

impl Largest {
    fn include(&mut self, shape: &NodeShape) {
        let gpu_memory: u64 = (0..shape.gpus.len()).map(|index| shape.gpu_memory_capacity(index).get()).sum();
        self.cpu = self.cpu.max(shape.cpu_capacity().get());
        self.ram = self.ram.max(shape.ram_capacity().get());
        self.gpu_milli = self.gpu_milli.max(1000 * shape.gpus.len() as u64);
        self.gpu_memory = self.gpu_memory.max(gpu_memory);
    }
}

impl Fleet {
    /// An empty fleet that also counts which kinds of tasks hold each node's GPUs. Two nodes with different counts are
    /// then in different classes.
    pub fn with_kinds() -> Fleet {
        Fleet { keeps_kinds: true, ..Fleet::default() }
    }

    /// Adds a fleet that has no instances yet. Ids are assigned in order.
    pub fn declare_fleet(&mut self, spec: Arc<FleetSpec>) -> FleetId {
        let id = FleetId::new(self.fleets.len());
        self.counted.push(cloud::Counted::of(spec.cloud.as_ref()));
        self.split.push(false);
        self.fleets.push(spec);
        id
    }

    /// All fleets of instances, in order of declaration.
    pub fn fleets(&self) -> impl Iterator<Item = (FleetId, &Arc<FleetSpec>)> {
        self.fleets.iter().enumerate().map(|(index, spec)| (FleetId::new(index), spec))
    }

    pub fn fleet(&self, fleet: FleetId) -> &Arc<FleetSpec> {
        &self.fleets[fleet.index()]
    }

    /// Whether any instance of the fleet is split into several blocks.
    pub fn has_split_instances(&self, fleet: FleetId) -> bool {
        self.split[fleet.index()]
    }

    fn note_split(&mut self, shape: &NodeShape) {
        let fleet = shape.instance.as_ref().map(|instance| instance.fleet.index());
        if let Some(split) = fleet.and_then(|fleet| self.split.get_mut(fleet)) {
            *split |= shape.total_blocks().is_some_and(|blocks| blocks > 1);
        }
    }

    pub fn knows_fleet(&self, fleet: FleetId) -> bool {
        fleet.index() < self.fleets.len()
    }

    /// Makes room for this many nodes, so that they are not moved as they are declared.
    pub fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
    }

    /// Adds a node. Ids are assigned in order.
    pub fn declare(&mut self, spec: &NodeSpec, state: NodeState) -> NodeId {
        let id = NodeId::new(self.nodes.len());
        let status = NodeStatus::idle(state, &spec.shape);
        let shape = self.classes.insert(id, &spec.shape, &status);
        self.largest.include(&shape);
        self.has_unified_gpus |= shape.has_unified_gpus();
        self.hosts.declare(spec, &status);
        self.note_split(&shape);
        self.nodes.push(Node { name: Arc::clone(&spec.name), shape, status, version: 0 });
        self.note_change(id);
        self.count_instance(id, NodeState::Gone, state);
        self.version += 1;
        self.growth += 1;
        id
    }

    /// Whether the memory of any GPU is part of its node's RAM.
    pub fn has_unified_gpus(&self) -> bool {
        self.has_unified_gpus
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn knows(&self, node: NodeId) -> bool {
        node.index() < self.nodes.len()
    }

    pub fn knows_gpu(&self, gpu: GpuId) -> bool {
        self.nodes.get(gpu.node.index()).is_some_and(|node| usize::from(gpu.index) < node.status.gpus.len())
    }

    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId::new(index), node))
    }

    /// Incremented by every change of the fleet.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Incremented by every change after which a refused demand might fit. A change that only takes resources does not
    /// count.
    pub fn growth(&self) -> u64 {
        self.growth
    }

    /// Causes refused demands to be judged again although nothing was released.
    pub fn ask_again(&mut self) {
        self.growth += 1;
    }

    /// Like [`Fleet::ask_again`], also for those who compare [`Fleet::version`].
    pub fn ask_all_again(&mut self) {
        self.growth += 1;
        self.version += 1;
    }

    /// What custom stages read besides nodes and jobs.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    pub fn set_moment(&mut self, moment: Moment) {
        self.moment = moment;
    }

    /// The classes that have members. The order is arbitrary, so no decision may depend on it.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.classes.iter()
    }

    /// The nodes grouped by shape.
    pub fn shapes(&self) -> &[ShapeGroup] {
        self.classes.shapes()
    }

    /// The shapes with a class that changed after the first `read` changes of all shapes, each once.
    pub fn changed_shapes(&self, read: u64) -> impl Iterator<Item = usize> + '_ {
        self.classes.changed_shapes(read)
    }

    /// How many changes all shapes have had together.
    pub fn all_class_changes(&self) -> u64 {
        self.classes.all_changes()
    }

    /// The classes of a shape that changed after the first `read` changes of the shape, each once and with its head. Some
    /// of them may be empty.
    pub fn class_changes(&self, shape: usize, read: u64) -> impl Iterator<Item = (ClassId, &ClassHead)> + '_ {
        self.classes.changes(shape, read)
    }

    /// How many changes the shape has had.
    pub fn class_change_count(&self, shape: usize) -> u64 {
        self.classes.change_count(shape)
    }

    pub fn largest(&self) -> &Largest {
        &self.largest
    }

    /// An upper bound for the slot numbers of all classes, past and present.
    pub fn class_slots(&self) -> usize {
        self.classes.slots()
    }

    pub fn class_head(&self, class: ClassId) -> &ClassHead {
        self.classes.head(class)
    }

    pub fn class(&self, class: ClassId) -> &Class {
        self.classes.get(class)
    }

    pub fn set_node_state(&mut self, node: NodeId, state: NodeState) {
        self.count_instance(node, self.node(node).status.state, state);
        self.change(node, |_, status| status.state = state);
        self.growth += 1;
    }

    /// Replaces the status of a node in a copy of the fleet that is used to plan ahead.
    pub fn set_status(&mut self, node: NodeId, status: NodeStatus) {
        self.count_instance(node, self.node(node).status.state, status.state);
        self.change(node, |_, old| *old = status);
        self.growth += 1;
    }

    /// Records that a node is ready although its Kubernetes object says otherwise. Returns whether it was not known.
    pub fn set_ready_again(&mut self, node: NodeId) -> bool {
        let known = self.node(node);
        let is_news = known.shape.is_tainted_as_not_ready() && !known.status.is_ready_again;
        if is_news {
            self.change(node, |_, status| status.is_ready_again = true);
            self.growth += 1;
        }
        is_news
    }

    /// Sets how reliable a node was. This affects only preferences, never whether a demand fits.
    pub fn set_reliance(&mut self, node: NodeId, reliance: Reliance) {
        if self.node(node).status.reliance != reliance {
            self.change(node, |_, status| status.reliance = reliance);
        }
    }

    pub fn set_gpu_state(&mut self, gpu: GpuId, state: GpuState) {
        self.change(gpu.node, |_, status| status.gpus[usize::from(gpu.index)].state = state);
        self.growth += 1;
    }

    pub fn set_foreign(&mut self, gpu: GpuId, foreign: Foreign) {
        self.change(gpu.node, |_, status| status.gpus[usize::from(gpu.index)].foreign = foreign);
        self.growth += 1;
    }

    /// Enters a whole placement into the ledger.
    pub fn take(&mut self, placement: &Placement) {
        for claim in placement.claims() {
            let keeps_kinds = self.keeps_kinds;
            self.change_by(claim, |shape, status| {
                ledger::take(shape, status, claim);
                if keeps_kinds {
                    ledger::count_in(status, claim);
                }
            });
        }
    }

    /// Takes a placement in a copy of the fleet that is used to plan ahead. A stopping attempt may still hold the same
    /// resources. Nothing may be released from such a copy.
    pub fn take_in_advance(&mut self, placement: &Placement) {
        for claim in placement.claims() {
            self.change(claim.node, |shape, status| {
                ledger::add_claim(shape, status, claim);
            });
        }
    }

    /// Removes one claim from the ledger. Panics if the claim is not in the ledger.
    pub fn release(&mut self, claim: &NodeClaim) {
        let keeps_kinds = self.keeps_kinds;
        self.change_by(claim, |shape, status| {
            ledger::release(shape, status, claim);
            if keeps_kinds {
                ledger::count_out(status, claim);
            }
        });
        self.growth += 1;
    }

    fn change(&mut self, id: NodeId, apply: impl FnOnce(&NodeShape, &mut NodeStatus)) {
        let node = &mut self.nodes[id.index()];
        apply(&node.shape, &mut node.status);
        self.changed(id, None);
    }

    /// Like `change`, but for a change that only takes or releases a claim. Such changes can use the cache of steps.
    fn change_by(&mut self, claim: &NodeClaim, apply: impl FnOnce(&NodeShape, &mut NodeStatus)) {
        let node = &mut self.nodes[claim.node.index()];
        let has_restricted = node.shape.restricted_cores_per_gpu() > 0;
        let is_all = !self.keeps_kinds && claim.blocks.is_empty() && !has_restricted;
        let before = if is_all { common_key(&node.status, claim) } else { None };
        apply(&node.shape, &mut node.status);
        let after = before.and_then(|_| common_key(&node.status, claim));
        let step = before.zip(after).map(|(before, after)| Step {
            gpus: claim.gpus.len() as u32,
            before,
            after,
            cpu: node.status.cpu_taken,
            ram: node.status.ram_taken,
        });
        self.changed(claim.node, step);
    }

    fn changed(&mut self, id: NodeId, step: Option<Step>) {
        let node = &mut self.nodes[id.index()];
        node.version += 1;
        self.version += 1;
        self.classes.update(id, &node.status, step);
        self.hosts.changed(id, &node.status);
        self.note_change(id);
    }

    /// The index of a node's shape in [`Fleet::shapes`].
    pub fn shape_index(&self, node: NodeId) -> usize {
        self.classes.shape_of(node)
    }

    /// Adds a claim to a node's status.
    pub fn with_claim(&self, status: &mut NodeStatus, claim: &NodeClaim) {
        ledger::take(&self.node(claim.node).shape, status, claim);
        if self.keeps_kinds {
            ledger::count_in(status, claim);
        }
    }

    /// Removes a claim from a node's status, which must include the claim.
    pub fn without_claim(&self, status: &mut NodeStatus, claim: &NodeClaim) {
        ledger::release(&self.node(claim.node).shape, status, claim);
        if self.keeps_kinds {
            ledger::count_out(status, claim);
        }
    }

    /// Asserts that the claims in `held` add up to the ledger and that each node is in the class of its state. Visits
    /// every node, so it is called only in tests, in the swarm and at the end of a run.
    pub fn assert_adds_up<'a>(&self, held: impl Iterator<Item = &'a Placement>) {
        let mut expected: Vec<NodeStatus> =
            self.nodes.iter().map(|node| NodeStatus::idle(node.status.state, &node.shape)).collect();
        for claim in held.flat_map(Placement::claims) {
            let (status, shape) = (&mut expected[claim.node.index()], &self.node(claim.node).shape);
            ledger::take(shape, status, claim);
            if self.keeps_kinds {
                ledger::count_in(status, claim);
            }
        }
        for ((id, node), mut expected) in self.iter().zip(expected) {
            expected.reliance = node.status.reliance;
            expected.is_ready_again = node.status.is_ready_again;
            for (sum, gpu) in expected.gpus.iter_mut().zip(&node.status.gpus) {
                (sum.state, sum.foreign) = (gpu.state, gpu.foreign);
            }
            assert_eq!(expected, node.status, "claims do not add up to the ledger on {}", node.name);
            self.classes.assert_holds(id, &node.shape, &node.status);
        }
        self.hosts.assert_adds_up(&self.nodes);
        self.assert_instances_counted();
    }

    // Deployments

    /// The state that decides where deployments go. It is kept up to date once there is a replica; before that, each
    /// call computes it.
    pub fn serving(&self) -> Cow<'_, Serving> {
        match &self.hosts.serving {
            Some(serving) => Cow::Borrowed(serving),
            None => Cow::Owned(hosting::serving_of(&self.nodes)),
        }
    }

    /// The same as [`Fleet::serving`], but with every node ready, healthy and empty.
    pub fn idle_serving(&self) -> &Serving {
        self.hosts.idle.get_or_init(|| Box::new(self.serving().idle()))
    }

    /// Keeps [`Fleet::serving`] up to date from this call on.
    pub fn keep_serving(&mut self) {
        if self.hosts.serving.is_none() {
            self.hosts.serving = Some(Box::new(hosting::serving_of(&self.nodes)));
        }
    }

    /// Enters the whole placement of a model replica into the ledger. The replica counts as one task on its main node.
    pub fn host(&mut self, attempt: AttemptId, placement: &Placement, hosting: &Hosting) {
        self.keep_serving();
        let serving = self.hosts.serving.as_mut().expect("just set");
        let number = serving.host(hosting::instance(&self.nodes, placement, hosting));
        let known = self.hosts.numbers.insert(attempt, number);
        assert!(known.is_none(), "{attempt} is hosted twice");
        self.take(placement);
    }

    /// Removes one claim of an attempt from the ledger. The attempt may or may not serve a model. Panics if the claim
    /// is not in the ledger.
    pub fn release_of(&mut self, attempt: AttemptId, claim: &NodeClaim) {
        if let (Some(number), Some(serving)) = (self.hosts.numbers.get(&attempt), &mut self.hosts.serving) {
            let number = *number;
            let was_last = serving.instance(number).nodes().len() == 1;
            serving.leave(number, claim.node.index());
            if was_last {
                self.hosts.numbers.remove(&attempt);
            }
        }
        self.release(claim);
    }
}

#[cfg(test)]
mod tests;
