//! The Kubernetes flow: each replica is a pod, which kube-scheduler binds to a node.
//!
//! ```text
//!   submitted ──> gated ──> queue ──an attempt──> bound
//!                             ^          │
//!                             └─refused──┴──preempts: victims are evicted, a node is nominated
//! ```
//!
//! The decisions are those of `dryrack-kubernetes`. This flow keeps the cluster that they read ([`mirror`]), the queue
//! ([`queue`], with its hints in [`hints`]), makes pods of jobs ([`pods`]), lets them into the queue ([`arrival`]), tries
//! them ([`attempt`]), counts them for their budgets ([`budgets`]), and evicts pods from tainted nodes ([`taints`]).
//! If a real kube-scheduler decides, it gets the pods instead ([`outside`]). The ledger of the core is the authority: a
//! pod leaves the cluster once its claim is free.
//!
//! An attempt takes no time, and a pod is bound at the instant of its attempt. With gang scheduling, a pod of a gang keeps
//! its node and waits until enough of its gang have one ([`permit`]).

mod arrival;
mod attempt;
mod budgets;
mod cluster;
mod devices;
mod evictions;
mod examine;
mod gates;
mod hints;
#[cfg(test)]
mod hints_tests;
mod lacking_affinity;
#[cfg(test)]
mod lacking_affinity_tests;
mod mirror;
mod options;
mod outside;
mod permit;
mod permits;
mod plugins;
pub mod pods;
mod queue;
#[cfg(test)]
mod queue_tests;
mod reasons;
mod taints;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use lacking_affinity::Neighbors;
pub use options::{GangScheduling, KubernetesOptions, QueueOptions};
pub use pods::is_gpu;
pub(crate) use pods::kueue_nodes;
pub use reasons::of_text as reason_of_text;

