//! The selectors of ReplicaSets, StatefulSets and ReplicationControllers, by which kube-scheduler spreads their pods.

use std::sync::Arc;

use dryrack_yaml::Report;
use serde_json::{Map, Value, json};

use crate::api::{LabelSelector, PodController, ReplicationController};
use crate::controllers::Controller;
use crate::kinds::Kind;
use crate::read::Object;
use crate::typed::typed;

/// The label by which a Deployment tells the pods of its ReplicaSets apart.
pub const HASH: &str = "pod-template-hash";

/// Whether a selector is stated. An empty one counts as absent: the API sets or refuses it.
fn is_stated(selector: &&Value) -> bool {
    !selector.is_null() && selector.as_object().is_none_or(|fields| !fields.is_empty())
}

/// The object with its selector. Without one, it selects the labels of its template.
fn with_selector(object: &Object) -> Value {
    let spec = object.value.get("spec");
    let stated = spec.and_then(|spec| spec.get("selector"));
    let stated = stated.filter(is_stated).cloned();
    let selector = stated.unwrap_or_else(|| {
        let labels = spec.and_then(|spec| spec.get("template")?.get("metadata")?.get("labels")).cloned();
        let labels = labels.unwrap_or_else(|| Value::Object(Map::new()));
        if object.kind == Kind::ReplicationController { labels } else { json!({"matchLabels": labels}) }
    });
    json!({"metadata": object.value.get("metadata"), "spec": {"selector": selector}})
}

/// The ReplicationController of a file.
pub fn replication_controller(object: &Object, report: &mut Report) -> Option<ReplicationController> {
    typed(with_selector(object), object.span, report)
}

/// The ReplicaSet or StatefulSet of a file.
pub fn pod_controller(object: &Object, report: &mut Report) -> Option<PodController> {
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
