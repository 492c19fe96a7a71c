//! Checks that a placement is safe. This code is separate from the scheduler and shares only the records with it, so it
//! cannot share a mistake with the scheduler.

use std::sync::Arc;

use super::instance_claims;
use dryrack_catalog::{Accelerator, CpuArch, Host, mismatch};
use dryrack_event::Safety;
use dryrack_fleet::{Fleet, GpuShape, GpuState, Node, NodeClaim, NodeShape, NodeState, NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_objects::{Effect, Taint, Toleration};
use dryrack_units::{Bytes, GpuShare};
use dryrack_workload::{Demand, DemandKind, Deployment, Gang, GpuDemand, GpuTake, JobSpec, Pick, TaskDemand, TaskSet};

/// All safety rules that this placement would break. Each kind of rule appears at most once for each node. `tolerates`
/// says in which other states than ready a node may be.
pub fn broken_by(
    fleet: &Fleet,
    demand: &Demand,
    placement: &Placement,
    tolerates: impl Fn(NodeState) -> bool,
) -> Vec<(NodeId, Safety)> {
    let mut broken = Vec::new();
    for claim in placement.claims() {
        let node = claim.node;
        if !is_ready(fleet, claim, &tolerates) {
            broken.push((node, Safety::NotReady));
        }
        if overcommits(fleet, claim) || overlaps(fleet, claim) || takes_restricted(fleet, claim) {
            broken.push((node, Safety::Overcommit));
        }
        if !meets_demand(fleet, demand, claim) {
            broken.push((node, Safety::RequirementUnmet));
        }
    }
    if !is_whole(demand, placement) {
        let node = placement.claims().first().map_or(NodeId::new(0), |claim| claim.node);
        broken.push((node, Safety::GangTorn));
    }
    broken
}

/// The tolerations that a job states for its pods.
pub fn stated_tolerations(spec: &JobSpec) -> &[Toleration] {
    spec.pod.as_ref().map_or(&[], |pod| &pod.spec.tolerations)
}

/// Whether a placement holds devices only for a pod that claims some.
pub fn has_its_devices(fleet: &Fleet, spec: &JobSpec, placement: &Placement) -> bool {
    let claims_some = spec.pod.as_ref().is_some_and(|pod| !pod.spec.resource_claims.is_empty());
    let is_of_devices = |claim: &NodeClaim| {
        let shape = &fleet.node(claim.node).shape;
        claim.gpus.iter().any(|part| shape.is_of_devices(part.index))
    };
    claims_some || !placement.claims().iter().any(is_of_devices)
}

/// Whether a pod with these tolerations tolerates the taints that nodes in this state have. Kubernetes binds such a pod
/// to them.
pub fn tolerate_state<'t>(tolerations: impl IntoIterator<Item = &'t Toleration>, state: NodeState) -> bool {
    let (key, effects): (&str, &[Effect]) = match state {
        NodeState::NotReady => (Taint::NOT_READY, &[Effect::NoSchedule, Effect::NoExecute]),
        NodeState::Unreachable => (Taint::UNREACHABLE, &[Effect::NoSchedule, Effect::NoExecute]),
        NodeState::Maintenance => ("node.kubernetes.io/unschedulable", &[Effect::NoSchedule]),
        NodeState::Ready | NodeState::Joining | NodeState::Gone => return false,
    };
    let tolerations: Vec<&Toleration> = tolerations.into_iter().collect();
    let are_tolerated = |effect: &Effect| {
        let taint = Taint { key: Arc::from(key), value: Arc::from(""), effect: *effect };
        tolerations.iter().any(|toleration| toleration.tolerates(&taint))
    };
    effects.iter().all(are_tolerated)
}

