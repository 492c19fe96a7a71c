//! A recorded world of Kueue, and its conversion to objects of the room `kueue`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::seen::StepSeen;
use dryrack_kueue::objects::{
    BorrowPolicy, BorrowWithinCohort, ClusterQueueSpec, CohortSpec, FairSharingWeight, FlavorQuotas, FlavorSearch,
    FungibilityPreference, FungibilitySpec, Named, PodSetSpec, PreemptionSpec, QueueingStrategy, ReclaimWithinCohort,
    ResourceFlavorSpec, ResourceGroup, ResourceQuota, StopPolicy, Taint, Toleration, TopologyLevel, TopologyNode,
    TopologyRequest, TopologySpec, WithinClusterQueue, WorkloadSpec,
};
use dryrack_kueue::{FairStrategy, Quantity, Setup};

#[derive(Deserialize)]
pub struct World {
    pub id: String,
    pub class: String,
    fair: Option<Vec<FairStrategy>>,
    pub evict_delay: u64,
    flavors: Vec<Flavor>,
    #[serde(default)]
    topology: Option<RecordedTopology>,
    #[serde(default)]
    nodes: Vec<RecordedNode>,
    pub cohorts: Vec<RecordedCohort>,
    pub cqs: Vec<RecordedQueue>,
    pub workloads: Vec<RecordedWorkload>,
    pub timeline: Vec<Op>,
    pub out: Outcome,
}

#[derive(Deserialize)]
pub struct Outcome {
    pub steps: Vec<StepSeen>,
}

