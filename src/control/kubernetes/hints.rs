//! Which events may help a refused pod: the queueing hints of the plugins that refused it.

use std::borrow::Cow;
use std::sync::Arc;

use super::plugins::Plugins;
use super::pods::is_gpu;
use dryrack_kubernetes::cluster::{Cluster, GroupKey, NodeInfo, NodeShape, PodInfo, Resource, Term};
use dryrack_kubernetes::cycle::Plugin;
use dryrack_kubernetes::object::PreemptionPolicy;

/// A change of the cluster.
pub(super) enum Event<'a> {
    /// The node with this index is new.
    NodeAdded(usize),
    /// The labels, taints or allocatable resources of the node with this index changed.
    NodeUpdated(usize, &'a NodeShape),
    NodeRemoved,
    /// A pod came into being.
    PodCreated(&'a PodInfo),
    /// A pod was bound to a node.
    PodAdded(&'a PodInfo),
    /// A pod left its node. `None` if the node has left the cluster too.
    PodRemoved(Option<usize>, &'a PodInfo),
    /// A claim of devices was allocated, or its devices were freed.
    ClaimChanged,
    /// A nomination was withdrawn.
    NominationCleared,
}

impl Event<'_> {
    /// The plugins that may change a verdict because of the event.
    pub fn plugins(&self) -> Plugins {
        use Plugin::*;
        match self {
            Event::NodeAdded(_) | Event::NodeUpdated(..) => Plugins::of(&Plugin::ALL),
            Event::NodeRemoved => Plugins::of(&[PodTopologySpread]),
            Event::PodCreated(_) => Plugins::of(&[GangScheduling]),
            Event::PodAdded(_) => Plugins::of(&[InterPodAffinity, PodTopologySpread]),
            Event::PodRemoved(..) => Plugins::of(&[
                NodeResourcesFit,
                DynamicResources,
                DefaultPreemption,
                NodePorts,
                InterPodAffinity,
                PodTopologySpread,
            ]),
            Event::ClaimChanged => Plugins::of(&[DynamicResources]),
            Event::NominationCleared => Plugins::of(&[NodeResourcesFit, NodePorts]),
        }
    }
}

/// The number of GPUs that a pod must find free on one node. Zero if pods or devices of other nodes may decide too.
pub(super) fn gpus_of(pod: &PodInfo) -> u64 {
    if pod.depends_on_other_nodes() {
        return 0;
    }
    let gpus = pod.requests.exact.all_extended().filter(|(name, _)| is_gpu(name));
    gpus.map(|(_, amount)| amount.max(0).unsigned_abs()).sum()
}

/// A bound on the number of GPUs that a pod may request if it is to get room by the event: the free GPUs of the node, or
/// all of them if the most important pod that waits may preempt one there.
pub(super) fn most_gpus(event: &Event<'_>, highest: Option<i32>, cluster: &Cluster) -> u64 {
    let node = match event {
        Event::PodRemoved(_, other) if !other.anti_affinity.required.is_empty() => return u64::MAX,
        Event::PodRemoved(Some(index), _) => cluster.node(*index),
        Event::PodRemoved(None, _) => return 0,
        _ => return u64::MAX,
    };
    let may_preempt = node.pods.iter().any(|placed| highest.is_some_and(|highest| placed.pod.priority < highest));
    let free = |(name, all): (&Arc<str>, i64)| {
        let taken = if may_preempt { 0 } else { node.requested.extended(name) };
        all.saturating_sub(taken).max(0).unsigned_abs()
    };
    node.shape.allocatable.all_extended().filter(|(name, _)| is_gpu(name)).map(free).sum()
}

/// Whether the event may help a pod that these plugins refused.
pub(super) fn helps(pod: &PodInfo, plugins: Plugins, event: &Event<'_>, cluster: &Cluster) -> bool {
    plugins.iter().any(|plugin| hint(plugin, pod, event, cluster))
}

fn hint(plugin: Plugin, pod: &PodInfo, event: &Event<'_>, cluster: &Cluster) -> bool {
    match event {
        Event::NodeAdded(index) => on_node(plugin, pod, *index, None, cluster),
        Event::NodeUpdated(index, before) => on_node(plugin, pod, *index, Some(before), cluster),
        Event::NodeRemoved => plugin == Plugin::PodTopologySpread,
        Event::PodCreated(other) => plugin == Plugin::GangScheduling && GroupKey::of(pod) == GroupKey::of(other),
        Event::PodAdded(other) => on_added(plugin, pod, other, cluster),
        Event::PodRemoved(node, other) => on_removed(plugin, pod, (*node, other), cluster),
        Event::ClaimChanged => plugin == Plugin::DynamicResources,
        // The room and the ports that were held for the nominated pod are free now. For kube-scheduler, this is the removal
        // of a pod (`hasNominatedNodeNameChanged` in `pkg/scheduler/eventhandlers.go`).
        Event::NominationCleared => {
            plugin == Plugin::NodeResourcesFit || (plugin == Plugin::NodePorts && !pod.ports.is_empty())
        }
    }
}

fn on_node(plugin: Plugin, pod: &PodInfo, index: usize, before: Option<&NodeShape>, cluster: &Cluster) -> bool {
    let node = &cluster.node(index).shape;
    match plugin {
        Plugin::NodeUnschedulable => !node.unschedulable,
        Plugin::NodeName => pod.pod.spec.node_name.as_ref().is_none_or(|name| *name == node.name),
        Plugin::TaintToleration => pod.untolerated(&node.taints).is_none(),
        Plugin::NodeAffinity => pod.wants_node(&node.name, &node.labels),
        Plugin::NodePorts | Plugin::DynamicResources => true,
        Plugin::NodeResourcesFit => {
            let fits = |resource: &Resource| pod.requests.exact.get(resource) <= node.allocatable.get(resource);
            let extended = pod.requests.exact.all_extended().map(|(name, _)| Resource::Extended(Arc::clone(name)));
            [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage].iter().all(fits)
                && extended.into_iter().all(|resource| fits(&resource))
                && before.is_none_or(|before| {
                    before.allocatable != node.allocatable || before.allowed_pods < node.allowed_pods
                })
        }
        Plugin::PodTopologySpread => {
            let required = pod.spread.iter().filter(|spread| spread.is_required());
            let has_key =
                |shape: &NodeShape| required.clone().all(|spread| shape.labels.contains_key(&spread.topology_key));
            has_key(node) || before.is_some_and(has_key)
        }
        Plugin::InterPodAffinity => before.is_none_or(|before| before.labels != node.labels),
        Plugin::SchedulingGates
        | Plugin::DefaultPreemption
        | Plugin::NodeResourcesBalancedAllocation
        | Plugin::ImageLocality
        | Plugin::GangScheduling => false,
    }
}

fn on_added(plugin: Plugin, pod: &PodInfo, other: &PodInfo, cluster: &Cluster) -> bool {
    match plugin {
        Plugin::InterPodAffinity => pod.affinity.required.iter().all(|term| matches(term, other, cluster)),
        Plugin::PodTopologySpread => is_counted(pod, other),
        _ => false,
    }
}

fn on_removed(plugin: Plugin, pod: &PodInfo, (node, other): (Option<usize>, &PodInfo), cluster: &Cluster) -> bool {
    match plugin {
        // An attempt of a nominated pod that fails clears its nomination, and so frees room for others.
        Plugin::NodeResourcesFit => {
            let is_nominated = cluster.nominations.node_of(&pod.key).is_some();
            let kept_it_out = || other.anti_affinity.required.iter().any(|term| matches(term, pod, cluster));
            is_nominated
                // What keeps the pod from preempting here may have been on another node.
                || pod.depends_on_other_nodes()
                || kept_it_out()
                || node.is_some_and(|node| may_have_room(pod, cluster.node(node)))
        }
        Plugin::DynamicResources | Plugin::DefaultPreemption => true,
        Plugin::NodePorts => pod.ports.iter().any(|port| other.ports.iter().any(|used| used.conflicts_with(port))),
        Plugin::InterPodAffinity => {
            pod.anti_affinity.required.iter().any(|term| matches(term, other, cluster))
                || other.anti_affinity.required.iter().any(|term| matches(term, pod, cluster))
        }
        Plugin::PodTopologySpread => is_counted(pod, other),
        _ => false,
    }
}

/// Whether the node has room for the pod, if all pods that it may preempt are gone. Upstream tries the pod in any case,
/// and refuses it if there is no room. With many waiting pods, that costs an attempt for each of them.
fn may_have_room(pod: &PodInfo, node: &NodeInfo) -> bool {
    let wanted = &pod.requests.exact;
    let may_preempt = pod.pod.spec.preemption_policy != PreemptionPolicy::Never;
    let weaker = node.pods.iter().map(|placed| &placed.pod).filter(|placed| placed.priority < pod.priority);
    let mut kept = Cow::Borrowed(&node.requested);
    for other in weaker.filter(|_| may_preempt) {
        kept.to_mut().subtract(&other.requests.exact);
    }
    let allocatable = &node.shape.allocatable;
    let has = |wanted: i64, kept: i64, allocatable: i64| wanted == 0 || kept.saturating_add(wanted) <= allocatable;
    has(wanted.milli_cpu, kept.milli_cpu, allocatable.milli_cpu)
        && has(wanted.memory, kept.memory, allocatable.memory)
        && has(wanted.ephemeral_storage, kept.ephemeral_storage, allocatable.ephemeral_storage)
        && wanted.all_extended().all(|(name, wanted)| has(wanted, kept.extended(name), allocatable.extended(name)))
}

fn matches(term: &Term, other: &PodInfo, cluster: &Cluster) -> bool {
    term.matches(&other.namespace, cluster.namespace_labels(&other.namespace), other.labels())
}

fn is_counted(pod: &PodInfo, other: &PodInfo) -> bool {
    pod.namespace == other.namespace && pod.spread.iter().any(|spread| spread.selector.matches(other.labels()))
}
