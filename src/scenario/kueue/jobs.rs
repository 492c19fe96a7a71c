//! Jobs in short words that wait for Kueue: the LocalQueue that they name, and their pod sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_catalog::{self as catalog, Vendor};
use dryrack_control::Profile;
use dryrack_objects::{Quantity, ResourceList};
use dryrack_workload::{
    Demand, DemandKind, GpuTake, JobSpec, QueuedPart, QueuedPodSet, QueuedTopology, QueuedWorkload, TaskDemand, TaskSet,
};
use dryrack_yaml::{Fields, Report};

use super::super::world::World;

const TOPOLOGY: [&str; 3] = ["required", "preferred", "unconstrained"];

/// Takes the least number of tasks from a gang that Kueue may shrink, if its tasks become pods of their own.
pub(in super::super) fn least_of_pods(demand: &mut Demand, world: &World, profile: &Profile) -> Option<u32> {
    if !profile.flow.places_pods() || world.local_queues.is_none() {
        return None;
    }
    let [TaskSet { tasks, min_tasks, task, .. }] = demand.sets() else { return None };
    let (tasks, least) = (*tasks, *min_tasks);
    *demand = Demand { tasks, kind: task.clone().into(), ..demand.clone() };
    (least < tasks).then_some(least)
}

/// The part of a job in its workload; `None` if the job does not wait for Kueue. The workload has no name yet.
pub(in super::super) fn queued(
    fields: &Fields<'_>,
    spec: &JobSpec,
    least: Option<u32>,
    world: &World,
    report: &mut Report,
) -> Option<Arc<QueuedPart>> {
    let topology = topology(fields, report);
    let known = world.local_queues.as_ref();
    if fields.has("topology") && (known.is_none() || spec.queue.is_none()) {
        let help = "add `kueue:` and name a queue in the job";
        report.error_with_help(fields.key_span("topology"), "only a job in a queue of Kueue has a topology", help);
    }
    let (known, queue) = (known?, spec.queue.as_ref()?);
    let (namespace, queue) = found(queue, known, fields, report)?;
    let demand = &spec.demand;
    let set = |name: &Arc<str>, count, min_count: Option<u32>, task: &TaskDemand| QueuedPodSet {
        name: Arc::clone(name),
        count,
        min_count,
        in_turn: false,
        requests: requests(task),
        node_selector: task.labels.clone(),
        affinity: Vec::new(),
        tolerations: Vec::new(),
        topology: topology.clone(),
    };
    let is_part = |task: &TaskDemand| task.gpus.as_ref().is_some_and(|gpus| gpus.take != GpuTake::Whole);
    let refuse = |message: &str, help: &str, report: &mut Report| {
        report.error_with_help(fields.key_span("queue"), message, help);
        None
    };
    if demand.kinds_of_tasks().any(|(_, task)| is_part(task)) {
        return refuse("Kueue counts whole GPUs, not parts of them", "ask for whole GPUs, or name no queue", report);
    }
    if spec.scaling.is_some() {
        return refuse("a service that scales cannot wait for Kueue", "state a number of `replicas`", report);
    }
    let (pod_sets, pod_set) = match &demand.kind {
        DemandKind::Tasks(task) => (vec![set(&Arc::from("main"), demand.tasks * spec.replicas, least, task)], Some(0)),
        DemandKind::Sets(_) if spec.replicas > 1 => {
            let help = "write `replicas: 1`, or use several jobs";
            return refuse("a gang of several kinds of tasks is one workload of Kueue", help, report);
        }
        DemandKind::Sets(sets) => {
            let of_set = |own: &TaskSet| {
                set(&own.name, own.tasks, (own.min_tasks < own.tasks).then_some(own.min_tasks), &own.task)
            };
            (sets.iter().map(of_set).collect(), None)
        }
        DemandKind::Model(_) | DemandKind::Requirements(_) => {
            let help = "state `gpus`, `cpus` and `ram` of each task";
            return refuse("Kueue needs to know what each pod requests", help, report);
        }
    };
    let (name, uid) = (Arc::from(""), Arc::from(""));
    let priority = spec.priority;
    let workload = QueuedWorkload { namespace, name, uid, created: None, queue, priority, pod_sets, held: None };
    Some(Arc::new(QueuedPart { workload: Arc::new(workload), pod_set }))
}

