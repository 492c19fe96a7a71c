//! The interface of the room: it adds and changes objects, submits and ends workloads, and runs cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use super::assigner::{fits_no_topology, possible_flavors};
use super::cluster::{Cluster, ClusterQueue, Group};
use super::cycle::{self, Cycle};
use super::names::{FlavorId, FlavorResource, Names};
use super::objects::{ClusterQueueSpec, CohortSpec, Named, ResourceFlavorSpec, ResourceGroup, StopPolicy};
use super::objects::{TopologyNode, TopologySpec, WorkloadSpec};
use super::preemption::FairStrategy;
use super::quantity::amount_of;
use super::queue::{PendingWorkloads, QueueId};
use super::reason::QuotaReason;
use super::share::Share;
use super::topology::{DomainId, PODS, Topology};
use super::tree::{NodeId, Quota, QuotaTree};
use super::workload::{Condition, Eviction, Shape, ShapeId, Workload, WorkloadId, WorkloadState, shape_of};

/// The objects that must exist before the first queue.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The preemption strategies, in order. Without them, preemption is classical.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    pub flavors: Vec<Named<ResourceFlavorSpec>>,
    pub topologies: Vec<Named<TopologySpec>>,
    pub nodes: Vec<TopologyNode>,
}

/// How a waiting workload stands to the one that it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// That one is the head of the queue.
    Head,
    /// Both have the same shape, and that one did not fit.
    Equal,
}

/// Why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    #[error("cohort `{0}` would be below itself")]
    CohortCycle(Arc<str>),
    #[error("there is no cluster queue `{0}`")]
    NoQueue(Arc<str>),
}

/// The scheduler of Kueue with its queues and its quota.
pub struct Kueue {
    pub(super) cluster: Cluster,
    cohorts: BTreeMap<Arc<str>, NodeId>,
    queues: BTreeMap<Arc<str>, QueueId>,
    shapes: BTreeMap<Shape, ShapeId>,
}

impl Kueue {
    pub fn new(setup: Setup) -> Kueue {
        let mut names = Names::default();
        let slot = names.add_resource(PODS);
        let (mut flavors, mut topologies) = (BTreeMap::new(), BTreeMap::new());
        for Named { name, spec } in setup.flavors {
            let id = names.add_flavor(&name);
            let topology = setup.topologies.iter().find(|topology| Some(&topology.name) == spec.topology_name.as_ref());
            if let Some(Named { name, spec: TopologySpec { levels } }) = topology {
                let levels = levels.iter().map(|level| Arc::clone(&level.node_label)).collect();
                let tolerations = spec.tolerations.clone();
                let (name, labels) = (Arc::clone(name), &spec.node_labels);
                topologies.insert(id, Topology::new(name, levels, labels, tolerations, &setup.nodes, &mut names));
            }
            flavors.insert(id, Arc::new(spec));
        }
        let cluster = Cluster {
            names,
            tree: QuotaTree::default(),
            workloads: Vec::new(),
            queues: Vec::new(),
            queue_of_node: BTreeMap::new(),
            flavors,
            topologies,
            fair: setup.fair_sharing,
            slot,
            cycle: 0,
        };
        Kueue { cluster, cohorts: BTreeMap::new(), queues: BTreeMap::new(), shapes: BTreeMap::new() }
    }

    // Objects

    /// Adds a cohort, or replaces its settings.
    pub fn set_cohort(&mut self, name: &str, spec: &CohortSpec) -> Result<(), SpecError> {
        let node = self.cohort(name);
        let parent = spec.parent.as_ref().map(|parent| self.cohort(parent));
        let quotas = self.quotas(&spec.resource_groups);
        let before = self.cluster.tree.root(node);
        if !self.cluster.tree.set_parent(node, parent) {
            return Err(SpecError::CohortCycle(Arc::from(name)));
        }
        self.cluster.tree.set_quotas(node, &quotas);
        self.cluster.tree.set_weight(node, spec.fair_sharing.weight.map_or(1.0, |weight| weight.as_f64()));
        self.changed(&[before, node]);
        Ok(())
    }

