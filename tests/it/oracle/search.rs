//! Determines whether a demand fits, by trying every assignment of its tasks to nodes and GPUs.
//!
//! The search was written only from the documentation of the options, and uses its own arithmetic.

use super::world::task_of;
use dryrack_fleet::{Fleet, Node, NodeState};
use dryrack_ids::NodeId;
use dryrack_scheduler::{FilterName, SchedulerOptions};
use dryrack_workload::{Demand, Gang, GpuDemand, GpuTake, Pick, TaskDemand};

/// The current fleet, or the same fleet with every node ready, intact and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    Ideal,
}

/// The free resources of one node.
#[derive(Clone, Debug)]
pub struct Room {
    pub cpu: u64,
    pub ram: u64,
    pub gpus: Vec<GpuRoom>,
}

#[derive(Clone, Debug)]
pub struct GpuRoom {
    pub share: u64,
    pub memory: u64,
    pub capacity: u64,
    pub unified: bool,
    pub idle: bool,
}

impl Room {
    pub fn ideal(node: &Node) -> Room {
        let (shape, reserved) = (&node.shape, &node.shape.reserved);
        let gpus = shape.gpus.iter().map(|gpu| {
            let capacity = gpu.memory.get().saturating_sub(reserved.gpu_memory.get());
            GpuRoom { share: 1000, memory: capacity, capacity, unified: gpu.unified, idle: true }
        });
        Room {
            cpu: shape.cpu.get().saturating_sub(reserved.cpu.get()),
            ram: shape.ram.get().saturating_sub(reserved.ram.get()),
            gpus: gpus.collect(),
        }
    }

    pub fn now(node: &Node) -> Room {
        let mut room = Room::ideal(node);
        room.cpu = room.cpu.saturating_sub(node.status.cpu_taken.get());
        room.ram = room.ram.saturating_sub(node.status.ram_taken.get());
        for (gpu, status) in room.gpus.iter_mut().zip(&node.status.gpus) {
            let memory = status.memory_taken.get() + status.foreign.memory.get();
            let share = status.taken.get() + status.foreign.share.get();
            gpu.share = gpu.share.saturating_sub(u64::from(share));
            gpu.memory = gpu.memory.saturating_sub(memory);
            gpu.idle = status.holders == 0 && status.foreign.is_none();
            if gpu.unified {
                room.ram = room.ram.saturating_sub(memory);
            }
        }
        room
    }

    /// The share and the memory that one task takes of a GPU.
    pub fn part(&self, take: GpuTake, index: usize) -> (u64, u64) {
        let capacity = self.gpus[index].capacity;
        match take {
            GpuTake::Whole => (1000, capacity),
            GpuTake::Share(share) => {
                let milli = u64::from(share.get());
                (milli, (u128::from(capacity) * u128::from(milli) / 1000) as u64)
            }
            GpuTake::Memory(memory) => (0, memory.get()),
        }
    }

    /// Whether the task gets all RAM that is left. This is so for a whole GPU whose memory is a part of RAM. The rest
    /// must not be zero.
    fn takes_the_rest(&self, take: GpuTake, index: usize) -> bool {
        take == GpuTake::Whole && self.gpus[index].unified
    }

    /// Takes the resources of one task on these GPUs. Returns false if there is no room for the task; the room is then
    /// no longer meaningful.
    pub fn take(&mut self, task: &TaskDemand, gpus: &[usize]) -> bool {
        let mut ram = task.ram.get();
        if let Some(asked) = &task.gpus {
            for index in gpus {
                let rest = self.takes_the_rest(asked.take, *index);
                let (share, memory) = if rest { (1000, 0) } else { self.part(asked.take, *index) };
                let gpu = &mut self.gpus[*index];
                // If the whole time of a GPU is held, the whole GPU is held, and other tasks cannot use its memory.
                let may = if asked.take == GpuTake::Whole { gpu.idle } else { gpu.share > 0 };
                if !may || gpu.share < share || gpu.memory < memory {
                    return false;
                }
                gpu.share -= share;
                gpu.memory -= memory;
                gpu.idle = false;
                ram += if gpu.unified { memory } else { 0 };
            }
        }
        let whole = |asked: &GpuDemand| gpus.iter().any(|index| self.takes_the_rest(asked.take, *index));
        let some = u64::from(task.gpus.as_ref().is_some_and(whole));
        if self.cpu < task.cpu.get() || self.ram < ram + some {
            return false;
        }
        self.cpu -= task.cpu.get();
        self.ram -= ram;
        true
    }
}

