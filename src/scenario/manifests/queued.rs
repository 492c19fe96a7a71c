//! Kueue's objects in manifests: the inputs that state them, and the workloads of controllers and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use dryrack_kubernetes::cluster::{PodInfo, Resource};
use dryrack_manifest::{Cluster, Controller, Kind, PodSet, QueuePriority, StatedPod, StatedQueue};
use dryrack_objects::{Pod, Quantity, ResourceList, Seconds};
use dryrack_units::SimTime;
use dryrack_workload::{QueuedPodSet, QueuedTopology, QueuedWorkload};
use dryrack_yaml::{Report, Span};

/// The objects of Kueue, as a JSON list for each time.
pub type Applied = Vec<(SimTime, Arc<str>)>;

type Key = (Kind, Arc<str>, Arc<str>);

/// The inputs that create and change the objects, in order of time.
pub(super) fn applied(cluster: &Cluster, fair_sharing: Option<Value>, report: &mut Report) -> Applied {
    let stated = &cluster.queues.stated;
    if stated.is_empty() {
        return Vec::new();
    }
    let mut current: BTreeMap<Key, Map<String, Value>> = BTreeMap::new();
    let mut times: BTreeMap<SimTime, Vec<&StatedQueue>> = BTreeMap::new();
    for object in stated {
        let at = SimTime::ZERO.checked_add(object.at.unwrap_or_default()).unwrap_or(SimTime::MAX);
        times.entry(at).or_default().push(object);
    }
    let mut inputs = Vec::new();
    for (at, objects) in times {
        let mut list = Vec::new();
        if at == SimTime::ZERO
            && let Some(fair) = &fair_sharing
        {
            list.push(json!({"kind": "Configuration", "fairSharing": fair}));
        }
        if at == SimTime::ZERO {
            list.extend(cluster.namespaces.iter().map(|namespace| {
                let metadata = &namespace.metadata;
                json!({"kind": "Namespace", "metadata": {"name": &*metadata.name, "labels": &metadata.labels}})
            }));
        }
        for object in objects {
            let key = (object.kind, Arc::clone(&object.namespace), Arc::clone(&object.name));
            let is_known = current.contains_key(&key);
            if at > SimTime::ZERO && matches!(object.kind, Kind::Flavor | Kind::Topology) {
                let message = format!("{} `{}` cannot change during the run", object.kind.name(), object.name);
                report.error_with_help(object.span, message, "leave `dryrack/at` out; queues and cohorts can change");
            }
            if object.is_patch && !is_known {
                let names: Vec<&str> =
                    current.keys().filter(|(kind, ..)| *kind == object.kind).map(|(.., name)| &**name).collect();
                let message = format!("no {} is named `{}` at this time", object.kind.name(), object.name);
                report.unknown(object.span, message, &object.name, names.into_iter());
                continue;
            }
            let spec = current.entry(key).or_default();
            match object.is_patch {
                true => spec.extend(object.spec.clone()),
                false => *spec = object.spec.clone(),
            }
            if object.kind == Kind::ClusterQueue {
                // A queue without a selector admits no namespace.
                spec.entry("namespaceSelector").or_insert(Value::Null);
            }
            list.push(json!({
                "kind": object.kind.name(),
                "metadata": {"name": &*object.name, "namespace": &*object.namespace},
                "spec": spec,
            }));
        }
        check_cohorts(&current, stated, report);
        inputs.push((at, Arc::from(Value::from(list).to_string())));
    }
    inputs
}

/// Reports a cohort that is below itself.
fn check_cohorts(current: &BTreeMap<Key, Map<String, Value>>, stated: &[StatedQueue], report: &mut Report) {
    let parent = |spec: &Map<String, Value>| {
        spec.get("parentName").or(spec.get("parent")).and_then(Value::as_str).map(str::to_string)
    };
    let parents: BTreeMap<&str, Option<String>> = current
        .iter()
        .filter(|((kind, ..), _)| *kind == Kind::Cohort)
        .map(|((.., name), spec)| (&**name, parent(spec)))
        .collect();
    for name in parents.keys() {
        let mut seen = BTreeSet::new();
        let mut at = Some((*name).to_string());
        while let Some(next) = at {
            if !seen.insert(next.clone()) {
                let span = stated.iter().rev().find(|object| *object.name == **name).map(|object| object.span);
                if let Some(span) = span {
                    report.error_with_help(
                        span,
                        format!("the cohort `{name}` is below itself"),
                        "give it another parent",
                    );
                }
                return;
            }
            at = parents.get(next.as_str()).cloned().flatten();
        }
    }
}

/// The names of all LocalQueues, and the namespaces of each. `None` if the cluster has no Kueue.
pub(super) fn local_queues(cluster: &Cluster) -> Option<BTreeMap<String, BTreeSet<Arc<str>>>> {
    let stated = &cluster.queues.stated;
    let mut queues: BTreeMap<String, BTreeSet<Arc<str>>> = BTreeMap::new();
    for object in stated.iter().filter(|object| object.kind == Kind::LocalQueue) {
        queues.entry(object.name.to_string()).or_default().insert(Arc::clone(&object.namespace));
    }
    (!stated.is_empty()).then_some(queues)
}

