//! The objects of a rehearsal in the form of the API.

use std::sync::Arc;

use dryrack_control::pods::restrict_to;
use dryrack_objects::{ClusterObjects, DisruptionBudget, Node, ObjectMeta, Pod, PriorityClass, Seconds};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::config::Release;
use super::super::key::ObjectKey;

fn object(kind: &str, version: &str, value: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(value).expect("objects have a JSON form");
    object["apiVersion"] = Value::from(version);
    object["kind"] = Value::from(kind);
    object
}

pub fn node(node: &Node) -> Value {
    let mut node = object("Node", "v1", node);
    node["status"]["capacity"] = node["status"]["allocatable"].clone();
    node
}

/// A pod without a node. A pod that states a node which cannot take it now waits for this node alone.
pub fn waiting_pod(pod: &Pod) -> Value {
    let mut pod = pod.clone();
    if let Some(node) = pod.spec.node_name.take() {
        restrict_to(&mut pod, vec![node]);
    }
    pod.metadata.deletion_timestamp = None;
    pod.status = Default::default();
    let mut object = object("Pod", "v1", &pod);
    for list in ["containers", "initContainers"] {
        complete_containers(&mut object["spec"][list], list);
    }
    if object["spec"]["containers"].is_null() {
        object["spec"]["containers"] = json!([{"name": "none", "image": "none"}]);
    }
    if object["spec"]["initContainers"].is_null()
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.shift_remove("initContainers");
    }
    object["metadata"]["namespace"] = Value::from(&*pod.metadata.namespace());
    object["spec"]["priority"] = Value::from(pod.spec.priority.unwrap_or(0));
    object["status"] = json!({"phase": "Pending"});
    object
}

/// Adds what the API requires of a container and no rule of the scheduler reads.
fn complete_containers(containers: &mut Value, list: &str) {
    for (number, container) in containers.as_array_mut().into_iter().flatten().enumerate() {
        container["name"] = Value::from(format!("{}-{number}", list.to_lowercase()));
        for port in container["ports"].as_array_mut().into_iter().flatten() {
            let host = port["hostPort"].as_i64().filter(|port| *port > 0).unwrap_or(1);
            port["containerPort"] = Value::from(host);
        }
    }
}

/// A pod that is on a node since this time. `deleted` is when its deletion began.
pub fn bound_pod(mut pod: Value, node: &str, since: Seconds, deleted: Option<Seconds>) -> Value {
    pod["spec"]["nodeName"] = Value::from(node);
    pod["status"] = json!({
        "phase": "Running",
        "startTime": since.to_string(),
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": since.to_string()},
            {"type": "Ready", "status": "True", "lastTransitionTime": since.to_string()},
        ],
    });
    if let Some(deleted) = deleted {
        pod["metadata"]["deletionTimestamp"] = Value::from(deleted.to_string());
        pod["metadata"]["deletionGracePeriodSeconds"] = Value::from(30);
    }
    pod
}

/// The same pod as a new object, which has another UID.
pub fn created_again(mut pod: Value, times: u32) -> Value {
    if let Some(uid) = pod["metadata"]["uid"].as_str().filter(|_| times > 0) {
        pod["metadata"]["uid"] = Value::from(format!("{uid}-{times}"));
    }
    pod
}

pub fn key_of(pod: &Pod) -> ObjectKey {
    ObjectKey::new(&pod.metadata.namespace(), &pod.metadata.name)
}