fn is_ready(fleet: &Fleet, claim: &NodeClaim, tolerates: &impl Fn(NodeState) -> bool) -> bool {
    let status = &fleet.node(claim.node).status;
    let gpu_ready = |index: u16| match status.gpus[usize::from(index)].state {
        GpuState::Ready | GpuState::Degraded => true,
        GpuState::Draining | GpuState::Failed | GpuState::Unknown => false,
    };
    // An instance that is being provisioned for this claim counts as ready. The attempt starts on it once it is up.
    let is_made_for_it = status.state == NodeState::Joining
        && fleet.node(claim.node).shape.instance.as_ref().is_some_and(|instance| instance.offer.is_some())
        && status.blocks.is_empty();
    let is_ready = status.state == NodeState::Ready || is_made_for_it || tolerates(status.state);
    is_ready && claim.gpus.iter().all(|gpu| gpu_ready(gpu.index))
}

fn overcommits(fleet: &Fleet, claim: &NodeClaim) -> bool {
    let node = fleet.node(claim.node);
    let (shape, status) = (&node.shape, &node.status);
    let cpu = status.cpu_taken.get() + claim.cpu.get() + shape.reserved.cpu.get() > shape.cpu.get();
    let cpu = cpu && claim.cpu.get() > 0;
    let mut ram = status.ram_taken.get() + claim.ram.get() + shape.reserved.ram.get();
    let mut draws_on_ram = claim.ram.get() > 0;
    let mut gpus = false;
    for part in &claim.gpus {
        let index = usize::from(part.index);
        let (gpu, kind) = (&status.gpus[index], &shape.gpus[index]);
        if kind.unified {
            ram += part.memory.get();
            draws_on_ram |= part.memory.get() > 0;
        }
        let share = gpu.taken.get() + gpu.foreign.share.get() + part.share.get();
        let memory =
            gpu.memory_taken.get() + gpu.foreign.memory.get() + part.memory.get() + shape.reserved.gpu_memory.get();
        // Pods that share a claim all hold its devices.
        let is_shared = shape.is_of_devices(part.index);
        gpus |= share > GpuShare::WHOLE.get() && part.share > GpuShare::ZERO && !is_shared;
        gpus |= memory > kind.memory.get() && part.memory > Bytes::ZERO && !is_shared;
    }
    cpu || (draws_on_ram && ram + held_by_unified(shape, status) > shape.ram.get()) || gpus
}

/// Whether the claim takes cores that are restricted to GPUs that it does not hold.
fn takes_restricted(fleet: &Fleet, claim: &NodeClaim) -> bool {
    let node = fleet.node(claim.node);
    let (shape, status) = (&node.shape, &node.status);
    let each = u64::from(shape.restricted_cores_per_gpu());
    if each == 0 {
        return false;
    }
    let own: u64 = claim.gpus.iter().map(|part| u64::from(part.share.get()) * each).sum();
    let all = shape.gpus.len() as u64 * u64::from(GpuShare::WHOLE.get()) * each;
    let others = status.cpu_taken.get() - status.cpu_restricted_taken.get();
    let rest = claim.cpu.get().saturating_sub(own);
    rest > 0 && others + rest + all + shape.reserved.cpu.get() > shape.cpu.get()
}

/// Memory that is taken on GPUs that share the node's RAM.
fn held_by_unified(shape: &NodeShape, status: &NodeStatus) -> u64 {
    let unified = status.gpus.iter().zip(&shape.gpus).filter(|(_, kind)| kind.unified);
    unified.map(|(gpu, _)| gpu.memory_taken.get() + gpu.foreign.memory.get()).sum()
}

/// Whether the claim takes a block that is already held, or takes the same block twice.
fn overlaps(fleet: &Fleet, claim: &NodeClaim) -> bool {
    let held = &fleet.node(claim.node).status.blocks;
    claim.blocks.iter().any(|block| held.contains(*block)) || claim.blocks.windows(2).any(|pair| pair[0] >= pair[1])
}

