//! The Workloads of Kueue in the files: what Kueue knows about an object, and what it has given to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::api::{Labels, Pod, ResourceList, Seconds};
use crate::controllers::QueuePriority;
use crate::read::Object;

/// A Workload of Kueue.
#[derive(Clone, Debug)]
pub struct ListedWorkload {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub created: Option<Seconds>,
    pub queue: Option<Arc<str>>,
    pub priority: Option<QueuePriority>,
    /// Whether Kueue may admit it.
    pub is_active: bool,
    pub pod_sets: Vec<ListedPodSet>,
    /// What Kueue has given to it. `None` if it waits, or if Kueue takes that away.
    pub admission: Option<ListedAdmission>,
}

/// Equal pods of a Workload.
#[derive(Clone, Debug)]
pub struct ListedPodSet {
    pub name: Arc<str>,
    pub count: u32,
    pub min_count: Option<u32>,
    /// The pod as its owner states it, without what Kueue adds when it admits the pod.
    pub template: Pod,
    /// The topology request: its kind, and the key of a label.
    pub topology: Option<(Arc<str>, Arc<str>)>,
}

#[derive(Clone, Debug)]
pub struct ListedAdmission {
    pub cluster_queue: Arc<str>,
    pub since: Option<Seconds>,
    pub pod_sets: Vec<ListedAssignment>,
}

/// What a pod set was given.
#[derive(Clone, Debug)]
pub struct ListedAssignment {
    pub name: Arc<str>,
    pub count: Option<u32>,
    /// The flavor of each resource.
    pub flavors: Labels,
    /// What all of its pods use.
    pub usage: ResourceList,
    /// How many of its pods need nothing more.
    pub reclaimable: u32,
}

impl ListedWorkload {
    /// The pod set of this name, or the only one.
    pub fn set_of(&self, name: &str) -> Option<&ListedPodSet> {
        match &self.pod_sets[..] {
            [only] => Some(only),
            sets => sets.iter().find(|set| *set.name == *name),
        }
    }
}

impl ListedAdmission {
    /// What the pod set of this name was given, or the only one.
    pub fn set_of(&self, name: &str) -> Option<&ListedAssignment> {
        match &self.pod_sets[..] {
            [only] => Some(only),
            sets => sets.iter().find(|set| *set.name == *name),
        }
    }
}

fn text(value: Option<&Value>) -> Option<Arc<str>> {
    value.and_then(Value::as_str).map(Arc::from)
}

fn number(value: Option<&Value>) -> Option<u32> {
    value.and_then(Value::as_u64).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn items<'v>(value: &'v Map<String, Value>, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Makes the pod of a template.
pub type MakePod<'m> = &'m mut dyn FnMut(Map<String, Value>) -> Option<Pod>;

impl ListedWorkload {
    /// The Workload that an object is. `created` is when it was created.
    pub fn of(object: &Object, created: Option<Seconds>, make: MakePod<'_>) -> ListedWorkload {
        let empty = Map::new();
        let part = |key: &str| object.value.get(key).and_then(Value::as_object).unwrap_or(&empty);
        let (metadata, spec, status) = (part("metadata"), part("spec"), part("status"));
        let value = spec.get("priority").and_then(Value::as_i64).and_then(|value| i32::try_from(value).ok());
        let class = text(spec.get("priorityClassName")).map(QueuePriority::Class);
        ListedWorkload {
            name: Arc::from(object.name()),
            uid: text(metadata.get("uid")).unwrap_or_default(),
            created,
            queue: text(spec.get("queueName")),
            priority: value.map(QueuePriority::Value).or(class),
            is_active: spec.get("active").and_then(Value::as_bool) != Some(false),
            pod_sets: items(spec, "podSets").iter().filter_map(|set| pod_set(set, make)).collect(),
            admission: admission(status),
        }
    }
}

fn pod_set(stated: &Value, make: MakePod<'_>) -> Option<ListedPodSet> {
    let template = stated.get("template")?.as_object()?;
    let of_template = topology(template.get("metadata").and_then(|metadata| metadata.get("annotations")));
    let request = stated.get("topologyRequest").and_then(Value::as_object);
    let own = request.and_then(|request| {
        let (kind, key) = request.iter().next()?;
        Some((Arc::from(kind.as_str()), text(Some(key)).unwrap_or_default()))
    });
    Some(ListedPodSet {
        name: text(stated.get("name")).unwrap_or_else(|| Arc::from("main")),
        count: number(stated.get("count")).unwrap_or(1),
        min_count: number(stated.get("minCount")),
        template: make(template.clone())?,
        topology: own.or(of_template),
    })
}

/// The topology request in the annotations of a template.
pub fn topology(annotations: Option<&Value>) -> Option<(Arc<str>, Arc<str>)> {
    ["required", "preferred", "unconstrained"].iter().find_map(|kind| {
        let value = annotations?.get(format!("kueue.x-k8s.io/podset-{kind}-topology"))?.as_str()?;
        Some((Arc::from(*kind), Arc::from(value)))
    })
}

/// The conditions of a Workload: the state of each, and when it began.
fn conditions(status: &Map<String, Value>) -> BTreeMap<&str, (bool, Option<Seconds>)> {
    let condition = |condition: &'_ Value| {
        let since = condition["lastTransitionTime"].as_str().and_then(|text| Seconds::parse(text).ok());
        (condition["status"] == "True", since)
    };
    let conditions = items(status, "conditions").iter();
    conditions.filter_map(|one| Some((one["type"].as_str()?, condition(one)))).collect()
}

fn admission(status: &Map<String, Value>) -> Option<ListedAdmission> {
    let conditions = conditions(status);
    let is = |kind: &str| conditions.get(kind).map(|(is, _)| *is);
    if is("QuotaReserved") == Some(false) || is("Evicted") == Some(true) {
        return None;
    }
    let stated = status.get("admission")?.as_object()?;
    let reclaimable = |name: &str| {
        let of_set = items(status, "reclaimablePods").iter().find(|of_set| of_set["name"] == name);
        of_set.and_then(|of_set| number(of_set.get("count"))).unwrap_or(0)
    };
    let assignment = |one: &Value| {
        let name = text(one.get("name")).unwrap_or_else(|| Arc::from("main"));
        let fields = |key: &str| one.get(key).and_then(Value::as_object).into_iter().flatten();
        let amount = |amount: &Value| amount.as_str()?.parse().ok();
        ListedAssignment {
            count: number(one.get("count")),
            flavors: fields("flavors")
                .filter_map(|(key, value)| Some((Arc::from(key.as_str()), text(Some(value))?)))
                .collect(),
            usage: fields("resourceUsage")
                .filter_map(|(key, value)| Some((Arc::from(key.as_str()), amount(value)?)))
                .collect(),
            reclaimable: reclaimable(&name),
            name,
        }
    };
    Some(ListedAdmission {
        cluster_queue: text(stated.get("clusterQueue"))?,
        since: conditions.get("QuotaReserved").and_then(|(_, since)| *since),
        pod_sets: items(stated, "podSetAssignments").iter().map(assignment).collect(),
    })
}