    /// Adds a cluster queue, or replaces its settings. Returns the workloads that must release their quota because the
    /// queue drains.
    pub fn set_queue(&mut self, name: &str, spec: &ClusterQueueSpec) -> Vec<WorkloadId> {
        let parent = spec.cohort.as_ref().map(|cohort| self.cohort(cohort));
        let quotas = self.quotas(&spec.resource_groups);
        let groups = self.groups(&spec.resource_groups);
        let id = self.queue_named(name);
        let node = self.cluster.queue(id).node;
        let before = self.cluster.tree.root(node);
        let tree = &mut self.cluster.tree;
        assert!(tree.set_parent(node, parent), "a queue has nothing below it");
        tree.set_quotas(node, &quotas);
        tree.set_weight(node, spec.fair_sharing.weight.map_or(1.0, |weight| weight.as_f64()));
        tree.set_stopped(node, spec.stop_policy != StopPolicy::None);
        let has_topology =
            |group: &Group| group.flavors.iter().all(|flavor| self.cluster.topologies.contains_key(flavor));
        let is_topology_only = !groups.is_empty() && groups.iter().all(has_topology);
        let queue = self.cluster.queue_mut(id);
        let was_stopped = queue.stop != StopPolicy::None;
        queue.groups = groups;
        queue.is_topology_only = is_topology_only;
        (queue.strategy, queue.stop) = (spec.queueing_strategy, spec.stop_policy);
        (queue.preemption, queue.fungibility) = (spec.preemption, spec.flavor_fungibility);
        self.changed(&[before, node]);
        match spec.stop_policy {
            StopPolicy::None if was_stopped => self.restart(id),
            StopPolicy::None | StopPolicy::Hold => {}
            StopPolicy::HoldAndDrain => return self.drain(id),
        }
        Vec::new()
    }

    fn queue_named(&mut self, name: &str) -> QueueId {
        if let Some(known) = self.queues.get(name) {
            return *known;
        }
        let (name, id): (Arc<str>, _) = (Arc::from(name), QueueId(self.cluster.queues.len() as u32));
        let node = self.cluster.tree.add_node(Arc::clone(&name), true);
        self.cluster.queue_of_node.insert(node, id);
        let empty = ClusterQueueSpec::default();
        self.cluster.queues.push(ClusterQueue {
            name: Arc::clone(&name),
            node,
            groups: Vec::new(),
            strategy: empty.queueing_strategy,
            stop: empty.stop_policy,
            preemption: empty.preemption,
            fungibility: empty.flavor_fungibility,
            admitted: BTreeSet::new(),
            pending: PendingWorkloads::default(),
            generation: 0,
            is_topology_only: false,
        });
        self.queues.insert(name, id);
        id
    }

    /// A cohort that no object defines exists without quota.
    fn cohort(&mut self, name: &str) -> NodeId {
        if let Some(known) = self.cohorts.get(name) {
            return *known;
        }
        let name: Arc<str> = Arc::from(name);
        let node = self.cluster.tree.add_node(Arc::clone(&name), false);
        self.cohorts.insert(name, node);
        node
    }

    fn quotas(&mut self, groups: &[ResourceGroup]) -> Vec<(FlavorResource, Quota)> {
        let mut quotas = Vec::new();
        for flavor in groups.iter().flat_map(|group| &group.flavors) {
            let id = self.cluster.names.add_flavor(&flavor.name);
            for quota in &flavor.resources {
                let resource = self.cluster.names.add_resource(&quota.name);
                let pair = self.cluster.names.add_pair(id, resource);
                self.cluster.tree.know_pair(pair, resource);
                let amount = |quantity| amount_of(&quota.name, quantity);
                let quota = Quota {
                    nominal: amount(quota.nominal_quota),
                    borrowing_limit: quota.borrowing_limit.map(amount),
                    lending_limit: quota.lending_limit.map(amount),
                };
                quotas.push((pair, quota));
            }
        }
        quotas
    }

    fn groups(&mut self, groups: &[ResourceGroup]) -> Vec<Group> {
        let mut made = Vec::new();
        for group in groups {
            let names = &mut self.cluster.names;
            let resources: Vec<_> = group.covered_resources.iter().map(|name| names.add_resource(name)).collect();
            let flavors: Vec<_> = group.flavors.iter().map(|flavor| names.add_flavor(&flavor.name)).collect();
            for (flavor, resource) in flavors.iter().flat_map(|flavor| resources.iter().map(move |it| (flavor, it))) {
                let pair = names.add_pair(*flavor, *resource);
                self.cluster.tree.know_pair(pair, *resource);
            }
            made.push(Group { resources, flavors });
        }
        made
    }