fn meets_demand(fleet: &Fleet, demand: &Demand, claim: &NodeClaim) -> bool {
    let shape = &fleet.node(claim.node).shape;
    // Only demands with requirements get blocks of an instance. All other demands need a node that is not an instance.
    let has_node = || shape.instance.is_none() && is_picked(demand, claim);
    match &demand.kind {
        DemandKind::Tasks(task) => has_node() && meets_task(fleet, demand, task, claim),
        DemandKind::Model(deployment) => has_node() && can_serve(shape, deployment, claim),
        DemandKind::Requirements(requirements) => instance_claims::meets(fleet, requirements, claim),
        DemandKind::Sets(sets) => has_node() && meets_sets(fleet, sets, claim),
    }
}

fn meets_task(fleet: &Fleet, demand: &Demand, task: &TaskDemand, claim: &NodeClaim) -> bool {
    let node = fleet.node(claim.node);
    let shape = &node.shape;
    let labels = task.labels.iter().all(|(key, value)| has_label(node, key, value));
    let platform = task.os.is_none_or(|os| os == shape.os) && task.arch.is_none_or(|arch| arch == shape.arch);
    let tasks = u64::from(claim.tasks);
    let amounts = claim.cpu.get() == task.cpu.get() * tasks && claim.ram.get() == task.ram.get() * tasks;
    labels && platform && amounts && has_its_gpus(fleet, demand, task, claim)
}

/// Whether the node states the label, or has it as a node of Kubernetes without stating it.
fn has_label(node: &Node, key: &str, value: &str) -> bool {
    let shape = &node.shape;
    let gpu = shape.gpus.first();
    match (shape.labels.get(key), key) {
        (Some(stated), _) => **stated == *value,
        (None, "kubernetes.io/hostname") => *node.name == *value,
        (None, "kubernetes.io/os") => shape.os.as_str() == value,
        (None, "kubernetes.io/arch") => match shape.arch {
            CpuArch::X86_64 => value == "amd64",
            CpuArch::Aarch64 => value == "arm64",
        },
        (None, "nvidia.com/gpu.product") => gpu.is_some_and(|gpu| *gpu.model == *value),
        (None, "nvidia.com/gpu.memory") => gpu.is_some_and(|gpu| (gpu.memory.get() >> 20).to_string() == value),
        (None, _) => false,
    }
}

/// Whether the node suits every set of which the claim has a task, and whether the claim takes exactly what these tasks
/// ask for.
fn meets_sets(fleet: &Fleet, sets: &[TaskSet], claim: &NodeClaim) -> bool {
    let Some(counts) = claim.sets.as_deref().filter(|counts| counts.len() == sets.len()) else { return false };
    let node = fleet.node(claim.node);
    let shape = &node.shape;
    let used = || sets.iter().zip(counts).filter(|(_, count)| **count > 0).map(|(set, count)| (set, u64::from(*count)));
    let suits = |task: &TaskDemand| {
        let labels = task.labels.iter().all(|(key, value)| has_label(node, key, value));
        labels && task.os.is_none_or(|os| os == shape.os) && task.arch.is_none_or(|arch| arch == shape.arch)
    };
    let sum = |of: &dyn Fn(&TaskDemand) -> u64| used().map(|(set, count)| of(&set.task) * count).sum::<u64>();
    let tasks: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    tasks == u64::from(claim.tasks)
        && used().all(|(set, _)| suits(&set.task))
        && sum(&|task| task.cpu.get()) == claim.cpu.get()
        && sum(&|task| task.ram.get()) == claim.ram.get()
        && have_their_gpus(shape, used(), claim)
}

