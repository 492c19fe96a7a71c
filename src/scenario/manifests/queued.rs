//! Kueue's objects in manifests: the inputs that state them, and the workloads of controllers and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use dryrack_kubernetes::cluster::{PodInfo, Resource};
use dryrack_manifest::{
    Cluster, Controller, Kind, ListedWorkload, Naming, PodSet, QueuePriority, StatedPod, StatedQueue,
};
use dryrack_objects::{NodeSelectorTerm, Pod, Quantity, ResourceList, Seconds};
use dryrack_units::SimTime;
use dryrack_workload::{QueuedPart, QueuedPodSet, QueuedTopology, QueuedWorkload};
use dryrack_yaml::{Report, Span};

use super::held;

/// The objects of Kueue, as a JSON list for each time.
pub type Applied = Vec<(SimTime, Arc<str>)>;

/// The label that names the LocalQueue.
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// The labels of the pods of a job that Kueue has started.
const STARTED: [&str; 2] = ["kueue.x-k8s.io/podset", "kueue.x-k8s.io/tas"];
/// The scheduling gates of Kueue.
const GATES: [&str; 2] = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"];

type Key = (Kind, Arc<str>, Arc<str>);

/// The inputs that create and change the objects, in order of time.
pub(super) fn applied(cluster: &Cluster, fair_sharing: Option<Value>, report: &mut Report) -> Applied {
    let stated = &cluster.queues.stated;
    if stated.is_empty() {
        return Vec::new();
    }
    let fair_sharing = fair_sharing.or_else(|| configured(cluster));
    if fair_sharing.is_none() {
        tell_weights(cluster, report);
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

/// Fair sharing as the configuration of Kueue's manager says.
fn configured(cluster: &Cluster) -> Option<Value> {
    let sharing = cluster.queues.configuration.as_ref()?.as_ref()?;
    let strategies = sharing.get("preemptionStrategies").cloned().unwrap_or_else(|| json!([]));
    Some(json!({"enable": true, "preemptionStrategies": strategies}))
}

/// Warns once about weights of queues, which have no effect without fair sharing.
fn tell_weights(cluster: &Cluster, report: &mut Report) {
    let has_weight =
        |object: &&StatedQueue| object.spec.get("fairSharing").is_some_and(|fair| fair.get("weight").is_some());
    if let Some(first) = cluster.queues.stated.iter().find(has_weight)
        && cluster.queues.configuration.is_none()
    {
        let message =
            format!("fair sharing is off, so the weight of {} `{}` has no effect", first.kind.name(), first.name);
        let help = "write `kueue: {fair_sharing: true}` if the cluster has fair sharing, or add the ConfigMap \
                    `kueue-manager-config` to the files";
        report.warning(first.span, message, help);
    }
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

/// How Kueue manages the pods of a controller.
pub(super) enum Managed {
    Not,
    /// All of them are one workload.
    Together(Arc<QueuedWorkload>),
    /// Each pod, or each group of a LeaderWorkerSet, is a workload. This one lacks a name and pod sets.
    Apart(QueuedWorkload),
}

impl Managed {
    pub(super) fn is_not(&self) -> bool {
        matches!(self, Managed::Not)
    }

    /// Whether it is one workload that Kueue admitted before the run.
    pub(super) fn holds_quota(&self) -> bool {
        matches!(self, Managed::Together(workload) if workload.held.is_some())
    }

    pub(super) fn is_apart(&self) -> bool {
        matches!(self, Managed::Apart(_))
    }

    /// The part of a pod of the files, of the set at this place. A pod that is on a node although its workload waits has
    /// none, because Kueue has nothing to say about it any more.
    pub(super) fn part_of_stated(
        &self,
        stated: &StatedPod,
        controller: &Controller,
        set: usize,
    ) -> Option<Arc<QueuedPart>> {
        match self {
            Managed::Together(workload) if workload.held.is_some() || stated.pod.spec.node_name.is_none() => {
                self.part(controller, set, 0)
            }
            Managed::Together(_) | Managed::Not | Managed::Apart(_) => None,
        }
    }

    /// The part of a pod in its workload: the pod with this number, of the set at this place.
    pub(super) fn part(&self, controller: &Controller, set: usize, number: u32) -> Option<Arc<QueuedPart>> {
        let (workload, set) = match self {
            Managed::Not => return None,
            Managed::Together(workload) => (Arc::clone(workload), part_of(&controller.sets, set)),
            Managed::Apart(one) => {
                let (workload, set) = apart(one, controller, set, number);
                (Arc::new(workload), set)
            }
        };
        Some(Arc::new(QueuedPart { workload, pod_set: u32::try_from(set).ok() }))
    }
}

/// The place of the pod set of Kueue to which the set at this place belongs. Sets of one name are one pod set.
pub(super) fn part_of(sets: &[PodSet], place: usize) -> usize {
    sets[..=place].windows(2).filter(|pair| pair[0].name != pair[1].name).count()
}

/// The pod sets of a controller, as Kueue makes them: `replicas` jobs of a JobSet are one.
fn pod_sets(controller: &Controller) -> Vec<QueuedPodSet> {
    let mut made: Vec<QueuedPodSet> = Vec::new();
    for (place, set) in controller.sets.iter().enumerate() {
        let one = pod_set(controller, set);
        match made
            .last_mut()
            .filter(|_| place > 0 && part_of(&controller.sets, place) == part_of(&controller.sets, place - 1))
        {
            Some(last) => last.count = last.count.saturating_add(one.count),
            None => made.push(one),
        }
    }
    made
}

/// The workload of one pod, or of its group, and the place of its pod set there.
fn apart(one: &QueuedWorkload, controller: &Controller, set: usize, number: u32) -> (QueuedWorkload, usize) {
    let of_set = |set: &PodSet, count: u32| QueuedPodSet { count, ..pod_set(controller, set) };
    let own = &controller.sets[set];
    let Naming::Groups { size, .. } = &own.naming else {
        let name = Arc::from(format!("pod-{}", own.name_of(number)));
        return (QueuedWorkload { name, pod_sets: vec![of_set(own, 1)], ..one.clone() }, 0);
    };
    let workers = size.saturating_sub(1).max(1);
    let is_leader = |set: &PodSet| matches!(set.naming, Naming::Groups { is_leader: true, .. });
    let group = if is_leader(own) { number } else { number / workers };
    let pod_sets = controller.sets.iter().map(|set| of_set(set, if is_leader(set) { 1 } else { workers })).collect();
    let name = Arc::from(format!("leaderworkerset-{}-{group}", controller.name));
    (QueuedWorkload { name, pod_sets, ..one.clone() }, set)
}

/// The queue of the pods of a controller, if Kueue manages them. Kueue adds the label of a Deployment to its pods. It does
/// not know the other controllers whose pods are workloads, so the pods must have the label themselves.
fn queue_of(controller: &Controller, report: &mut Report) -> Option<Arc<str>> {
    let of_pods = controller.sets.first().and_then(|set| set.template.metadata.labels.get(QUEUE)).cloned();
    let (kind, name) = (controller.kind.name(), &controller.name);
    match controller.kind {
        Kind::Deployment => controller.queue.clone().or(of_pods),
        Kind::ReplicaSet | Kind::ReplicationController | Kind::DaemonSet => {
            if of_pods.is_none() && controller.queue.is_some() {
                let message =
                    format!("Kueue does not manage a {kind}, so the label `{QUEUE}` of `{name}` has no effect");
                report.warning(controller.span, message, "put the label into the template, so that its pods have it");
            }
            of_pods
        }
        _ => controller.queue.clone(),
    }
}

/// How Kueue manages the pods of a controller.
pub(super) fn of_controller(controller: &Controller, cluster: &Cluster, report: &mut Report) -> Managed {
    if cluster.queues.stated.is_empty() {
        return Managed::Not;
    }
    let Some(queue) = queue_of(controller, report) else { return Managed::Not };
    let of_pods = controller.sets.first().and_then(|set| set.template.spec.priority);
    let listed = controller.workload.as_deref();
    let stated = listed.and_then(|listed| listed.priority.as_ref()).or(controller.queue_priority.as_ref());
    let mut workload = QueuedWorkload {
        namespace: Arc::clone(&controller.namespace),
        name: Arc::from(format!("{}-{}", controller.kind.name().to_ascii_lowercase(), controller.name)),
        uid: Arc::clone(&controller.uid),
        created: created(controller.created, cluster),
        queue,
        priority: priority(stated, of_pods, (cluster, controller.span), report),
        pod_sets: pod_sets(controller),
        held: None,
    };
    if let Some(listed) = listed {
        follow(&mut workload, listed, cluster);
    }
    let is_apart = matches!(
        controller.kind,
        Kind::Deployment | Kind::ReplicaSet | Kind::ReplicationController | Kind::DaemonSet | Kind::LeaderWorkerSet
    );
    match is_apart {
        true => Managed::Apart(QueuedWorkload { uid: Arc::from(""), pod_sets: Vec::new(), ..workload }),
        false => {
            workload.held = held::of_controller(controller, &workload.pod_sets, &workload.queue, cluster);
            Managed::Together(Arc::new(workload))
        }
    }
}

/// The priority of a workload: that which is stated, or else that of its pods.
fn priority(
    stated: Option<&QueuePriority>,
    of_pods: Option<i32>,
    (cluster, span): (&Cluster, Span),
    report: &mut Report,
) -> i32 {
    match stated {
        Some(QueuePriority::Value(value)) => *value,
        Some(QueuePriority::Class(name)) => {
            let class = cluster.queues.priorities.iter().find(|class| class.name == *name);
            class_value(name, class.map(|class| class.spec), cluster, span, report)
        }
        None => of_pods.unwrap_or(0),
    }
}

/// Takes over what Kueue knows of the workload.
fn follow(workload: &mut QueuedWorkload, listed: &ListedWorkload, cluster: &Cluster) {
    workload.name = Arc::clone(&listed.name);
    if !listed.uid.is_empty() {
        workload.uid = Arc::clone(&listed.uid);
    }
    workload.created = created(listed.created, cluster).or(workload.created);
    for set in &mut workload.pod_sets {
        let Some(stated) = listed.set_of(&set.name) else { continue };
        (set.count, set.min_count) = (stated.count.max(1), stated.min_count.or(set.min_count));
        set.requests = requests(&stated.template);
        set.node_selector = stated.template.spec.node_selector.clone();
        set.affinity = affinity(&stated.template);
        set.tolerations = stated.template.spec.tolerations.clone();
        set.topology = stated.topology.as_ref().map(topology).or(set.topology.take());
    }
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
    QueuedPodSet {
        name: if set.name.is_empty() { Arc::from("main") } else { Arc::clone(&set.name) },
        count: set.parallelism.unwrap_or(set.wanted).min(set.wanted),
        min_count: set.min_count,
        in_turn: set.parallelism.is_some() || (controller.kind == Kind::Job && set.has_completions),
        requests: requests(&set.template),
        node_selector: set.template.spec.node_selector.clone(),
        affinity: affinity(&set.template),
        tolerations: set.template.spec.tolerations.clone(),
        topology: set.topology.as_ref().map(topology),
    }
}

fn topology((kind, key): &(Arc<str>, Arc<str>)) -> QueuedTopology {
    match &**kind {
        "required" => QueuedTopology::Required(Arc::clone(key)),
        "preferred" => QueuedTopology::Preferred(Arc::clone(key)),
        _ => QueuedTopology::Unconstrained,
    }
}

/// The node affinity that a pod requires.
fn affinity(pod: &Pod) -> Vec<NodeSelectorTerm> {
    let required = pod.spec.affinity.node_affinity.required.as_ref();
    required.map_or(Vec::new(), |required| required.node_selector_terms.clone())
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

/// The pod without the gates that Kueue puts on it and removes when it admits it, because a pod waits for its admission
/// before the scheduler sees it. Kueue labels the pods of the jobs that it starts.
pub(super) fn admitted(mut pod: Pod, is_queued: bool, cluster: &Cluster) -> Pod {
    let is_started = || STARTED.iter().any(|label| pod.metadata.labels.contains_key(*label));
    if is_queued || (!cluster.queues.stated.is_empty() && is_started()) {
        pod.spec.scheduling_gates.retain(|gate| !GATES.contains(&&*gate.name));
    }
    pod
}

/// The workload of a pod that is in the files itself; `None` if Kueue does not manage it.
pub(super) fn of_pod(stated: &StatedPod, cluster: &Cluster, report: &mut Report) -> Option<Arc<QueuedWorkload>> {
    let (pod, span) = (&stated.pod, stated.span);
    let labels = &pod.metadata.labels;
    let queue = labels.get(QUEUE).filter(|_| !cluster.queues.stated.is_empty())?;
    if labels.contains_key("kueue.x-k8s.io/pod-group-name") {
        let message = "dryrack admits the pods of a pod group one by one";
        report.warning(span, message, "use a Job or a JobSet, which Kueue admits as a whole");
    }
    let listed = stated.workload.as_deref();
    let class = labels.get("kueue.x-k8s.io/priority-class").cloned().map(QueuePriority::Class);
    let stated_priority = listed.and_then(|listed| listed.priority.clone()).or(class);
    let set = QueuedPodSet {
        name: Arc::from("main"),
        count: 1,
        min_count: None,
        in_turn: false,
        requests: requests(pod),
        node_selector: pod.spec.node_selector.clone(),
        affinity: affinity(pod),
        tolerations: pod.spec.tolerations.clone(),
        topology: None,
    };
    let held = held::of_pod(stated, &set, queue, cluster);
    if pod.spec.node_name.is_some() && held.is_none() {
        let message = format!(
            "no queue of the files has admitted `{}`, which is on a node: it takes no quota",
            pod.metadata.name
        );
        report.warning(span, message, "leave `nodeName` out to let Kueue admit it, or add its queue to the files");
        return None;
    }
    let mut workload = QueuedWorkload {
        namespace: pod.metadata.namespace(),
        name: Arc::from(format!("pod-{}", pod.metadata.name)),
        uid: Arc::clone(&pod.metadata.uid),
        created: created(stated.created, cluster),
        queue: Arc::clone(queue),
        priority: priority(stated_priority.as_ref(), pod.spec.priority, (cluster, span), report),
        pod_sets: vec![set],
        held,
    };
    if let Some(listed) = listed {
        follow(&mut workload, listed, cluster);
    }
    Some(Arc::new(workload))
}
