//! What the program does with pods: bindings, conditions, nominations, deletions and evictions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Binding;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status};
use serde_json::{Value, json};

use super::fault::Fault;
use super::heard::{Attempt, Heard};
use super::key::ObjectKey;
use super::selector::Selector;
use super::store::Store;
use super::table::Stored;
use super::write::{check_preconditions, conflict, invalid};

fn success() -> Value {
    let status = Status {
        code: Some(201),
        metadata: ListMeta::default(),
        status: Some("Success".to_owned()),
        ..Status::default()
    };
    serde_json::to_value(status).expect("the types of the API can be written")
}

/// Binds a pod to a node, once.
pub(crate) fn bind(
    store: &mut Store,
    namespace: Option<&str>,
    name: Option<&str>,
    body: &Value,
) -> Result<Value, Fault> {
    let binding: Binding = serde::Deserialize::deserialize(body)
        .map_err(|error| Fault::BadRequest(format!("Binding cannot be read: {error}")))?;
    let stated = binding.metadata.name.as_deref().filter(|stated| !stated.is_empty());
    let (Some(name), Some(namespace)) = (name.or(stated), namespace) else {
        return Err(Fault::BadRequest("a binding needs the namespace and the name of a pod".to_owned()));
    };
    let other_namespace =
        binding.metadata.namespace.as_deref().is_some_and(|other| !other.is_empty() && other != namespace);
    if stated.is_some_and(|stated| stated != name) || other_namespace {
        return Err(Fault::BadRequest("the pod that the binding names is not that of the request".to_owned()));
    }
    let pods = store.table_of_kind("Pod");
    let resource = Arc::clone(&store.tables[pods].resource);
    let key = ObjectKey::new(namespace, name);
    let old = Arc::clone(store.get(pods, &key)?);
    check_preconditions(&resource, &key, &old, &body["metadata"])?;
    let node = binding.target.name.as_deref().unwrap_or_default();
    if node.is_empty() || binding.target.kind.as_deref().is_some_and(|kind| !matches!(kind, "" | "Node")) {
        return Err(invalid(&resource, &key, "target: Required value: the name of a Node"));
    }
    store.get(store.table_of_kind("Node"), &ObjectKey::new("", node))?;
    if let Some(bound) = old.value["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
        let why = format!("pod {name} is already assigned to node {bound:?}");
        return Err(conflict(&resource, &key, why));
    }
    if old.value["metadata"]["deletionTimestamp"].is_string() {
        return Err(conflict(&resource, &key, format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    if old.value["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(conflict(&resource, &key, format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let mut pod = (*old.value).clone();
    pod["spec"]["nodeName"] = Value::from(node);
    set_condition(
        &mut pod,
        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": store.now.to_string()}),
    );
    for (name, value) in binding.metadata.annotations.into_iter().flatten() {
        pod["metadata"]["annotations"][name] = Value::from(value);
    }
    store.put(pods, key.clone(), pod, false);
    store.heard.push(Heard::Bound { pod: key, node: Arc::from(node) });
    Ok(success())
}

/// Replaces the condition of the same type.
fn set_condition(pod: &mut Value, condition: Value) {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    conditions.retain(|other| other["type"] != condition["type"]);
    conditions.push(condition);
}

/// Notes what a new status of a pod means. `states_condition`: the request states the condition `PodScheduled`, even if
/// it says what it said before.
///
/// A failed attempt gets the time at which the server heard of it. The program states a failure only if it differs from
/// the recorded one, and it does not state this time: so it states each failure.
pub(crate) fn note_status(store: &mut Store, key: &ObjectKey, states_condition: bool, old: &Value, new: &mut Value) {
    let nominated = |pod: &Value| {
        let node = pod["status"]["nominatedNodeName"].as_str().filter(|node| !node.is_empty());
        node.map(Arc::<str>::from)
    };
    let is_failure = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
    let failure = new["status"]["conditions"].as_array().and_then(|all| all.iter().find(is_failure).cloned());
    let (before, after) = (nominated(old), nominated(new));
    // Only an attempt of its own gives a pod a node.
    let is_attempt = states_condition || (after.is_some() && after != before);
    match failure.filter(|_| is_attempt) {
        Some(mut failure) => {
            let text = |field: &str| Arc::from(failure[field].as_str().unwrap_or_default());
            let attempt = Attempt { reason: text("reason"), message: text("message"), nominated: after };
            store.heard.push(Heard::Unschedulable { pod: key.clone(), attempt });
            failure["lastProbeTime"] = json!(store.now.to_string());
            set_condition(new, failure);
        }
        None if before != after => store.heard.push(Heard::Nominated { pod: key.clone(), node: after }),
        None => {}
    }
}

/// Whether the status in a request has the condition `PodScheduled`.
pub(crate) fn states_condition(request: &Value) -> bool {
    let conditions = request["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == "PodScheduled"))
}

/// Marks a pod as being deleted. The world removes it.
pub(crate) fn evict(store: &mut Store, table: usize, key: &ObjectKey, old: &Stored, options: &Value) -> Value {
    if old.value["metadata"]["deletionTimestamp"].is_string() {
        return (*old.value).clone();
    }
    let grace = options["gracePeriodSeconds"].as_i64();
    let grace = grace.or_else(|| old.value["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    let mut pod = (*old.value).clone();
    pod["metadata"]["deletionTimestamp"] = json!(store.now.to_string());
    pod["metadata"]["deletionGracePeriodSeconds"] = Value::from(grace);
    let value = store.put(table, key.clone(), pod, false);
    store.heard.push(Heard::Evicted { pod: key.clone() });
    (*value).clone()
}

/// Evicts a pod, unless a disruption budget forbids it.
pub(crate) fn evict_within_budgets(store: &mut Store, key: &ObjectKey, body: &Value) -> Result<Value, Fault> {
    let eviction: Eviction = serde::Deserialize::deserialize(&without_version(body))
        .map_err(|error| Fault::BadRequest(format!("Eviction cannot be read: {error}")))?;
    let pods = store.table_of_kind("Pod");
    let resource = Arc::clone(&store.tables[pods].resource);
    let old = Arc::clone(store.get(pods, key)?);
    let options = serde_json::to_value(eviction.delete_options).unwrap_or_default();
    check_preconditions(&resource, key, &old, &options["preconditions"])?;
    let budgets = store.table_of_kind("PodDisruptionBudget");
    let guards = |(budget, stored): &(&ObjectKey, &Arc<Stored>)| {
        budget.namespace == key.namespace
            && Selector::of_object(&stored.value["spec"]["selector"])
                .is_some_and(|selector| selector.selects(&old.value))
    };
    let found =
        store.tables[budgets].objects.iter().find(guards).map(|(key, stored)| (key.clone(), Arc::clone(stored)));
    if let Some((budget, stored)) = found {
        let allowed = stored.value["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed <= 0 {
            let why = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(Fault::TooMany(why.to_owned()));
        }
        let mut value = (*stored.value).clone();
        value["status"]["disruptionsAllowed"] = Value::from(allowed - 1);
        store.put(budgets, budget, value, false);
    }
    evict(store, pods, key, &old, &options);
    Ok(success())
}

/// An eviction of `policy/v1beta1` has the same fields.
fn without_version(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    body
}
