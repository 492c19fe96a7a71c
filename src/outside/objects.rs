//! Nodes, fleets, jobs and runs in the form of the protocol.

use std::sync::Arc;

use serde_json::{Value, json};

use super::mirror::{Attempt, Mirror};
use dryrack_event::Phase;
use dryrack_fleet::{Blocks, FleetKind, FleetPlacement, IdleDuration, Node, NodeClaim, Placement};
use dryrack_ids::{AttemptId, FleetId, GpuId, NodeId};
use dryrack_units::{Bytes, SimDuration, SimTime};
use dryrack_workload::{
    Backend, Bounds, Demand, DemandKind, Deployment, GpuTake, IdleLimit, JobSpec, Pick, Requirements, RunTerms, Speed,
    Speeds, TaskDemand, TaskSet,
};

fn word(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("plain data")
}

fn nanos(duration: Option<SimDuration>) -> Value {
    duration.map_or(Value::Null, |duration| json!(duration.as_nanos()))
}

/// The name of a run in the protocol, such as `chat/0/1`.
pub fn attempt_name(mirror: &Mirror, attempt: AttemptId) -> String {
    format!("{}/{}/{}", mirror.names.job(attempt.job), attempt.replica, attempt.number)
}

pub fn node(mirror: &Mirror, id: NodeId, node: &Node) -> Value {
    let (shape, status) = (&*node.shape, &node.status);
    let held = mirror.held_on(id);
    let gpus = shape.gpus.iter().zip(&status.gpus).enumerate().map(|(index, (gpu, now))| {
        let part = |claim: &NodeClaim| claim.gpus.iter().find(|part| usize::from(part.index) == index).copied();
        let holders = held.iter().filter_map(|(attempt, claim)| {
            let part = part(claim)?;
            Some(json!({"run": attempt_name(mirror, *attempt), "share": part.share.get(), "memory": part.memory.get()}))
        });
        json!({
            "index": index,
            "type": gpu.model,
            "vendor": gpu.vendor.map(|vendor| vendor.as_str()),
            "memory": gpu.memory.get(),
            "unified": gpu.unified,
            "compute_capability": gpu.compute_capability.map(|capability| capability.to_string()),
            "architecture": gpu.architecture,
            "state": word(&now.state),
            "share_free": status.gpu_share_free(index).get(),
            "memory_free": status.gpu_memory_free(shape, index).get(),
            "foreign": {"share": now.foreign.share.get(), "memory": now.foreign.memory.get()},
            "held_by": holders.collect::<Vec<Value>>(),
        })
    });
    let gpus: Vec<Value> = gpus.collect();
    let holders = held.iter().map(|(attempt, claim)| {
        json!({
            "run": attempt_name(mirror, *attempt),
            "tasks": claim.tasks,
            "cpu_milli": claim.cpu.get(),
            "ram": claim.ram.get(),
            "blocks": claim.blocks.as_slice(),
        })
    });
    json!({
        "name": node.name,
        "state": word(&status.state),
        "machine": shape.machine,
        "os": shape.os.as_str(),
        "arch": shape.arch.as_str(),
        "driver": shape.driver,
        "runtime": shape.runtime,
        "labels": shape.labels,
        "rack": shape.rack,
        "switch": shape.switch,
        "price_micros": shape.price_per_hour.map(|price| price.get()),
        "cpu_milli": shape.cpu.get(),
        "ram": shape.ram.get(),
        "reserved": {
            "cpu_milli": shape.reserved.cpu.get(),
            "ram": shape.reserved.ram.get(),
            "gpu_memory": shape.reserved.gpu_memory.get(),
        },
        "cpu_free_milli": status.cpu_free(shape).get(),
        "ram_free": status.ram_free(shape).get(),
        "gpus": gpus,
        "held_by": holders.collect::<Vec<Value>>(),
        "instance": instance(mirror, id, node),
    })
}

fn instance(mirror: &Mirror, id: NodeId, node: &Node) -> Value {
    let Some(instance) = &node.shape.instance else { return Value::Null };
    let parts = match &instance.blocks {
        Blocks::Auto | Blocks::Count(_) => Value::Null,
        Blocks::Parts(parts) => json!({
            "name": parts.name,
            "per_gpu": parts.per_gpu,
            "share": parts.share.get(),
            "memory": parts.memory.get(),
        }),
    };
    let total = instance.total_blocks.unwrap_or(0) as u16;
    let taken: Vec<u16> = (0..total).filter(|block| node.status.blocks.contains(*block)).collect();
    json!({
        "fleet": mirror.names.fleet(instance.fleet),
        "backend": instance.backend,
        "region": instance.region,
        "spot": instance.spot,
        "offer": instance.offer,
        "disk": instance.disk.get(),
        "state": mirror.instance_state(id).map(|state| state.name()),
        "blocks": instance.total_blocks,
        "blocks_taken": taken,
        "block_parts": parts,
    })
}