/// All objects besides nodes and pods.
pub fn others(objects: &ClusterObjects) -> Vec<Value> {
    let mut all = Vec::new();
    all.extend(objects.namespaces.iter().map(|one| object("Namespace", "v1", one)));
    all.extend(priority_classes(objects).iter().map(|one| object("PriorityClass", "scheduling.k8s.io/v1", one)));
    all.extend(objects.services.iter().map(|one| object("Service", "v1", one)));
    all.extend(objects.replica_sets.iter().map(|one| controller(object("ReplicaSet", "apps/v1", one))));
    all.extend(objects.stateful_sets.iter().map(|one| controller(object("StatefulSet", "apps/v1", one))));
    let of_labels = |one| object("ReplicationController", "v1", one);
    all.extend(objects.replication_controllers.iter().map(of_labels));
    all.extend(objects.pod_disruption_budgets.iter().map(budget));
    all.extend(objects.workloads.iter().map(|one| object("Workload", "scheduling.k8s.io/v1alpha1", one)));
    all.extend(objects.device_classes.iter().map(|one| object("DeviceClass", "resource.k8s.io/v1", one)));
    all.extend(objects.resource_slices.iter().map(|one| object("ResourceSlice", "resource.k8s.io/v1", one)));
    all.extend(objects.resource_claims.iter().map(|one| object("ResourceClaim", "resource.k8s.io/v1", one)));
    all
}

/// The classes of the cluster, and those that every cluster has.
fn priority_classes(objects: &ClusterObjects) -> Vec<PriorityClass> {
    let mut classes = objects.priority_classes.clone();
    for (name, value) in PriorityClass::SYSTEM {
        if !classes.iter().any(|class| &*class.metadata.name == name) {
            let metadata = ObjectMeta { name: Arc::from(name), ..ObjectMeta::default() };
            classes.push(PriorityClass { metadata, value, ..PriorityClass::default() });
        }
    }
    classes
}

/// Fields of a pod that API servers before a release do not store. A pod with such a field may be kept back without a word,
/// or its binding refused.
const NEWER_FIELDS: [(&str, (u32, u32)); 3] =
    [("schedulingGates", (1, 26)), ("resourceClaims", (1, 26)), ("workloadRef", (1, 35))];

/// Takes out what an API server of this release does not store.
pub fn as_stored_by(release: &Release, pod: &mut Value) {
    let Some(spec) = pod["spec"].as_object_mut() else { return };
    for (field, since) in NEWER_FIELDS {
        if (release.major, release.minor) < since {
            spec.shift_remove(field);
        }
    }
}

/// Adds the template that the API requires and no rule of the scheduler reads.
fn controller(mut controller: Value) -> Value {
    controller["spec"]["template"] = json!({"spec": {"containers": [{"name": "none", "image": "none"}]}});
    controller
}

/// A disruption budget, with the counts that the API requires and no rule of the scheduler reads.
pub fn budget(budget: &DisruptionBudget) -> Value {
    let mut budget = object("PodDisruptionBudget", "policy/v1", budget);
    for count in ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"] {
        if budget["status"][count].is_null() {
            budget["status"][count] = Value::from(0);
        }
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_stored_since_the_release_that_knows_it() {
        for (release, stored) in [("v1.20.2", 0), ("v1.26.0", 2), ("v1.35.4", 3)] {
            let release = Release::parse(&format!("Kubernetes {release}")).expect("a release");
            let mut pod = json!({"spec": {"schedulingGates": [], "resourceClaims": [], "workloadRef": {}}});
            as_stored_by(&release, &mut pod);
            assert_eq!(pod["spec"].as_object().map(|spec| spec.len()), Some(stored), "{release}");
        }
    }

    #[test]
    fn every_cluster_has_the_classes_of_the_system() {
        let stated = |name: &str, value| {
            let metadata = ObjectMeta { name: Arc::from(name), ..ObjectMeta::default() };
            PriorityClass { metadata, value, ..PriorityClass::default() }
        };
        let stated = vec![stated("research", 1000), stated("system-node-critical", 2_000_001_000)];
        let classes = priority_classes(&ClusterObjects { priority_classes: stated, ..ClusterObjects::default() });
        let names: Vec<&str> = classes.iter().map(|class| &*class.metadata.name).collect();
        assert_eq!(names, ["research", "system-node-critical", "system-cluster-critical"]);
    }
}