/// Whether the GPUs of the claim are distinct, and suffice for these tasks: whole GPUs, shares and memory. Each GPU
/// must suit a set, and there must be enough GPUs that suit each set.
fn have_their_gpus<'s>(shape: &NodeShape, used: impl Iterator<Item = (&'s TaskSet, u64)>, claim: &NodeClaim) -> bool {
    let suits = |gpus: &GpuDemand, index: u16| {
        let gpu = &shape.gpus[usize::from(index)];
        (gpus.models.is_empty() || gpus.models.contains(&gpu.model))
            && gpus.min_memory.is_none_or(|least| gpu.memory >= least)
    };
    let asking: Vec<(&GpuDemand, u64)> =
        used.filter_map(|(set, count)| Some((set.task.gpus.as_ref()?, count))).collect();
    let distinct = claim.gpus.windows(2).all(|pair| pair[0].index < pair[1].index);
    let all_suit = claim.gpus.iter().all(|part| asking.iter().any(|(gpus, _)| suits(gpus, part.index)));
    let enough = asking.iter().all(|(gpus, count)| {
        let parts = || claim.gpus.iter().filter(|part| suits(gpus, part.index));
        let wanted = u64::from(gpus.count) * count;
        match gpus.take {
            GpuTake::Whole => parts().filter(|part| part.share == GpuShare::WHOLE).count() as u64 >= wanted,
            GpuTake::Share(share) => {
                parts().map(|part| u64::from(part.share.get())).sum::<u64>() >= u64::from(share.get()) * wanted
            }
            GpuTake::Memory(each) => parts().map(|part| part.memory.get()).sum::<u64>() >= each.get() * wanted,
        }
    });
    let shares = |gpus: &GpuDemand| match gpus.take {
        GpuTake::Whole => u64::from(GpuShare::WHOLE.get()),
        GpuTake::Share(share) => u64::from(share.get()),
        GpuTake::Memory(_) => 0,
    };
    let asked: u64 = asking.iter().map(|(gpus, count)| shares(gpus) * u64::from(gpus.count) * count).sum();
    let taken: u64 = claim.gpus.iter().map(|part| u64::from(part.share.get())).sum();
    distinct && all_suit && enough && asked == taken
}

fn is_picked(demand: &Demand, claim: &NodeClaim) -> bool {
    demand.pick.as_ref().is_none_or(|pick| match pick {
        Pick::Nodes(nodes) => nodes.contains(&claim.node),
        Pick::Gpus(gpus) | Pick::AllGpus(gpus) => {
            let is_picked = |index| gpus.iter().any(|gpu| gpu.node == claim.node && gpu.index == index);
            claim.gpus.iter().all(|part| is_picked(part.index))
        }
    })
}

/// Whether the node has the required labels, and whether the GPUs of the claim are distinct, run the backend, and give
/// some memory each.
fn can_serve(shape: &NodeShape, deployment: &Deployment, claim: &NodeClaim) -> bool {
    let (driver, runtime) = (shape.driver.as_deref(), shape.runtime.as_deref());
    let host = Host { os: shape.os, arch: shape.arch, driver, runtime };
    let attempts_on = |gpu: Option<&GpuShape>| {
        let gpu = gpu.map(|gpu| Accelerator {
            vendor: gpu.vendor,
            compute_capability: gpu.compute_capability,
            architecture: gpu.architecture.as_deref(),
        });
        mismatch(deployment.served(), host, gpu).is_none()
    };
    let has_label = |(key, value): (&Arc<str>, &Arc<str>)| match shape.labels.get(key) {
        Some(found) => found == value,
        None => &**key == "os" && **value == *shape.os.as_str(),
    };
    let distinct = claim.gpus.windows(2).all(|pair| pair[0].index < pair[1].index);
    let serves =
        claim.gpus.iter().all(|part| part.memory > Bytes::ZERO && attempts_on(shape.gpus.get(usize::from(part.index))));
    let without_gpus = !claim.gpus.is_empty() || attempts_on(None);
    deployment.selector.iter().flatten().all(has_label) && distinct && serves && without_gpus
}

