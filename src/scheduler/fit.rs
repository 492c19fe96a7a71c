//! How tasks fit on one node: the number of tasks, and the GPUs that they take.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::claimable::{claims_with_room, is_candidate, with_room};
use super::draw::Draw;
use super::fragment;
use super::gpu_order::GpuOrder;
use super::islands;
use super::node_class::NodeClass;
use super::target::Target;
use dryrack_event::Reason;
use dryrack_fleet::{GpuClaim, GpuState, NodeShape, NodeStatus, restricted};
use dryrack_planted::planted;
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{GpuDemand, GpuTake, TaskGroup};

/// The resources that some tasks of a demand take on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub tasks: u32,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: SmallVec<[GpuClaim; 2]>,
}

/// Why not even one task fits; `None` if one does. CPU is checked first, then RAM, then GPUs.
pub fn first_shortage(demand: TaskGroup<'_>, order: GpuOrder, class: &NodeClass) -> Option<Reason> {
    let (shape, status) = (class.shape, class.status);
    if status.cpu_free(shape) < demand.task.cpu {
        return Some(Reason::InsufficientCpu);
    }
    if most_by_cpu(demand, class, status) == 0 {
        return Some(Reason::CoresRestricted);
    }
    if status.ram_free(shape) < demand.task.ram {
        return Some(Reason::InsufficientRam);
    }
    let gpus = demand.task.gpus.as_ref()?;
    let is_enough = match class.shape.has_unified_gpus() {
        true => take_gpus(demand, gpus, Preference::Profile(GpuChoice::in_order(order)), class, status).is_some(),
        false => {
            let needed = class.gpus_per_task(demand) as usize;
            needed == 0 || with_room(demand, gpus, class, status).nth(needed - 1).is_some()
        }
    };
    if is_enough { None } else { Some(gpu_shortage(demand, gpus, class)) }
}

/// Finds the first check that leaves too few GPUs; the checks range from the right model to enough free resources.
fn gpu_shortage(demand: TaskGroup<'_>, gpus: &GpuDemand, class: &NodeClass) -> Reason {
    let (shape, status) = (class.shape, class.status);
    let needed = class.gpus_per_task(demand) as usize;
    let usable = || {
        let right = |index: &usize| is_candidate(gpus, class, *index);
        (0..shape.gpus.len()).filter(right).filter(|index| status.gpus[*index].state.is_usable())
    };
    if usable().count() < needed {
        return Reason::GpuNotUsable;
    }
    // Whether the GPU would have enough free resources if no other programs used it.
    let own = |index: &usize| {
        let gpu = &status.gpus[*index];
        let capacity = shape.gpu_memory_capacity(*index);
        let memory = capacity.saturating_sub(gpu.memory_taken);
        match gpus.take {
            GpuTake::Whole => gpu.holders == 0,
            GpuTake::Share(share) => GpuShare::WHOLE.saturating_sub(gpu.taken) >= share && memory >= share.of(capacity),
            GpuTake::Memory(need) => memory >= need && gpu.taken < GpuShare::WHOLE,
        }
    };
    if usable().filter(own).count() >= needed && usable().any(|index| !status.gpus[index].foreign.is_none()) {
        return Reason::GpuBusyElsewhere;
    }
    match gpus.take {
        GpuTake::Whole => Reason::InsufficientGpus,
        GpuTake::Share(_) => Reason::InsufficientGpuShare,
        GpuTake::Memory(_) => Reason::InsufficientGpuMemory,
    }
}

/// How many tasks fit on a node of this class, up to `limit`.
pub fn capacity(demand: TaskGroup<'_>, order: GpuOrder, class: &NodeClass, limit: u32) -> u32 {
    match demand.task.gpus {
        None => capacity_without_gpus(demand, class, limit),
        Some(ref gpus) if is_counted(demand, gpus, class) => {
            let free = with_room(demand, gpus, class, class.status).count() as u32;
            capacity_without_gpus(demand, class, limit).min(free / class.gpus_per_task(demand))
        }
        Some(ref gpus) if class.shape.restricted_cores_per_gpu() == 0 && !class.shape.has_unified_gpus() => {
            most_by_parts(demand, gpus, class, capacity_without_gpus(demand, class, limit))
        }
        // Otherwise tasks are counted by placing them.
        Some(_) => fill(demand, GpuChoice::in_order(order), class, limit).tasks,
    }
}