use super::attempts::Attempts;
use super::core::Core;
use super::core::store::{ReplicaIndex, Wait};
use super::flow::{Due, Flow, Visitor, WaitingChanges, visit_in_order};
use super::outside::DecidedOutside;
use budgets::Budgets;
use cluster::{MirroredNode, cluster_of};
use dryrack_event::{Command, Event, Histogram, Outcome, Outside, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_kubernetes::cluster::{Cluster, Placed, PodInfo};
use dryrack_kubernetes::cycle::{self, KnownRefusals};
use dryrack_kubernetes::object::ClaimSpec;
use dryrack_kubernetes::plugins::dynamic_resources::claim_keys;
use dryrack_objects::{ClusterObjects, Pod};
use dryrack_scheduler::Examination;
use dryrack_units::SimTime;
use dryrack_workload::{Demand, JobSpec};
use evictions::Evictions;
use gates::Gates;
use hints::Event as Change;
use permits::Permits;
use queue::{GroupId, Queue};

/// A pod that waits or is bound.
struct PodRecord {
    info: Arc<PodInfo>,
    group: GroupId,
}

/// What makes two pods equal: the stated object, the demand, the priority, the terms of their admission, and whether they
/// state their node, which only the first attempt does.
type Template = (Option<Arc<Pod>>, u32, i32, Option<u32>, bool);

pub(crate) struct Kubernetes {
    options: KubernetesOptions,
    cluster: Cluster,
    /// Increases with every change of the cluster that an attempt can depend on.
    version: u64,
    nodes: Vec<MirroredNode>,
    ids: BTreeMap<Arc<str>, NodeId>,
    /// The changes of the fleet that the cluster already shows.
    read_changes: u64,
    /// The resource of each GPU model in the fleet.
    models: BTreeMap<Arc<str>, &'static str>,
    pods: BTreeMap<ReplicaIndex, PodRecord>,
    /// The attempts whose pods are on nodes, and for each of them the key and the node of its pod.
    bound: BTreeMap<Arc<str>, AttemptId>,
    placed: BTreeMap<AttemptId, (Arc<str>, Arc<str>)>,
    queue: Queue,
    gates: Gates,
    permits: Permits,
    /// Replicas whose demand cannot be a pod. They end when the flow settles.
    no_pods: BTreeSet<ReplicaIndex>,
    /// All pods that wait or are bound, by their keys.
    keys: BTreeMap<Arc<str>, ReplicaIndex>,
    templates: HashMap<Template, GroupId, foldhash::fast::FixedState>,
    groups: GroupId,
    known_refusals: KnownRefusals,
    evictions: Evictions,
    budgets: Budgets,
    /// The specs of claims that are made from templates, by namespace and template.
    claim_templates: BTreeMap<(Arc<str>, Arc<str>), ClaimSpec>,
    /// Where the next attempt starts to examine nodes.
    next_node: usize,
    /// Number of attempts so far.
    attempts: u64,
}

impl Kubernetes {
    pub(crate) fn new(core: &mut Core, options: &KubernetesOptions) -> Kubernetes {
        core.fleet.keep_node_changes();
        Kubernetes {
            options: options.clone(),
            cluster: cluster_of(&ClusterObjects::default(), options),
            version: 0,
            nodes: Vec::new(),
            ids: BTreeMap::new(),
            read_changes: 0,
            models: BTreeMap::new(),
            pods: BTreeMap::new(),
            bound: BTreeMap::new(),
            placed: BTreeMap::new(),
            queue: Queue::default(),
            gates: Gates::default(),
            permits: Permits::default(),
            no_pods: BTreeSet::new(),
            keys: BTreeMap::new(),
            templates: HashMap::default(),
            groups: 0,
            known_refusals: KnownRefusals::default(),
            evictions: Evictions::default(),
            budgets: Budgets::default(),
            claim_templates: BTreeMap::new(),
            next_node: 0,
            attempts: 0,
        }
    }

    fn cluster_changed(&mut self) {
        self.version += 1;
    }

    fn happened(&mut self, core: &Core, event: &Change<'_>) {
        let (pods, cluster) = (&self.pods, &self.cluster);
        let helps = |pod: ReplicaIndex, plugins, event: &Change<'_>| {
            pods.get(&pod).is_some_and(|pod| hints::helps(&pod.info, plugins, event, cluster))
        };
        let most_gpus = hints::most_gpus(event, self.queue.highest_priority(), cluster);
        self.queue.happened(event, (core.now, most_gpus), self.options.queue, helps);
    }

    /// Tries all pods that are ready to be tried.
    fn try_active(&mut self, core: &mut Core) {
        while let Some((index, group)) = self.queue.next() {
            self.attempt(core, index, group);
            // An eviction may free room at once.
            self.follow_fleet(core);
        }
    }

    fn new_group(&mut self) -> GroupId {
        self.groups += 1;
        self.groups
    }

    /// The group of a pod. Pods whose attempts depend on the pod itself are groups of their own. So are all pods if
    /// each has its own back-off.
    fn group_of(&mut self, core: &Core, index: ReplicaIndex, info: &PodInfo) -> GroupId {
        let spec = &info.pod.spec;
        let is_apart = !spec.resource_claims.is_empty() || spec.workload_ref.is_some();
        if is_apart || !self.options.queue.pop_from_backoff {
            return self.new_group();
        }
        let replica = &core.store[index];
        let stated = core.store[replica.job].spec.pod.clone();
        let terms = core.admission.terms_number(index);
        let next = self.groups + 1;
        let group = *self
            .templates
            .entry((stated, replica.demand, info.priority, terms, spec.node_name.is_some()))
            .or_insert(next);
        self.groups = self.groups.max(group);
        group
    }

    /// The pod of a replica's current attempt.
    fn pod_of(&self, core: &Core, index: ReplicaIndex) -> Option<PodInfo> {
        let replica = &core.store[index];
        let spec = &core.store[replica.job].spec;
        let is_taken = |key: &Arc<str>| self.keys.contains_key(key);
        let mut pod = pods::pod_of_attempt(spec, replica.attempt_id(), &self.models, &core.fleet, is_taken)?;
        self.name_scheduler(spec, &mut pod);
        core.admission.complete(index, &mut pod);
        Some(PodInfo::new(pod))
    }

    /// Names the scheduler of the profile in a pod that is made of a job without a manifest.
    fn name_scheduler(&self, spec: &JobSpec, pod: &mut Pod) {
        let name = &self.options.scheduler_name;
        if !pods::has_manifest(spec) && pod.spec.scheduler() != name {
            pod.spec.scheduler_name = Some(Arc::from(name.as_str()));
        }
    }

    /// Ends everything that a pod on a node held.
    fn forget_placed(&mut self, placed: Placed) -> Arc<PodInfo> {
        let pod = placed.pod;
        self.keys.remove(&pod.key);
        self.budgets.no_longer_healthy(&pod.key);
        if let Some(attempt) = self.bound.remove(&pod.key) {
            self.placed.remove(&attempt);
        }
        for key in claim_keys(&pod) {
            self.cluster.devices.release(&key, &pod.pod.metadata.name);
        }
        self.delete_claims(&pod);
        self.cluster.gangs.forget(&pod);
        pod
    }
}