/// The filters before resources: whether the demand may use this node at all.
pub fn admits(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, id: NodeId, when: When) -> bool {
    first_refusal(options, demand, fleet, id, when).is_none()
}

/// The first filter that refuses this node, of `picked`, `labels`, `ready` and the first half of `compatible`.
pub fn first_refusal(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    id: NodeId,
    when: When,
) -> Option<FilterName> {
    let (node, task) = (fleet.node(id), task_of(demand));
    let several = match &demand.pick {
        Some(Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => gpus.iter().any(|gpu| gpu.node != gpus[0].node),
        Some(Pick::Nodes(_)) | None => false,
    };
    options.filters.iter().map(|filter| (filter.stage, filter.unless.is_some() && several)).find_map(
        |(stage, exempt)| {
            let passes = match stage {
                FilterName::Picked => match &demand.pick {
                    None => true,
                    Some(Pick::Nodes(nodes)) => nodes.contains(&id),
                    Some(Pick::Gpus(gpus)) => gpus.iter().any(|gpu| gpu.node == id),
                    Some(Pick::AllGpus(gpus)) => {
                        let here = |gpu: &&dryrack_ids::GpuId| gpu.node == id;
                        let known = |gpu: &dryrack_ids::GpuId| usize::from(gpu.index) < node.shape.gpus.len();
                        gpus.iter().any(|gpu| gpu.node == id) && gpus.iter().filter(here).all(known)
                    }
                },
                FilterName::Labels => task.labels.iter().all(|(key, value)| node.shape.labels.get(key) == Some(value)),
                FilterName::Ready => when == When::Ideal || node.status.state == NodeState::Ready,
                FilterName::Compatible => {
                    task.os.is_none_or(|os| os == node.shape.os) && task.arch.is_none_or(|arch| arch == node.shape.arch)
                }
                FilterName::Resources => true,
                FilterName::Own(_) => unreachable!("not drawn here: the tests of expressions hold them"),
            };
            (!passes && !exempt).then_some(stage)
        },
    )
}

/// The sets of GPUs that one task may use on this node.
fn gpu_sets(demand: &Demand, fleet: &Fleet, id: NodeId, when: When) -> Vec<Vec<usize>> {
    let node = fleet.node(id);
    let Some(asked) = demand.gpus() else { return vec![Vec::new()] };
    let count = node.shape.gpus.len();
    let eligible = |index: &usize| {
        let shape = &node.shape.gpus[*index];
        let usable = when == When::Ideal || node.status.gpus[*index].state.is_usable();
        let model = asked.models.is_empty() || asked.models.contains(&shape.model);
        let memory = asked.min_memory.is_none_or(|least| shape.memory >= least);
        let picked = match &demand.pick {
            None | Some(Pick::Nodes(_)) => true,
            Some(Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
                gpus.iter().any(|gpu| gpu.node == id && usize::from(gpu.index) == *index)
            }
        };
        usable && model && memory && picked
    };
    let eligible: Vec<usize> = (0..count).filter(eligible).collect();
    let size = match &demand.pick {
        Some(Pick::AllGpus(gpus)) => gpus.iter().filter(|gpu| gpu.node == id).count(),
        _ => asked.count as usize,
    };
    let subset =
        |bits: u32| eligible.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, gpu)| *gpu);
    let sets = (0..1u32 << eligible.len()).filter(|bits| bits.count_ones() as usize == size);
    sets.map(|bits| subset(bits).collect()).collect()
}