fn has_its_gpus(fleet: &Fleet, demand: &Demand, task: &TaskDemand, claim: &NodeClaim) -> bool {
    let shape = &fleet.node(claim.node).shape;
    // Devices are not part of the demand: `has_its_devices` checks them.
    let own = || claim.gpus.iter().filter(|part| !shape.is_of_devices(part.index));
    let Some(gpus) = &task.gpus else { return own().next().is_none() };
    let distinct = claim.gpus.windows(2).all(|pair| pair[0].index < pair[1].index);
    let suits = own().all(|part| {
        let gpu = &shape.gpus[usize::from(part.index)];
        (gpus.models.is_empty() || gpus.models.contains(&gpu.model))
            && gpus.min_memory.is_none_or(|least| gpu.memory >= least)
    });
    let wanted = match &demand.pick {
        Some(Pick::AllGpus(picked)) => picked.iter().filter(|gpu| gpu.node == claim.node).count() as u64,
        Some(Pick::Nodes(_) | Pick::Gpus(_)) | None => u64::from(gpus.count) * u64::from(claim.tasks),
    };
    let enough = match gpus.take {
        GpuTake::Whole => own().count() as u64 == wanted && own().all(|part| part.share == GpuShare::WHOLE),
        GpuTake::Share(share) => {
            own().map(|part| u64::from(part.share.get())).sum::<u64>() == u64::from(share.get()) * wanted
        }
        GpuTake::Memory(each) => own().map(|part| part.memory.get()).sum::<u64>() == each.get() * wanted,
    };
    distinct && suits && enough
}

fn is_whole(demand: &Demand, placement: &Placement) -> bool {
    let claims = placement.claims();
    if let Some(deployment) = demand.model() {
        return is_whole_model(demand, deployment, claims);
    }
    if !demand.sets().is_empty() {
        return are_whole_sets(demand, claims);
    }
    let tasks: u64 = claims.iter().map(|claim| u64::from(claim.tasks)).sum();
    let whole = match &demand.pick {
        Some(Pick::AllGpus(picked)) => picked.iter().all(|gpu| {
            let here =
                |claim: &NodeClaim| claim.node == gpu.node && claim.gpus.iter().any(|part| part.index == gpu.index);
            claims.iter().any(here)
        }),
        Some(Pick::Nodes(_) | Pick::Gpus(_)) | None => tasks == u64::from(demand.tasks),
    };
    let apart = demand.requirements().is_none() || claims.iter().all(|claim| claim.tasks == 1);
    whole && apart && (demand.gang != Gang::Spread || claims.iter().all(|claim| claim.tasks == 1))
}

/// Whether each set has as many tasks as it may have, on nodes as the gang asks for.
fn are_whole_sets(demand: &Demand, claims: &[NodeClaim]) -> bool {
    let count = |set: usize| -> u64 {
        let of =
            |claim: &NodeClaim| claim.sets.as_ref().and_then(|sets| sets.get(set)).map_or(0, |count| u64::from(*count));
        claims.iter().map(of).sum()
    };
    let is_whole =
        |(place, set): (usize, &TaskSet)| (u64::from(set.min_tasks)..=u64::from(set.tasks)).contains(&count(place));
    let lie_right = match demand.gang {
        Gang::Spread => claims.iter().all(|claim| claim.tasks == 1),
        Gang::StrictPack => claims.len() == 1,
        Gang::Anywhere | Gang::Packed | Gang::PreferSpread => true,
    };
    demand.sets().iter().enumerate().all(is_whole) && lie_right
}

/// Whether a model is placed as a whole. There must be exactly one main part, and the right number of picked GPUs.
/// Several nodes are allowed only for a distributable model.
fn is_whole_model(demand: &Demand, deployment: &Deployment, claims: &[NodeClaim]) -> bool {
    let mains = claims.iter().filter(|claim| claim.tasks == 1).count();
    let parts = claims.iter().filter(|claim| claim.tasks == 0).count();
    let gpus: usize = claims.iter().map(|claim| claim.gpus.len()).sum();
    let picked = match &demand.pick {
        Some(Pick::AllGpus(picked)) => deployment.gpus_per_replica.map_or(picked.len(), |count| count as usize) == gpus,
        Some(Pick::Nodes(_) | Pick::Gpus(_)) | None => true,
    };
    let together = claims.len() == 1 || deployment.distributable;
    mains == 1 && mains + parts == claims.len() && picked && together
}
