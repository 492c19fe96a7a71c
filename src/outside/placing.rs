//! Converts a placement in the program's answer to claims. The amounts follow from the job's demand.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::message::{BlocksTaken, Gpu, GpuTaken, LineFault, Part};
use super::mirror::Mirror;
use dryrack_event::OutsideFault;
use dryrack_fleet::{Fleet, GpuClaim, NodeClaim, NodeShape, NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, GpuShare, MilliCpu, counted};
use dryrack_workload::{Demand, DemandKind, GpuDemand, GpuTake, Pick, TaskDemand, TaskSet};

/// An upper limit for amounts. No node has this much of anything, and sums of such amounts cannot overflow.
const MOST: u64 = 1 << 49;

/// The placements of one answer, in their order.
#[derive(Default)]
pub struct Places {
    /// The blocks that earlier placements of this answer take.
    blocks: BTreeMap<NodeId, Vec<u16>>,
}

fn misshapen(text: impl Into<String>) -> LineFault {
    LineFault::new(OutsideFault::Misshapen, text)
}

fn tasks_text(tasks: u64) -> String {
    counted(usize::try_from(tasks).unwrap_or(usize::MAX), "task")
}

impl Places {
    pub fn placement(
        &mut self,
        mirror: &Mirror,
        fleet: &Fleet,
        demand: &Demand,
        parts: &[Part],
    ) -> Result<Placement, LineFault> {
        let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
        for (node, of_node) in by_node(mirror, parts)? {
            let claim = match (&demand.kind, &of_node[..]) {
                (DemandKind::Sets(sets), _) => of_sets(node, fleet, sets, &of_node)?,
                (_, [part]) => self.claim(fleet, node, demand, part, claims.is_empty())?,
                (_, [part, ..]) => return Err(misshapen(format!("two parts on `{}`", part.node))),
                (_, []) => continue,
            };
            claims.push(claim);
        }
        if claims.is_empty() {
            return Err(misshapen("a place without parts"));
        }
        if let DemandKind::Sets(sets) = &demand.kind {
            check_counts(sets, &claims)?;
            return Ok(Placement::new(claims));
        }
        let tasks: u64 = claims.iter().map(|claim| u64::from(claim.tasks)).sum();
        let is_exact = matches!(demand.pick, Some(Pick::AllGpus(_))) || demand.model().is_some();
        if !is_exact && tasks != u64::from(demand.tasks) {
            return Err(misshapen(format!("a place for {}, but the job has {}", tasks_text(tasks), demand.tasks)));
        }
        for claim in &claims {
            self.blocks.entry(claim.node).or_default().extend(&claim.blocks);
        }
        Ok(Placement::new(claims))
    }

    fn claim(
        &self,
        fleet: &Fleet,
        node: NodeId,
        demand: &Demand,
        part: &Part,
        is_first: bool,
    ) -> Result<NodeClaim, LineFault> {
        let (shape, status) = (&*fleet.node(node).shape, &fleet.node(node).status);
        check_gpus(shape, part)?;
        if part.set.is_some() {
            return Err(misshapen(format!("a part on `{}` names a `set`, and the job has none", part.node)));
        }
        let none = NodeClaim::of_nothing(node);
        match &demand.kind {
            DemandKind::Sets(_) => unreachable!("its parts are read together"),
            DemandKind::Tasks(task) => {
                let picked = match &demand.pick {
                    Some(Pick::AllGpus(picked)) => Some(picked.iter().filter(|gpu| gpu.node == node).count() as u64),
                    Some(Pick::Nodes(_) | Pick::Gpus(_)) | None => None,
                };
                of_tasks(none, (shape, status), (demand.tasks, task), (picked, Bytes::ZERO), part)
            }
            DemandKind::Model(_) => of_model(none, shape, part, is_first),
            DemandKind::Requirements(_) => self.of_blocks(none, (shape, status), part),
        }
    }