/// How many tasks fit by their GPUs, up to `limit`. `t` tasks with `k` GPUs each fit if the GPUs together have room for `t * k`
/// parts, of which each GPU takes at most one part for each task.
fn most_by_parts(demand: TaskGroup<'_>, gpus: &GpuDemand, class: &NodeClass, limit: u32) -> u32 {
    let each = u128::from(class.gpus_per_task(demand));
    let claims = with_room(demand, gpus, class, class.status);
    let parts: SmallVec<[u64; 8]> = claims.map(|claim| parts_with_room(&claim, class.shape, class.status)).collect();
    let fits = |tasks: u32| {
        let taken: u128 = parts.iter().map(|parts| u128::from((*parts).min(u64::from(tasks)))).sum();
        taken >= each * u128::from(tasks)
    };
    let (mut least, mut most) = (0, limit);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        match fits(middle) {
            true => least = middle,
            false => most = middle - 1,
        }
    }
    least
}

/// For how many such claims a GPU has room.
fn parts_with_room(claim: &GpuClaim, shape: &NodeShape, status: &NodeStatus) -> u64 {
    let index = usize::from(claim.index);
    let time = u64::from(status.gpu_share_free(index).get());
    let memory = status.gpu_memory_free(shape, index).get();
    let by_time = time.checked_div(u64::from(claim.share.get())).unwrap_or(u64::MAX);
    by_time.min(memory.checked_div(claim.memory.get()).unwrap_or(u64::MAX))
}

/// Whether counting free GPUs gives the number of tasks that fit: for whole GPUs, none of which is part of RAM.
fn is_counted(demand: TaskGroup<'_>, gpus: &GpuDemand, class: &NodeClass) -> bool {
    gpus.take == GpuTake::Whole && class.gpus_per_task(demand) > 0 && !class.shape.has_unified_gpus()
}

fn capacity_without_gpus(demand: TaskGroup<'_>, class: &NodeClass, limit: u32) -> u32 {
    let by_cpu = most_by_cpu(demand, class, class.status);
    let by_ram = class.status.ram_free(class.shape).get().checked_div(demand.task.ram.get());
    let count = by_cpu.min(by_ram.unwrap_or(u64::MAX)).min(u64::from(limit));
    u32::try_from(count).expect("bounded by limit")
}

/// How many tasks fit by their cores. A task may use the restricted cores of its own GPUs, but not those of others.
fn most_by_cpu(demand: TaskGroup<'_>, class: &NodeClass, status: &NodeStatus) -> u64 {
    let free = status.cpu_free(class.shape).get().checked_div(demand.task.cpu.get()).unwrap_or(u64::MAX);
    if class.shape.restricted_cores_per_gpu() == 0 || planted!(RestrictedCoresAreLent) {
        return free;
    }
    let rest = demand.task.cpu.saturating_sub(own_restricted(demand, class));
    let unrestricted = status.cpu_unrestricted_free(class.shape).get().checked_div(rest.get());
    free.min(unrestricted.unwrap_or(u64::MAX))
}

/// The restricted cores of the GPUs that a task takes on a node of this class. A task that takes only memory of a GPU has
/// none.
pub fn own_restricted(demand: TaskGroup<'_>, class: &NodeClass) -> MilliCpu {
    let share = demand.task.gpus.as_ref().map_or(GpuShare::ZERO, |gpus| match gpus.take {
        GpuTake::Whole => GpuShare::WHOLE,
        GpuTake::Share(share) => share,
        GpuTake::Memory(_) => GpuShare::ZERO,
    });
    let thousandths = u64::from(class.gpus_per_task(demand)) * u64::from(share.get());
    restricted(class.shape.restricted_cores_per_gpu(), thousandths)
}