    /// Computes the trees of these nodes again, and wakes their queues.
    fn changed(&mut self, nodes: &[NodeId]) {
        let roots: BTreeSet<NodeId> = nodes.iter().map(|node| self.cluster.tree.root(*node)).collect();
        for root in roots {
            self.cluster.tree.rebuild(root);
            for node in self.cluster.tree.all_queues(root) {
                let queue = self.cluster.queue_of_node[&node];
                self.cluster.queue_mut(queue).generation += 1;
            }
            self.wake(root);
        }
    }

    /// Makes the workloads of all queues of the tree active again.
    fn wake(&mut self, node: NodeId) {
        let is_drained = |workload: &Workload| matches!(workload.state, WorkloadState::Pending { is_drained: true });
        for node in self.cluster.tree.all_queues(node) {
            let queue = self.cluster.queue_of_node[&node];
            let Cluster { queues, workloads, .. } = &mut self.cluster;
            queues[queue.0 as usize].pending.wake(workloads, is_drained);
        }
    }

    fn drain(&mut self, queue: QueueId) -> Vec<WorkloadId> {
        let mut drained: Vec<WorkloadId> = self.cluster.queue(queue).admitted.iter().copied().collect();
        drained.retain(|id| cycle::evict(&mut self.cluster, *id, Eviction::QueueStopped));
        drained
    }

    /// Queues the workloads that were drained.
    fn restart(&mut self, queue: QueueId) {
        let Cluster { queues, workloads, .. } = &mut self.cluster;
        let queue = &mut queues[queue.0 as usize];
        let waiting: Vec<WorkloadId> = queue.pending.inadmissible().collect();
        for id in waiting {
            let workload = &mut workloads[id.0 as usize];
            if matches!(workload.state, WorkloadState::Pending { is_drained: true }) {
                workload.state = WorkloadState::Pending { is_drained: false };
                queue.pending.push(id, workload, queue.strategy, false);
            }
        }
    }

    // Workloads

    /// Adds a workload, and returns its queue. It is not in the queue yet.
    pub(super) fn add(&mut self, spec: &WorkloadSpec) -> Result<(WorkloadId, QueueId), SpecError> {
        let queue = *self.queues.get(&spec.queue).ok_or_else(|| SpecError::NoQueue(Arc::clone(&spec.queue)))?;
        let next = ShapeId(self.shapes.len() as u32);
        let shape = *self.shapes.entry(shape_of(spec)).or_insert(next);
        Ok((self.cluster.add_workload(spec, queue, shape), queue))
    }

    pub fn submit(&mut self, spec: &WorkloadSpec) -> Result<WorkloadId, SpecError> {
        let (id, queue) = self.add(spec)?;
        let Cluster { queues, workloads, .. } = &mut self.cluster;
        let queue = &mut queues[queue.0 as usize];
        queue.pending.push(id, &workloads[id.0 as usize], queue.strategy, false);
        Ok(id)
    }

    /// Records that a workload with quota has finished. If the workload has no quota or was evicted, returns false and
    /// changes nothing.
    pub fn finish(&mut self, id: WorkloadId) -> bool {
        let may = self.holds_quota(id) && !self.cluster.workload(id).is_evicted();
        may && self.delete(id)
    }

    /// Deletes a workload in any state. Returns false if it is already gone.
    pub fn delete(&mut self, id: WorkloadId) -> bool {
        match self.cluster.workload(id).state {
            WorkloadState::Gone => return false,
            WorkloadState::Pending { .. } => {
                let Cluster { queues, workloads, .. } = &mut self.cluster;
                let workload = &workloads[id.0 as usize];
                queues[workload.queue.0 as usize].pending.remove(id, workload);
            }
            WorkloadState::Reserved(_) => self.take_quota(id),
        }
        self.cluster.workload_mut(id).state = WorkloadState::Gone;
        self.wake(self.cluster.node_of(id));
        true
    }

    /// Decides that a workload must release its quota because its LocalQueue drains. Returns whether this is a new
    /// decision. It must be deleted or released once it has stopped.
    pub fn drain_workload(&mut self, id: WorkloadId) -> bool {
        cycle::evict(&mut self.cluster, id, Eviction::QueueStopped)
    }

