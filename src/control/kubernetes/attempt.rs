//! One attempt to schedule a pod, and what follows from it.

use std::sync::Arc;

use super::Kubernetes;
use super::hints::Event as Change;
use super::mirror::seconds;
use super::permits::Reserved;
use super::plugins::Plugins;
use super::pods;
use super::queue::{GroupId, Refusal};
use super::reasons::{histogram, of_refusal};
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::flow::Flow;
use dryrack_event::{Event, Histogram, Outcome, Reason, Refusal as Refused};
use dryrack_fleet::DeviceName;
use dryrack_kubernetes::cluster::PodInfo;
use dryrack_kubernetes::cycle::{self, Decision, Outcome as Decided, Plugin, PostFilter, RefusedByAll};
use dryrack_kubernetes::devices::Allocations;
use dryrack_kubernetes::plugins::gang_scheduling::Permit;
use dryrack_rng::Stream;
use dryrack_scheduler::Candidate;
use dryrack_units::Score;

/// The node that a pod gets.
pub(super) struct Chosen {
    /// The index in the cluster.
    pub node: usize,
    pub devices: Option<Allocations>,
    /// The score of the node.
    pub total: i64,
    /// `None` if the pod states its node.
    pub decision: Option<Decision>,
}

/// What a preemption did.
struct Preempted {
    /// The keys of all victims, of which some may wait for their gang.
    victims: Vec<Arc<str>>,
    /// Whether a weaker pod has lost the node that was nominated to it, or the pod itself another one.
    clears_nominations: bool,
}

impl Kubernetes {
    /// Tries the pod that is next in the queue.
    pub(super) fn attempt(&mut self, core: &mut Core, index: ReplicaIndex, group: GroupId) {
        if let Some(refusal) = self.queue.refusal(group).filter(|refusal| refusal.version == self.version) {
            // The cluster is as it was when an equal pod was refused.
            let Refusal { plugins, since, version, ref held, .. } = *refusal;
            let held = held.clone();
            let by_node = self.queue.by_node_mut(group).take();
            return self.refuse_group(core, group, Refusal { plugins, since, version, held, by_node });
        }
        let pod = Arc::clone(&self.pods[&index].info);
        self.attempts += 1;
        if !core.is_watched(index)
            && let Some(refusal) = self.refused_as_before(core, group, &pod)
        {
            return self.refuse_group(core, group, refusal);
        }
        let start = self.start(self.offset(core));
        let decision = cycle::schedule(&pod, &mut self.cluster, &self.options.scheduler, start);
        self.next_node = decision.next_node;
        match &decision.outcome {
            Decided::Fits { .. } => self.bind(core, index, group, decision),
            Decided::Unschedulable { .. } => self.refused(core, index, group, &decision),
            Decided::Failed { .. } => {
                core.hold(index, (Refused::Unfit, Histogram::of(Reason::PluginFailed, self.node_count())));
                self.queue.fail(group, core.now, self.options.queue);
            }
        }
    }

    /// The refusal of a group, if the nodes that changed since its last refusal refuse it too. `None` if an attempt must
    /// examine all nodes.
    fn refused_as_before(&mut self, core: &Core, group: GroupId, pod: &Arc<PodInfo>) -> Option<Refusal> {
        self.queue.refusal(group)?;
        let mut by_node = self.queue.by_node_mut(group).take()?;
        let (scheduler, known) = (&self.options.scheduler, &mut self.known_refusals);
        if !by_node.renew(pod, &mut self.cluster, scheduler, known) {
            *self.queue.by_node_mut(group) = Some(by_node);
            return None;
        }
        let mut reasons = Histogram::default();
        by_node.reasons(known).for_each(|(reason, nodes)| reasons.add(of_refusal(reason), nodes));
        let plugins = by_node.plugins(known).collect();
        if cfg!(debug_assertions) {
            self.check_refused(pod, plugins, &reasons);
        }
        let held = (Refused::Unfit, reasons);
        Some(Refusal { plugins, since: core.now, version: self.version, held, by_node: Some(by_node) })
    }

    /// Asserts that an attempt on all nodes has this result.
    fn check_refused(&mut self, pod: &Arc<PodInfo>, plugins: Plugins, reasons: &Histogram) {
        let start = self.start(0);
        let decision = cycle::schedule(pod, &mut self.cluster, &self.options.scheduler, start);
        let Decided::Unschedulable { post_filter, .. } = &decision.outcome else {
            panic!("{} is refused, and fits", pod.key);
        };
        let preempts = post_filter.preemption.as_ref().is_some_and(|preemption| !preemption.best.is_empty());
        let now = histogram(&decision, self.cluster.nodes().len());
        let is_same = *reasons == now && plugins == plugins_of(&decision);
        assert!(is_same && !preempts, "{} is refused for {reasons:?}, not {now:?} ({preempts})", pod.key);
    }

