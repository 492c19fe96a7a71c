//! A decision of kube-scheduler as an explanation shows it.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::smallvec;

use super::Kubernetes;
use super::attempt::gated;
use super::reasons::{histogram, of_node, of_refusal};
use crate::core::Core;
use crate::core::Watched;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_ids::NodeId;
use dryrack_kubernetes::cluster::{NodeInfo, PodInfo, Resource};
use dryrack_kubernetes::cycle::{self, Decision as Decided, Outcome, Plugin, Reason as Stated};
use dryrack_kubernetes::object::{Effect, Taint};
use dryrack_scheduler::{Candidate, Decision, Examination, NodeFinding, Shortage, Verdict};
use dryrack_units::{Bytes, Score};
use dryrack_workload::BeyondPods;

impl Kubernetes {
    /// What no pod can request is tried on no node.
    pub(super) fn examine_no_pod(core: &Core, index: ReplicaIndex) -> Examination {
        let because = Reason::NotAPod;
        let nodes = core.fleet.len();
        let text = core.store.demand_of(index).beyond_pods().map_or(because.text(), BeyondPods::text);
        Examination {
            decision: Decision::Refuse {
                refusal: Refusal::Never,
                reasons: Histogram::of(because, nodes.max(1) as u32),
            },
            nodes: (0..nodes).map(|node| NodeFinding::of(NodeId::new(node), Verdict::Never(because))).collect(),
            message: Some(Arc::from(text)),
        }
    }

    /// Keeps a decision about a pod, if somebody wants it explained.
    pub(super) fn keep_examination(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        decided: &Decided,
        taken: Result<&Candidate, &Held>,
    ) {
        if core.is_watched(index) {
            let examination = self.examination(core, decided, taken);
            keep(core, index, examination);
        }
    }

    /// Keeps that a pod goes to the node that it states, if somebody wants it explained. No plugin is asked.
    pub(super) fn keep_stated(&self, core: &mut Core, index: ReplicaIndex, node: NodeId, taken: &Candidate) {
        if !core.is_watched(index) {
            return;
        }
        let finding = |id: NodeId| match id == node {
            true => NodeFinding::of(id, Verdict::Fit),
            false => NodeFinding {
                refusals: vec![(Plugin::NodeName.name(), Reason::NodeNameMismatch)],
                ..NodeFinding::of(id, Verdict::Unfit(Reason::NodeNameMismatch))
            },
        };
        let nodes = (0..core.fleet.len()).map(|id| finding(NodeId::new(id))).collect();
        let decision = Decision::Place(smallvec![taken.clone()]);
        keep(core, index, Examination { decision, nodes, message: None });
    }

    fn examination(&mut self, core: &Core, decided: &Decided, taken: Result<&Candidate, &Held>) -> Examination {
        let decision = match taken {
            Ok(candidate) => Decision::Place(smallvec![candidate.clone()]),
            Err((refusal, reasons)) => Decision::Refuse { refusal: *refusal, reasons: reasons.clone() },
        };
        let message = match &decided.outcome {
            Outcome::Fits { .. } => None,
            Outcome::Unschedulable { message, .. } | Outcome::Failed { message } => Some(Arc::from(message.as_str())),
        };
        let mut nodes: Vec<NodeFinding> =
            (0..core.fleet.len()).map(|node| self.finding(core, NodeId::new(node), decided)).collect();
        self.add_other_refusals(decided, &mut nodes);
        Examination { decision, nodes, message }
    }

    /// Adds what the other filters say of the refused nodes, because a node may be refused for several reasons.
    fn add_other_refusals(&mut self, decided: &Decided, nodes: &mut [NodeFinding]) {
        if matches!(decided.outcome, Outcome::Failed { .. }) {
            return;
        }
        let of_all = decided.pre_filter.as_ref().map(|refusal| refusal.plugin);
        let all = self.cluster.nodes().iter().enumerate().filter_map(|(index, _)| Some((index, of_all?)));
        let refused: Vec<(usize, Plugin)> =
            all.chain(decided.rejected.iter().map(|(index, refusal)| (*index, refusal.plugin))).collect();
        let found = cycle::other_refusals(&decided.pod, &mut self.cluster, &self.options.scheduler, &refused);
        for ((index, _), refusals) in refused.into_iter().zip(found) {
            let Some(id) = self.ids.get(self.cluster.node(index).name()) else { continue };
            for refusal in &refusals {
                self.add_refusal(index, &decided.pod, refusal, &mut nodes[id.index()]);
            }
        }
    }

    fn add_refusal(&self, index: usize, pod: &PodInfo, refusal: &cycle::Refusal, finding: &mut NodeFinding) {
        for reason in of_node(refusal) {
            finding.refusals.push((refusal.plugin.name(), reason));
        }
        let node = self.cluster.node(index);
        if refusal.reasons.contains(&Stated::Taints) {
            finding.taints = untolerated(pod, node);
        }
        let nominated = self.cluster.nominations.on(node.name());
        finding.shortages.extend(refusal.reasons.iter().filter_map(|reason| shortage(reason, pod, node, nominated)));
    }

