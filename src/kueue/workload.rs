//! A workload: its requests, and whether it waits or holds quota.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::{FlavorId, FlavorResource, Names, ResourceId};
use super::objects::{NodeSelectorTerm, PodSetSpec, Toleration, TopologyRequest, WorkloadSpec};
use super::quantity::amount_of;
use super::queue::QueueId;
use super::reason::{PreemptionReason, QuotaReason};
use super::topology::{DomainId, PODS, Requests, TopologyPlacement};
use dryrack_kubernetes::object::Quantity;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadId(pub(crate) u32);

/// A number for each shape of workloads. Two workloads of the same shape in the same queue get the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeId(pub u32);

/// The properties that form the shape of a workload.
pub(crate) type Shape = (i32, Vec<PodSetShape>);
type PodSetShape = (
    u32,
    Option<u32>,
    BTreeMap<Arc<str>, Quantity>,
    BTreeMap<Arc<str>, Arc<str>>,
    Vec<NodeSelectorTerm>,
    Vec<Toleration>,
    Option<TopologyRequest>,
);

#[derive(Debug)]
pub struct Workload {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub(crate) queue: QueueId,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) pod_sets: Vec<PodSet>,
    pub(crate) shape: ShapeId,
    pub(crate) state: WorkloadState,
    /// The point at which the last scan of flavors stopped.
    pub(crate) scan: Option<FlavorScan>,
    /// The last condition about its quota since it began to wait.
    pub(crate) condition: Option<Condition>,
    /// Whether a simulation removed it.
    pub(crate) is_gone: bool,
}

/// The condition `QuotaReserved` of a workload that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Kueue gives no reason if a pod set finds no domain although its quota fits.
    pub reason: Option<QuotaReason>,
    pub message: String,
}

#[derive(Debug)]
pub(crate) struct PodSet {
    pub name: Arc<str>,
    pub count: u32,
    pub min_count: Option<u32>,
    /// The requests of one pod, sorted by the name of the resource.
    pub requests: Requests,
    /// The same requests, and the slot of the pod itself.
    pub with_slot: Requests,
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    pub affinity: Vec<NodeSelectorTerm>,
    pub tolerations: Vec<Toleration>,
    pub topology: Option<TopologyRequest>,
}

#[derive(Debug)]
pub(crate) enum WorkloadState {
    /// Waits for quota. If it was drained, it stays out until its queue runs again.
    Pending { is_drained: bool },
    /// Holds quota.
    Reserved(Admission),
    /// Finished or deleted.
    Gone,
}

/// The quota and the domains that a workload holds.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub reserved_at: i64,
    pub eviction: Option<Eviction>,
    pub usage: Vec<(FlavorResource, i64)>,
    pub placed: Vec<PlacedPods>,
}

/// Why a workload releases its quota before it has finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    Preempted { by: WorkloadId, reason: PreemptionReason },
    QueueStopped,
}

/// Pods of a pod set in one domain.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPods {
    pub flavor: FlavorId,
    pub leaf: DomainId,
    pub pod_set: usize,
    pub pods: i64,
}

/// The point at which a scan of flavors stopped. The next scan continues after it, unless quota was released in the
/// meantime.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlavorScan {
    /// For each pod set and resource, the index of the last flavor that was tried, or `None` if it was the last one.
    pub tried: Vec<BTreeMap<ResourceId, Option<usize>>>,
    pub generation: u64,
    pub cycle: u64,
}

impl FlavorScan {
    /// Whether some flavors were not tried.
    pub fn is_unfinished(&self) -> bool {
        self.tried.iter().any(|pod_set| pod_set.values().any(Option::is_some))
    }

    pub fn next_flavor(&self, pod_set: usize, resource: ResourceId) -> usize {
        let tried = self.tried.get(pod_set).and_then(|pod_set| pod_set.get(&resource).copied());
        tried.flatten().map_or(0, |index| index + 1)
    }
}

impl Workload {
    pub(crate) fn new(spec: &WorkloadSpec, queue: QueueId, shape: ShapeId, names: &mut Names) -> Workload {
        Workload {
            name: Arc::clone(&spec.name),
            uid: Arc::clone(&spec.uid),
            queue,
            priority: spec.priority,
            created: spec.created,
            pod_sets: spec.pod_sets.iter().map(|pod_set| PodSet::new(pod_set, names)).collect(),
            shape,
            state: WorkloadState::Pending { is_drained: false },
            scan: None,
            condition: None,
            is_gone: false,
        }
    }

    pub(crate) fn admission(&self) -> Option<&Admission> {
        match &self.state {
            WorkloadState::Reserved(admission) => Some(admission),
            WorkloadState::Pending { .. } | WorkloadState::Gone => None,
        }
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.admission().is_some_and(|admission| admission.eviction.is_some())
    }

    pub(crate) fn can_be_partial(&self) -> bool {
        self.pod_sets.iter().any(|pod_set| pod_set.min_count.is_some_and(|least| least < pod_set.count))
    }
}

impl PodSet {
    fn new(spec: &PodSetSpec, names: &mut Names) -> PodSet {
        let amount = |(resource, quantity): (&Arc<str>, &Quantity)| amount_of(resource, *quantity);
        let mut requests = Requests::new();
        for request in &spec.requests {
            requests.push((names.add_resource(request.0), amount(request)));
        }
        let slot = names.add_resource(PODS);
        let mut with_slot = requests.clone();
        match with_slot.iter_mut().find(|(resource, _)| *resource == slot) {
            Some((_, amount)) => *amount += 1,
            None => with_slot.push((slot, 1)),
        }
        with_slot.sort_by(|a, b| names.resource(a.0).cmp(names.resource(b.0)));
        PodSet {
            name: Arc::clone(&spec.name),
            count: spec.count,
            min_count: spec.min_count,
            requests,
            with_slot,
            node_selector: spec.node_selector.clone(),
            affinity: spec.affinity.clone(),
            tolerations: spec.tolerations.clone(),
            topology: spec.topology.clone(),
        }
    }
}

pub(crate) fn shape_of(spec: &WorkloadSpec) -> Shape {
    let pod_set = |pod_set: &PodSetSpec| {
        (
            pod_set.count,
            pod_set.min_count,
            pod_set.requests.clone(),
            pod_set.node_selector.clone(),
            pod_set.affinity.clone(),
            pod_set.tolerations.clone(),
            pod_set.topology.clone(),
        )
    };
    (spec.priority, spec.pod_sets.iter().map(pod_set).collect())
}

/// The pods that a placement puts into each leaf.
pub(crate) fn placed_pods(flavor: FlavorId, pod_set: usize, placement: &TopologyPlacement) -> Vec<PlacedPods> {
    placement.iter().map(|(leaf, pods)| PlacedPods { flavor, leaf: *leaf, pod_set, pods: *pods }).collect()
}
