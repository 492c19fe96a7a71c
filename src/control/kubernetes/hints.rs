//! Which events may help a refused pod: the queueing hints of the plugins that refused it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dryrack_kubernetes::cluster::{Cluster, NodeInfo, NodeShape, Placed, PodInfo, Resource, Term};
use dryrack_kubernetes::cycle::Plugin;
use dryrack_kubernetes::object::PreemptionPolicy;

/// A change of the cluster.
pub(super) enum Event<'a> {
    /// The node with this index is new.
    NodeAdded(usize),
    /// The labels, taints or allocatable resources of the node with this index changed.
    NodeUpdated(usize, &'a NodeShape),
    NodeRemoved,
    /// A pod was bound to a node.
    PodAdded(&'a PodInfo),
    /// A pod left its node. `None` if the node has left the cluster too.
    PodRemoved(Option<usize>, &'a PodInfo),
    /// A claim of devices was allocated, or its devices were freed.
    ClaimChanged,
    /// A nomination was withdrawn.
    NominationCleared,
}

/// Whether the event may help a pod that these plugins refused.
pub(super) fn helps(pod: &PodInfo, plugins: &BTreeSet<Plugin>, event: &Event<'_>, cluster: &Cluster) -> bool {
    plugins.iter().any(|plugin| hint(*plugin, pod, event, cluster))
}

fn hint(plugin: Plugin, pod: &PodInfo, event: &Event<'_>, cluster: &Cluster) -> bool {
    match event {
        Event::NodeAdded(index) => on_node(plugin, pod, *index, None, cluster),
        Event::NodeUpdated(index, before) => on_node(plugin, pod, *index, Some(before), cluster),
        Event::NodeRemoved => plugin == Plugin::PodTopologySpread,
        Event::PodAdded(other) => on_added(plugin, pod, other, cluster),
        Event::PodRemoved(node, other) => on_removed(plugin, pod, (*node, other), cluster),
        Event::ClaimChanged => plugin == Plugin::DynamicResources,
        // Kube-scheduler has no event for it. The room that was held for the nominated pod is free now.
        Event::NominationCleared => plugin == Plugin::NodeResourcesFit,
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
            let has_key =
                |shape: &NodeShape| pod.spread.iter().all(|spread| shape.labels.contains_key(&spread.topology_key));
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
        Plugin::GangScheduling => true,
        _ => false,
    }
}

fn on_removed(plugin: Plugin, pod: &PodInfo, (node, other): (Option<usize>, &PodInfo), cluster: &Cluster) -> bool {
    match plugin {
        Plugin::NodeResourcesFit => node.is_some_and(|node| may_have_room(pod, cluster.node(node))),
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
    let may_preempt = pod.pod.spec.preemption_policy != PreemptionPolicy::Never;
    let gives_way = |placed: &&Placed| may_preempt && placed.pod.priority < pod.priority;
    let wanted = &pod.requests.exact;
    let has = |resource: &Resource| {
        let freed: i64 = (node.pods.iter().filter(gives_way))
            .map(|placed| placed.pod.requests.exact.get(resource))
            .fold(0, i64::saturating_add);
        let kept = node.requested.get(resource).saturating_sub(freed);
        wanted.get(resource) == 0 || kept.saturating_add(wanted.get(resource)) <= node.shape.allocatable.get(resource)
    };
    [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage].iter().all(has)
        && wanted.all_extended().all(|(name, _)| has(&Resource::Extended(Arc::clone(name))))
}

fn matches(term: &Term, other: &PodInfo, cluster: &Cluster) -> bool {
    term.matches(&other.namespace, cluster.namespace_labels(&other.namespace), other.labels())
}

fn is_counted(pod: &PodInfo, other: &PodInfo) -> bool {
    pod.namespace == other.namespace && pod.spread.iter().any(|spread| spread.selector.matches(other.labels()))
}
