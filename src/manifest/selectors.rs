//! The selectors of ReplicaSets, StatefulSets and ReplicationControllers, by which kube-scheduler spreads their pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use dryrack_yaml::Report;
use serde_json::{Map, Value, json};

use crate::api::{LabelSelector, OwnerReference, PodController, ReplicationController};
use crate::cluster::{Cluster, typed};
use crate::controllers::Controller;
use crate::kinds::Kind;
use crate::read::Object;

/// The label by which a Deployment tells the pods of its ReplicaSets apart.
pub const HASH: &str = "pod-template-hash";

/// The object with its selector. Without one, it selects the labels of its template.
fn with_selector(object: &Object) -> Value {
    let spec = object.value.get("spec");
    let stated = spec.and_then(|spec| spec.get("selector")).cloned();
    let selector = stated.unwrap_or_else(|| {
        let labels = spec.and_then(|spec| spec.get("template")?.get("metadata")?.get("labels")).cloned();
        let labels = labels.unwrap_or_else(|| Value::Object(Map::new()));
        if object.kind == Kind::ReplicationController { labels } else { json!({"matchLabels": labels}) }
    });
    json!({"metadata": object.value.get("metadata"), "spec": {"selector": selector}})
}

/// Adds the controller of the files to the cluster, if kube-scheduler reads such controllers.
pub fn add(object: &Object, cluster: &mut Cluster, report: &mut Report) {
    match object.kind {
        Kind::ReplicaSet => cluster.replica_sets.extend(pod_controller(object, report)),
        Kind::StatefulSet => cluster.stateful_sets.extend(pod_controller(object, report)),
        Kind::ReplicationController => {
            let controller: Option<ReplicationController> = typed(with_selector(object), object.span, report);
            cluster.replication_controllers.extend(controller);
        }
        _ => {}
    }
}

fn pod_controller(object: &Object, report: &mut Report) -> Option<PodController> {
    typed(with_selector(object), object.span, report)
}

/// The ReplicaSet that a Deployment makes. Its selector is that of the Deployment and the hash of the template.
pub fn replica_set(object: &Object, made_by: &Controller, report: &mut Report) -> Option<PodController> {
    let mut set = pod_controller(object, report)?;
    let hash = Arc::from(made_by.pod_template_hash());
    set.spec.selector.get_or_insert_with(LabelSelector::default).match_labels.insert(Arc::from(HASH), hash);
    set.metadata.name = made_by.owner_reference().name;
    Some(set)
}

impl Cluster {
    /// Leaves out the controllers that no pod names, such as those of old revisions, and what no rule reads.
    pub(crate) fn keep_named_controllers(&mut self) {
        let stated = self.pods.iter().map(|stated| &stated.pod);
        let made = self.controllers.iter().flat_map(|controller| controller.sets.iter().map(|set| &set.template));
        let key = |namespace: Arc<str>, owner: &OwnerReference| {
            owner.controller.then(|| (Arc::clone(&owner.kind), namespace, Arc::clone(&owner.name)))
        };
        let named: BTreeSet<(Arc<str>, Arc<str>, Arc<str>)> = stated
            .chain(made)
            .flat_map(|pod| {
                pod.metadata.owner_references.iter().filter_map(|owner| key(pod.metadata.namespace(), owner))
            })
            .collect();
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
