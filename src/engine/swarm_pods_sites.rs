//! What only some random worlds of pods have: other settings of kube-scheduler, pods that wait for what nothing brings, and
//! Kueue with topologies, weights, split resource groups and preemption while borrowing.
//!
//! Each part has a random stream of its own, so that worlds without it stay as they are.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rehearsal::Rehearsal;
use dryrack_control::{FlowOptions, KubernetesOptions, Profile};
use dryrack_fleet::NodeShape;
use dryrack_objects::{ClusterObjects, Pod};
use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, JobSpec, QueuedPart, QueuedTopology, QueuedWorkload};

const FPGA: &str = "example.com/fpga";
const GPU: &str = "nvidia.com/gpu";
const OTHER_SCHEDULER: &str = "another";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a drawn object is valid")
}

/// Whether the world of this seed may have these parts. No world that once failed is among them, so each stays as it was.
pub(super) fn has_sites(seed: u64) -> bool {
    seed % 10 == 8
}

/// Draws other settings of kube-scheduler and of its queue.
pub(super) fn vary_scheduler(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm scheduler options", 0);
    let mut profile = Profile::clone(&world.profile);
    let FlowOptions::Kubernetes(options) = &mut profile.flow else { return };
    if !draws.chance(600) {
        return;
    }
    draw_settings(&mut draws, options);
    if draws.chance(150) {
        options.scheduler_name = OTHER_SCHEDULER.to_string();
        each_pod(world, |pod| {
            if draws.chance(700) {
                pod.spec.scheduler_name = Some(Arc::from(OTHER_SCHEDULER));
            }
        });
    }
    world.profile = Arc::new(profile);
}