/// Puts tasks on a node of this class until `limit` is reached or no more fit.
pub fn fill(demand: TaskGroup<'_>, choice: GpuChoice<'_>, class: &NodeClass, limit: u32) -> Load {
    let Some(gpus) = &demand.task.gpus else {
        let tasks = capacity_without_gpus(demand, class, limit);
        let (cpu, ram) = (demand.task.cpu.get(), demand.task.ram.get());
        let cpu = MilliCpu::new(cpu * u64::from(tasks));
        return Load { tasks, cpu, ram: Bytes::new(ram * u64::from(tasks)), gpus: SmallVec::new() };
    };
    if is_counted(demand, gpus, class) && (choice.is_of_no_account() || choice.order == GpuOrder::Islands) {
        return fill_whole(demand, gpus, choice.order, class, limit);
    }
    // If each of several tasks takes several shares, only one order is sure to fit the maximum number of tasks: GPUs
    // with room for the most tasks first, degraded or not.
    let preference = match gpus.take {
        GpuTake::Whole => Preference::Profile(choice),
        GpuTake::Share(_) | GpuTake::Memory(_) if limit > 1 && gpus.count > 1 => Preference::MostRoom,
        GpuTake::Share(_) | GpuTake::Memory(_) => Preference::Profile(choice),
    };
    let mut status = Cow::Borrowed(class.status);
    let mut load = Load::default();
    while load.tasks < limit {
        let room = most_by_cpu(demand, class, &status) > 0 && status.ram_free(class.shape) >= demand.task.ram;
        let Some(taken) = room.then(|| take_gpus(demand, gpus, preference, class, &status)).flatten() else { break };
        load.tasks += 1;
        // The remaining resources matter only if another task follows.
        if load.tasks < limit {
            let left = status.to_mut();
            left.cpu_taken = left.cpu_taken + demand.task.cpu;
            left.cpu_restricted_taken = left.cpu_restricted_taken + demand.task.cpu.min(own_restricted(demand, class));
            left.ram_taken = left.ram_taken + demand.task.ram;
            for claim in &taken {
                let gpu = &mut left.gpus[usize::from(claim.index)];
                gpu.taken = gpu.taken + claim.share;
                gpu.memory_taken = gpu.memory_taken + claim.memory;
                gpu.holders += 1;
            }
        }
        taken.iter().for_each(|claim| merge(&mut load.gpus, *claim));
        load.cpu = load.cpu + demand.task.cpu;
        load.ram = load.ram + demand.task.ram;
    }
    load.gpus.sort_by_key(|claim| claim.index);
    load
}

/// [`fill`] for whole GPUs that can be counted. They are taken in order, with degraded GPUs last, or by island.
fn fill_whole(demand: TaskGroup<'_>, gpus: &GpuDemand, order: GpuOrder, class: &NodeClass, limit: u32) -> Load {
    let each = class.gpus_per_task(demand);
    let most = capacity_without_gpus(demand, class, limit);
    let is_degraded = |claim: &GpuClaim| class.status.gpus[usize::from(claim.index)].state == GpuState::Degraded;
    // If an earlier GPU is always preferred to a later one, the first suitable GPUs are enough.
    let is_in_order = order != GpuOrder::Islands && class.status.gpus.iter().all(|gpu| gpu.state != GpuState::Degraded);
    let needed = if is_in_order { (most as usize).saturating_mul(each as usize) } else { usize::MAX };
    let mut free: SmallVec<[GpuClaim; 8]> = with_room(demand, gpus, class, class.status).take(needed).collect();
    let tasks = most.min(free.len() as u32 / each);
    if order == GpuOrder::Islands {
        free = islands::take(class, free, tasks as usize, each as usize);
    } else if is_in_order {
        free.truncate((tasks * each) as usize);
    } else {
        free.sort_by_key(is_degraded);
        free.truncate((tasks * each) as usize);
        free.sort_unstable_by_key(|claim| claim.index);
    }
    let (cpu, ram) = (demand.task.cpu.get() * u64::from(tasks), demand.task.ram.get() * u64::from(tasks));
    Load { tasks, cpu: MilliCpu::new(cpu), ram: Bytes::new(ram), gpus: SmallVec::from_slice(&free) }
}

/// Adds a claim. Tasks of one run share one claim on a GPU.
fn merge(claims: &mut SmallVec<[GpuClaim; 2]>, new: GpuClaim) {
    match claims.iter_mut().find(|claim| claim.index == new.index) {
        Some(claim) => {
            claim.share = claim.share + new.share;
            claim.memory = claim.memory + new.memory;
        }
        None => claims.push(new),
    }
}

/// How GPUs of a node are chosen: the profile's order, and the data that this order needs.
#[derive(Clone, Copy)]
pub struct GpuChoice<'a> {
    order: GpuOrder,
    needs: Option<(&'a Target, Draw)>,
}

impl<'a> GpuChoice<'a> {
    pub fn new(order: GpuOrder, target: &'a Target, draw: Draw) -> GpuChoice<'a> {
        GpuChoice { order, needs: Some((target, draw)) }
    }

    /// A choice by an order that needs no data besides the GPUs. It decides correctly whether tasks fit, but may take
    /// other GPUs than the profile's order.
    fn in_order(order: GpuOrder) -> GpuChoice<'a> {
        let order = match order {
            GpuOrder::First | GpuOrder::Tightest | GpuOrder::Emptiest | GpuOrder::Islands => order,
            GpuOrder::LeastFragmentation | GpuOrder::Random => GpuOrder::First,
        };
        GpuChoice { order, needs: None }
    }