pub fn fleet(fleets: &dryrack_fleet::Fleet, id: FleetId) -> Value {
    let spec = fleets.fleet(id);
    let cloud = spec.cloud.as_ref();
    let offers = cloud.map_or(0, |cloud| cloud.capacity.len()) as u32;
    let offers = (0..offers).map(|offer| {
        json!({
            "capacity": fleets.capacity(id, offer),
            "capacity_left": fleets.capacity_left(id, offer),
        })
    });
    let (idle, after) = match cloud.map(|cloud| cloud.idle_duration) {
        None => (Value::Null, None),
        Some(IdleDuration::Usual) => (json!("usual"), None),
        Some(IdleDuration::Off) => (json!("off"), None),
        Some(IdleDuration::After(after)) => (json!("after"), Some(after)),
    };
    json!({
        "name": spec.name,
        "kind": match spec.kind { FleetKind::Ssh => "ssh", FleetKind::Cloud => "cloud" },
        "placement": match spec.placement { FleetPlacement::Any => "any", FleetPlacement::Cluster => "cluster" },
        "blocks": match &spec.blocks {
            Blocks::Auto => json!("auto"),
            Blocks::Count(count) => json!(count),
            Blocks::Parts(parts) => json!(parts.name),
        },
        "nodes": spec.nodes.map(|nodes| json!({"min": nodes.min, "target": nodes.target, "max": nodes.max})),
        "idle": idle,
        "idle_ns": nanos(after),
        "offers": offers.collect::<Vec<Value>>(),
        "instances_left": cloud.map(|_| fleets.instances_left(id)),
    })
}

/// A job. `submitted` is `None` if the program is only asked whether the job would fit.
pub fn job(mirror: &Mirror, spec: &JobSpec, submitted: Option<SimTime>) -> Value {
    let demand = &*spec.demand;
    let mut job = json!({
        "name": spec.name,
        "submitted": submitted.map(|at| at.as_nanos()),
        "replicas": spec.replicas,
        "tasks": demand.tasks,
        "gang": word(&demand.gang),
        "priority": spec.priority,
        "queue": spec.queue,
        "user": spec.user,
        "project": spec.project,
        "estimate_ns": nanos(spec.estimate),
        "time_limit_ns": nanos(spec.time_limit),
        "restart": word(&spec.restart),
        "checkpoints": spec.checkpoints,
    });
    let object = job.as_object_mut().expect("just made");
    object.extend(demand_fields(mirror, demand));
    object.insert("terms".into(), terms(&spec.terms));
    job
}