    fn of_blocks(
        &self,
        none: NodeClaim,
        (shape, status): (&NodeShape, &NodeStatus),
        part: &Part,
    ) -> Result<NodeClaim, LineFault> {
        let total = shape.total_blocks().unwrap_or(0);
        if total == 0 {
            return Err(misshapen(format!("`{}` has no blocks to give", part.node)));
        }
        if !part.gpus.is_empty() || part.cpu_milli.is_some() || part.ram.is_some() || part.tasks.unwrap_or(1) != 1 {
            return Err(misshapen(format!("a part on `{}` states more than its `blocks`", part.node)));
        }
        let given = self.blocks.get(&none.node);
        let is_given = |block: &u16| given.is_some_and(|given| given.contains(block));
        let no_such_block = |block: u64| {
            let text = format!("`{}` has {total} blocks, and no block {block}", part.node);
            LineFault::new(OutsideFault::UnknownBlock, text)
        };
        let blocks: SmallVec<[u16; 4]> = match &part.blocks {
            None => return Err(misshapen(format!("a part on `{}` without `blocks`", part.node))),
            Some(BlocksTaken::Count(count)) => {
                let wanted = usize::try_from(*count).unwrap_or(usize::MAX);
                let free = status.idle_blocks(shape).filter(|block| !is_given(block));
                let blocks: SmallVec<[u16; 4]> = free.take(wanted).collect();
                if blocks.len() < wanted {
                    let text = format!("`{}` has {} free blocks, and {count} are to be taken", part.node, blocks.len());
                    return Err(misshapen(text));
                }
                blocks
            }
            Some(BlocksTaken::These(blocks)) => {
                let known = |block: &u64| match u16::try_from(*block) {
                    Ok(index) if u32::from(index) < total => Ok(index),
                    _ => Err(no_such_block(*block)),
                };
                let mut sorted = blocks.iter().map(known).collect::<Result<SmallVec<[u16; 4]>, LineFault>>()?;
                sorted.sort_unstable();
                sorted
            }
        };
        if blocks.is_empty() || blocks.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(misshapen(format!("no block of `{}`, or one of them twice", part.node)));
        }
        let cut = shape.cut(&blocks).ok_or_else(|| misshapen(format!("`{}` cannot be split", part.node)))?;
        Ok(NodeClaim { tasks: 1, cpu: cut.cpu, ram: cut.ram, gpus: cut.gpus, blocks, ..none })
    }
}

fn check_gpus(shape: &NodeShape, part: &Part) -> Result<(), LineFault> {
    for gpu in &part.gpus {
        let (Gpu::Index(index) | Gpu::Taken(GpuTaken { index, .. })) = gpu;
        gpu_index(*index, shape, part)?;
    }
    Ok(())
}

/// The index of a GPU of the node of a part.
fn gpu_index(index: u64, shape: &NodeShape, part: &Part) -> Result<u16, LineFault> {
    match u16::try_from(index) {
        Ok(known) if usize::from(known) < shape.gpus.len() => Ok(known),
        _ => {
            let text = format!("`{}` has {}, and no GPU {index}", part.node, counted(shape.gpus.len(), "GPU"));
            Err(LineFault::new(OutsideFault::UnknownGpu, text))
        }
    }
}

/// The parts of each node, in the order of the first part on each.
fn by_node<'p>(mirror: &Mirror, parts: &'p [Part]) -> Result<Vec<(NodeId, Vec<&'p Part>)>, LineFault> {
    let mut places: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut by_node: Vec<(NodeId, Vec<&Part>)> = Vec::new();
    for part in parts {
        let Some(node) = mirror.names.nodes.find(&part.node).map(NodeId::new) else {
            return Err(LineFault::new(OutsideFault::UnknownNode, format!("no node is named `{}`", part.node)));
        };
        let place = *places.entry(node).or_insert(by_node.len());
        if place == by_node.len() {
            by_node.push((node, Vec::new()));
        }
        by_node[place].1.push(part);
    }
    Ok(by_node)
}