pub fn room(fleet: &Fleet, id: NodeId, when: When) -> Room {
    match when {
        When::Now => Room::now(fleet.node(id)),
        When::Ideal => Room::ideal(fleet.node(id)),
    }
}

/// The largest number of tasks that this node can hold, up to the requested number.
pub fn most_tasks(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, id: NodeId, when: When) -> u32 {
    if !admits(options, demand, fleet, id, when) {
        return 0;
    }
    let sets = gpu_sets(demand, fleet, id, when);
    let limit = match demand.pick {
        Some(Pick::AllGpus(_)) => 1,
        _ => demand.tasks,
    };
    deepest(&room(fleet, id, when), task_of(demand), &sets, limit)
}

/// All tasks are equal, so their sets are tried in only one order.
fn deepest(room: &Room, task: &TaskDemand, sets: &[Vec<usize>], left: u32) -> u32 {
    let mut best = 0;
    for (at, set) in sets.iter().enumerate() {
        if best == left {
            break;
        }
        let mut next = room.clone();
        if next.take(task, set) {
            best = best.max(1 + deepest(&next, task, &sets[at..], left - 1));
        }
    }
    best
}

/// Every way to distribute the tasks over the nodes, as numbers of tasks in order of node ids.
pub fn spreads(demand: &Demand, most: &[u32]) -> Vec<Vec<u32>> {
    if let Some(Pick::AllGpus(_)) = &demand.pick {
        let picked = demand.pick.as_ref().expect("just seen").nodes();
        let here = |at: usize| picked.contains(&NodeId::new(at));
        let whole: Vec<u32> = (0..most.len()).map(|at| u32::from(here(at))).collect();
        let fits = whole.iter().zip(most).all(|(wanted, most)| wanted <= most);
        return if fits { vec![whole] } else { Vec::new() };
    }
    let mut ways = vec![Vec::new()];
    for most in most {
        let most = if demand.gang == Gang::Spread { (*most).min(1) } else { *most };
        let longer =
            |way: Vec<u32>| (0..=most).map(move |tasks| way.iter().copied().chain([tasks]).collect::<Vec<u32>>());
        ways = ways.into_iter().flat_map(longer).filter(|way| way.iter().sum::<u32>() <= demand.tasks).collect();
    }
    ways.retain(|way| way.iter().sum::<u32>() == demand.tasks);
    if demand.gang == Gang::Packed {
        let nodes = |way: &Vec<u32>| way.iter().filter(|tasks| **tasks > 0).count();
        let fewest = ways.iter().map(nodes).min().unwrap_or(0);
        ways.retain(|way| nodes(way) == fewest);
    }
    ways
}

/// Whether `tasks` tasks, each on an allowed set of different GPUs, can give these totals on a node's GPUs.
pub fn is_assignment(demand: &Demand, fleet: &Fleet, id: NodeId, tasks: u32, totals: &[(u64, u64)]) -> bool {
    let sets = gpu_sets(demand, fleet, id, When::Now);
    let room = Room::now(fleet.node(id));
    let untouched = vec![(0, 0); room.gpus.len()];
    reaches(&room, task_of(demand), &sets, tasks, &untouched, totals)
}

fn reaches(
    room: &Room,
    task: &TaskDemand,
    sets: &[Vec<usize>],
    left: u32,
    so_far: &[(u64, u64)],
    totals: &[(u64, u64)],
) -> bool {
    if left == 0 {
        return so_far == totals;
    }
    sets.iter().enumerate().any(|(at, set)| {
        let mut next = room.clone();
        if !next.take(task, set) {
            return false;
        }
        let mut sums = so_far.to_vec();
        if let Some(asked) = &task.gpus {
            for index in set {
                let (share, memory) = room.part(asked.take, *index);
                let rest = memory.min(next.ram);
                let memory = if room.takes_the_rest(asked.take, *index) { rest } else { memory };
                sums[*index].0 += share;
                sums[*index].1 += memory;
            }
        }
        reaches(&next, task, &sets[at..], left - 1, &sums, totals)
    })
}
