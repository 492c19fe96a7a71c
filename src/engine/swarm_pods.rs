//! Random worlds of pods: taints, affinity, spreading, gangs and training that waits for all its pods under the
//! Kubernetes profiles, and Kueue with cohorts, quotas and preemption under every profile with a queue.
//!
//! These worlds are a kind of their own, so that the other random worlds stay as they are.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rehearsal::Rehearsal;
use super::swarm::draw_world;
use super::swarm_objects::add_objects;
use super::swarm_pods_sites::{has_sites, vary_kueue, vary_pods, vary_scheduler};
use dryrack_control::Profile;
use dryrack_fleet::{KubernetesNode, NodeShape};
use dryrack_objects::{ClusterObjects, Pod, ResourceList};
use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{
    Arrival, Backoff, Demand, DemandKind, Gang, GpuTake, JobBehavior, JobSpec, Pick, QueuedPart, QueuedPodSet,
    QueuedWorkload, Restart, Restarts, RetryPolicy, SharedRetry, TaskDemand,
};

const GPU: &str = "nvidia.com/gpu";
const APPS: [&str; 3] = ["web", "train", "batch"];
const QUEUES: [&str; 3] = ["a", "b", "c"];

/// Draws the world of pods of one seed.
pub fn draw_pod_world(seed: u64, profiles: &[Arc<Profile>]) -> Rehearsal {
    let mut draws = Stream::new(seed, "swarm pods", 0);
    let has_kueue = draws.chance(500);
    let only_queue = has_kueue && draws.chance(300);
    let is_drawn = |profile: &&Arc<Profile>| match only_queue {
        true => profile.waits_for_admission() && !profile.flow.places_pods(),
        false => profile.flow.places_pods(),
    };
    let pool: Vec<Arc<Profile>> = profiles.iter().filter(is_drawn).cloned().collect();
    let mut world = draw_world(seed, &pool);
    if !only_queue {
        add_pods(&mut draws, &mut world);
        share_retries(seed, &mut world);
        add_stateful_sets(seed, &mut world);
        add_objects(seed, &mut world);
        if has_sites(seed) {
            vary_pods(seed, &mut world);
        }
    }
    if has_kueue {
        add_kueue(&mut draws, &mut world);
        if has_sites(seed) {
            vary_kueue(seed, &mut world);
        }
    }
    if has_sites(seed) {
        vary_scheduler(seed, &mut world);
    }
    world
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a drawn object is valid")
}

fn add_pods(draws: &mut Stream, world: &mut Rehearsal) {
    if draws.chance(500) {
        for node in &mut world.nodes {
            if draws.chance(500) {
                node.spec.shape = Arc::new(tainted(draws, &node.spec.shape));
            }
        }
    }
    let has_gangs = world.profile.flow.kubernetes().is_some_and(|options| options.gang_scheduling.is_some());
    let mut gangs = Vec::new();
    let mut alone = Vec::new();
    for (index, arrival) in world.arrivals.iter_mut().enumerate() {
        let mut spec = JobSpec::clone(&arrival.spec);
        let Some(task) = one_task(&mut spec) else { continue };
        let mut behavior = JobBehavior::clone(&arrival.behavior);
        // The pod below asks for no GPU model or operating system.
        let is_of_any = task.os.is_none()
            && task.gpus.as_ref().is_none_or(|gpus| gpus.models.is_empty() && gpus.min_memory.is_none());
        if draws.chance(600) && is_of_any {
            spec.pod = Some(Arc::new(draw_pod(draws, &spec, &task)));
        }
        let may_wait_for_all = spec.scaling.is_none() && spec.replicas > 1;
        if may_wait_for_all && has_gangs && draws.chance(600) {
            let mut pod = spec.pod.as_deref().cloned().unwrap_or_default();
            pod.spec.workload_ref = Some(read(json!({"name": &*spec.name, "podGroup": "tasks"})));
            spec.pod = Some(Arc::new(pod));
            gangs.push(json!({
                "metadata": {"name": &*spec.name},
                "spec": {"podGroups": [{"name": "tasks", "policy": {"gang": {"minCount": spec.replicas}}}]},
            }));
            alone.push(index);
        }
        let ends = behavior.run.is_some() && spec.restart == Restart::Never;
        if may_wait_for_all && ends && draws.chance(400) {
            behavior.together = Some(spec.replicas);
            alone.push(index);
        }
        *arrival = Arrival { spec: Arc::new(spec), behavior: Arc::new(behavior), ..arrival.clone() };
    }
    // A job whose pods wait for each other keeps its number of pods.
    world.scalings.retain(|(_, job, _)| !alone.contains(&job.index()));
    if !gangs.is_empty() {
        let workloads = gangs.into_iter().map(read).collect();
        world.objects = Some(Arc::new(ClusterObjects { workloads, ..ClusterObjects::default() }));
    }
}

