//! A condition that every place of a gang of unequal tasks meets. It is cheap, so it is asked before the search.
//!
//! The tasks of a set, and those of the sets that ask for at least as much, all need room for a task of this set. If the
//! nodes do not have that much room, no order and no search finds a place.

use super::partial::Partial;
use super::{Among, SetPlacer, World};
use crate::by_node::task_asks_no_more;
use crate::filter::FilterName;
use crate::node_class::NodeClass;
use dryrack_fleet::ShapeGroup;
use dryrack_units::GpuShare;
use dryrack_workload::{Gang, GpuDemand, GpuTake};

/// What tasks take, or what nodes have: thousandths of GPUs, and bytes of GPU memory and of RAM.
#[derive(Clone, Copy, Default)]
struct Amounts {
    shares: u64,
    memory: u64,
    ram: u64,
}

impl Amounts {
    /// The sum of these and of several times the others.
    fn plus(self, other: Amounts, times: u64) -> Amounts {
        let add = |one: u64, other: u64| one.saturating_add(other.saturating_mul(times));
        Amounts {
            shares: add(self.shares, other.shares),
            memory: add(self.memory, other.memory),
            ram: add(self.ram, other.ram),
        }
    }

    fn is_within(self, other: Amounts) -> bool {
        self.shares <= other.shares && self.memory <= other.memory && self.ram <= other.ram
    }
}

impl SetPlacer<'_> {
    /// Whether the nodes may have room for these tasks. False only if there is no place for them.
    pub(super) fn may_fit(&self, world: World, counts: &[u32]) -> bool {
        // A custom filter may depend on the number of tasks, and accept a node only while other tasks are on it.
        let is_custom = |stage: FilterName| matches!(stage, FilterName::Own(_));
        if self.options.filters.iter().any(|filter| is_custom(filter.stage)) {
            return true;
        }
        let empty = Partial::default();
        let classes = self.classes(world, &empty, Among::All);
        // If GPUs use part of the RAM, a node with fewer tasks may have less room.
        if classes.iter().any(|class| class.shape.has_unified_gpus()) {
            return true;
        }
        let is_restricted = classes.iter().any(|class| class.shape.restricted_cores_per_gpu() > 0);
        let needs = self.needs(counts, is_restricted);
        let mut together: Vec<bool> = vec![true; classes.len()];
        for (set, need) in needs.iter().copied().enumerate().filter(|(_, need)| *need > 0) {
            let rooms = self.room_of_set(&classes, set, need);
            let room: u64 =
                rooms.iter().zip(&classes).map(|(room, class)| u64::from(*room) * u64::from(class.count)).sum();
            if room < u64::from(need) {
                return false;
            }
            together.iter_mut().zip(&rooms).for_each(|(together, room)| *together &= *room >= need);
        }
        self.gang != Gang::StrictPack || together.contains(&true)
    }

    /// Whether the empty nodes together have the shares and the memory of GPUs, and the RAM, that these tasks take: a gang
    /// on one node needs them on that node.
    pub(super) fn may_fit_in_sum(&self, counts: &[u32]) -> bool {
        let need = self.sets.iter().zip(counts).fold(Amounts::default(), |sum, (set, tasks)| {
            let gpus = |gpus: &GpuDemand| u64::from(gpus.count) * u64::from(*tasks);
            let (shares, memory) = set.task.gpus.as_ref().map_or((0, 0), |of| match of.take {
                GpuTake::Whole => (gpus(of) * u64::from(GpuShare::WHOLE.get()), 0),
                GpuTake::Share(share) => (gpus(of) * u64::from(share.get()), 0),
                GpuTake::Memory(memory) => (0, gpus(of).saturating_mul(memory.get())),
            });
            let ram = set.task.ram.get().saturating_mul(u64::from(*tasks));
            sum.plus(Amounts { shares, memory, ram }, 1)
        });
        let is_all_unified = self.fleet.shapes().iter().all(|group| group.shape.gpus.iter().all(|gpu| gpu.unified));
        let ram = if is_all_unified { need.ram.saturating_add(need.memory) } else { need.ram };
        let need = Amounts { ram, ..need };
        let of_node = |group: &ShapeGroup| Amounts {
            shares: group.shape.gpus.len() as u64 * u64::from(GpuShare::WHOLE.get()),
            memory: (0..group.shape.gpus.len()).map(|gpu| group.shape.gpu_memory_capacity(gpu).get()).sum(),
            ram: group.idle.ram_free(&group.shape).get(),
        };
        match self.gang {
            Gang::StrictPack => self.fleet.shapes().iter().any(|group| need.is_within(of_node(group))),
            Gang::Anywhere | Gang::Packed | Gang::PreferSpread | Gang::Spread => {
                let add = |sum: Amounts, group: &ShapeGroup| sum.plus(of_node(group), u64::from(group.count));
                need.is_within(self.fleet.shapes().iter().fold(Amounts::default(), add))
            }
        }
    }

    /// For each set, its tasks and those of all sets that ask for at least as much. Zero if the set has no task. If cores
    /// are restricted to GPUs, a task with more GPUs may need fewer other cores, so it does not ask for more.
    fn needs(&self, counts: &[u32], is_restricted: bool) -> Vec<u32> {
        let need = |set: usize| {
            let own = &self.sets[set].task;
            let is_more = |other: &usize| {
                let others = &self.sets[*other].task;
                *other == set || (task_asks_no_more(own, others) && (!is_restricted || own.gpus == others.gpus))
            };
            (0..counts.len()).filter(is_more).map(|other| counts[other]).sum()
        };
        (0..counts.len()).map(|set| if counts[set] == 0 { 0 } else { need(set) }).collect()
    }

    /// The number of tasks of a set for which a node of each class has room, at most `need`.
    fn room_of_set(&self, classes: &[NodeClass], set: usize, need: u32) -> Vec<u32> {
        let placer = self.of_set(set, need);
        let limit = if self.gang == Gang::Spread { 1 } else { need };
        let verdicts = placer.judge(classes);
        let room = |(class, is_fit): (&NodeClass, bool)| if is_fit { placer.capacity(class, limit) } else { 0 };
        classes.iter().zip(verdicts.iter().map(|verdict| verdict.is_fit())).map(room).collect()
    }
}
