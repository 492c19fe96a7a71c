//! What random worlds of pods have besides their pods: disruption budgets, services, owners, grace periods, pods of other
//! schedulers, pods that state their node, and device claims.
//!
//! The draws have a stream of their own, so that they move no others.

use std::sync::Arc;

use serde_json::{Value, json};

use super::rehearsal::{InitialNode, Rehearsal};
use dryrack_fleet::{DeviceName, GpuShape, NodeShape, PublishedDevice};
use dryrack_objects::{ClusterObjects, Pod};
use dryrack_rng::Stream;
use dryrack_units::{Bytes, GpuShare, SimDuration};
use dryrack_workload::{JobBehavior, JobSpec};

const APPS: [&str; 3] = ["web", "train", "batch"];
const DRIVER: &str = "gpu.example.com";

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a drawn object is valid")
}

/// Adds them to half of all worlds.
pub(super) fn add_objects(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm objects", 0);
    if !draws.chance(500) {
        return;
    }
    let mut objects = world.objects.as_deref().cloned().unwrap_or_default();
    if draws.chance(500) {
        add_budgets(&mut draws, &mut objects);
    }
    for app in APPS {
        if draws.chance(300) {
            objects.services.push(read(json!({"metadata": {"name": app}, "spec": {"selector": {"app": app}}})));
        }
        if draws.chance(500) {
            let selector = json!({"selector": {"matchLabels": {"app": app}}});
            objects.replica_sets.push(read(json!({"metadata": {"name": app}, "spec": selector})));
        }
    }
    let has_devices = draws.chance(400) && add_devices(&mut draws, world, &mut objects);
    let nodes: Vec<Arc<str>> = world.nodes.iter().map(|node| Arc::clone(&node.spec.name)).collect();
    for (index, arrival) in world.arrivals.iter_mut().enumerate() {
        let Some(stated) = &arrival.spec.pod else { continue };
        if stated.spec.containers.is_empty() {
            continue;
        }
        let (mut pod, mut behavior) = (Pod::clone(stated), JobBehavior::clone(&arrival.behavior));
        vary(&mut draws, &mut pod, &mut behavior, &nodes);
        let may_claim = has_devices && pod.spec.workload_ref.is_none();
        if may_claim && draws.chance(400) {
            claim(&mut draws, (index, arrival.spec.replicas == 1), &mut pod, &mut objects);
        }
        arrival.spec = Arc::new(JobSpec { pod: Some(Arc::new(pod)), ..JobSpec::clone(&arrival.spec) });
        arrival.behavior = Arc::new(behavior);
    }
    world.objects = Some(Arc::new(objects));
}

fn add_budgets(draws: &mut Stream, objects: &mut ClusterObjects) {
    for app in APPS {
        if !draws.chance(500) {
            continue;
        }
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}});
        match draws.between(0, 3) {
            0 => spec["minAvailable"] = json!(draws.between(0, 4)),
            1 => spec["maxUnavailable"] = json!(draws.between(0, 2)),
            2 => spec["minAvailable"] = json!(format!("{}%", draws.between(0, 100))),
            _ => {}
        }
        let status = json!({"disruptionsAllowed": draws.between(0, 2)});
        objects.pod_disruption_budgets.push(read(json!({"metadata": {"name": app}, "spec": spec, "status": status})));
    }
}

/// An owner, a grace period, another scheduler, or a stated node.
fn vary(draws: &mut Stream, pod: &mut Pod, behavior: &mut JobBehavior, nodes: &[Arc<str>]) {
    if draws.chance(400) {
        let app = pod.metadata.labels.get("app").cloned().unwrap_or_default();
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": &*app, "controller": true});
        pod.metadata.owner_references = vec![read(owner)];
    }
    if draws.chance(300) {
        let seconds = draws.between(0, 90);
        pod.spec.termination_grace_period_seconds = Some(seconds as i64);
        behavior.stop = behavior.stop.min(SimDuration::from_secs(seconds));
    }
    if draws.chance(100) {
        pod.spec.scheduler_name = Some(Arc::from("another"));
    }
    if draws.chance(100) && !nodes.is_empty() {
        pod.spec.node_name = Some(match draws.chance(100) {
            true => Arc::from("nowhere"),
            false => Arc::clone(draws.pick(nodes)),
        });
    }
}

/// Publishes devices on some nodes. Returns whether there are any.
fn add_devices(draws: &mut Stream, world: &mut Rehearsal, objects: &mut ClusterObjects) -> bool {
    let class = json!({"cel": {"expression": format!("device.driver == '{DRIVER}'")}});
    objects.device_classes.push(read(json!({"metadata": {"name": DRIVER}, "spec": {"selectors": [class]}})));
    let mut has_some = false;
    for node in &mut world.nodes {
        if node.spec.shape.instance.is_some() || draws.chance(400) {
            continue;
        }
        has_some = true;
        publish(draws, node, objects);
    }
    has_some
}

/// Publishes GPUs of a node, some of them as two halves.
fn publish(draws: &mut Stream, node: &mut InitialNode, objects: &mut ClusterObjects) {
    let mut shape = NodeShape::clone(&node.spec.shape);
    let name = Arc::clone(&node.spec.name);
    let mut devices = Vec::new();
    for number in 0..draws.between(1, 4) {
        let gpu = shape.gpus.len() as u16;
        shape.gpus.push(GpuShape::of("claimed", Bytes::from_gib(80)));
        let whole = shape.gpu_memory_capacity(usize::from(gpu));
        let parts: &[&str] = if draws.chance(300) { &["a", "b"] } else { &[""] };
        for part in parts {
            let share = GpuShare::new(1000 / parts.len() as u32);
            let device: Arc<str> = Arc::from(format!("gpu-{number}{part}"));
            devices.push(json!({"name": &*device}));
            let name = DeviceName { driver: Arc::from(DRIVER), pool: Arc::clone(&name), device };
            shape.devices.push(PublishedDevice { name, gpu, share, memory: share.of(whole) });
        }
    }
    let pool = json!({"name": &*name, "generation": 1, "resourceSliceCount": 1});
    objects.resource_slices.push(read(json!({
        "metadata": {"name": &*name},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": &*name, "devices": devices},
    })));
    node.spec.shape = Arc::new(shape);
}

/// Gives a pod a claim: one that all replicas of the job share, one that several jobs share, or one that does not exist.
/// The claim of a job with one pod may be made from a template.
fn claim(draws: &mut Stream, (index, is_alone): (usize, bool), pod: &mut Pod, objects: &mut ClusterObjects) {
    let (name, is_made) = match draws.between(0, 9) {
        0 => ("missing".to_string(), false),
        1..=3 => ("shared".to_string(), objects.resource_claims.iter().all(|claim| &*claim.metadata.name != "shared")),
        _ => (format!("claim-{index}"), true),
    };
    if is_made {
        let exactly = match draws.chance(200) {
            true => json!({"deviceClassName": DRIVER, "allocationMode": "All"}),
            false => json!({"deviceClassName": DRIVER, "count": draws.between(1, 3)}),
        };
        let spec = json!({"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}});
        objects.resource_claims.push(read(json!({"metadata": {"name": name}, "spec": spec})));
    }
    let is_of_template = draws.chance(500) && is_alone && name.starts_with("claim-");
    let mut stated = json!({"name": "gpus", "resourceClaimName": name});
    if is_of_template {
        stated["resourceClaimTemplateName"] = json!(format!("template-{index}"));
    }
    pod.spec.resource_claims = vec![read(stated)];
}