/// Lets jobs share their retries, as the pods of a Job and the Jobs of a JobSet do.
fn share_retries(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm shared retries", 0);
    if !draws.chance(400) {
        return;
    }
    let limits = [draws.between(0, 2) as u32, draws.between(2, 6) as u32, draws.between(0, 9) as u32];
    let end_together = draws.chance(300);
    let mut of_restarts = Stream::new(seed, "swarm set restarts", 0);
    let restarts = (end_together && of_restarts.chance(500))
        .then(|| Restarts { most: of_restarts.between(1, 3) as u32, wait_for_all: of_restarts.chance(500) });
    let secs = SimDuration::from_secs;
    let backoff = Backoff { first: secs(10), factor: Permille::new(2000), max: secs(600) };
    for arrival in &mut world.arrivals {
        let spec = &arrival.spec;
        if spec.pod.is_none() || spec.restart != Restart::Never || spec.scaling.is_some() || draws.chance(400) {
            continue;
        }
        let number = draws.index(limits.len());
        let is_in_set = end_together && number > 0;
        let shared = SharedRetry {
            group: format!("default/job-{number}").into(),
            failed: number as u32 / 2,
            ends_with: is_in_set.then(|| "default/set".into()),
            restarts: restarts.filter(|_| is_in_set),
        };
        let retry = Some(Box::new(RetryPolicy { limit: Some(limits[number]), backoff }));
        arrival.spec = Arc::new(JobSpec { shared_retry: Some(Arc::new(shared)), retry, ..JobSpec::clone(spec) });
    }
}

/// Makes some pods those of StatefulSets, and some of these those of groups that start again as a whole.
fn add_stateful_sets(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm stateful sets", 0);
    if !draws.chance(300) {
        return;
    }
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "store", "controller": true}]);
    for arrival in &mut world.arrivals {
        let spec = &arrival.spec;
        let Some(pod) = spec.pod.as_ref().filter(|_| spec.shared_retry.is_none() && draws.chance(400)) else {
            continue;
        };
        let mut pod = Pod::clone(pod);
        pod.metadata.owner_references = read(owner.clone());
        let restarts_with = draws.chance(500).then(|| Arc::from(format!("default/workers-{}", draws.between(0, 2))));
        arrival.spec = Arc::new(JobSpec { pod: Some(Arc::new(pod)), restarts_with, ..JobSpec::clone(spec) });
    }
}

/// Makes each task a pod of its own. `None` if the demand is not one that a pod can have.
fn one_task(spec: &mut JobSpec) -> Option<TaskDemand> {
    let demand = &spec.demand;
    let DemandKind::Tasks(task) = &demand.kind else { return None };
    if demand.pick.as_ref().is_some_and(Pick::is_of_gpus) {
        return None;
    }
    let mut task = task.clone();
    if let Some(gpus) = &mut task.gpus {
        gpus.take = GpuTake::Whole;
    }
    if spec.scaling.is_none() {
        spec.replicas = spec.replicas.saturating_mul(demand.tasks);
    }
    let pick = demand.pick.clone();
    spec.demand = Arc::new(Demand { pick, gang: Gang::Anywhere, ..Demand::of(task.clone()) });
    Some(task)
}