#[derive(Deserialize)]
struct Flavor {
    name: Arc<str>,
    #[serde(default)]
    labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    topology: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct RecordedTopology {
    name: Arc<str>,
    levels: Vec<Arc<str>>,
}

#[derive(Deserialize)]
struct RecordedNode {
    name: Arc<str>,
    labels: BTreeMap<Arc<str>, Arc<str>>,
    capacity: BTreeMap<Arc<str>, Quantity>,
}

#[derive(Deserialize)]
pub struct RecordedCohort {
    pub name: Arc<str>,
    parent: Arc<str>,
    #[serde(default)]
    weight: Option<Quantity>,
    groups: Vec<RecordedGroup>,
}

#[derive(Deserialize)]
pub struct RecordedQueue {
    pub name: Arc<str>,
    cohort: Arc<str>,
    strategy: QueueingStrategy,
    stop: StopPolicy,
    #[serde(default)]
    weight: Option<Quantity>,
    preempt: Preempt,
    fung: Fungibility,
    groups: Vec<RecordedGroup>,
}

#[derive(Deserialize)]
struct Preempt {
    within: WithinClusterQueue,
    reclaim: ReclaimWithinCohort,
    #[serde(default)]
    borrow: Option<Borrow>,
}

#[derive(Deserialize)]
struct Borrow {
    policy: BorrowPolicy,
    #[serde(default)]
    max: Option<i32>,
}

#[derive(Deserialize)]
struct Fungibility {
    borrow: FlavorSearch,
    preempt: FlavorSearch,
    #[serde(default)]
    pref: FungibilityPreference,
}

#[derive(Deserialize)]
struct RecordedGroup {
    resources: Vec<Arc<str>>,
    flavors: Vec<GroupFlavor>,
}

#[derive(Deserialize)]
struct GroupFlavor {
    name: Arc<str>,
    quota: BTreeMap<Arc<str>, RecordedQuota>,
}

#[derive(Deserialize)]
struct RecordedQuota {
    nominal: Quantity,
    #[serde(default)]
    borrow: Option<Quantity>,
    #[serde(default)]
    lend: Option<Quantity>,
}

#[derive(Deserialize)]
pub struct RecordedWorkload {
    pub name: Arc<str>,
    uid: Arc<str>,
    cq: Arc<str>,
    prio: i32,
    created: i64,
    podsets: Vec<RecordedPodSet>,
}

#[derive(Deserialize)]
struct RecordedPodSet {
    name: Arc<str>,
    count: u32,
    #[serde(default)]
    min: Option<u32>,
    req: BTreeMap<Arc<str>, Quantity>,
    #[serde(default)]
    sel: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    tol: Vec<Toleration>,
    #[serde(default)]
    topo: Option<RecordedTopologyRequest>,
}

#[derive(Deserialize)]
struct RecordedTopologyRequest {
    mode: TopologyMode,
    #[serde(default)]
    level: Arc<str>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TopologyMode {
    Required,
    Preferred,
    Unconstrained,
}

#[derive(Deserialize)]
pub struct Op {
    pub t: i64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum What {
    Arrive { wl: Vec<Arc<str>> },
    Finish { wl: Vec<Arc<str>> },
    Delete { wl: Vec<Arc<str>> },
    SetCq { cq: RecordedQueue },
    SetCohort { cohort: RecordedCohort },
}

impl World {
    pub fn setup(&self) -> Setup {
        let flavor = |flavor: &Flavor| Named {
            name: Arc::clone(&flavor.name),
            spec: ResourceFlavorSpec {
                node_labels: flavor.labels.clone(),
                node_taints: flavor.taints.clone(),
                tolerations: Vec::new(),
                topology_name: flavor.topology.clone(),
            },
        };
        let topology = |topology: &RecordedTopology| {
            let level = |label: &Arc<str>| TopologyLevel { node_label: Arc::clone(label) };
            let spec = TopologySpec { levels: topology.levels.iter().map(level).collect() };
            Named { name: Arc::clone(&topology.name), spec }
        };
        let node = |node: &RecordedNode| TopologyNode {
            name: Arc::clone(&node.name),
            labels: node.labels.clone(),
            taints: Vec::new(),
            capacity: node.capacity.clone(),
        };
        Setup {
            fair_sharing: self.fair.clone(),
            flavors: self.flavors.iter().map(flavor).collect(),
            topologies: self.topology.iter().map(topology).collect(),
            nodes: self.nodes.iter().map(node).collect(),
        }
    }
}

fn named(name: &Arc<str>) -> Option<Arc<str>> {
    (!name.is_empty()).then(|| Arc::clone(name))
}

fn groups(groups: &[RecordedGroup]) -> Vec<ResourceGroup> {
    let quota = |(name, quota): (&Arc<str>, &RecordedQuota)| ResourceQuota {
        name: Arc::clone(name),
        nominal_quota: quota.nominal,
        borrowing_limit: quota.borrow,
        lending_limit: quota.lend,
    };
    let flavor = |flavor: &GroupFlavor| FlavorQuotas {
        name: Arc::clone(&flavor.name),
        resources: flavor.quota.iter().map(quota).collect(),
    };
    let group = |group: &RecordedGroup| ResourceGroup {
        covered_resources: group.resources.clone(),
        flavors: group.flavors.iter().map(flavor).collect(),
    };
    groups.iter().map(group).collect()
}

impl RecordedCohort {
    pub fn spec(&self) -> CohortSpec {
        CohortSpec {
            parent: named(&self.parent),
            fair_sharing: FairSharingWeight { weight: self.weight },
            resource_groups: groups(&self.groups),
        }
    }
}

impl RecordedQueue {
    pub fn spec(&self) -> ClusterQueueSpec {
        let borrow = self.preempt.borrow.as_ref();
        ClusterQueueSpec {
            cohort: named(&self.cohort),
            queueing_strategy: self.strategy,
            stop_policy: self.stop,
            fair_sharing: FairSharingWeight { weight: self.weight },
            preemption: PreemptionSpec {
                within_cluster_queue: self.preempt.within,
                reclaim_within_cohort: self.preempt.reclaim,
                borrow_within_cohort: borrow
                    .map(|borrow| BorrowWithinCohort { policy: borrow.policy, max_priority_threshold: borrow.max }),
            },
            flavor_fungibility: FungibilitySpec {
                when_can_borrow: self.fung.borrow,
                when_can_preempt: self.fung.preempt,
                preference: self.fung.pref,
            },
            resource_groups: groups(&self.groups),
        }
    }
}

impl RecordedWorkload {
    pub fn spec(&self) -> WorkloadSpec {
        let topology = |request: &RecordedTopologyRequest| match request.mode {
            TopologyMode::Required => TopologyRequest::Required(Arc::clone(&request.level)),
            TopologyMode::Preferred => TopologyRequest::Preferred(Arc::clone(&request.level)),
            TopologyMode::Unconstrained => TopologyRequest::Unconstrained,
        };
        let pod_set = |pod_set: &RecordedPodSet| PodSetSpec {
            name: Arc::clone(&pod_set.name),
            count: pod_set.count,
            min_count: pod_set.min,
            requests: pod_set.req.clone(),
            node_selector: pod_set.sel.clone(),
            affinity: Vec::new(),
            tolerations: pod_set.tol.clone(),
            topology: pod_set.topo.as_ref().map(topology),
        };
        WorkloadSpec {
            name: Arc::clone(&self.name),
            uid: Arc::clone(&self.uid),
            queue: Arc::clone(&self.cq),
            priority: self.prio,
            created: self.created,
            pod_sets: self.podsets.iter().map(pod_set).collect(),
        }
    }
}