    /// Whether all choices of whole GPUs are equally good. All these GPUs are empty, so only islands and random choice
    /// make a difference.
    pub fn is_of_no_account(&self) -> bool {
        match self.order {
            GpuOrder::First | GpuOrder::Tightest | GpuOrder::Emptiest | GpuOrder::LeastFragmentation => true,
            GpuOrder::Islands => false,
            GpuOrder::Random => self.needs.is_none(),
        }
    }

    /// A sort key for each of these GPUs. The GPU with the smallest key is taken first.
    fn keys(&self, demand: TaskGroup<'_>, class: &NodeClass, found: &[(GpuClaim, u64)]) -> SmallVec<[u64; 8]> {
        let index = |claim: &GpuClaim| usize::from(claim.index);
        // If GPUs use part of the RAM, the choice of GPUs decides whether they fit at all. So the fragmentation order
        // and the random order are not used for them.
        let is_plain = !class.shape.gpus.iter().any(|gpu| gpu.unified);
        match (self.order, self.needs) {
            (GpuOrder::Tightest | GpuOrder::Islands, _) => found.iter().map(|(_, room)| *room).collect(),
            (GpuOrder::Emptiest, _) => found.iter().map(|(_, room)| u64::MAX - room).collect(),
            (GpuOrder::LeastFragmentation, Some((target, _))) if is_plain => {
                let score = |claim| u64::from(fragment::score_of_gpu(target, demand, class, index(claim)));
                found.iter().map(|(claim, _)| 100 - score(claim)).collect()
            }
            (GpuOrder::Random, Some((_, draw))) if is_plain => {
                let mut stream = draw.stream("choice of a GPU");
                found.iter().map(|_| stream.bits()).collect()
            }
            (GpuOrder::First | GpuOrder::LeastFragmentation | GpuOrder::Random, _) => found.iter().map(|_| 0).collect(),
        }
    }
}

/// Which GPUs are taken first.
#[derive(Clone, Copy)]
enum Preference<'a> {
    /// By the profile's order, with degraded GPUs last.
    Profile(GpuChoice<'a>),
    /// GPUs with room for the most tasks first.
    MostRoom,
}

/// The GPUs that one more task would take, in order of their indexes; `None` if there are too few.
fn take_gpus(
    demand: TaskGroup<'_>,
    gpus: &GpuDemand,
    preference: Preference<'_>,
    class: &NodeClass,
    status: &NodeStatus,
) -> Option<SmallVec<[GpuClaim; 8]>> {
    let needed = class.gpus_per_task(demand) as usize;
    let shape = class.shape;
    let found = claims_with_room(demand, gpus, class, status);
    if found.len() < needed {
        return None;
    }
    let degraded = |claim: &GpuClaim| status.gpus[usize::from(claim.index)].state == GpuState::Degraded;
    let mut ranked: SmallVec<[(bool, u64, GpuClaim); 8]> = match preference {
        Preference::Profile(choice) => {
            let keys = choice.keys(demand, class, &found);
            found.iter().zip(keys).map(|((claim, _), key)| (degraded(claim), key, *claim)).collect()
        }
        Preference::MostRoom => {
            let key = |claim: &GpuClaim| {
                // The number of tasks is doubled, so that on a tie the degraded GPU comes last.
                let tasks = parts_with_room(claim, shape, status).min(u64::MAX / 4);
                u64::MAX - 2 * tasks + u64::from(degraded(claim))
            };
            found.iter().map(|(claim, _)| (false, key(claim), *claim)).collect()
        }
    };
    ranked.sort_unstable_by_key(|(degraded, key, claim)| (*degraded, *key, claim.index));
    let mut taken: SmallVec<[GpuClaim; 8]> = ranked.iter().take(needed).map(|(_, _, claim)| *claim).collect();
    // GPUs that use part of the RAM share one pool.
    let ram_left = status.ram_free(shape).saturating_sub(demand.task.ram);
    let unified: Bytes =
        taken.iter().filter(|claim| shape.gpus[usize::from(claim.index)].unified).map(|claim| claim.memory).sum();
    if unified > ram_left {
        return None;
    }
    taken.sort_unstable_by_key(|claim| claim.index);
    Some(taken)
}