/// The node with taints, and with the allocatable resources that a node without a manifest has.
fn tainted(draws: &mut Stream, shape: &NodeShape) -> NodeShape {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let taint = json!({"key": "dedicated", "value": *draws.pick(&["gpu", "cpu"]), "effect": *draws.pick(&effects)});
    let restricted = u64::from(shape.restricted_cores_per_gpu()) * 1000 * shape.gpus.len() as u64;
    let cpu = shape.cpu.get().saturating_sub(shape.reserved.cpu.get()).saturating_sub(restricted);
    let memory = shape.ram.get().saturating_sub(shape.reserved.ram.get()).to_string();
    let pods = *draws.pick(&["110", "110", "3"]);
    let mut allocatable = json!({"cpu": format!("{cpu}m"), "memory": memory, "pods": pods});
    if !shape.gpus.is_empty() {
        allocatable[GPU] = shape.gpus.len().to_string().into();
    }
    let spec = read(json!({"taints": [taint], "unschedulable": draws.chance(50)}));
    let status = read(json!({ "allocatable": allocatable }));
    NodeShape {
        kubernetes: Some(Arc::new(KubernetesNode { spec, status, ..KubernetesNode::default() })),
        ..shape.clone()
    }
}

fn requests(task: &TaskDemand) -> Value {
    let mut requests = json!({"cpu": format!("{}m", task.cpu.get()), "memory": task.ram.get().to_string()});
    if let Some(gpus) = &task.gpus {
        requests[GPU] = gpus.count.to_string().into();
    }
    requests
}

/// A pod with its own labels, tolerations, spreading and affinity. It requests what the task demands.
fn draw_pod(draws: &mut Stream, spec: &JobSpec, task: &TaskDemand) -> Pod {
    let app = *draws.pick(&APPS);
    let selects = |draws: &mut Stream| json!({"matchLabels": {"app": *draws.pick(&APPS)}});
    let keys = ["kubernetes.io/hostname", "zone"];
    let tolerations = match draws.between(0, 2) {
        0 => json!([]),
        1 => json!([{"operator": "Exists"}]),
        _ => {
            let seconds = if draws.chance(300) { json!(draws.between(0, 600)) } else { Value::Null };
            json!([{"key": "dedicated", "operator": "Equal", "value": "gpu", "tolerationSeconds": seconds}])
        }
    };
    let mut spread = Vec::new();
    if draws.chance(400) {
        spread.push(json!({
            "maxSkew": draws.between(1, 3), "topologyKey": *draws.pick(&keys),
            "whenUnsatisfiable": *draws.pick(&["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}},
            "minDomains": Value::Null,
        }));
    }
    let mut affinity = json!({});
    for kind in ["podAffinity", "podAntiAffinity"] {
        if !draws.chance(250) {
            continue;
        }
        let term = json!({"labelSelector": selects(draws), "topologyKey": *draws.pick(&keys)});
        affinity[kind] = match draws.chance(500) {
            true => json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
            false => json!({"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": draws.between(1, 100), "podAffinityTerm": term}]}),
        };
    }
    let host_port = if draws.chance(100) { 8080 } else { 0 };
    let mut pod: Pod = read(json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{
                "resources": {"requests": requests(task)},
                "ports": [{"hostPort": host_port, "protocol": "TCP"}],
            }],
            "tolerations": tolerations,
            "affinity": affinity,
            "topologySpreadConstraints": spread,
            "preemptionPolicy": *draws.pick(&["PreemptLowerPriority", "PreemptLowerPriority", "Never"]),
        },
    }));
    pod.spec.node_selector = task.labels.clone();
    pod.spec.priority = Some(spec.priority);
    pod
}

