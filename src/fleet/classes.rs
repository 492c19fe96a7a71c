//! Nodes in equal state, kept together: of one shape, with equal status.
//!
//! States come back, and with them what was made of their class. So a class that is empty stays known for a while: an
//! eighth as many of them as have come back so far, but no more than there are nodes. Where tasks only come, more of them would be
//! in the way of what is still of use.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::node::{NodeShape, NodeState, NodeStatus};
use crate::ids::NodeId;

/// A class by its slot; a slot may be used again once its class is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Nodes that no scheduler could tell apart but by name.
#[derive(Clone, Debug)]
pub struct Class {
    pub shape: Arc<NodeShape>,
    pub status: NodeStatus,
    shape_index: u32,
    generation: u32,
    /// Of its shape and status.
    hash: u64,
    /// The number of the last change of its shape that was of this class.
    changed: u64,
    /// Its neighbours among the classes of its shape, in order of their last changes.
    before: Option<ClassId>,
    after: Option<ClassId>,
    /// Its place among the classes that have members, while it has some.
    place: u32,
    /// It is among those of its shape that were empty, whether or not it is now.
    is_listed: bool,
    members: BTreeSet<NodeId>,
}

impl Class {
    /// In order of ids.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().copied()
    }

    pub fn first(&self) -> NodeId {
        *self.members.first().expect("a class that is listed has members")
    }

    /// The place of its shape in [`super::Fleet::shapes`].
    pub fn shape_index(&self) -> usize {
        self.shape_index as usize
    }

    /// Another for each class that ever was in this slot.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.members.contains(&node)
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// All nodes of one shape, whatever their status.
#[derive(Clone, Debug)]
pub struct ShapeGroup {
    pub shape: Arc<NodeShape>,
    /// Their status if they were ready and empty.
    pub idle: NodeStatus,
    pub first: NodeId,
    pub count: u32,
}

/// The classes of one shape in order of their last changes, linked, so that whoever has read so many changes finds what
/// has changed since, each class once.
#[derive(Clone, Debug, Default)]
struct Changes {
    count: u64,
    newest: Option<ClassId>,
    /// How many of its classes are empty.
    empty: usize,
    /// Those, and some that have come back, each once: a slot never changes its shape.
    emptied: VecDeque<ClassId>,
    /// How often one that was empty was found again.
    come_back: usize,
}

/// So many empty classes of a shape are kept in any case.
const KEPT_EMPTY: usize = 16;

impl Changes {
    /// An empty class to be given up, where more are empty than are kept of so many nodes.
    fn vacant(&mut self, slots: &mut [Class], nodes: usize) -> Option<ClassId> {
        if self.empty <= KEPT_EMPTY.max((self.come_back / 8).min(nodes)) {
            return None;
        }
        loop {
            let id = self.emptied.pop_front().expect("all that are empty are listed");
            let class = &mut slots[id.index()];
            class.is_listed = false;
            if class.is_empty() {
                return Some(id);
            }
        }
    }
}

/// The hash of a shape and a status, by which a class is found. Of the GPUs it takes in what scheduling changes; classes
/// that differ in the rest of their status alone share a hash.
fn hash_of(shape_index: u32, status: &NodeStatus) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write_u32(shape_index);
    hasher.write_u64(status.cpu_taken.get());
    hasher.write_u64(status.ram_taken.get());
    for gpu in &status.gpus {
        hasher.write_u64(gpu.memory_taken.get() ^ u64::from(gpu.taken.get()) << 48 ^ u64::from(gpu.holders) << 32);
    }
    for (kind, count) in &status.kinds {
        hasher.write_u64(u64::from(*kind) << 32 | u64::from(*count));
    }
    status.blocks.hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    slots: Vec<Class>,
    /// Those that have members, in an order that says nothing.
    inhabited: Vec<ClassId>,
    /// All classes that are known, by their hash.
    by_hash: HashMap<u64, SmallVec<[ClassId; 2]>, foldhash::fast::FixedState>,
    shape_index: HashMap<Arc<NodeShape>, u32, foldhash::fast::FixedState>,
    shapes: Vec<ShapeGroup>,
    changes: Vec<Changes>,
    of_node: Vec<ClassId>,
}