    fn finding(&self, core: &Core, id: NodeId, decided: &Decided) -> NodeFinding {
        let Some(index) = self.cluster.find(&core.fleet.node(id).name) else {
            return NodeFinding::of(id, Verdict::Unfit(Reason::NodeGone));
        };
        if matches!(decided.outcome, Outcome::Failed { .. }) {
            let mut finding = NodeFinding::of(id, Verdict::Unfit(Reason::PluginFailed));
            finding.refusals = vec![("kube-scheduler", Reason::PluginFailed)];
            return finding;
        }
        if let Some(place) = decided.feasible.iter().position(|node| *node == index) {
            let mut finding = NodeFinding::of(id, Verdict::Fit);
            if let Some(scores) = &decided.scores {
                let names = scores.plugins.iter().map(|plugin| plugin.name());
                let values = scores.rows[place].iter().map(|score| Score::new(*score as f64));
                finding.scores = names.zip(values).collect();
                finding.total = Score::new(scores.totals[place] as f64);
            }
            return finding;
        }
        let rejected = decided.rejected.iter().find(|(node, _)| *node == index).map(|(_, refusal)| refusal);
        let Some(refusal) = rejected.or(decided.pre_filter.as_ref()) else {
            let is_named =
                decided.only_nodes.as_ref().is_none_or(|only| only.contains(self.cluster.node(index).name()));
            let was_left = is_named && (!decided.is_of_all_nodes || decided.via_nominated);
            let reason = if was_left { Reason::NotExamined } else { Reason::NodeAffinityMismatch };
            return NodeFinding::of(id, Verdict::Unfit(reason));
        };
        let first = refusal.reasons.first().map_or(Reason::NodeGone, of_refusal);
        let mut finding = NodeFinding::of(id, Verdict::Unfit(first));
        self.add_refusal(index, &decided.pod, refusal, &mut finding);
        finding
    }

    /// Makes the decision about a pod that waits, and changes nothing but caches.
    pub(super) fn examine_pod(&mut self, core: &Core, index: ReplicaIndex, pod: &Arc<PodInfo>) -> Examination {
        if self.is_of_other_scheduler(pod) {
            return match &pod.pod.spec.node_name {
                Some(name) => self.of_stated_node(core, pod, name),
                None => of_other_scheduler(core, pod),
            };
        }
        if let Err(refusal) = cycle::pre_enqueue(pod, &self.cluster, &self.options.scheduler) {
            return kept_out(core, &refusal);
        }
        let start = self.start(0);
        let decided = cycle::schedule(pod, &mut self.cluster, &self.options.scheduler, start);
        let taken = match &decided.outcome {
            Outcome::Fits { best } => self.candidate_on(core, (index, pod), best[0].0, &decided),
            Outcome::Unschedulable { .. } | Outcome::Failed { .. } => None,
        };
        let held = (Refusal::Unfit, histogram(&decided, self.cluster.nodes().len()));
        self.examination(core, &decided, taken.as_ref().ok_or(&held))
    }

    /// A pod of another scheduler waits for the node that it states. Its scheduler has no part in that.
    fn of_stated_node(&self, core: &Core, pod: &PodInfo, name: &Arc<str>) -> Examination {
        let because = self.stated_node(core, pod).err().unwrap_or(Reason::InsufficientGpus);
        let finding = |id: NodeId| {
            let is_stated = core.fleet.node(id).name == *name;
            let reason = if is_stated { because } else { Reason::NodeNameMismatch };
            NodeFinding::of(id, Verdict::Unfit(reason))
        };
        Examination {
            decision: Decision::Refuse { refusal: Refusal::Unfit, reasons: Histogram::of(because, 1) },
            nodes: (0..core.fleet.len()).map(|id| finding(NodeId::new(id))).collect(),
            message: Some(Arc::from(format!("the pod states the node `{name}`, so no scheduler decides about it"))),
        }
    }

    /// Keeps why a pod of another scheduler waits for the node that it states, if somebody wants it explained.
    pub(super) fn keep_stated_wait(&mut self, core: &mut Core, index: ReplicaIndex, pod: &Arc<PodInfo>) {
        if core.is_watched(index) {
            let examination = self.examine_pod(core, index, pod);
            keep(core, index, examination);
        }
    }

    fn candidate_on(
        &self,
        core: &Core,
        (index, pod): (ReplicaIndex, &PodInfo),
        node: usize,
        decided: &Decided,
    ) -> Option<Candidate> {
        let id = self.ids[self.cluster.node(node).name()];
        let demand = core.store.demand_of(index);
        let Outcome::Fits { best } = &decided.outcome else { return None };
        let found = best.iter().find(|(index, _)| *index == node).and_then(|(_, devices)| devices.as_ref());
        let held = self.devices_of(pod, found);
        let placement = super::pods::placement_on(id, core.fleet.node(id), demand.task()?, &held)?;
        let total = decided.scores.as_ref().and_then(|scores| scores.totals.iter().copied().max()).unwrap_or(0);
        Some(Candidate { placement, score: Score::new(total as f64) })
    }
}