/// Adds Kueue with queues in cohorts, and gives most jobs a queue.
fn add_kueue(draws: &mut Stream, world: &mut Rehearsal) {
    // A stream of its own, so that the other draws stay as they are.
    let mut more = Stream::new(world.seed, "swarm flavor tolerations", 0);
    let any = match more.between(0, 3) {
        0 => json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
        1 => json!({"tolerations": [{"operator": "Exists", "tolerationSeconds": more.between(0, 600)}]}),
        _ => json!({}),
    };
    let mut objects = vec![
        json!({"kind": "ResourceFlavor", "metadata": {"name": "east"}, "spec": {"nodeLabels": {"zone": "east"}}}),
        json!({"kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": any}),
        json!({"kind": "Cohort", "metadata": {"name": "top"}, "spec": {}}),
        json!({"kind": "Cohort", "metadata": {"name": "low"}, "spec": {"parentName": "top"}}),
    ];
    if draws.chance(300) {
        objects.push(json!({"kind": "Configuration", "fairSharing": {"enable": true}}));
    }
    for name in QUEUES {
        objects.push(cluster_queue(draws, name));
        let spec = json!({"clusterQueue": name});
        objects.push(json!({"kind": "LocalQueue", "metadata": {"name": name}, "spec": spec}));
    }
    world.kueue = vec![(SimTime::ZERO, as_text(objects))];
    let last = world.arrivals.last().map_or(SimTime::ZERO, |arrival| arrival.at).as_nanos() / 1_000_000_000;
    let mut changes: Vec<u64> = (0..draws.between(0, 3)).map(|_| draws.between(1, last.max(1))).collect();
    changes.sort_unstable();
    for at in changes {
        let name = *draws.pick(&QUEUES);
        world.kueue.push((SimTime::from_secs(at), as_text(vec![cluster_queue(draws, name)])));
    }
    let (mut numbers, per_pod) = (0, world.profile.flow.places_pods());
    let mut queued = Vec::new();
    for (index, arrival) in world.arrivals.iter_mut().enumerate() {
        let mut spec = JobSpec::clone(&arrival.spec);
        let is_simple = spec.scaling.is_none() && (!per_pod || spec.demand.tasks == 1);
        let Some(task) = spec.demand.task().filter(|_| is_simple).cloned() else { continue };
        if draws.chance(200) {
            continue;
        }
        numbers += 1;
        let pods = spec.replicas.saturating_mul(spec.demand.tasks);
        let mut requests: ResourceList = read(requests(&task));
        requests.retain(|_, amount| amount.value() > 0);
        let pod_set = QueuedPodSet {
            name: "main".into(),
            count: pods,
            min_count: (pods > 1 && spec.demand.tasks == 1 && draws.chance(300)).then_some(1),
            in_turn: false,
            requests,
            node_selector: task.labels.clone(),
            affinity: Vec::new(),
            tolerations: Vec::new(),
            topology: None,
        };
        let workload = QueuedWorkload {
            namespace: "default".into(),
            name: format!("workload-{numbers}").into(),
            uid: "".into(),
            created: None,
            // A queue that does not exist leaves its workloads inadmissible.
            queue: Arc::from(*draws.pick(&["a", "a", "a", "b", "b", "c", "gone"])),
            priority: spec.priority,
            pod_sets: vec![pod_set],
            held: None,
        };
        spec.queued = Some(Arc::new(QueuedPart { workload: Arc::new(workload), pod_set: Some(0) }));
        *arrival = Arrival { spec: Arc::new(spec), ..arrival.clone() };
        queued.push(index);
    }
    world.scalings.retain(|(_, job, _)| !queued.contains(&job.index()));
}

fn as_text(objects: Vec<Value>) -> Arc<str> {
    Arc::from(Value::Array(objects).to_string())
}

fn cluster_queue(draws: &mut Stream, name: &str) -> Value {
    let quota = |draws: &mut Stream, resource: &str, most: u64, unit: &str| {
        let mut quota = json!({"name": resource, "nominalQuota": format!("{}{unit}", draws.between(0, most))});
        if draws.chance(300) {
            quota["borrowingLimit"] = format!("{}{unit}", draws.between(0, most)).into();
        }
        if draws.chance(200) {
            quota["lendingLimit"] = format!("{}{unit}", draws.between(0, most)).into();
        }
        quota
    };
    let flavors: &[&str] = if draws.chance(500) { &["any"] } else { &["east", "any"] };
    let flavors: Vec<Value> = (flavors.iter())
        .map(|flavor| {
            let resources =
                json!([quota(draws, "cpu", 30, ""), quota(draws, "memory", 60, "Gi"), quota(draws, GPU, 12, "")]);
            json!({"name": flavor, "resources": resources})
        })
        .collect();
    let policies = ["Never", "LowerPriority", "Any"];
    let within = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"];
    let mut spec = json!({
        "namespaceSelector": {},
        "queueingStrategy": *draws.pick(&["StrictFIFO", "BestEffortFIFO"]),
        "stopPolicy": *draws.pick(&["None", "None", "None", "None", "Hold", "HoldAndDrain"]),
        "preemption": {
            "withinClusterQueue": *draws.pick(&within),
            "reclaimWithinCohort": *draws.pick(&policies),
        },
        "resourceGroups": [{"coveredResources": ["cpu", "memory", GPU], "flavors": flavors}],
    });
    if let Some(cohort) = draws.pick(&[None, Some("top"), Some("low"), Some("low")]) {
        spec["cohortName"] = (*cohort).into();
    }
    json!({"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
}