fn draw_settings(draws: &mut Stream, options: &mut KubernetesOptions) {
    options.default_toleration = SimDuration::from_secs(*draws.pick(&[0, 30, 300, 3600]));
    if let Some(gangs) = &mut options.gang_scheduling {
        gangs.timeout = SimDuration::from_secs(*draws.pick(&[1, 30, 300]));
    }
    options.queue.initial_backoff = SimDuration::from_secs(*draws.pick(&[1, 1, 5, 30]));
    options.queue.max_backoff = options.queue.initial_backoff.saturating_mul(*draws.pick(&[1, 4, 60]));
    let scheduler = &mut options.scheduler;
    let (hostname, zone) = (Arc::from("kubernetes.io/hostname"), Arc::from("zone"));
    scheduler.default_spread = match draws.between(0, 3) {
        0 => Vec::new(),
        1 => vec![(zone, 1)],
        2 => vec![(hostname, 1), (zone, 2)],
        _ => std::mem::take(&mut scheduler.default_spread),
    };
    scheduler.hard_pod_affinity_weight = *draws.pick(&[0, 1, 100]);
    scheduler.percentage_of_nodes_to_score = *draws.pick(&[0, 1, 50, 100]);
    scheduler.preemption.min_candidate_nodes_percentage = *draws.pick(&[0, 10, 100]);
    scheduler.preemption.min_candidate_nodes_absolute = *draws.pick(&[1, 2, 100]);
    let shapes = [r#"{"0": 0, "100": 10}"#, r#"{"0": 10, "100": 0}"#, r#"{"0": 3, "40": 10, "70": 0, "100": 5}"#];
    if draws.chance(400) {
        let strategy = format!(r#"{{"RequestedToCapacityRatio": {}}}"#, draws.pick(&shapes));
        scheduler.fit.kind = serde_json::from_str(&strategy).expect("a strategy");
    }
}

/// Calls a function with each pod that a job states.
fn each_pod(world: &mut Rehearsal, mut change: impl FnMut(&mut Pod)) {
    for arrival in &mut world.arrivals {
        let Some(stated) = &arrival.spec.pod else { continue };
        let mut pod = Pod::clone(stated);
        change(&mut pod);
        set_pod(arrival, pod);
    }
}

fn set_pod(arrival: &mut Arrival, pod: Pod) {
    arrival.spec = Arc::new(JobSpec { pod: Some(Arc::new(pod)), ..JobSpec::clone(&arrival.spec) });
}

/// Draws pods with scheduling gates, of gangs and device classes that do not exist, and with further resources, which some
/// nodes have.
pub(super) fn vary_pods(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm pods that lack something", 0);
    if !draws.chance(600) {
        return;
    }
    let has_fpgas = draws.chance(400);
    if has_fpgas {
        for node in &mut world.nodes {
            let Some(manifest) = node.spec.shape.kubernetes.as_ref().filter(|_| draws.chance(500)) else { continue };
            let mut status = serde_json::to_value(&manifest.status).expect("a status");
            status["allocatable"][FPGA] = json!(draws.between(1, 4).to_string());
            let manifest = dryrack_fleet::KubernetesNode { status: read(status), ..(**manifest).clone() };
            let shape = NodeShape { kubernetes: Some(Arc::new(manifest)), ..NodeShape::clone(&node.spec.shape) };
            node.spec.shape = Arc::new(shape);
        }
    }
    each_pod(world, |pod| {
        if draws.chance(50) {
            pod.spec.scheduling_gates = read(json!([{"name": "example.com/hold"}]));
        }
        if pod.spec.workload_ref.is_some() && draws.chance(150) {
            pod.spec.workload_ref = Some(read(json!({"name": "gone", "podGroup": "tasks"})));
        }
        if let Some(container) = pod.spec.containers.first_mut()
            && has_fpgas
            && draws.chance(300)
        {
            let amount = json!({FPGA: draws.between(1, 2).to_string()});
            container.resources.requests.extend(read::<dryrack_objects::ResourceList>(amount));
        }
    });
    if let Some(objects) = &world.objects {
        let mut objects = ClusterObjects::clone(objects);
        let requests = objects.resource_claims.iter_mut().flat_map(|claim| &mut claim.spec.devices.requests);
        for exactly in requests.filter_map(|request| request.exactly.as_mut()) {
            if draws.chance(200) {
                exactly.device_class_name = Arc::from("gone.example.com");
            }
        }
        world.objects = Some(Arc::new(objects));
    }
}

/// What the Kueue of a world has beside queues and cohorts.
struct KueueParts {
    is_fair: bool,
    is_split: bool,
    is_tight: bool,
    has_taints: bool,
    has_topology: bool,
}

/// Draws further settings of Kueue, and workloads that use them.
pub(super) fn vary_kueue(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm kueue options", 0);
    if world.kueue.is_empty() || !draws.chance(600) {
        return;
    }
    let parts = KueueParts {
        is_fair: draws.chance(400),
        is_split: draws.chance(200),
        is_tight: draws.chance(500),
        has_taints: draws.chance(200),
        has_topology: draws.chance(400),
    };
    for (at, text) in &mut world.kueue {
        let mut objects: Vec<Value> = serde_json::from_str(text).expect("a list of objects");
        objects.iter_mut().for_each(|object| vary_object(&mut draws, &parts, object));
        if *at == SimTime::ZERO {
            add_kueue_objects(&mut draws, &parts, &mut objects);
        }
        *text = Arc::from(Value::Array(objects).to_string());
    }
    for arrival in &mut world.arrivals {
        if let Some(queued) = arrival.spec.queued.clone() {
            vary_workload(&mut draws, &parts, arrival, &queued);
        }
    }
}

fn add_kueue_objects(draws: &mut Stream, parts: &KueueParts, objects: &mut Vec<Value>) {
    objects.push(json!({"kind": "LocalQueue", "metadata": {"name": "lost"}, "spec": {"clusterQueue": "gone"}}));
    let is_configuration = |object: &Value| object["kind"] == "Configuration";
    if parts.is_fair && !objects.iter().any(is_configuration) {
        let strategies = [
            json!([]),
            json!(["LessThanInitialShare"]),
            json!(["LessThanOrEqualToFinalShare"]),
            json!(["LessThanInitialShare", "LessThanOrEqualToFinalShare"]),
        ];
        let sharing = json!({"enable": true, "preemptionStrategies": draws.pick(&strategies)});
        objects.push(json!({"kind": "Configuration", "fairSharing": sharing}));
    }
    if parts.has_topology {
        let levels = json!([{"nodeLabel": "zone"}, {"nodeLabel": "kubernetes.io/hostname"}]);
        objects.push(json!({"kind": "Topology", "metadata": {"name": "zones"}, "spec": {"levels": levels}}));
    }
}

fn vary_object(draws: &mut Stream, parts: &KueueParts, object: &mut Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let spec = &mut object["spec"];
    let weight = |draws: &mut Stream| json!({"weight": draws.pick(&["0", "1", "2", "500m"])});
    match (&*kind, &*name) {
        ("ClusterQueue", _) => {
            if parts.is_fair && draws.chance(500) {
                spec["fairSharing"] = weight(draws);
            }
            vary_queue(draws, parts, spec);
            if parts.is_tight {
                tighten(draws, spec);
            }
        }
        ("Cohort", _) => {
            if parts.is_fair && draws.chance(300) {
                spec["fairSharing"] = weight(draws);
            }
            if draws.chance(300) {
                let quota = json!([{"name": GPU, "nominalQuota": draws.between(0, 6).to_string()}]);
                let flavors = json!([{"name": "any", "resources": quota}]);
                spec["resourceGroups"] = json!([{"coveredResources": [GPU], "flavors": flavors}]);
            }
        }
        ("ResourceFlavor", "any") if parts.has_taints => {
            spec["nodeTaints"] = json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]);
        }
        ("ResourceFlavor", "east") if parts.has_topology => spec["topologyName"] = json!("zones"),
        _ => {}
    }
}