/// The claim of several kinds of tasks on one node.
fn of_sets(node: NodeId, fleet: &Fleet, sets: &[TaskSet], parts: &[&Part]) -> Result<NodeClaim, LineFault> {
    let (shape, status) = (&*fleet.node(node).shape, &fleet.node(node).status);
    let mut claim = NodeClaim::of_nothing(node);
    let mut counts: Box<[u32]> = sets.iter().map(|_| 0).collect();
    let places = parts.iter().map(|part| set_of(sets, part)).collect::<Result<Vec<usize>, LineFault>>()?;
    let ram_of =
        |(part, place): (&&Part, &usize)| sets[*place].task.ram.get().saturating_mul(part.tasks.unwrap_or(1)).min(MOST);
    let ram = parts.iter().zip(&places).map(ram_of).fold(0, u64::saturating_add);
    for (part, place) in parts.iter().zip(places.iter().copied()) {
        check_gpus(shape, part)?;
        let set = &sets[place];
        if counts[place] > 0 {
            return Err(misshapen(format!("two parts for `{}` on `{}`", set.name, part.node)));
        }
        let none = NodeClaim::of_nothing(node);
        // GPUs whose memory is part of the RAM leave the RAM of the other tasks here, and the memory taken before.
        let of_gpus = claim.gpus.iter().filter(|taken| shape.gpus[usize::from(taken.index)].unified);
        let taken = of_gpus.map(|taken| taken.memory.get()).sum::<u64>();
        let beside = Bytes::new((ram - ram_of((part, &place)) + taken).min(MOST));
        let own = of_tasks(none, (shape, status), (set.tasks, &set.task), (None, beside), part)?;
        counts[place] = own.tasks;
        claim.tasks += own.tasks;
        claim.cpu = MilliCpu::new(claim.cpu.get().saturating_add(own.cpu.get()).min(MOST));
        claim.ram = Bytes::new(claim.ram.get().saturating_add(own.ram.get()).min(MOST));
        for taken in own.gpus {
            match claim.gpus.iter_mut().find(|known| known.index == taken.index) {
                None => claim.gpus.push(taken),
                Some(known) => {
                    let share = known.share.checked_add(taken.share).filter(|sum| *sum <= GpuShare::WHOLE);
                    known.share =
                        share.ok_or_else(|| misshapen(format!("more of GPU {} than there is", taken.index)))?;
                    known.memory = Bytes::new(known.memory.get().saturating_add(taken.memory.get()).min(MOST));
                }
            }
        }
    }
    claim.gpus.sort_unstable_by_key(|taken| taken.index);
    claim.sets = Some(counts);
    Ok(claim)
}

/// The place of the set that the part names. It may be left out if there is only one.
fn set_of(sets: &[TaskSet], part: &Part) -> Result<usize, LineFault> {
    let names = || sets.iter().map(|set| format!("`{}`", set.name)).collect::<Vec<String>>().join(", ");
    match &part.set {
        None if sets.len() == 1 => Ok(0),
        None => Err(misshapen(format!("a part on `{}` names no `set`; the job has {}", part.node, names()))),
        Some(name) => (sets.iter().position(|set| *set.name == **name))
            .ok_or_else(|| misshapen(format!("the job has no set `{name}`, only {}", names()))),
    }
}

/// Checks that each set has as many tasks as it may have.
fn check_counts(sets: &[TaskSet], claims: &[NodeClaim]) -> Result<(), LineFault> {
    for (place, set) in sets.iter().enumerate() {
        let count = |claim: &NodeClaim| claim.sets.as_ref().map_or(0, |counts| u64::from(counts[place]));
        let tasks: u64 = claims.iter().map(count).sum();
        if !(u64::from(set.min_tasks)..=u64::from(set.tasks)).contains(&tasks) {
            let wanted = match set.min_tasks == set.tasks {
                true => set.tasks.to_string(),
                false => format!("{} to {}", set.min_tasks, set.tasks),
            };
            return Err(misshapen(format!(
                "a place for {} of `{}`, but the job has {wanted}",
                tasks_text(tasks),
                set.name
            )));
        }
    }
    Ok(())
}

/// The claim of equal tasks. `picked` is how many GPUs of the node were picked, if all GPUs were picked by hand, and
/// `beside` the RAM that other tasks of the gang take there.
fn of_tasks(
    none: NodeClaim,
    (shape, status): (&NodeShape, &NodeStatus),
    (most, task): (u32, &TaskDemand),
    (picked, beside): (Option<u64>, Bytes),
    part: &Part,
) -> Result<NodeClaim, LineFault> {
    if part.blocks.is_some() || part.cpu_milli.is_some() || part.ram.is_some() {
        let text =
            format!("a part on `{}` states what follows from the job: only `tasks` and `gpus` are given", part.node);
        return Err(misshapen(text));
    }
    let stated = part.tasks.unwrap_or(1);
    let tasks = match u32::try_from(stated) {
        Ok(tasks) if (1..=most).contains(&tasks) => tasks,
        _ => return Err(misshapen(format!("{} on `{}`, but the job has {most}", tasks_text(stated), part.node))),
    };
    let (cpu, ram) = (task.cpu.get().saturating_mul(tasks.into()), task.ram.get().saturating_mul(tasks.into()));
    let (cpu, ram) = (MilliCpu::new(cpu.min(MOST)), Bytes::new(ram.min(MOST)));
    let mut indexes = Vec::with_capacity(part.gpus.len());
    for gpu in &part.gpus {
        match gpu {
            Gpu::Index(index) => indexes.push(gpu_index(*index, shape, part)?),
            Gpu::Taken(_) => return Err(misshapen("how much is taken of a GPU follows from the job: write its index")),
        }
    }
    let gpus = match &task.gpus {
        None if indexes.is_empty() => SmallVec::new(),
        None => return Err(misshapen(format!("GPUs of `{}` for a job that asks for none", part.node))),
        Some(gpus) => {
            let wanted = picked.unwrap_or(u64::from(gpus.count) * u64::from(tasks));
            if indexes.len() as u64 != wanted {
                let text =
                    format!("{} of `{}`, but its tasks there need {wanted}", counted(indexes.len(), "GPU"), part.node);
                return Err(misshapen(text));
            }
            gpu_claims(gpus, (shape, status), &indexes, Bytes::new(ram.get().saturating_add(beside.get())))?
        }
    };
    Ok(NodeClaim { tasks, cpu, ram, gpus, ..none })
}