impl Flow for Kubernetes {
    fn queue_up(&mut self, core: &mut Core, index: ReplicaIndex) {
        core.store[index].wait = Wait::Queue;
        let Some(info) = self.pod_of(core, index) else {
            self.no_pods.insert(index);
            return;
        };
        let group = self.group_of(core, index, &info);
        self.budgets.expect(index, &info, &self.cluster);
        self.make_claims(&info);
        self.keys.insert(Arc::clone(&info.key), index);
        self.cluster.gangs.know(&info);
        self.pods.insert(index, PodRecord { info: Arc::new(info), group });
        self.arrived(core, index);
    }

    fn settle(&mut self, core: &mut Core) {
        self.version += self.budgets.follow(core.now, &mut self.cluster);
        self.follow_fleet(core);
        self.evict_due(core);
        self.follow_fleet(core);
        self.bind_stated_pods(core);
        while let Some(index) = self.no_pods.pop_first() {
            core.hold(index, (Refusal::Never, Histogram::of(Reason::NotAPod, core.fleet.len().max(1) as u32)));
            core.store[index].wait = Wait::Nothing;
            self.end(core, index, Outcome::NeverFits, Reason::NeverFits);
        }
        if core.is_decided_outside() {
            return self.hand_over(core);
        }
        self.open_gates(core);
        self.queue.advance(core.now, self.options.queue, self.version);
        self.try_active(core);
        self.end_permits(core);
    }

    /// A pod that was refused long ago is due at once if the cluster changes.
    fn next_due(&mut self, core: &mut Core) -> Option<Due> {
        let queue = self.queue.due(self.options.queue, self.version).map(|at| (at.max(core.now), "a refused pod"));
        let eviction = self.evictions.next().map(|at| (at, "an eviction by a taint"));
        let permit = self.permits.next().map(|at| (at, "the end of a permit"));
        queue.into_iter().chain(eviction).chain(permit).min()
    }

    fn check(&self, core: &Core) {
        self.queue.check();
        let waiting = core.store.replicas.values().filter(|replica| replica.wait == Wait::Queue).count();
        assert_eq!(
            self.queue.len() + self.gates.len() + self.permits.len() + self.no_pods.len(),
            waiting,
            "a pod waits and is not in the queue"
        );
        let on_nodes: usize = self.cluster.nodes().iter().map(|node| node.pods.len()).sum();
        assert_eq!(on_nodes, self.placed.len() + self.permits.len(), "a pod is on a node and belongs to no attempt");
        self.check_devices(core);
    }

    /// Asserts nothing, because a pod may wait for its back-off beside a free node.
    fn check_nothing_waits_in_vain(&self, _core: &Core) {}

    fn decided(&mut self, core: &mut Core, attempt: AttemptId, placement: Option<&Placement>) {
        self.decided_outside(core, attempt, placement);
    }

    fn said(&mut self, core: &mut Core, said: &Outside) {
        self.said_outside(core, said);
    }

    fn objects_declared(&mut self, _core: &mut Core, objects: &Arc<ClusterObjects>) {
        assert!(self.nodes.is_empty(), "objects are declared before the nodes");
        self.cluster = cluster_of(objects, &self.options);
        self.budgets = Budgets::new(objects.pod_disruption_budgets.iter().map(|budget| budget.spec.clone()));
    }

    fn waits_for_admission(&self) -> bool {
        true
    }

    fn is_of_pods(&self) -> bool {
        true
    }