fn vary_queue(draws: &mut Stream, parts: &KueueParts, spec: &mut Value) {
    if draws.chance(300) {
        let pick = |draws: &mut Stream| *draws.pick(&["MayStopSearch", "TryNextFlavor"]);
        spec["flavorFungibility"] = json!({"whenCanBorrow": pick(draws), "whenCanPreempt": pick(draws)});
    }
    if spec["preemption"]["reclaimWithinCohort"] != "Never" && draws.chance(500) {
        let mut borrow = json!({"policy": "LowerPriority"});
        if draws.chance(500) {
            borrow["maxPriorityThreshold"] = json!(draws.between(0, 1));
        }
        spec["preemption"]["borrowWithinCohort"] = borrow;
    }
    let of_east = spec["resourceGroups"][0]["flavors"].as_array().and_then(|flavors| {
        let east = flavors.iter().find(|flavor| flavor["name"] == "east")?;
        Some((flavors.iter().find(|flavor| flavor["name"] == "any")?.clone(), east.clone()))
    });
    // A flavor is in one group of a queue only.
    if let Some((mut any, mut east)) = of_east.filter(|_| parts.is_split) {
        let keep = |flavor: &mut Value, is_gpu: bool| {
            let resources = flavor["resources"].as_array_mut().expect("resources of a flavor");
            resources.retain(|quota| (quota["name"] == GPU) == is_gpu);
        };
        keep(&mut any, false);
        keep(&mut east, true);
        spec["resourceGroups"] = json!([
            {"coveredResources": ["cpu", "memory"], "flavors": [any]},
            {"coveredResources": [GPU], "flavors": [east]},
        ]);
    }
}

/// Gives a queue little quota of its own, and lets it borrow the rest from its cohort until others reclaim it.
fn tighten(draws: &mut Stream, spec: &mut Value) {
    spec["stopPolicy"] = json!("None");
    spec["cohortName"] = json!(draws.pick(&["low", "low", "top"]));
    spec["preemption"]["reclaimWithinCohort"] = json!(draws.pick(&["LowerPriority", "Any", "Any"]));
    if draws.chance(500) {
        spec["preemption"]["borrowWithinCohort"] = json!({"policy": "LowerPriority"});
    }
    let groups = spec["resourceGroups"].as_array_mut().expect("groups").iter_mut();
    let flavors = groups.flat_map(|group| group["flavors"].as_array_mut().expect("flavors"));
    for quota in flavors.flat_map(|flavor| flavor["resources"].as_array_mut().expect("quotas")) {
        let (most, unit) = match quota["name"].as_str() {
            Some("cpu") => (8, ""),
            Some("memory") => (16, "Gi"),
            _ => (3, ""),
        };
        *quota = json!({"name": quota["name"], "nominalQuota": format!("{}{unit}", draws.between(0, most))});
    }
}

fn vary_workload(draws: &mut Stream, parts: &KueueParts, arrival: &mut Arrival, queued: &QueuedPart) {
    let mut workload = QueuedWorkload::clone(&queued.workload);
    if draws.chance(80) {
        workload.queue = Arc::from("lost");
    }
    let pod_set = &mut workload.pod_sets[0];
    if parts.has_topology && draws.chance(600) {
        pod_set.topology = Some(match draws.between(0, 4) {
            0 => QueuedTopology::Required(Arc::from("zone")),
            1 => QueuedTopology::Required(Arc::from("kubernetes.io/hostname")),
            2 => QueuedTopology::Preferred(Arc::from("zone")),
            3 => QueuedTopology::Preferred(Arc::from("kubernetes.io/hostname")),
            _ => QueuedTopology::Unconstrained,
        });
    }
    if let Some(pod) = &arrival.spec.pod {
        pod_set.tolerations.clone_from(&pod.spec.tolerations);
        let fpgas = pod.spec.containers.iter().flat_map(|container| &container.resources.requests);
        pod_set
            .requests
            .extend(fpgas.filter(|(name, _)| &***name == FPGA).map(|(name, amount)| (name.clone(), *amount)));
        if draws.chance(300) {
            let mut pod = Pod::clone(pod);
            pod.spec.scheduling_gates.extend(read::<Vec<_>>(json!([{"name": "kueue.x-k8s.io/admission"}])));
            set_pod(arrival, pod);
        }
    }
    let part = QueuedPart { workload: Arc::new(workload), ..queued.clone() };
    arrival.spec = Arc::new(JobSpec { queued: Some(Arc::new(part)), ..JobSpec::clone(&arrival.spec) });
}
