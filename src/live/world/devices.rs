//! The devices of each task: the environment that names them, and how much of them was used.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::super::process::{Place, TaskId};
use super::super::work::PendingRun;
use dryrack_catalog::Vendor;
use dryrack_fleet::{NodeClaim, Placement};
use dryrack_ids::{AttemptId, GpuId};
use dryrack_units::SimDuration;

/// A task to start.
pub struct TaskPlace {
    pub place: Place,
    /// Its devices that are CPU shares instead of real GPUs.
    pub gpus: SmallVec<[GpuId; 2]>,
}

/// The tasks of an attempt, in the order of its claims. On each node the claimed GPUs are assigned in order, the same
/// number to each task. If they cannot be divided evenly, each task gets all of them.
pub fn tasks_of(work: &PendingRun, attempt: AttemptId, placement: &Placement) -> Vec<TaskPlace> {
    let total = placement.tasks();
    let claims = placement.claims().iter();
    let ranked = claims.flat_map(|claim| (0..claim.tasks).map(move |local| (claim, local as usize)));
    ranked.enumerate().map(|(rank, (claim, local))| task(work, attempt, claim, local, (rank, total))).collect()
}

fn task(
    work: &PendingRun,
    attempt: AttemptId,
    claim: &NodeClaim,
    local: usize,
    (rank, total): (usize, u32),
) -> TaskPlace {
    let tasks = claim.tasks as usize;
    let each = claim.gpus.len() / tasks;
    let own =
        if each * tasks == claim.gpus.len() { &claim.gpus[local * each..(local + 1) * each] } else { &claim.gpus[..] };
    let gpus: SmallVec<[GpuId; 2]> = own.iter().map(|part| GpuId { node: claim.node, index: part.index }).collect();
    let node = &work.nodes[claim.node.index()];
    let indexes: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    let name = &work.arrivals[attempt.job.index()].spec.name;
    let mut environment: BTreeMap<String, String> = [
        ("DRYRACK_JOB", name.to_string()),
        ("DRYRACK_REPLICA", attempt.replica.to_string()),
        ("DRYRACK_ATTEMPT", attempt.number.to_string()),
        ("DRYRACK_NODE", node.name.to_string()),
        ("DRYRACK_TASK", rank.to_string()),
        ("DRYRACK_TASKS", total.to_string()),
        ("DRYRACK_DEVICES", indexes.join(",")),
    ]
    .map(|(key, value)| (key.to_string(), value))
    .into();
    let is_share = work.shares.has(claim.node);
    let vendor = gpus.first().and_then(|gpu| node.shape.gpus[usize::from(gpu.index)].vendor);
    // A task without a real GPU must not see any GPU.
    environment.insert("CUDA_VISIBLE_DEVICES".to_string(), String::new());
    for variable in if is_share { &[][..] } else { variables_of(vendor) } {
        environment.insert((*variable).to_string(), indexes.join(","));
    }
    let mut cores: Vec<u16> =
        gpus.iter().filter_map(|gpu| work.shares.get(*gpu)).flat_map(|share| share.cores.clone()).collect();
    cores.sort_unstable();
    cores.dedup();
    let output = work.outputs.as_ref().map(|folder| {
        folder.join(format!("{}-{}-{}-{rank}.txt", name.replace('/', "_"), attempt.replica, attempt.number))
    });
    TaskPlace { place: Place { environment, cores, output }, gpus: if is_share { gpus } else { SmallVec::new() } }
}

/// The environment variables that select devices in a vendor's runtime: CUDA 12, ROCm 6, CANN 8, oneAPI 2025 and Gaudi
/// 1.20.
fn variables_of(vendor: Option<Vendor>) -> &'static [&'static str] {
    match vendor {
        Some(Vendor::Nvidia) => &["CUDA_VISIBLE_DEVICES"],
        Some(Vendor::Amd) => &["ROCR_VISIBLE_DEVICES"],
        Some(Vendor::Ascend) => &["ASCEND_RT_VISIBLE_DEVICES"],
        Some(Vendor::Intel) => &["ZE_AFFINITY_MASK", "HABANA_VISIBLE_DEVICES"],
        Some(Vendor::Tenstorrent) => &["TT_VISIBLE_DEVICES"],
        Some(Vendor::Apple) | None => &[],
    }
}

/// The CPU time that all tasks together have used of each CPU share so far.
#[derive(Default)]
pub struct Devices {
    used: BTreeMap<GpuId, SimDuration>,
    /// The devices of each task, and its CPU time at the last poll.
    tasks: BTreeMap<TaskId, (SmallVec<[GpuId; 2]>, SimDuration)>,
}

impl Devices {
    pub fn enter(&mut self, id: TaskId, gpus: SmallVec<[GpuId; 2]>) {
        if !gpus.is_empty() {
            self.tasks.insert(id, (gpus, SimDuration::ZERO));
        }
    }

    /// Divides the CPU time of each task since the last poll equally among its devices: a process is not bound to one
    /// of them.
    pub fn advance(&mut self, cpu: impl Fn(TaskId) -> SimDuration) {
        for (id, (gpus, before)) in &mut self.tasks {
            let now = cpu(*id);
            let each = now.saturating_sub(*before).as_nanos() / gpus.len() as u64;
            *before = now;
            for gpu in gpus.iter() {
                let used = self.used.entry(*gpu).or_default();
                *used = used.saturating_add(SimDuration::from_nanos(each));
            }
        }
    }

    pub fn used(&self, gpu: GpuId) -> SimDuration {
        self.used.get(&gpu).copied().unwrap_or_default()
    }
}