impl Classes {
    pub fn insert(&mut self, node: NodeId, shape: &Arc<NodeShape>, status: &NodeStatus) {
        assert_eq!(node.index(), self.of_node.len(), "nodes are declared in order");
        let shape_index = match self.shape_index.get(shape) {
            Some(index) => *index,
            None => {
                let index = self.shapes.len() as u32;
                self.shape_index.insert(Arc::clone(shape), index);
                let idle = NodeStatus::idle(NodeState::Ready, shape);
                self.changes.push(Changes::default());
                self.shapes.push(ShapeGroup { shape: Arc::clone(shape), idle, first: node, count: 0 });
                index
            }
        };
        self.shapes[shape_index as usize].count += 1;
        let class = self.find_or_open(shape_index, status);
        self.enter(class, node);
        self.of_node.push(class);
        self.note_change(class);
    }

    pub fn update(&mut self, node: NodeId, status: &NodeStatus) {
        let old_id = self.of_node[node.index()];
        let old = &self.slots[old_id.index()];
        if old.status == *status {
            return;
        }
        let new_id = self.find_or_open(old.shape_index, status);
        self.leave(old_id, node);
        self.enter(new_id, node);
        self.of_node[node.index()] = new_id;
        self.note_change(old_id);
        self.note_change(new_id);
    }

    fn enter(&mut self, id: ClassId, node: NodeId) {
        let class = &mut self.slots[id.index()];
        if class.members.is_empty() {
            class.place = self.inhabited.len() as u32;
            self.inhabited.push(id);
            self.changes[class.shape_index as usize].empty -= 1;
        }
        class.members.insert(node);
    }

    fn leave(&mut self, id: ClassId, node: NodeId) {
        let class = &mut self.slots[id.index()];
        class.members.remove(&node);
        if class.members.is_empty() {
            let (place, changes) = (class.place, &mut self.changes[class.shape_index as usize]);
            changes.empty += 1;
            if !std::mem::replace(&mut class.is_listed, true) {
                changes.emptied.push_back(id);
            }
            self.inhabited.swap_remove(place as usize);
            if let Some(moved) = self.inhabited.get(place as usize) {
                self.slots[moved.index()].place = place;
            }
        }
    }

    /// It is the one of its shape that changed last.
    fn note_change(&mut self, id: ClassId) {
        let shape = self.slots[id.index()].shape_index as usize;
        let number = self.changes[shape].count;
        self.changes[shape].count += 1;
        self.slots[id.index()].changed = number;
        if self.changes[shape].newest == Some(id) {
            return;
        }
        let Class { before, after, .. } = self.slots[id.index()];
        // It has a successor unless it is new.
        if let Some(after) = after {
            self.slots[after.index()].before = before;
            if let Some(before) = before {
                self.slots[before.index()].after = Some(after);
            }
        }
        let newest = self.changes[shape].newest.replace(id);
        if let Some(newest) = newest {
            self.slots[newest.index()].after = Some(id);
        }
        (self.slots[id.index()].before, self.slots[id.index()].after) = (newest, None);
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.inhabited.iter().map(|id| (*id, &self.slots[id.index()]))
    }

