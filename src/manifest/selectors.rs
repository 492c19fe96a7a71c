//! The selectors of ReplicaSets, StatefulSets and ReplicationControllers, by which kube-scheduler spreads their pods.

use std::sync::Arc;

use dryrack_yaml::Report;
use serde_json::{Map, Value, json};

use crate::api::{LabelSelector, ObjectMeta, PodController, PodControllerSpec, ReplicationController};
use crate::controllers::{Controller, GROUP, Naming, SET, WORKER, of_workers};
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

/// The StatefulSets that a LeaderWorkerSet makes: one of all leaders, which has its name, and one of the workers of each
/// group. The leader of a group has the labels by which the workers are selected, so it counts among them. The third label
/// of upstream's selector, a hash of the group's name, selects nothing else.
pub fn of_groups(made_by: &Controller) -> Vec<PodController> {
    let set = |name: Arc<str>, key: &str, value: String| {
        let labels = [(SET, made_by.name.to_string()), (key, value)];
        let match_labels = labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(value.as_str()))).collect();
        let selector = Some(LabelSelector { match_labels, ..LabelSelector::default() });
        let metadata = ObjectMeta { name, namespace: Arc::clone(&made_by.namespace), ..ObjectMeta::default() };
        PodController { metadata, spec: PodControllerSpec { selector } }
    };
    let mut made = Vec::new();
    for stated in &made_by.sets {
        let Naming::Groups { size, is_leader, .. } = &stated.naming else { continue };
        if *is_leader {
            made.push(set(Arc::clone(&made_by.name), WORKER, "0".to_string()));
            continue;
        }
        let workers = size.saturating_sub(1).max(1);
        let mut groups: Vec<u32> = stated.numbers.iter().map(|number| number / workers).collect();
        groups.dedup();
        made.extend(groups.iter().map(|group| set(of_workers(&made_by.name, *group), GROUP, group.to_string())));
    }
    made
}
