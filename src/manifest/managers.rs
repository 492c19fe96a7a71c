//! Which object Kueue manages for each pod: the uppermost one in a queue among the owners of the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::ended::has_ended;
use crate::kinds::Kind;
use crate::owners::{Index, Owners};
use crate::read::{Manifests, Object};

const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// The managed objects, and the pods that belong to each.
#[derive(Debug, Default)]
pub struct Managers {
    manager: BTreeMap<Index, Index>,
    pods: BTreeMap<Index, Vec<Index>>,
    /// The Workload that Kueue made for each object.
    workloads: BTreeMap<Index, Index>,
}

impl Managers {
    /// Without a queue in the files, Kueue manages nothing.
    pub fn of(manifests: &Manifests, owners: &Owners) -> Managers {
        let objects = &manifests.objects;
        let mut managers = Managers::default();
        if !objects.iter().any(|object| object.kind.is_of_quota()) {
            return managers;
        }
        for (index, object) in objects.iter().enumerate() {
            if object.kind == Kind::QueuedWorkload {
                managers.workloads.extend(owners.owner(index).map(|owner| (owner, index)));
            }
            let chain = owners.chain(index);
            let Some(manager) = chain.into_iter().rev().find(|index| is_managed(&objects[*index])) else { continue };
            managers.manager.insert(index, manager);
            if object.kind == Kind::Pod && !has_ended(object) {
                managers.pods.entry(manager).or_default().push(index);
            }
        }
        managers
    }

    pub fn manager(&self, index: Index) -> Option<Index> {
        self.manager.get(&index).copied()
    }

    /// The pods that have not ended and belong to this managed object.
    pub fn pods(&self, index: Index) -> &[Index] {
        self.pods.get(&index).map_or(&[], Vec::as_slice)
    }

    pub fn workload(&self, index: Index) -> Option<Index> {
        self.workloads.get(&index).copied()
    }
}

/// Whether all pods of the object are one workload of Kueue.
fn is_managed(object: &Object) -> bool {
    match object.kind {
        Kind::QueuedWorkload => true,
        Kind::Job | Kind::JobSet | Kind::StatefulSet => queue_of(object).is_some(),
        _ => false,
    }
}

/// The LocalQueue that an object names.
pub fn queue_of(object: &Object) -> Option<Arc<str>> {
    let metadata = |part: &str| object.value.get("metadata").and_then(|metadata| metadata.get(part));
    let of_spec = object.value.get("spec").and_then(|spec| spec.get("queueName"));
    let named = match object.kind {
        Kind::QueuedWorkload => of_spec,
        _ => ["labels", "annotations"].into_iter().find_map(|part| metadata(part)?.get(QUEUE)),
    };
    named.and_then(Value::as_str).map(Arc::from)
}