    fn withdraw(&mut self, core: &mut Core, index: ReplicaIndex) {
        if core.store[index].wait != Wait::Queue {
            return;
        }
        core.store[index].wait = Wait::Nothing;
        self.no_pods.remove(&index);
        let Some(record) = self.pods.get(&index) else { return };
        let info = Arc::clone(&record.info);
        if core.is_decided_outside() {
            let attempt = core.store[index].attempt_id();
            core.command(Command::Withdraw { attempt });
        }
        self.keys.remove(&info.key);
        self.gates.remove(index, &info);
        self.queue.remove(index);
        self.leave_permit(core, index);
        self.delete_claims(&info);
        self.cluster.gangs.forget(&info);
        if self.cluster.nominations.node_of(&info.key).is_some() {
            self.cluster.nominations.clear(&info.key);
            self.cluster_changed();
            self.happened(core, &Change::NominationCleared);
        }
    }

    fn phase_changed(&mut self, core: &mut Core, index: ReplicaIndex, _before: (Phase, SimTime)) {
        let replica = &core.store[index];
        match (replica.phase, self.pods.get(&index).map(|record| Arc::clone(&record.info))) {
            (Phase::Running, Some(pod)) => self.budgets.count_as_healthy(index, &pod),
            (Phase::Stopping, pod) => {
                pod.iter().for_each(|pod| self.budgets.no_longer_healthy(&pod.key));
                self.begin_deletion(core, replica.attempt_id(), false);
            }
            _ => {}
        }
    }

    fn finished(&mut self, index: ReplicaIndex) {
        self.pods.remove(&index);
        self.budgets.no_longer_expect(index);
    }

    /// The controller of a Job counts a pod that is deleted before it succeeds as failed (`isPodFailed` in
    /// pkg/controller/job).
    fn counts_as_failure(&self, because: Reason) -> bool {
        matches!(because, Reason::NodeLost | Reason::Preempted | Reason::GroupRestarted)
    }

    /// Pods are evicted by taints.
    fn evicts_from_silent_nodes(&self) -> bool {
        false
    }

    fn examine(&mut self, core: &Core, index: ReplicaIndex) -> Option<Examination> {
        let pod = match self.pods.get(&index) {
            Some(_) if self.permits.holds(index) => return Some(self.examine_permit(core, index)),
            Some(record) if core.store[index].wait == Wait::Queue => Arc::clone(&record.info),
            Some(_) | None => match self.pod_of(core, index) {
                Some(pod) => Arc::new(pod),
                None => return Some(Kubernetes::examine_no_pod(core, index)),
            },
        };
        Some(self.examine_pod(core, index, &pod))
    }

    fn evaluate(&mut self, core: &mut Core, name: &Arc<str>, demand: &Demand) {
        let spec = JobSpec::of(Arc::clone(name), demand.clone());
        let Some(mut pod) = pods::pod_of(&spec, format!("{name}-evaluated"), &self.models) else {
            let reasons = Histogram::of(Reason::NotAPod, core.fleet.len().max(1) as u32);
            let event = Event::Evaluated { name: Arc::clone(name), refusal: Some(Refusal::Never), reasons };
            return core.emit(event);
        };
        self.name_scheduler(&spec, &mut pod);
        self.follow_fleet(core);
        let pod = Arc::new(PodInfo::new(pod));
        let start = self.start(0);
        let decided = cycle::schedule(&pod, &mut self.cluster, &self.options.scheduler, start);
        let fits = matches!(decided.outcome, cycle::Outcome::Fits { .. });
        let reasons = reasons::histogram(&decided, self.cluster.nodes().len());
        let (refusal, reasons) = if fits { (None, Histogram::default()) } else { (Some(Refusal::Unfit), reasons) };
        core.emit(Event::Evaluated { name: Arc::clone(name), refusal, reasons });
    }

    fn each_waiting(&self, core: &mut Core, visit: &mut Visitor<'_>) {
        let on_permit = self.permits.all();
        let refused = self.queue.in_order().into_iter().filter(|index| self.pods.contains_key(index));
        visit_in_order(core, on_permit.into_iter().chain(refused), visit);
    }

    fn waiting_changes(&self, _core: &Core) -> WaitingChanges {
        (self.queue.changes + self.permits.changes, SimTime::ZERO)
    }
}
