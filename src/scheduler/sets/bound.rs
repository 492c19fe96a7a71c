//! A condition that every place of a gang of unequal tasks meets. It is cheap, so it is asked before the search.
//!
//! The tasks of a set, and those of the sets that ask for at least as much, all need room for a task of this set. If the
//! nodes do not have that much room, no order and no search finds a place.

use super::partial::Partial;
use super::{Among, SetPlacer, World};
use crate::by_node::task_asks_no_more;
use crate::filter::FilterName;
use crate::node_class::NodeClass;
use dryrack_workload::Gang;

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
