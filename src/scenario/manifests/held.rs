//! What workloads of Kueue hold from the beginning: that which their Workload in the files says, or else, for pods that
//! run without a Workload in the files, the flavors of their nodes.

use std::sync::Arc;

use dryrack_kueue::objects::{ClusterQueueSpec, ResourceFlavorSpec};
use dryrack_manifest::{Cluster, Controller, ListedAdmission, ListedWorkload, StatedPod};
use dryrack_objects::{Labels, Quantity, ResourceList, Seconds};
use dryrack_workload::{HeldPodSet, HeldQuota, QueuedPodSet};

/// The resource for the number of pods.
const PODS: &str = "pods";

/// What the workload of a controller holds. `None` if it waits.
pub fn of_controller(
    controller: &Controller,
    sets: &[QueuedPodSet],
    queue: &str,
    cluster: &Cluster,
) -> Option<HeldQuota> {
    // Then it arrives during the run.
    if controller.terms.at.is_some() || controller.sets.iter().any(|set| set.terms.at.is_some()) {
        return None;
    }
    let labels = |part: usize| {
        let of_part = |place: usize| super::queued::part_of(&controller.sets, place) == part;
        let nodes = controller.pods.iter().filter(|(_, place)| of_part(*place));
        nodes
            .filter_map(|(pod, _)| node_of(cluster, &controller.namespace, pod))
            .find_map(|node| labels_of(cluster, node))
    };
    match &controller.workload {
        Some(listed) => recorded(listed, sets, cluster),
        None if controller.has_started => {
            let queue = cluster_queue(cluster, &controller.namespace, queue)?;
            found(queue, sets, controller.created, &labels, cluster)
        }
        None => None,
    }
}

/// What the workload of a pod alone holds. `None` if it waits.
pub fn of_pod(stated: &StatedPod, set: &QueuedPodSet, queue: &str, cluster: &Cluster) -> Option<HeldQuota> {
    if stated.terms.at.is_some() {
        return None;
    }
    let sets = std::slice::from_ref(set);
    let node = stated.pod.spec.node_name.as_deref();
    match &stated.workload {
        Some(listed) => recorded(listed, sets, cluster),
        None if node.is_some() => {
            let queue = cluster_queue(cluster, &stated.pod.metadata.namespace(), queue)?;
            found(queue, sets, stated.created, &|_| labels_of(cluster, node?), cluster)
        }
        None => None,
    }
}

fn node_of<'c>(cluster: &'c Cluster, namespace: &str, pod: &str) -> Option<&'c str> {
    cluster.pod(namespace, pod)?.spec.node_name.as_deref()
}

fn labels_of<'c>(cluster: &'c Cluster, node: &str) -> Option<&'c Labels> {
    let node = cluster.nodes.iter().find(|(known, _)| *known.metadata.name == *node)?;
    Some(&node.0.metadata.labels)
}

/// The seconds from the beginning of the run, which is not after it.
fn since(stated: Option<Seconds>, cluster: &Cluster) -> i64 {
    stated.zip(cluster.latest).map_or(0, |(stated, latest)| (stated.0 - latest.0).min(0))
}

/// What a Workload says.
fn recorded(listed: &ListedWorkload, sets: &[QueuedPodSet], cluster: &Cluster) -> Option<HeldQuota> {
    let admission = listed.admission.as_ref()?;
    let is_known = cluster.queues.cluster_queues.iter().any(|queue| queue.name == admission.cluster_queue);
    let pod_sets = sets.iter().map(|set| recorded_set(admission, set)).collect();
    is_known.then(|| HeldQuota {
        cluster_queue: Arc::clone(&admission.cluster_queue),
        since: since(admission.since.or(listed.created), cluster),
        pod_sets,
    })
}

fn recorded_set(admission: &ListedAdmission, set: &QueuedPodSet) -> HeldPodSet {
    let Some(assigned) = admission.set_of(&set.name) else {
        return HeldPodSet { count: set.count, flavors: Labels::new(), usage: ResourceList::new() };
    };
    let count = assigned.count.unwrap_or(set.count);
    let mut usage = ResourceList::new();
    for resource in assigned.flavors.keys() {
        let stated = assigned.usage.get(resource).copied();
        let amount =
            stated.map(|amount| (amount, u64::from(count.max(1)))).or_else(|| Some((*set.requests.get(resource)?, 1)));
        let left = u64::from(count.saturating_sub(assigned.reclaimable));
        usage.extend(amount.map(|(amount, of)| (Arc::clone(resource), share(resource, amount, left, of))));
    }
    HeldPodSet { count, flavors: assigned.flavors.clone(), usage }
}

/// The part `left / of` of an amount.
fn share(resource: &str, amount: Quantity, left: u64, of: u64) -> Quantity {
    let amount = i128::from(dryrack_kueue::amount_of(resource, amount)) * i128::from(left) / i128::from(of);
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    let text = if resource == "cpu" { format!("{amount}m") } else { amount.to_string() };
    text.parse().expect("a whole number with a known suffix")
}

/// The ClusterQueue of a LocalQueue.
fn cluster_queue<'c>(
    cluster: &'c Cluster,
    namespace: &str,
    queue: &str,
) -> Option<(&'c Arc<str>, &'c ClusterQueueSpec)> {
    let mut local = cluster.queues.local_queues.iter();
    let local = local.find(|local| *local.namespace == *namespace && *local.name == *queue)?;
    let mut queues = cluster.queues.cluster_queues.iter();
    queues.find(|known| known.name == local.cluster_queue).map(|known| (&known.name, &known.spec))
}

/// What pods hold that run although no Workload of them is in the files: in each group of resources, the first flavor
/// whose labels their node has. Kueue admitted them, so there is one.
fn found<'c>(
    (name, queue): (&Arc<str>, &ClusterQueueSpec),
    sets: &[QueuedPodSet],
    created: Option<Seconds>,
    labels: &dyn Fn(usize) -> Option<&'c Labels>,
    cluster: &Cluster,
) -> Option<HeldQuota> {
    let of_set = |(part, set): (usize, &QueuedPodSet)| {
        let labels = labels(part).unwrap_or(&set.node_selector);
        let mut flavors = Labels::new();
        let mut usage = ResourceList::new();
        for group in &queue.resource_groups {
            let is_asked = |name: &&Arc<str>| ***name == *PODS || set.requests.contains_key(*name);
            let asked: Vec<&Arc<str>> = group.covered_resources.iter().filter(is_asked).collect();
            let spec = |name: &Arc<str>| cluster.queues.flavors.iter().find(|flavor| flavor.name == *name);
            let has_labels =
                |spec: &ResourceFlavorSpec| spec.node_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
            let flavor =
                group.flavors.iter().find(|flavor| spec(&flavor.name).is_some_and(|flavor| has_labels(&flavor.spec)));
            let Some(flavor) = flavor.or(group.flavors.first()).filter(|_| !asked.is_empty()) else { continue };
            for resource in asked {
                let one = set.requests.get(resource).copied().unwrap_or_else(|| "1".parse().expect("a whole number"));
                flavors.insert(Arc::clone(resource), Arc::clone(&flavor.name));
                usage.insert(Arc::clone(resource), share(resource, one, u64::from(set.count), 1));
            }
        }
        HeldPodSet { count: set.count, flavors, usage }
    };
    let pod_sets = sets.iter().enumerate().map(of_set).collect();
    Some(HeldQuota { cluster_queue: Arc::clone(name), since: since(created, cluster), pod_sets })
}
