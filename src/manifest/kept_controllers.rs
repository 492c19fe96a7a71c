//! Keeps the controllers whose selectors can spread pods, and leaves out all others.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Kind;
use crate::api::OwnerReference;
use crate::cluster::Cluster;

impl Cluster {
    /// Leaves out the controllers that no pod names, such as those of old revisions, and what no rule reads.
    pub(crate) fn keep_named_controllers(&mut self) {
        let stated = self.pods.iter().map(|stated| &stated.pod);
        let made = self.controllers.iter().flat_map(|controller| controller.sets.iter().map(|set| &set.template));
        let key = |namespace: Arc<str>, owner: &OwnerReference| {
            owner.controller.then(|| (Arc::clone(&owner.kind), namespace, Arc::clone(&owner.name)))
        };
        let mut named: BTreeSet<(Arc<str>, Arc<str>, Arc<str>)> = stated
            .chain(made)
            .flat_map(|pod| {
                pod.metadata.owner_references.iter().filter_map(|owner| key(pod.metadata.namespace(), owner))
            })
            .collect();
        for (controller, set) in self.controllers.iter().flat_map(|one| one.sets.iter().map(move |set| (one, set))) {
            let owners = set.numbers.iter().filter_map(|number| set.owner_of(*number));
            named.extend(owners.filter_map(|owner| key(Arc::clone(&controller.namespace), &owner)));
        }
        let is_named = |kind: Kind, metadata: &crate::api::ObjectMeta| {
            named.contains(&(Arc::from(kind.name()), metadata.namespace(), Arc::clone(&metadata.name)))
        };
        self.replica_sets.retain(|set| is_named(Kind::ReplicaSet, &set.metadata));
        self.stateful_sets.retain(|set| is_named(Kind::StatefulSet, &set.metadata));
        self.replication_controllers.retain(|one| is_named(Kind::ReplicationController, &one.metadata));
        for metadata in (self.replica_sets.iter_mut().chain(&mut self.stateful_sets).map(|set| &mut set.metadata))
            .chain(self.replication_controllers.iter_mut().map(|one| &mut one.metadata))
        {
            metadata.labels.clear();
            metadata.owner_references.clear();
        }
    }
}