fn gpu_claims(
    gpus: &GpuDemand,
    (shape, status): (&NodeShape, &NodeStatus),
    indexes: &[u16],
    ram: Bytes,
) -> Result<SmallVec<[GpuClaim; 2]>, LineFault> {
    let mut sorted = indexes.to_vec();
    sorted.sort_unstable();
    let mut ram_left = status.ram_free(shape).saturating_sub(ram);
    let mut claims: SmallVec<[GpuClaim; 2]> = SmallVec::new();
    for index in sorted {
        let capacity = shape.gpu_memory_capacity(index.into());
        let (share, memory) = match gpus.take {
            // If the memory is part of RAM, take as much as the task's own RAM demand leaves.
            GpuTake::Whole if shape.gpus[usize::from(index)].unified => (GpuShare::WHOLE, capacity.min(ram_left)),
            GpuTake::Whole => (GpuShare::WHOLE, capacity),
            GpuTake::Share(share) => (share, share.of(capacity)),
            GpuTake::Memory(memory) => (GpuShare::ZERO, memory),
        };
        if shape.gpus[usize::from(index)].unified {
            ram_left = ram_left.saturating_sub(memory);
        }
        match claims.last_mut().filter(|claim| claim.index == index) {
            None => claims.push(GpuClaim { index, share, memory }),
            Some(_) if gpus.take == GpuTake::Whole => return Err(misshapen(format!("GPU {index} twice, as a whole"))),
            Some(known) => {
                known.share = known
                    .share
                    .checked_add(share)
                    .filter(|sum| *sum <= GpuShare::WHOLE)
                    .ok_or_else(|| misshapen(format!("more of GPU {index} than there is")))?;
                known.memory = Bytes::new(known.memory.get().saturating_add(memory.get()).min(MOST));
            }
        }
    }
    Ok(claims)
}

fn of_model(none: NodeClaim, shape: &NodeShape, part: &Part, is_first: bool) -> Result<NodeClaim, LineFault> {
    if part.blocks.is_some() || part.tasks.is_some() {
        return Err(misshapen(format!("a part of a model on `{}` has neither `tasks` nor `blocks`", part.node)));
    }
    let mut gpus: SmallVec<[GpuClaim; 2]> = SmallVec::new();
    for gpu in &part.gpus {
        let Gpu::Taken(taken) = gpu else {
            return Err(misshapen("the memory that a model takes of each GPU is to be stated"));
        };
        let share = u32::try_from(taken.share).ok().filter(|share| *share <= GpuShare::WHOLE.get());
        let (Some(share), true) = (share, taken.memory <= MOST) else {
            return Err(misshapen(format!("more of GPU {} than there could be", taken.index)));
        };
        let (share, memory) = (GpuShare::new(share), Bytes::new(taken.memory));
        gpus.push(GpuClaim { index: gpu_index(taken.index, shape, part)?, share, memory });
    }
    gpus.sort_by_key(|claim| claim.index);
    if gpus.windows(2).any(|pair| pair[0].index == pair[1].index) {
        return Err(misshapen(format!("a GPU of `{}` twice", part.node)));
    }
    let amount = |given: Option<u64>| match given.unwrap_or(0) {
        amount @ 0..=MOST => Ok(amount),
        _ => Err(misshapen(format!("more on `{}` than there could be", part.node))),
    };
    let (cpu, ram) = (MilliCpu::new(amount(part.cpu_milli)?), Bytes::new(amount(part.ram)?));
    Ok(NodeClaim { tasks: u32::from(is_first), cpu, ram, gpus, ..none })
}
