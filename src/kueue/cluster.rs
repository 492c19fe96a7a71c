//! The state on which decisions are based: quota, usage, queues, flavors and workloads.
//!
//! A simulation changes it and undoes the changes ([`Cluster::mark`], [`Cluster::undo_to`]); nothing is copied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::names::{FlavorId, FlavorResource, Names, ResourceId};
use super::objects::{FungibilitySpec, PreemptionSpec, QueueingStrategy, ResourceFlavorSpec, StopPolicy};
use super::objects::{TopologyRequest, WorkloadSpec};
use super::preemption::FairStrategy;
use super::queue::{PendingWorkloads, QueueId};
use super::topology::{DomainId, NoPlacement, Occupancy, PlaceRequest, Requests, Topology, TopologyPlacement};
use super::tree::{NodeId, QuotaTree, TreeMark};
use super::workload::{PlacedPods, Workload, WorkloadId};

pub(crate) struct Cluster {
    pub names: Names,
    pub tree: QuotaTree,
    pub workloads: Vec<Workload>,
    pub queues: Vec<ClusterQueue>,
    pub queue_of_node: BTreeMap<NodeId, QueueId>,
    pub flavors: BTreeMap<FlavorId, Arc<ResourceFlavorSpec>>,
    /// The topologies of the flavors that have one.
    pub topologies: BTreeMap<FlavorId, Topology>,
    /// The strategies of fair sharing, in the order in which they are tried; `None` without fair sharing.
    pub fair: Option<Vec<FairStrategy>>,
    /// The resource `pods`.
    pub slot: ResourceId,
    pub cycle: u64,
}

pub(crate) struct ClusterQueue {
    pub name: Arc<str>,
    pub node: NodeId,
    pub groups: Vec<Group>,
    pub strategy: QueueingStrategy,
    pub stop: StopPolicy,
    pub preemption: PreemptionSpec,
    pub fungibility: FungibilitySpec,
    /// The workloads that hold its quota.
    pub admitted: BTreeSet<WorkloadId>,
    pub pending: PendingWorkloads,
    /// Incremented with every change of the resources that can be allocated.
    pub generation: u64,
    /// Whether all its flavors have a topology.
    pub is_topology_only: bool,
}

/// Resources that get the same flavor.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub resources: Vec<ResourceId>,
    pub flavors: Vec<FlavorId>,
}

/// A pod set that must be placed in the topology of a flavor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placing {
    pub pod_set: usize,
    pub flavor: FlavorId,
    pub pods: u32,
}

/// A point to which simulated changes can be undone.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    tree: TreeMark,
    topologies: Vec<usize>,
}

impl Cluster {
    pub fn workload(&self, id: WorkloadId) -> &Workload {
        &self.workloads[id.0 as usize]
    }

    pub fn workload_mut(&mut self, id: WorkloadId) -> &mut Workload {
        &mut self.workloads[id.0 as usize]
    }

    pub fn queue(&self, id: QueueId) -> &ClusterQueue {
        &self.queues[id.0 as usize]
    }

    pub fn queue_mut(&mut self, id: QueueId) -> &mut ClusterQueue {
        &mut self.queues[id.0 as usize]
    }

    pub fn node_of(&self, id: WorkloadId) -> NodeId {
        self.queue(self.workload(id).queue).node
    }

    /// The group of the queue that covers the resource.
    pub fn group(&self, queue: QueueId, resource: ResourceId) -> Option<usize> {
        self.queue(queue).groups.iter().position(|group| group.resources.contains(&resource))
    }

    /// The pair of a flavor and a resource that a group of a queue covers.
    pub fn pair(&self, flavor: FlavorId, resource: ResourceId) -> FlavorResource {
        self.names.pair(flavor, resource).unwrap_or_else(|| {
            panic!("no quota names {} in flavor {}", self.names.resource(resource), self.names.flavor(flavor))
        })
    }

    pub fn add_workload(&mut self, spec: &WorkloadSpec, queue: QueueId, shape: super::workload::ShapeId) -> WorkloadId {
        let workload = Workload::new(spec, queue, shape, &mut self.names);
        self.workloads.push(workload);
        WorkloadId(self.workloads.len() as u32 - 1)
    }

    // Simulated changes

    pub fn mark(&self) -> Mark {
        Mark { tree: self.tree.mark(), topologies: self.topologies.values().map(Topology::mark).collect() }
    }

    pub fn undo_to(&mut self, mark: &Mark) {
        self.tree.undo_to(mark.tree);
        for (topology, mark) in self.topologies.values_mut().zip(&mark.topologies) {
            topology.undo_to(*mark);
        }
    }