    /// Where an attempt starts now.
    pub(super) fn start(&self, preemption: usize) -> cycle::Start {
        cycle::Start { node: self.next_node, preemption }
    }

    /// The index of the node on which preemption is tried first. Upstream draws it. It matters only if not all nodes
    /// are tried.
    fn offset(&self, core: &Core) -> usize {
        let nodes = self.cluster.nodes().len();
        if nodes <= self.options.scheduler.preemption.min_candidate_nodes_absolute {
            return 0;
        }
        Stream::new(core.deciding.seed, "first node of a preemption", self.attempts).index(nodes)
    }

    fn node_count(&self) -> u32 {
        self.cluster.nodes().len().max(1) as u32
    }

    /// Draws one of several equally good nodes. Upstream depends on the order in which its threads finish.
    fn draw(&self, core: &Core, purpose: &'static str, count: usize) -> usize {
        if count <= 1 { 0 } else { Stream::new(core.deciding.seed, purpose, self.attempts).index(count) }
    }

    /// Binds a pod to one of the best nodes.
    fn bind(&mut self, core: &mut Core, index: ReplicaIndex, group: GroupId, decision: Decision) {
        let total = decision.scores.as_ref().and_then(|scores| scores.totals.iter().copied().max()).unwrap_or(0);
        let pod = Arc::clone(&decision.pod);
        let Decided::Fits { best } = &decision.outcome else { return };
        let (node, devices) = best[self.draw(core, "node of a pod", best.len())].clone();
        let chosen = Chosen { node, devices, total, decision: Some(decision) };
        if !self.bind_to(core, (index, group), &pod, chosen) {
            core.hold(index, (Refused::Unfit, Histogram::of(Reason::PluginFailed, self.node_count())));
            self.queue.fail(group, core.now, self.options.queue);
        }
    }

    /// Gives a pod a node, and binds it unless it must wait for others of its gang. Returns false if the ledger has no room
    /// there.
    pub(super) fn bind_to(
        &mut self,
        core: &mut Core,
        (index, group): (ReplicaIndex, GroupId),
        pod: &Arc<PodInfo>,
        chosen: Chosen,
    ) -> bool {
        let Chosen { node, devices, total, decision } = chosen;
        let name = Arc::clone(self.cluster.node(node).name());
        let held = self.devices_of(pod, devices.as_ref());
        let Some(candidate) = self.candidate(core, index, &name, (total, &held)) else { return false };
        match &decision {
            Some(decision) => self.keep_examination(core, index, decision, Ok(&candidate)),
            None if pod.pod.spec.node_name.is_some() => {
                self.keep_stated(core, index, self.ids[&name], &candidate);
            }
            None => {}
        }
        self.queue.remove(index);
        self.queue.succeeded(group);
        let leaves_nomination = self.cluster.nominations.node_of(&pod.key).is_some_and(|nominated| *nominated != name);
        let permit = match decision {
            Some(_) => cycle::reserve(pod, &name, &mut self.cluster),
            None => cycle::reserve_stated(pod, &name, &mut self.cluster),
        };
        cycle::bind(pod, &name, pod.pod.status.start_time.unwrap_or(seconds(core)), devices, &mut self.cluster);
        self.cluster_changed();
        match permit {
            Permit::Waits => self.wait_on_permit(core, (index, pod), Reserved { node: name, total }),
            Permit::Allowed { released } => {
                self.carry_out(core, index, pod, (name, candidate));
                released.iter().for_each(|key| self.release(core, key));
            }
        }
        if leaves_nomination && self.options.queue.hints {
            self.happened(core, &Change::NominationCleared);
        }
        true
    }

    /// The place of a pod that holds these devices, on a node with this score. `None` if the ledger has no room there.
    pub(super) fn candidate(
        &self,
        core: &Core,
        index: ReplicaIndex,
        node: &str,
        (total, devices): (i64, &[DeviceName]),
    ) -> Option<Candidate> {
        let id = self.ids[node];
        let demand = Arc::clone(core.store.demand_of(index));
        let task = demand.task().expect("only demands for tasks have pods");
        let placement = pods::placement_on(id, core.fleet.node(id), task, devices)?;
        Some(Candidate { placement, score: Score::new(total as f64) })
    }

    /// Carries out the binding of a pod that has its node in the cluster.
    pub(super) fn carry_out(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        pod: &Arc<PodInfo>,
        (node, candidate): (Arc<str>, Candidate),
    ) {
        let id = self.ids[&node];
        core.store[index].wait = Wait::Nothing;
        let attempt = core.store[index].attempt_id();
        self.bound.insert(Arc::clone(&pod.key), attempt);
        self.placed.insert(attempt, (Arc::clone(&pod.key), node));
        self.place(core, index, candidate);
        self.plan_eviction(core, id, index);
        self.happened(core, &Change::PodAdded(pod));
        if !pod.pod.spec.resource_claims.is_empty() {
            self.happened(core, &Change::ClaimChanged);
        }
    }