/// The workload of a controller; `None` if Kueue does not manage it.
pub(super) fn of_controller(
    controller: &Controller,
    cluster: &Cluster,
    report: &mut Report,
) -> Option<Arc<QueuedWorkload>> {
    let queue = controller.queue.clone().filter(|_| !cluster.queues.stated.is_empty())?;
    let is_apart = matches!(
        controller.kind,
        Kind::Deployment | Kind::ReplicaSet | Kind::ReplicationController | Kind::DaemonSet | Kind::LeaderWorkerSet
    );
    if is_apart {
        let message = format!(
            "Kueue admits the pods or groups of {} `{}` one by one, and dryrack admits them together",
            controller.kind.name(),
            controller.name
        );
        report.warning(controller.span, message, "use a Job or a JobSet to rehearse Kueue's own decision");
    }
    let sets: Vec<QueuedPodSet> = controller.sets.iter().map(|set| pod_set(controller, set)).collect();
    let of_pods = controller.sets.first().and_then(|set| set.template.spec.priority);
    let priority = match &controller.queue_priority {
        Some(QueuePriority::Value(value)) => *value,
        Some(QueuePriority::Class(name)) => {
            let class = cluster.queues.priorities.iter().find(|class| class.name == *name);
            class_value(name, class.map(|class| class.spec), cluster, controller.span, report)
        }
        None => of_pods.unwrap_or(0),
    };
    Some(Arc::new(QueuedWorkload {
        namespace: Arc::clone(&controller.namespace),
        name: Arc::from(format!("{}-{}", controller.kind.name().to_ascii_lowercase(), controller.name)),
        uid: Arc::clone(&controller.uid),
        created: created(controller.created, cluster),
        queue,
        priority,
        pod_sets: sets,
    }))
}

fn class_value(name: &Arc<str>, found: Option<i32>, cluster: &Cluster, span: Span, report: &mut Report) -> i32 {
    if found.is_none() {
        let known = cluster.queues.priorities.iter().map(|class| &*class.name);
        report.unknown(span, format!("no WorkloadPriorityClass is named `{name}`"), name, known);
    }
    found.unwrap_or(0)
}

/// When a workload was created, in seconds from the beginning of the run, which is the latest time that any object
/// states. The order of the queues depends on it.
fn created(stated: Option<Seconds>, cluster: &Cluster) -> Option<i64> {
    Some(stated?.0 - cluster.latest?.0)
}

fn pod_set(controller: &Controller, set: &PodSet) -> QueuedPodSet {
    let all = u32::try_from(set.numbers.len()).unwrap_or(u32::MAX);
    let topology = set.topology.as_ref().map(|(kind, key)| match &**kind {
        "required" => QueuedTopology::Required(Arc::clone(key)),
        "preferred" => QueuedTopology::Preferred(Arc::clone(key)),
        _ => QueuedTopology::Unconstrained,
    });
    QueuedPodSet {
        name: if set.name.is_empty() { Arc::from("main") } else { Arc::clone(&set.name) },
        count: set.parallelism.unwrap_or(all).min(all),
        min_count: set.min_count,
        in_turn: set.parallelism.is_some() || (controller.kind == Kind::Job && set.has_completions),
        requests: requests(&set.template),
        node_selector: set.template.spec.node_selector.clone(),
        tolerations: set.template.spec.tolerations.clone(),
        topology,
    }
}

/// The requests of a pod as a whole, as the scheduler counts them.
fn requests(pod: &Pod) -> ResourceList {
    let info = PodInfo::new(pod.clone());
    let exact = &info.requests.exact;
    let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let of_pod = pod.spec.resources.requests.keys().chain(pod.spec.overhead.keys());
    let names: BTreeSet<&Arc<str>> = containers.flat_map(|one| one.resources.requests.keys()).chain(of_pod).collect();
    let mut list = ResourceList::new();
    for name in names {
        let amount = exact.get(&Resource::of(name));
        let text = if &**name == "cpu" { format!("{amount}m") } else { amount.to_string() };
        if let Ok(quantity) = text.parse::<Quantity>()
            && !quantity.is_zero()
        {
            list.insert(Arc::clone(name), quantity);
        }
    }
    list
}

/// The workload of a pod that is in the files itself; `None` if Kueue does not manage it or it is on a node already.
pub(super) fn of_pod(stated: &StatedPod, cluster: &Cluster, report: &mut Report) -> Option<Arc<QueuedWorkload>> {
    let (pod, span) = (&stated.pod, stated.span);
    let labels = &pod.metadata.labels;
    let queue = labels.get("kueue.x-k8s.io/queue-name").filter(|_| !cluster.queues.stated.is_empty())?;
    if labels.contains_key("kueue.x-k8s.io/pod-group-name") {
        let message = "dryrack admits the pods of a pod group one by one";
        report.warning(span, message, "use a Job or a JobSet, which Kueue admits as a whole");
    }
    if pod.spec.node_name.is_some() {
        let message = format!("`{}` is on a node already, so it takes no quota here", pod.metadata.name);
        report.warning(span, message, "leave `nodeName` out to let Kueue admit it");
        return None;
    }
    let priority = match labels.get("kueue.x-k8s.io/priority-class") {
        Some(name) => {
            let class = cluster.queues.priorities.iter().find(|class| class.name == *name);
            class_value(name, class.map(|class| class.spec), cluster, span, report)
        }
        None => pod.spec.priority.unwrap_or(0),
    };
    let set = QueuedPodSet {
        name: Arc::from("main"),
        count: 1,
        min_count: None,
        in_turn: false,
        requests: requests(pod),
        node_selector: pod.spec.node_selector.clone(),
        tolerations: pod.spec.tolerations.clone(),
        topology: None,
    };
    Some(Arc::new(QueuedWorkload {
        namespace: pod.metadata.namespace(),
        name: Arc::from(format!("pod-{}", pod.metadata.name)),
        uid: Arc::clone(&pod.metadata.uid),
        created: created(stated.created, cluster),
        queue: Arc::clone(queue),
        priority,
        pod_sets: vec![set],
    }))
}