    /// Records that an evicted workload has stopped. Its quota is free, and it waits again.
    pub fn release(&mut self, id: WorkloadId) {
        let Some(why) = self.cluster.workload(id).admission().and_then(|held| held.eviction.clone()) else { return };
        self.take_quota(id);
        let message = self.eviction_message(id, &why);
        let queue = self.cluster.workload(id).queue;
        let is_drained = why == Eviction::QueueStopped && self.cluster.queue(queue).stop != StopPolicy::None;
        let workload = self.cluster.workload_mut(id);
        workload.state = WorkloadState::Pending { is_drained };
        workload.condition = Some(Condition { reason: Some(QuotaReason::PendingEvaluation), message });
        let Cluster { queues, workloads, .. } = &mut self.cluster;
        let queue = &mut queues[queue.0 as usize];
        queue.pending.push(id, &workloads[id.0 as usize], queue.strategy, is_drained);
        self.wake(self.cluster.node_of(id));
    }

    fn take_quota(&mut self, id: WorkloadId) {
        self.cluster.take_away(id);
        self.cluster.commit();
        let queue = self.cluster.workload(id).queue;
        let queue = self.cluster.queue_mut(queue);
        queue.admitted.remove(&id);
        queue.generation += 1;
    }

    fn eviction_message(&self, id: WorkloadId, why: &Eviction) -> String {
        match why {
            Eviction::QueueStopped => "The ClusterQueue is stopped".to_string(),
            Eviction::Preempted { by, reason } => format!(
                "Preempted to accommodate a workload (UID: {}, JobUID: UNKNOWN) due to {}; preemptor path: {}; \
                 preemptee path: {}",
                self.cluster.workload(*by).uid,
                reason.phrase(),
                self.path_of(*by),
                self.path_of(id)
            ),
        }
    }

    /// The path from the root of the tree to the queue of the workload.
    fn path_of(&self, id: WorkloadId) -> String {
        let node = self.cluster.node_of(id);
        let mut names = vec![self.cluster.tree.name(node)];
        names.extend(self.cluster.tree.path(node).map(|above| self.cluster.tree.name(above)));
        names.iter().rev().map(|name| format!("/{name}")).collect()
    }

    // Cycles

    /// Whether a queue that is not stopped has a workload to try.
    pub fn has_heads(&self) -> bool {
        self.cluster.queues.iter().any(|queue| queue.stop == StopPolicy::None && queue.pending.has_active())
    }

    /// Runs a scheduling cycle at this time, in seconds. The heads are taken in the order of the names of their queues.
    pub fn cycle(&mut self, now: i64) -> Cycle {
        let Kueue { cluster, queues, .. } = self;
        cycle::run(cluster, queues.values().copied(), now)
    }

    // What is there

    pub fn names(&self) -> &Names {
        &self.cluster.names
    }

    pub fn workload_name(&self, id: WorkloadId) -> &Arc<str> {
        &self.cluster.workload(id).name
    }

    /// The name of the workload's queue.
    pub fn queue_of(&self, id: WorkloadId) -> &Arc<str> {
        &self.cluster.queue(self.cluster.workload(id).queue).name
    }

    pub fn holds_quota(&self, id: WorkloadId) -> bool {
        self.cluster.workload(id).admission().is_some()
    }

    pub fn is_pending(&self, id: WorkloadId) -> bool {
        matches!(self.cluster.workload(id).state, WorkloadState::Pending { .. })
    }

    /// Whether the workload waits to be tried. Other waiting workloads are not tried until something changes.
    pub fn is_active(&self, id: WorkloadId) -> bool {
        let workload = self.cluster.workload(id);
        self.cluster.queue(workload.queue).pending.is_active(id, workload)
    }

    /// The last condition of a waiting workload; `None` if it was never judged.
    pub fn condition(&self, id: WorkloadId) -> Option<&Condition> {
        self.cluster.workload(id).condition.as_ref()
    }

    /// The values by which a domain of the flavor's topology is named.
    pub fn domain_values(&self, flavor: FlavorId, leaf: DomainId) -> &[Arc<str>] {
        self.cluster.topologies.get(&flavor).map_or(&[], |topology| topology.named_values(leaf))
    }

    /// The labels that bind a pod to a domain of the flavor's topology.
    pub fn domain_labels(&self, flavor: FlavorId, leaf: DomainId) -> Vec<(Arc<str>, Arc<str>)> {
        self.cluster.topologies.get(&flavor).map_or(Vec::new(), |topology| topology.labels(leaf))
    }

    /// The settings of a flavor that an object defines.
    pub fn flavor(&self, flavor: FlavorId) -> Option<&Arc<ResourceFlavorSpec>> {
        self.cluster.flavors.get(&flavor)
    }

    /// The number of flavors.
    pub fn flavors(&self) -> usize {
        self.cluster.flavors.len()
    }