/// The namespace and the name of the LocalQueue that a job names: `team-a`, or `research/team-a`. Without a namespace,
/// it is the queue in the default namespace, or else the only one of this name.
fn found(
    typed: &str,
    known: &BTreeMap<String, BTreeSet<Arc<str>>>,
    fields: &Fields<'_>,
    report: &mut Report,
) -> Option<(Arc<str>, Arc<str>)> {
    let span = fields.get("queue").map_or(fields.place(), |tree| tree.span);
    let (namespace, name) = typed.split_once('/').map_or((None, typed), |(namespace, name)| (Some(namespace), name));
    let namespaces: Vec<&Arc<str>> = known.get(name).into_iter().flatten().collect();
    let wanted = |one: &&&Arc<str>| &****one == namespace.unwrap_or("default");
    let found = match &namespaces[..] {
        [only] if namespace.is_none() => Some(only),
        all => all.iter().find(wanted),
    };
    if let Some(found) = found {
        return Some((Arc::clone(found), Arc::from(name)));
    }
    if let ([first, _, ..], None) = (&namespaces[..], namespace) {
        let list: Vec<&str> = namespaces.iter().map(|one| &***one).collect();
        let message = format!("several local queues are named `{name}`, in the namespaces {}", list.join(", "));
        report.error_with_help(span, message, format!("write `queue: {first}/{name}`"));
        return None;
    }
    let every = known.iter().flat_map(|(name, all)| all.iter().map(move |one| format!("{one}/{name}")));
    let names: Vec<String> = if namespace.is_some() { every.collect() } else { known.keys().cloned().collect() };
    report.unknown(span, format!("no local queue is named `{typed}`"), typed, names.iter().map(String::as_str));
    None
}

/// The same part in the workload of a job with this name.
pub(in super::super) fn renamed(part: &QueuedPart, job: &Arc<str>) -> Arc<QueuedPart> {
    let workload = QueuedWorkload { name: Arc::clone(job), ..QueuedWorkload::clone(&part.workload) };
    Arc::new(QueuedPart { workload: Arc::new(workload), ..*part })
}

/// Reads `topology: {required: rack}`.
fn topology(fields: &Fields<'_>, report: &mut Report) -> Option<QueuedTopology> {
    let own = Fields::read(fields.get("topology")?, "the topology of a job", &TOPOLOGY, report)?;
    own.exclusive(&TOPOLOGY, "a job has one request", report);
    let label = |key: &str, report: &mut Report| own.text(key, "the key of a label", report).map(Arc::from);
    if let Some(level) = label("required", report) {
        return Some(QueuedTopology::Required(level));
    }
    if let Some(level) = label("preferred", report) {
        return Some(QueuedTopology::Preferred(level));
    }
    own.value::<bool>("unconstrained", report).filter(|is| *is).map(|_| QueuedTopology::Unconstrained)
}

/// What the pod of a task requests.
fn requests(task: &TaskDemand) -> ResourceList {
    let mut list = ResourceList::new();
    let mut add = |name: &str, amount: String| {
        let amount: Quantity = amount.parse().expect("a whole number with a known suffix");
        if !amount.is_zero() {
            list.insert(Arc::from(name), amount);
        }
    };
    add("cpu", format!("{}m", task.cpu.get()));
    add("memory", task.ram.get().to_string());
    if let Some(gpus) = &task.gpus {
        let vendor = gpus.models.iter().find_map(|model| catalog::gpu(model)).map(|model| model.vendor);
        let name = match vendor {
            Some(Vendor::Amd) => "amd.com/gpu",
            Some(Vendor::Intel) => "gpu.intel.com/xe",
            Some(Vendor::Apple) => "apple.com/gpu",
            Some(Vendor::Ascend) => "huawei.com/Ascend910",
            Some(Vendor::Nvidia | Vendor::Tenstorrent) | None => "nvidia.com/gpu",
        };
        add(name, gpus.count.to_string());
    }
    list
}
