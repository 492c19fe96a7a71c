//! The cluster of the scheduler before it has nodes, and what the flow knows of each node that it adds.

use std::sync::Arc;

use super::options::KubernetesOptions;
use super::pods;
use dryrack_kubernetes::cluster::Cluster;

/// What the flow knows of a node of the fleet.
#[derive(Debug)]
pub(super) struct MirroredNode {
    pub name: Arc<str>,
    /// What the node's object was last made of.
    pub seen: pods::Seen,
    /// The GPUs whose devices are not published now.
    pub withdrawn: Vec<u16>,
}

/// The cluster of these objects, without nodes.
pub(super) fn cluster_of(objects: &dryrack_objects::ClusterObjects, options: &KubernetesOptions) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.gangs.is_enabled = options.gang_scheduling.is_some();
    objects.namespaces.iter().for_each(|namespace| cluster.add_namespace(namespace.clone()));
    let owners = &mut cluster.owners;
    objects.services.iter().for_each(|service| owners.add_service(service.clone()));
    objects.replica_sets.iter().for_each(|set| owners.add_replica_set(set.clone()));
    objects.stateful_sets.iter().for_each(|set| owners.add_stateful_set(set.clone()));
    objects.replication_controllers.iter().for_each(|one| owners.add_replication_controller(one.clone()));
    objects.pod_disruption_budgets.iter().for_each(|budget| cluster.add_budget(budget.clone()));
    objects.workloads.iter().for_each(|workload| cluster.gangs.add_workload(workload.clone()));
    cluster.devices = dryrack_kubernetes::devices::Devices::new(
        objects.device_classes.clone(),
        objects.resource_slices.clone(),
        objects.resource_claims.clone(),
    );
    cluster
}