    /// The workload that a waiting one stands behind: one of the same shape that did not fit, so that this one is not
    /// tried, or the head of the queue.
    pub fn stands_behind(&self, id: WorkloadId) -> Option<(WorkloadId, Behind)> {
        let workload = self.cluster.workload(id);
        let pending = &self.cluster.queue(workload.queue).pending;
        if pending.is_active(id, workload) {
            return pending.in_order().next().filter(|head| *head != id).map(|head| (head, Behind::Head));
        }
        let is_equal = |other: &WorkloadId| {
            let other = self.cluster.workload(*other);
            other.shape == workload.shape && other.condition.is_some()
        };
        let was_tried = workload.condition.is_some();
        pending.inadmissible().find(|other| !was_tried && is_equal(other)).map(|other| (other, Behind::Equal))
    }

    /// For each group of resources that a pod set of a workload needs, the flavors that it may get at some time.
    pub fn possible_flavors(&self, id: WorkloadId, pod_set: usize) -> Vec<Vec<FlavorId>> {
        possible_flavors(&self.cluster, id, pod_set)
    }

    /// Whether a workload has a pod set for which no topology has room even if no other workload is there.
    pub fn fits_no_topology(&self, id: WorkloadId) -> bool {
        fits_no_topology(&self.cluster, id)
    }

    pub fn has_queue(&self, name: &str) -> bool {
        self.queues.contains_key(name)
    }

    pub fn is_queue_stopped(&self, name: &str) -> bool {
        self.queues.get(name).is_some_and(|id| self.is_stopped(*id))
    }

    /// Whether the queue takes the quota from the workloads that it has admitted.
    pub fn is_queue_drained(&self, name: &str) -> bool {
        self.queues.get(name).is_some_and(|id| self.cluster.queue(*id).stop == StopPolicy::HoldAndDrain)
    }

    /// The waiting workloads of a queue in the order in which they are tried: the active ones, then the others.
    pub fn waiting(&self, queue: &str) -> (Vec<WorkloadId>, Vec<WorkloadId>) {
        let Some(id) = self.queues.get(queue) else { return Default::default() };
        let pending = &self.cluster.queue(*id).pending;
        (pending.in_order().collect(), pending.inadmissible().collect())
    }

    /// The workload's message and reason if it must release its quota.
    pub fn eviction(&self, id: WorkloadId) -> Option<(Eviction, String)> {
        let why = self.cluster.workload(id).admission()?.eviction.clone()?;
        let message = self.eviction_message(id, &why);
        Some((why, message))
    }

    /// All queues, in the order of their names.
    pub fn queues(&self) -> impl Iterator<Item = (&Arc<str>, QueueId)> {
        self.queues.iter().map(|(name, id)| (name, *id))
    }

    /// All cohorts, in the order of their names.
    pub fn cohorts(&self) -> impl Iterator<Item = (&Arc<str>, NodeId)> {
        self.cohorts.iter().map(|(name, node)| (name, *node))
    }

    pub fn node_of_queue(&self, queue: QueueId) -> NodeId {
        self.cluster.queue(queue).node
    }

    pub fn is_stopped(&self, queue: QueueId) -> bool {
        self.cluster.queue(queue).stop != StopPolicy::None
    }

    /// Whether a queue that is not stopped is below the cohort.
    pub fn has_running_queue(&self, cohort: NodeId) -> bool {
        let tree = &self.cluster.tree;
        tree.child_queues(cohort).next().is_some()
            || tree.child_cohorts(cohort).iter().any(|below| self.has_running_queue(*below))
    }

    pub fn has_parent(&self, node: NodeId) -> bool {
        self.cluster.tree.parent(node).is_some()
    }

    /// The usage at the node. For a cohort, it is the usage of its children beyond the quota that they do not lend.
    pub fn usage(&self, node: NodeId) -> impl Iterator<Item = (FlavorResource, i64)> {
        self.cluster.tree.used(node)
    }

    /// The usage of the queue above its own quota.
    pub fn borrowed(&self, node: NodeId) -> impl Iterator<Item = (FlavorResource, i64)> {
        let tree = &self.cluster.tree;
        let above = tree.used(node).map(move |(pair, usage)| (pair, usage - tree.quota(node, pair).nominal));
        above.filter(|(_, above)| *above > 0)
    }

    /// The dominant resource share of the node.
    pub fn share(&self, node: NodeId) -> Share {
        Share::of(&self.cluster.tree, node)
    }
}