    pub fn commit(&mut self) {
        self.tree.commit();
        self.topologies.values_mut().for_each(Topology::commit);
    }

    pub fn add_usage(&mut self, node: NodeId, usage: &[(FlavorResource, i64)]) {
        for (pair, amount) in usage {
            self.tree.add_usage(node, *pair, *amount);
        }
    }

    pub fn remove_usage(&mut self, node: NodeId, usage: &[(FlavorResource, i64)]) {
        for (pair, amount) in usage {
            self.tree.remove_usage(node, *pair, *amount);
        }
    }

    /// Puts pods of the workload into their domains.
    pub fn add_pods(&mut self, id: WorkloadId, placed: &[PlacedPods]) {
        self.change_pods(id, placed, 1);
    }

    fn change_pods(&mut self, id: WorkloadId, placed: &[PlacedPods], sign: i64) {
        let Cluster { workloads, topologies, .. } = self;
        let workload = &workloads[id.0 as usize];
        for PlacedPods { flavor, leaf, pod_set, pods } in placed {
            if let Some(topology) = topologies.get_mut(flavor) {
                topology.add_pods(*leaf, &workload.pod_sets[*pod_set].with_slot, sign * pods);
            }
        }
    }

    /// Removes the usage of a workload.
    pub fn take_away(&mut self, id: WorkloadId) {
        self.change_held(id, -1);
    }

    pub fn give_back(&mut self, id: WorkloadId) {
        self.change_held(id, 1);
    }

    fn change_held(&mut self, id: WorkloadId, sign: i64) {
        let node = self.node_of(id);
        let Cluster { workloads, topologies, tree, .. } = self;
        let workload = &workloads[id.0 as usize];
        let Some(admission) = workload.admission() else { return };
        for (pair, amount) in &admission.usage {
            if sign > 0 { tree.add_usage(node, *pair, *amount) } else { tree.remove_usage(node, *pair, *amount) }
        }
        for PlacedPods { flavor, leaf, pod_set, pods } in &admission.placed {
            if let Some(topology) = topologies.get_mut(flavor) {
                topology.add_pods(*leaf, &workload.pod_sets[*pod_set].with_slot, sign * pods);
            }
        }
    }

    // Placement in a topology

    /// How the pod set must be placed in a topology; `None` if it need not be.
    pub fn topology_request(&self, id: WorkloadId, pod_set: usize) -> Option<TopologyRequest> {
        let workload = self.workload(id);
        let implied = self.queue(workload.queue).is_topology_only.then_some(TopologyRequest::Unconstrained);
        workload.pod_sets[pod_set].topology.clone().or(implied)
    }

    /// Places pod sets one after another. The error names the pod set that does not fit.
    pub fn place_all(
        &self,
        id: WorkloadId,
        placing: &[Placing],
        occupancy: Occupancy,
    ) -> Result<Vec<(Placing, TopologyPlacement)>, (Placing, NoPlacement)> {
        let workload = self.workload(id);
        let mut placed: Vec<(Placing, TopologyPlacement)> = Vec::new();
        for next in placing {
            let (pod_set, topology) = (&workload.pod_sets[next.pod_set], &self.topologies[&next.flavor]);
            let assumed: Vec<(DomainId, &Requests, i64)> = (placed.iter())
                .filter(|(before, _)| before.flavor == next.flavor)
                .flat_map(|(before, placement)| {
                    let requests = &workload.pod_sets[before.pod_set].with_slot;
                    placement.iter().map(move |(leaf, pods)| (*leaf, requests, *pods))
                })
                .collect();
            let ask = PlaceRequest {
                pods: i64::from(next.pods),
                per_pod: &pod_set.with_slot,
                request: self.topology_request(id, next.pod_set).unwrap_or(TopologyRequest::Unconstrained),
                node_selector: &pod_set.node_selector,
                affinity: &pod_set.affinity,
                tolerations: &pod_set.tolerations,
            };
            match topology.place(&self.names, &ask, &assumed, occupancy) {
                Ok(placement) => placed.push((*next, placement)),
                Err(why) => return Err((*next, why)),
            }
        }
        Ok(placed)
    }

    /// Whether the domains have room for pods that were placed before, without counting their slots.
    pub fn has_room(&self, id: WorkloadId, placed: &[PlacedPods]) -> bool {
        placed.iter().all(|PlacedPods { flavor, leaf, pod_set, pods }| {
            let per_pod = &self.workload(id).pod_sets[*pod_set].requests;
            self.topologies.get(flavor).is_some_and(|topology| topology.has_room(*leaf, per_pod, *pods, self.slot))
        })
    }
}