    fn refused(&mut self, core: &mut Core, index: ReplicaIndex, group: GroupId, decision: &Decision) {
        let held = (Refused::Unfit, histogram(decision, self.cluster.nodes().len()));
        let plugins = plugins_of(decision);
        self.keep_examination(core, index, decision, Err(&held));
        cycle::settle(decision, &mut self.cluster);
        let Decided::Unschedulable { post_filter, .. } = &decision.outcome else { return };
        let deallocates = post_filter.deallocate.is_some();
        let clears = post_filter.clears_nomination && decision.nominated.is_some();
        if deallocates || clears {
            self.cluster_changed();
        }
        if let Some(preempted) = self.preempt(core, index, decision, post_filter) {
            // A pod with a nomination is tried apart from the pods that are equal to it otherwise.
            core.hold(index, held.clone());
            let (group, priority) = (self.new_group(), decision.pod.priority);
            let refusal = Refusal { plugins, since: core.now, version: self.version, held, by_node: None };
            self.queue.set_apart(index, group, priority, refusal);
            // The end of a victim that is not bound is an event at once, and may help this pod.
            preempted.victims.iter().for_each(|key| self.reject_gang_of(core, key));
            // The releases without hints have no event for it.
            if preempted.clears_nominations && self.options.queue.hints {
                self.happened(core, &Change::NominationCleared);
            }
        } else {
            let by_node = RefusedByAll::of(decision, &mut self.cluster, &mut self.known_refusals);
            let refusal = Refusal { plugins, since: core.now, version: self.version, held, by_node };
            self.refuse_group(core, group, refusal);
        }
        if deallocates {
            self.happened(core, &Change::ClaimChanged);
        }
        if clears {
            self.happened(core, &Change::NominationCleared);
        }
    }

    /// Refuses all pods of a group, and logs why they wait. They all have the same reasons.
    fn refuse_group(&mut self, core: &mut Core, group: GroupId, refusal: Refusal) {
        let before = self.queue.refusal(group);
        let same = before.is_some_and(|before| before.held.1.has_same_reasons(&refusal.held.1));
        let untold = self.queue.take_untold(group);
        let pods = if same { untold } else { self.queue.pods_of(group) };
        pods.into_iter().for_each(|pod| core.hold(pod, refusal.held.clone()));
        self.queue.refuse(group, refusal);
    }

    /// Nominates the node of a preemption to the pod, and evicts its victims that are bound. `None` if nothing is
    /// preempted.
    fn preempt(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        decision: &Decision,
        post: &PostFilter,
    ) -> Option<Preempted> {
        let preemption = post.preemption.as_ref().filter(|preemption| !preemption.best.is_empty())?;
        let drawn = self.draw(core, "node of a preemption", preemption.best.len());
        let node = preemption.best[drawn];
        let victims = preemption.candidates.iter().find(|(candidate, _)| *candidate == node);
        let victims: Vec<Arc<str>> =
            victims.iter().flat_map(|(_, victims)| &victims.pods).map(|victim| Arc::clone(&victim.pod.key)).collect();
        let name = Arc::clone(self.cluster.node(node).name());
        let weaker = |other: &&Arc<PodInfo>| other.priority < decision.pod.priority;
        let cleared: Vec<Arc<PodInfo>> = self.cluster.nominations.on(&name).iter().filter(weaker).cloned().collect();
        cleared.iter().for_each(|pod| self.cluster.nominations.clear(&pod.key));
        let moves = decision.nominated.as_ref().is_some_and(|before| *before != name);
        self.cluster.nominations.nominate(&decision.pod, &name);
        self.cluster_changed();
        let by = core.store[index].attempt_id();
        for key in &victims {
            let Some(attempt) = self.bound.get(key).copied() else { continue };
            let Some(victim) = core.store.replica_of(attempt) else { continue };
            self.begin_deletion(core, attempt, true);
            if core.store[victim].is_at(attempt) && core.store[victim].stopping.is_none() {
                core.emit(Event::Preempted { attempt, by });
                self.stop(core, victim, Outcome::Lost, Reason::Preempted);
            }
        }
        Some(Preempted { victims, clears_nominations: moves || !cleared.is_empty() })
    }
}

/// The plugins that refused a pod.
fn plugins_of(decision: &Decision) -> Plugins {
    let everywhere = decision.pre_filter.iter().map(|refusal| refusal.plugin);
    let narrowed = decision.only_nodes.iter().map(|_| Plugin::NodeAffinity);
    everywhere.chain(decision.rejected.iter().map(|(_, refusal)| refusal.plugin)).chain(narrowed).collect()
}

/// Why a pod does not enter the queue.
pub(super) fn gated(refusal: &cycle::Refusal, nodes: u32) -> Histogram {
    let mut reasons = Histogram::default();
    refusal.reasons.iter().for_each(|reason| reasons.add(of_refusal(reason), nodes));
    reasons
}