    /// The classes of a shape that changed since so many of its changes were read, each once, the last first; some may be
    /// empty.
    pub fn changes(&self, shape: usize, read: u64) -> impl Iterator<Item = ClassId> + '_ {
        let slot = |id: ClassId| &self.slots[id.index()];
        let by_change = std::iter::successors(self.changes[shape].newest, move |id| slot(*id).before);
        by_change.take_while(move |id| slot(*id).changed >= read)
    }

    /// How many changes of a shape there have been.
    pub fn change_count(&self, shape: usize) -> u64 {
        self.changes[shape].count
    }

    pub fn shapes(&self) -> &[ShapeGroup] {
        &self.shapes
    }

    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    pub fn get(&self, class: ClassId) -> &Class {
        &self.slots[class.index()]
    }

    pub fn assert_holds(&self, node: NodeId, shape: &NodeShape, status: &NodeStatus) {
        let class = self.get(self.of_node[node.index()]);
        assert!(class.members.contains(&node), "node {} is missing from its class", node.index());
        assert_eq!((&*class.shape, &class.status), (shape, status), "node {} is in the wrong class", node.index());
    }

    fn find_or_open(&mut self, shape_index: u32, status: &NodeStatus) -> ClassId {
        let hash = hash_of(shape_index, status);
        let same = self.by_hash.get(&hash).map_or(&[][..], |same| same);
        let is_it = |class: &&ClassId| {
            let class = &self.slots[class.index()];
            class.shape_index == shape_index && class.status == *status
        };
        let (changes, shape) = (&mut self.changes[shape_index as usize], &self.shapes[shape_index as usize]);
        if let Some(class) = same.iter().find(is_it) {
            changes.come_back += usize::from(self.slots[class.index()].is_empty());
            return *class;
        }
        let id = match changes.vacant(&mut self.slots, shape.count as usize) {
            Some(id) => {
                let class = &mut self.slots[id.index()];
                if let Entry::Occupied(mut same) = self.by_hash.entry(class.hash) {
                    same.get_mut().retain(|class| *class != id);
                    if same.get().is_empty() {
                        same.remove();
                    }
                }
                class.status.clone_from(status);
                class.hash = hash;
                class.generation += 1;
                id
            }
            None => {
                let id = ClassId(self.slots.len() as u32);
                self.slots.push(Class {
                    // The one Arc of equal shapes, so that what is worked out of a shape can be kept by it.
                    shape: Arc::clone(&shape.shape),
                    status: status.clone(),
                    shape_index,
                    generation: 0,
                    hash,
                    changed: 0,
                    before: None,
                    after: None,
                    place: 0,
                    is_listed: false,
                    members: BTreeSet::new(),
                });
                changes.empty += 1;
                id
            }
        };
        self.by_hash.entry(hash).or_default().push(id);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rng::Stream;
    use crate::units::{Bytes, MilliCpu};

    /// Against nodes grouped by what is taken of them, with few states, which come back, and with many, which do not.
    #[test]
    fn nodes_in_equal_state_are_one_class_whatever_was_before() {
        const NODES: usize = 30;
        let shape = Arc::new(NodeShape::of(MilliCpu::from_cores(1), Bytes::from_gib(1), Vec::new()));
        for states in [8, 40, 1000] {
            let mut draws = Stream::new(states, "classes test", 0);
            let mut classes = Classes::default();
            let mut nodes = vec![NodeStatus::idle(NodeState::Ready, &shape); NODES];
            nodes.iter().enumerate().for_each(|(index, idle)| classes.insert(NodeId::new(index), &shape, idle));
            let mut known = BTreeMap::new();
            for _ in 0..2000 {
                let index = draws.index(NODES);
                nodes[index].cpu_taken = MilliCpu::new(draws.between(1, states));
                classes.update(NodeId::new(index), &nodes[index]);
                let mut plain: BTreeMap<MilliCpu, Vec<NodeId>> = BTreeMap::new();
                for (index, node) in nodes.iter().enumerate() {
                    plain.entry(node.cpu_taken).or_default().push(NodeId::new(index));
                }
                let kept = classes.iter().map(|(_, class)| (class.status.cpu_taken, class.members().collect()));
                assert_eq!(kept.collect::<BTreeMap<_, _>>(), plain);
                for (id, class) in classes.iter() {
                    let taken = *known.entry((id, class.generation())).or_insert(class.status.cpu_taken);
                    assert_eq!(taken, class.status.cpu_taken, "another state is another generation");
                }
            }
            let most = 2 * NODES + KEPT_EMPTY;
            assert!(classes.slots.len() <= most, "{} slots for {NODES} nodes", classes.slots.len());
        }
    }
}