/// A pod that a plugin keeps out of the queue is tried on no node.
fn kept_out(core: &Core, refusal: &cycle::Refusal) -> Examination {
    let nodes = core.fleet.len();
    let reasons = gated(refusal, nodes.max(1) as u32);
    let refusals: Vec<(&'static str, Reason)> =
        refusal.reasons.iter().map(|reason| (refusal.plugin.name(), of_refusal(reason))).collect();
    let finding = |node| {
        let first = refusals.first().map_or(Reason::SchedulingGated, |(_, reason)| *reason);
        let mut finding = NodeFinding::of(NodeId::new(node), Verdict::Unfit(first));
        finding.refusals = refusals.clone();
        finding
    };
    let message = refusal.reasons.iter().map(Stated::to_string).collect::<Vec<_>>().join(", ");
    Examination {
        decision: Decision::Refuse { refusal: Refusal::Unfit, reasons },
        nodes: (0..nodes).map(finding).collect(),
        message: Some(Arc::from(message)),
    }
}

/// Nobody decides about a pod of another scheduler.
fn of_other_scheduler(core: &Core, pod: &PodInfo) -> Examination {
    let because = Reason::OtherScheduler;
    let finding = |node| NodeFinding::of(NodeId::new(node), Verdict::Unfit(because));
    let message =
        format!("the scheduler `{}` decides about the pod, and it is not rehearsed", pod.pod.spec.scheduler());
    Examination {
        decision: Decision::Refuse { refusal: Refusal::Unfit, reasons: Histogram::of(because, 1) },
        nodes: (0..core.fleet.len()).map(finding).collect(),
        message: Some(Arc::from(message)),
    }
}

/// The taints of a node that a pod does not tolerate, in the words of kubectl, and the condition from which Kubernetes and
/// dryrack derive a taint.
fn untolerated(pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
    let repels = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule && !pod.tolerates(taint);
    let told = |taint: &Taint| {
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        let condition = CONDITIONS.iter().find(|(key, _)| *key == &*taint.key);
        let from = condition.map_or(String::new(), |(_, name)| format!(" (its condition {name})"));
        format!("{}{value}:{:?}{from}", taint.key, taint.effect)
    };
    node.shape.taints.iter().filter(repels).map(told).collect()
}

/// The taints that follow from conditions of a node, by their keys.
const CONDITIONS: [(&str, &str); 6] = [
    (Taint::NOT_READY, "Ready: False"),
    (Taint::UNREACHABLE, "Ready: Unknown"),
    ("node.kubernetes.io/memory-pressure", "MemoryPressure"),
    ("node.kubernetes.io/disk-pressure", "DiskPressure"),
    ("node.kubernetes.io/pid-pressure", "PIDPressure"),
    ("node.kubernetes.io/network-unavailable", "NetworkUnavailable"),
];

/// What a node lacks for a pod, beside the pods on it and those of equal or higher priority that are `nominated` to it.
/// `None` if the reason is about something else.
fn shortage(reason: &Stated, pod: &PodInfo, node: &NodeInfo, nominated: &[Arc<PodInfo>]) -> Option<Shortage> {
    let Stated::Insufficient(resource) = reason else { return None };
    let needed = pod.requests.exact.get(resource);
    let held = nominated.iter().filter(|other| other.priority >= pod.priority && other.key != pod.key);
    let taken = held
        .fold(node.requested.get(resource), |taken, other| taken.saturating_add(other.requests.exact.get(resource)));
    let free = node.shape.allocatable.get(resource).saturating_sub(taken);
    // A node that is overcommitted may refuse a pod that requests nothing of the resource.
    let free = if needed > 0 { free.max(0) } else { free };
    let in_bytes = |amount: i64| {
        let sign = if amount < 0 { "-" } else { "" };
        format!("{sign}{}", Bytes::new(amount.unsigned_abs()))
    };
    let said = |text: &dyn Fn(i64) -> String| (text(needed), text(free));
    let (resource, texts): (Cow<'static, str>, _) = match resource {
        Resource::Cpu => ("CPU".into(), said(&|amount| format!("{amount}m"))),
        Resource::Memory => ("RAM".into(), said(&in_bytes)),
        Resource::EphemeralStorage => ("ephemeral-storage".into(), said(&in_bytes)),
        Resource::Extended(name) if super::is_gpu(name) => ("GPUs".into(), said(&|amount| amount.to_string())),
        Resource::Extended(name) => (name.to_string().into(), said(&|amount| amount.to_string())),
    };
    let amount = |amount: i64| u64::try_from(amount).unwrap_or(0);
    Some(Shortage::of(resource, (amount(needed), amount(free)), texts))
}

/// Keeps the explanation of a decision about a replica.
pub(super) fn keep(core: &mut Core, index: ReplicaIndex, examination: Examination) {
    let watched = watched(core, index, examination);
    core.deciding.examined.keep(watched);
}

pub(super) fn watched(core: &Core, index: ReplicaIndex, examination: Examination) -> Watched {
    let sight = core.sight(index, None, &core.fleet, 1);
    let attempt = core.store[index].attempt_id();
    Watched { at: core.now, attempt, sight, examination, closed: Vec::new(), is_by_promise: false }
}
