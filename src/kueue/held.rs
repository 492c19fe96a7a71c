//! Workloads that Kueue admitted before: they hold their quota without a cycle, whatever the quota is now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::assignment::{FlavorChoice, Mode, PodSetAssignment};
use super::cluster::Cluster;
use super::manager::{Kueue, SpecError};
use super::names::{FlavorId, FlavorResource};
use super::objects::WorkloadSpec;
use super::quantity::{MOST, amount_of};
use super::topology::TopologyPlacement;
use super::workload::{Admission, PlacedPods, WorkloadId, WorkloadState, placed_pods};
use dryrack_kubernetes::object::Quantity;

/// What a workload holds.
#[derive(Clone, Debug)]
pub struct Held {
    /// When it got its quota, in seconds.
    pub since: i64,
    /// In the order of the pod sets of the workload.
    pub pod_sets: Vec<HeldPodSet>,
}

#[derive(Clone, Debug)]
pub struct HeldPodSet {
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: BTreeMap<Arc<str>, Arc<str>>,
    /// What all of its pods use.
    pub usage: BTreeMap<Arc<str>, Quantity>,
    /// The nodes on which its first pods are.
    pub nodes: Vec<Arc<str>>,
}

impl Kueue {
    /// Submits a workload that holds quota already. Returns what its pod sets have. Its pods are in the domains of their
    /// nodes, in the order of the pods; pods without a node are in none.
    pub fn hold(&mut self, spec: &WorkloadSpec, held: &Held) -> Result<(WorkloadId, Vec<PodSetAssignment>), SpecError> {
        let (id, queue) = self.add(spec)?;
        let cluster = &mut self.cluster;
        let mut usage: BTreeMap<FlavorResource, i64> = BTreeMap::new();
        let (mut placed, mut pod_sets) = (Vec::new(), Vec::new());
        for (index, held) in held.pod_sets.iter().enumerate() {
            let mut flavors = BTreeMap::new();
            for (resource, flavor) in &held.flavors {
                let (flavor, id) = (cluster.names.add_flavor(flavor), cluster.names.add_resource(resource));
                let pair = cluster.names.add_pair(flavor, id);
                cluster.tree.know_pair(pair, id);
                let used = held.usage.get(resource).map_or(0, |amount| amount_of(resource, *amount));
                let usage = usage.entry(pair).or_default();
                *usage = usage.saturating_add(used).min(MOST);
                flavors.insert(id, FlavorChoice { flavor, mode: Mode::Fit, tried: None, borrow: 0 });
            }
            let with_topology = flavors.values().map(|choice: &FlavorChoice| choice.flavor);
            let with_topology = with_topology.filter(|flavor| cluster.topologies.contains_key(flavor)).min();
            let placement = with_topology.map(|flavor| domains_of(cluster, flavor, &held.nodes));
            if let (Some(flavor), Some(placement)) = (with_topology, &placement) {
                placed.extend(placed_pods(flavor, index, placement));
            }
            pod_sets.push(PodSetAssignment {
                name: Arc::clone(&cluster.workload(id).pod_sets[index].name),
                count: held.count,
                flavors,
                placement,
                reasons: Vec::new(),
                considered: true,
                ruled_out: Vec::new(),
                no_fit: None,
            });
        }
        let usage: Vec<(FlavorResource, i64)> = usage.into_iter().filter(|(_, amount)| *amount != 0).collect();
        reserve(cluster, id, (usage, placed), held.since);
        let queue = cluster.queue_mut(queue);
        queue.admitted.insert(id);
        queue.generation += 1;
        Ok((id, pod_sets))
    }
}

fn reserve(cluster: &mut Cluster, id: WorkloadId, took: (Vec<(FlavorResource, i64)>, Vec<PlacedPods>), since: i64) {
    let (usage, placed) = took;
    cluster.add_usage(cluster.node_of(id), &usage);
    cluster.add_pods(id, &placed);
    cluster.commit();
    let admission = Admission { reserved_at: since, eviction: None, usage, placed };
    cluster.workload_mut(id).state = WorkloadState::Reserved(admission);
}

/// The domains of the nodes, each with the number of its nodes. Nodes that follow each other share one entry.
fn domains_of(cluster: &Cluster, flavor: FlavorId, nodes: &[Arc<str>]) -> TopologyPlacement {
    let topology = &cluster.topologies[&flavor];
    let mut domains = TopologyPlacement::new();
    for leaf in nodes.iter().filter_map(|node| topology.leaf_of(node)) {
        match domains.last_mut().filter(|(last, _)| *last == leaf) {
            Some((_, pods)) => *pods += 1,
            None => domains.push((leaf, 1)),
        }
    }
    domains
}