fn demand_fields(mirror: &Mirror, demand: &Demand) -> serde_json::Map<String, Value> {
    let (mut task, mut sets, mut model, mut required) = (Value::Null, Value::Null, Value::Null, Value::Null);
    match &demand.kind {
        DemandKind::Sets(of) => sets = of.iter().map(task_set).collect(),
        DemandKind::Tasks(of) => task = task_demand(of),
        DemandKind::Model(deployment) => model = deployed(deployment),
        DemandKind::Requirements(requirements) => required = requirement(requirements),
    }
    let pick = demand.pick.as_ref().map_or(Value::Null, |pick| picked(mirror, pick));
    let speeds = demand.speeds.as_deref().map_or(Value::Null, speeds);
    let fields = [
        ("task", task),
        ("sets", sets),
        ("pick", pick),
        ("model", model),
        ("requirements", required),
        ("speeds", speeds),
    ];
    fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// The speed on each type of GPU whose speed is known, in millionths of that of the reference.
fn speeds(speeds: &Speeds) -> Value {
    let speed = |gpu: &Arc<str>, speed: Speed| (gpu.to_string(), json!(speed.as_millionths()));
    let others = speeds.others.iter().map(|known| speed(&known.gpu, known.speed));
    std::iter::once(speed(&speeds.reference, Speed::ONE)).chain(others).collect()
}

fn task_set(set: &TaskSet) -> Value {
    json!({
        "name": set.name,
        "tasks": set.tasks,
        "min_tasks": set.min_tasks,
        "task": task_demand(&set.task),
    })
}

fn task_demand(task: &TaskDemand) -> Value {
    let gpus = task.gpus.as_ref().map_or(Value::Null, |gpus| {
        let (take, share, memory) = match gpus.take {
            GpuTake::Whole => ("whole", None, None),
            GpuTake::Share(share) => ("share", Some(share.get()), None),
            GpuTake::Memory(memory) => ("memory", None, Some(memory.get())),
        };
        json!({
            "count": gpus.count,
            "take": take,
            "share": share,
            "memory": memory,
            "types": gpus.models,
            "min_memory": gpus.min_memory.map(Bytes::get),
        })
    });
    json!({
        "cpu_milli": task.cpu.get(),
        "ram": task.ram.get(),
        "labels": task.labels,
        "os": task.os.map(|os| os.as_str()),
        "arch": task.arch.map(|arch| arch.as_str()),
        "gpus": gpus,
    })
}

fn picked(mirror: &Mirror, pick: &Pick) -> Value {
    let gpu = |gpu: &GpuId| json!([mirror.names.node(gpu.node), gpu.index]);
    match pick {
        Pick::Nodes(nodes) => {
            json!({"nodes": nodes.iter().map(|node| mirror.names.node(*node)).collect::<Vec<_>>()})
        }
        Pick::Gpus(gpus) => json!({"gpus": gpus.iter().map(gpu).collect::<Vec<_>>()}),
        Pick::AllGpus(gpus) => json!({"all_gpus": gpus.iter().map(gpu).collect::<Vec<_>>()}),
    }
}

fn deployed(deployment: &Deployment) -> Value {
    let model = &deployment.model;
    let gguf = match &deployment.backend {
        Backend::Vllm | Backend::Sglang => Value::Null,
        Backend::LlamaBox(estimate) => word(estimate),
    };
    json!({
        "name": model.name,
        "categories": model.categories.iter().map(|category| category.as_str()).collect::<Vec<_>>(),
        "architecture": model.architecture,
        "weights": model.weights.get(),
        "heads": model.heads,
        "vision_heads": model.vision_heads,
        "vocabulary": model.vocabulary,
        "quantization": model.quantization,
        "backend": deployment.backend.name(),
        "gguf": gguf,
        "strategy": word(&deployment.strategy),
        "distributable": deployment.distributable,
        "selector": deployment.selector,
        "gpus_per_replica": deployment.gpus_per_replica,
        "arguments": deployment.arguments,
        "environment": deployment.environment,
    })
}

fn requirement(requirements: &Requirements) -> Value {
    fn bytes(bounds: &Bounds<Bytes>) -> Value {
        json!({"min": bounds.min.map(Bytes::get), "max": bounds.max.map(Bytes::get)})
    }
    fn range<T: serde::Serialize + Copy>(bounds: &Bounds<T>) -> Value {
        json!({"min": bounds.min, "max": bounds.max})
    }
    let gpu = requirements.gpu.as_ref().map_or(Value::Null, |gpu| {
        json!({
            "vendor": gpu.vendor.map(|vendor| vendor.as_str()),
            "names": gpu.names,
            "count": range(&gpu.count),
            "memory": gpu.memory.as_ref().map(bytes),
            "total_memory": gpu.total_memory.as_ref().map(bytes),
            "compute_capability": gpu.compute_capability.map(|capability| capability.to_string()),
        })
    });
    json!({
        "cpu": range(&requirements.cpu),
        "arch": requirements.arch.map(|arch| arch.as_str()),
        "memory": bytes(&requirements.memory),
        "disk": requirements.disk.as_ref().map(bytes),
        "gpu": gpu,
        "max_price_micros": requirements.max_price.map(|price| price.get()),
        "spot": word(&requirements.spot),
        "backends": requirements.backends,
        "regions": requirements.regions,
        "fleets": requirements.fleets,
        "creation": word(&requirements.creation),
    })
}

fn terms(terms: &RunTerms) -> Value {
    let retry =
        terms.retry.as_ref().map(|retry| json!({"on": word(&retry.on), "duration_ns": nanos(Some(retry.duration))}));
    let (idle, after) = match terms.idle {
        None => (Value::Null, None),
        Some(IdleLimit::Off) => (json!("off"), None),
        Some(IdleLimit::After(after)) => (json!("after"), Some(after)),
    };
    json!({
        "retry": retry,
        "startup": word(&terms.startup),
        "stop": word(&terms.stop),
        "idle": idle,
        "idle_ns": nanos(after),
    })
}

pub fn attempt(mirror: &Mirror, id: AttemptId, attempt: &Attempt) -> Value {
    json!({
        "run": attempt_name(mirror, id),
        "job": mirror.names.job(id.job),
        "replica": id.replica,
        "attempt": id.number,
        "phase": attempt.phase.name(),
        "since": attempt.since.as_nanos(),
        "waits": attempt.waits,
        "queued": attempt.queued,
        "parts": if attempt.phase == Phase::Ended { Vec::new() } else { parts(mirror, id, &attempt.placement) },
        "ended": attempt.ended.map(|(outcome, because)| json!({"outcome": outcome.name(), "because": because.name()})),
    })
}

fn parts(mirror: &Mirror, id: AttemptId, placement: &Placement) -> Vec<Value> {
    let sets = mirror.jobs.get(&id.job).map_or(&[][..], |job| job.spec.demand.sets());
    let part = |claim: &NodeClaim| {
        let gpu = |part: &dryrack_fleet::GpuClaim| json!({"index": part.index, "share": part.share.get(), "memory": part.memory.get()});
        let tasks_of_sets = claim.sets.as_deref().map(|counts| -> serde_json::Map<String, Value> {
            let here = sets.iter().zip(counts).filter(|(_, count)| **count > 0);
            here.map(|(set, count)| (set.name.to_string(), json!(count))).collect()
        });
        json!({
            "node": mirror.names.node(claim.node),
            "tasks": claim.tasks,
            "sets": tasks_of_sets,
            "cpu_milli": claim.cpu.get(),
            "ram": claim.ram.get(),
            "gpus": claim.gpus.iter().map(gpu).collect::<Vec<Value>>(),
            "blocks": claim.blocks.as_slice(),
        })
    };
    placement.claims().iter().map(part).collect()
}
