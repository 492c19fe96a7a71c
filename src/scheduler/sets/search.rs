//! A search over all assignments of tasks to nodes, for gangs that no order of their sets places. It ends after a fixed
//! number of steps, so it always ends soon and in the same way.

use std::collections::BTreeSet;

use super::partial::Partial;
use super::{Among, SetPlacer, World};
use crate::options::GangPlaces;
use crate::verdict::Verdict;
use dryrack_ids::NodeId;
use dryrack_workload::Gang;

/// The largest number of nodes and counts that one search tries.
pub const MOST_STEPS: u32 = 4_000;

/// The number of tasks of each set on each node.
pub type Assignment = Vec<(NodeId, Vec<u32>)>;

pub enum Found {
    Assignment(Assignment),
    /// There is no assignment.
    Nothing,
    /// The search ended before it tried everything.
    GaveUp,
}

struct Search<'s, 'a> {
    placer: &'s SetPlacer<'a>,
    world: World,
    nodes: Vec<NodeId>,
    /// For each node, how many tasks of each set it and all later nodes could hold if there were no other sets.
    room_from: Vec<Vec<u64>>,
    /// Nodes with numbers of tasks that are left from there on, for which there is no assignment.
    hopeless: BTreeSet<(usize, Vec<u32>)>,
    steps: u32,
    most_steps: u32,
}

impl SetPlacer<'_> {
    pub(super) fn search(&self, world: World, counts: &[u32], most_steps: u32) -> Found {
        let is_counted = matches!(self.options.gangs, GangPlaces::Demand | GangPlaces::Racks);
        if !is_counted {
            return Found::GaveUp;
        }
        // Set by set, each node was tried for these.
        if self.gang == Gang::StrictPack || self.sets.len() < 2 {
            return Found::Nothing;
        }
        let (nodes, rooms) = self.rooms(world, counts);
        let mut room_from = rooms;
        let mut later = vec![0; counts.len()];
        for room in room_from.iter_mut().rev() {
            room.iter_mut().zip(&later).for_each(|(own, later)| *own += later);
            later.clone_from(room);
        }
        let hopeless = BTreeSet::new();
        let mut search = Search { placer: self, world, nodes, room_from, hopeless, steps: 0, most_steps };
        let mut assignment = Vec::new();
        match search.from(0, counts.to_vec(), &mut assignment) {
            Some(true) => Found::Assignment(assignment),
            Some(false) => Found::Nothing,
            None => Found::GaveUp,
        }
    }

    /// The nodes that can hold a task, with how many tasks of each set each could hold.
    fn rooms(&self, world: World, counts: &[u32]) -> (Vec<NodeId>, Vec<Vec<u64>>) {
        let empty = Partial::default();
        let each: Vec<NodeId> = self.fleet.iter().map(|(node, _)| node).collect();
        let classes = self.classes(world, &empty, Among::These(&each));
        let judged: Vec<Vec<Verdict>> = (0..counts.len()).map(|set| self.of_set(set, 1).judge(&classes)).collect();
        let limit = |set: usize| if self.gang == Gang::Spread { counts[set].min(1) } else { counts[set] };
        let room = |place: usize| -> Vec<u64> {
            let of = |set: usize| match judged[set][place].is_fit() {
                true => u64::from(self.of_set(set, counts[set]).capacity(&classes[place], limit(set))),
                false => 0,
            };
            (0..counts.len()).map(of).collect()
        };
        let all = each.iter().enumerate().map(|(place, node)| (*node, room(place)));
        all.filter(|(_, room)| room.iter().any(|tasks| *tasks > 0)).unzip()
    }

    /// The part that an assignment places.
    pub(super) fn assigned(&self, world: World, assignment: Assignment) -> Partial {
        let mut partial = Partial::default();
        for (node, counts) in assignment {
            let fits = self.put(world, &mut partial, node, &counts);
            assert!(fits, "an assignment that was found fits");
        }
        partial
    }

    /// Puts these tasks on one node, the largest first. Returns whether they fit.
    fn put(&self, world: World, partial: &mut Partial, node: NodeId, counts: &[u32]) -> bool {
        let of_set = |set: usize| {
            counts[set] == 0 || {
                let exactly = (counts[set], counts[set]);
                self.step(world, partial, set, exactly, Among::These(&[node])) == counts[set]
            }
        };
        self.order().into_iter().all(of_set)
    }
}

impl Search<'_, '_> {
    /// Assigns the tasks that are left to the nodes from this one on. `None` if too many steps were taken.
    fn from(&mut self, place: usize, left: Vec<u32>, assignment: &mut Assignment) -> Option<bool> {
        if left.iter().all(|tasks| *tasks == 0) {
            return Some(true);
        }
        let has_room = self
            .room_from
            .get(place)
            .is_some_and(|room| left.iter().zip(room).all(|(tasks, room)| u64::from(*tasks) <= *room));
        if !has_room || self.hopeless.contains(&(place, left.clone())) {
            return Some(false);
        }
        let mut counts = vec![0; left.len()];
        let found = self.on_node(place, &left, 0, &mut counts, assignment)?;
        if !found {
            self.hopeless.insert((place, left));
        }
        Some(found)
    }

    /// Tries all numbers of tasks of the sets from `set` on for one node, most tasks first.
    fn on_node(
        &mut self,
        place: usize,
        left: &[u32],
        set: usize,
        counts: &mut Vec<u32>,
        assignment: &mut Assignment,
    ) -> Option<bool> {
        if set < left.len() {
            let is_spread = self.placer.gang == Gang::Spread;
            let used: u32 = counts[..set].iter().sum();
            let most = if is_spread { left[set].min(1 - used.min(1)) } else { left[set] };
            for tasks in (0..=most).rev() {
                counts[set] = tasks;
                if tasks > 0 && !self.fits(place, counts)? {
                    continue;
                }
                if self.on_node(place, left, set + 1, counts, assignment)? {
                    return Some(true);
                }
            }
            counts[set] = 0;
            return Some(false);
        }
        let rest = left.iter().zip(&*counts).map(|(left, taken)| left - taken).collect();
        assignment.push((self.nodes[place], counts.clone()));
        let found = self.from(place + 1, rest, assignment)?;
        if !found {
            assignment.pop();
        }
        Some(found)
    }

    /// Whether these tasks fit on the node together.
    fn fits(&mut self, place: usize, counts: &[u32]) -> Option<bool> {
        self.steps += 1;
        if self.steps > self.most_steps {
            return None;
        }
        let mut partial = Partial::default();
        Some(self.placer.put(self.world, &mut partial, self.nodes[place], counts))
    }
}
