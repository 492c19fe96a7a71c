//! Classes of nodes in equal state, which means equal shape and equal status. In some shapes, the GPUs are
//! interchangeable: it does not matter which GPU of a node is in which state. A class of such a shape lists its GPUs
//! sorted by state, and the status of each node says which GPU is which.
//!
//! Node states recur, so some empty classes are kept, and the results that are cached for them can be used again. The
//! number of kept classes is an eighth of how often an empty class was needed again, and at most the number of nodes.
//! In a workload where tasks only arrive, states rarely recur, and kept classes would push useful entries out of the
//! cache. In such a workload, a class with one node is changed in place into the class of the node's next state, which
//! is one change instead of two.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::gpu_keys::{GpuKeys, gpu_keys, is_symmetric};
use super::node::{NodeShape, NodeState, NodeStatus};
use super::steps::{Step, Steps};
use dryrack_ids::{NodeId, OrderedSet};

/// The slot number of a class. A slot may be reused once its class is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    pub fn new(slot: u32) -> ClassId {
        ClassId(slot)
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Nodes that a scheduler cannot tell apart, except by name and by which of their GPUs is in which state.
#[derive(Clone, Debug)]
pub struct Class {
    pub shape: Arc<NodeShape>,
    /// The status that all members share. If the GPUs are interchangeable, their order differs from member to member.
    pub status: NodeStatus,
    keys: Option<GpuKeys>,
    /// The hash of the class's shape and status.
    hash: u64,
    /// The index of the class in the list of classes with members. Valid only while the class has members.
    place: u32,
    /// Whether the class is in its shape's list `emptied`. It may be listed even if it has members again.
    is_listed: bool,
    members: OrderedSet<NodeId>,
}

impl Class {
    /// The members, in order of ids.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter()
    }

    pub fn first(&self) -> NodeId {
        self.members.first().expect("a class that is listed has members")
    }

    /// The member with the next higher id.
    pub fn after(&self, node: NodeId) -> Option<NodeId> {
        self.members.after(&node)
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

/// The fields of a class that are read on every change. They are stored apart from the rest of the class, so that they
/// are compact in memory.
#[derive(Clone, Copy, Debug)]
pub struct ClassHead {
    /// The number of the shape's latest change that affected this class.
    changed: u64,
    /// The neighbours in the shape's list of classes, which is ordered by latest change. [`NOWHERE`] at an end of the
    /// list.
    before: ClassId,
    after: ClassId,
    shape_index: u32,
    generation: u32,
    len: u32,
    /// The member with the lowest id. Meaningless while the class is empty.
    first: NodeId,
}

const NOWHERE: ClassId = ClassId(u32::MAX);

impl ClassHead {
    fn new(shape_index: u32) -> ClassHead {
        let first = NodeId::new(0);
        ClassHead { changed: 0, before: NOWHERE, after: NOWHERE, shape_index, generation: 0, len: 0, first }
    }

    /// The index of the class's shape in [`super::Fleet::shapes`].
    pub fn shape_index(&self) -> usize {
        self.shape_index as usize
    }

    /// A number that distinguishes the classes that have used this slot over time.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The member with the lowest id. Panics if the class is empty.
    pub fn first(&self) -> NodeId {
        assert!(self.len > 0, "an empty class has no first member");
        self.first
    }
}

/// All nodes of one shape, in any status.
#[derive(Clone, Debug)]
pub struct ShapeGroup {
    pub shape: Arc<NodeShape>,
    /// The status of such a node when the node is ready and empty.
    pub idle: NodeStatus,
    pub first: NodeId,
    pub count: u32,
    /// Whether the GPUs of the shape are interchangeable.
    is_symmetric: bool,
}

impl ShapeGroup {
    fn keys(&self, status: &NodeStatus) -> Option<GpuKeys> {
        gpu_keys(status, self.is_symmetric)
    }

    /// The status of the class for a node with this status. If the GPUs are interchangeable, sorts them by state.
    fn status_of_class(&self, status: &NodeStatus, keys: Option<&GpuKeys>) -> NodeStatus {
        let mut of_class = status.clone();
        if self.is_symmetric && keys.is_some() {
            of_class.gpus.sort_unstable_by_key(|gpu| (gpu.memory_taken, gpu.holders, gpu.taken, gpu.state));
        }
        of_class
    }
}

/// The classes of one shape as a linked list, ordered by their latest changes. A reader that remembers a number of
/// changes finds the classes that have changed since, each once. The shapes form a linked list in the same way.
#[derive(Clone, Debug)]
struct Changes {
    count: u64,
    newest: ClassId,
    /// The number of the latest change, counted over all shapes, that affected this shape.
    changed: u64,
    before: Option<u32>,
    after: Option<u32>,
    /// How many classes of the shape are empty.
    empty: usize,
    /// All empty classes, and some classes that have members again, each once. A slot keeps its shape, so a listed
    /// class always belongs to this shape.
    emptied: VecDeque<ClassId>,
    /// How often an empty class was needed again, and how often an empty class was dropped.
    come_back: usize,
    given_up: usize,
}

/// A shape drops no empty class while it has at most this many, or at most twice as many as nodes if that is less.
const KEPT_EMPTY: usize = 16;

impl Changes {
    fn new() -> Changes {
        Changes {
            count: 0,
            newest: NOWHERE,
            changed: 0,
            before: None,
            after: None,
            empty: 0,
            emptied: VecDeque::new(),
            come_back: 0,
            given_up: 0,
        }
    }

    /// Whether empty classes were dropped often and needed again rarely. If so, a class that loses its last member is
    /// not kept.
    fn is_rarely_known(&self) -> bool {
        self.given_up > 4 * KEPT_EMPTY && self.come_back < self.given_up / 8
    }

    /// Returns an empty class to reuse, if the shape has more empty classes than it keeps for this number of nodes.
    fn vacant(&mut self, slots: &mut [Class], nodes: usize) -> Option<ClassId> {
        if self.empty <= KEPT_EMPTY.min(2 * nodes).max((self.come_back / 8).min(nodes)) {
            return None;
        }
        self.given_up += 1;
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

/// A status with the keys of its GPUs.
type Standing<'a> = (&'a NodeStatus, Option<&'a GpuKeys>);

fn is_in_state(class: &Class, (status, keys): Standing) -> bool {
    // Without `..`, so that a new field is not forgotten.
    let NodeStatus { state, is_ready_again, reliance, cpu_taken, cpu_restricted_taken, ram_taken, gpus, kinds, blocks } =
        status;
    let own = &class.status;
    let has_gpus = || match keys {
        Some(keys) => class.keys.as_deref() == Some(&**keys),
        None => class.keys.is_none() && own.gpus == *gpus,
    };
    own.cpu_taken == *cpu_taken
        && own.cpu_restricted_taken == *cpu_restricted_taken
        && own.ram_taken == *ram_taken
        && has_gpus()
        && (own.state, own.is_ready_again, own.reliance) == (*state, *is_ready_again, *reliance)
        && own.kinds == *kinds
        && own.blocks == *blocks
}

/// The hash for the lookup of a class. It leaves out the node's state and reliance, so classes that differ only in
/// these share a hash. Without `keys`, it leaves out the GPUs too.
fn hash_of(shape_index: u32, (status, keys): Standing) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write_u32(shape_index);
    hasher.write_u64(status.cpu_taken.get());
    hasher.write_u64(status.ram_taken.get());
    for key in keys.into_iter().flatten() {
        hasher.write_u64(*key);
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
    /// The head of the class in each slot.
    heads: Vec<ClassHead>,
    /// The classes that have members, in no particular order.
    inhabited: Vec<ClassId>,
    /// All classes, including empty ones, by hash.
    by_hash: HashMap<u64, SmallVec<[ClassId; 2]>, foldhash::fast::FixedState>,
    shape_index: HashMap<Arc<NodeShape>, u32, foldhash::fast::FixedState>,
    /// The same by the address of the shape, which is faster to look up. The group of the shape keeps it alive.
    by_address: HashMap<usize, u32, foldhash::fast::FixedState>,
    shapes: Vec<ShapeGroup>,
    changes: Vec<Changes>,
    /// The number of changes of all shapes, and the shape that changed last.
    change_count: u64,
    newest: Option<u32>,
    of_node: Vec<ClassId>,
    steps: Steps,
}

impl Classes {
    /// Adds a node. Returns the shape that all nodes of equal shape share.
    pub fn insert(&mut self, node: NodeId, shape: &Arc<NodeShape>, status: &NodeStatus) -> Arc<NodeShape> {
        assert_eq!(node.index(), self.of_node.len(), "nodes are declared in order");
        let known = self.by_address.get(&Arc::as_ptr(shape).addr()).or_else(|| self.shape_index.get(shape));
        let shape_index = match known {
            Some(index) => *index,
            None => {
                let index = self.shapes.len() as u32;
                self.shape_index.insert(Arc::clone(shape), index);
                self.by_address.insert(Arc::as_ptr(shape).addr(), index);
                let idle = NodeStatus::idle(NodeState::Ready, shape);
                self.changes.push(Changes::new());
                let is_symmetric = is_symmetric(shape);
                self.shapes.push(ShapeGroup { shape: Arc::clone(shape), idle, first: node, count: 0, is_symmetric });
                index
            }
        };
        self.shapes[shape_index as usize].count += 1;
        let class = self.find_or_open(shape_index, status, None);
        self.enter(class, node);
        self.of_node.push(class);
        self.note_changes(shape_index as usize, &[class]);
        Arc::clone(&self.shapes[shape_index as usize].shape)
    }

    /// Moves a node to the class of its new status. `step` describes the change, if it is known.
    pub fn update(&mut self, node: NodeId, status: &NodeStatus, step: Option<Step>) {
        let old_id = self.of_node[node.index()];
        let ClassHead { shape_index, len, generation, .. } = self.heads[old_id.index()];
        let its_own = (len == 1 && self.changes[shape_index as usize].is_rarely_known()).then_some(old_id);
        let says_all = || self.shapes[shape_index as usize].is_symmetric && self.slots[old_id.index()].keys.is_some();
        let (from, step) = ((old_id, generation), step.filter(|_| says_all()));
        let known = step.and_then(|step| self.steps.get(from, &step));
        let known = known.filter(|(id, generation)| self.heads[id.index()].generation == *generation);
        let new_id = match known {
            Some((id, _)) => {
                self.changes[shape_index as usize].come_back += usize::from(self.heads[id.index()].is_empty());
                id
            }
            None => {
                let id = self.find_or_open(shape_index, status, its_own);
                if let Some(step) = step {
                    self.steps.keep(from, step, (id, self.heads[id.index()].generation));
                }
                id
            }
        };
        if new_id == old_id {
            if its_own.is_some() {
                self.note_changes(shape_index as usize, &[old_id]);
            }
            return;
        }
        self.leave(old_id, node);
        self.enter(new_id, node);
        self.of_node[node.index()] = new_id;
        self.note_changes(shape_index as usize, &[old_id, new_id]);
    }

    fn enter(&mut self, id: ClassId, node: NodeId) {
        let (class, head) = (&mut self.slots[id.index()], &mut self.heads[id.index()]);
        if head.len == 0 {
            class.place = self.inhabited.len() as u32;
            self.inhabited.push(id);
            self.changes[head.shape_index()].empty -= 1;
        }
        head.first = if head.len == 0 { node } else { head.first.min(node) };
        head.len += 1;
        class.members.insert(node);
    }

    fn leave(&mut self, id: ClassId, node: NodeId) {
        let (class, head) = (&mut self.slots[id.index()], &mut self.heads[id.index()]);
        class.members.remove(&node);
        head.len -= 1;
        if head.first == node
            && let Some(first) = class.members.first()
        {
            head.first = first;
        }
        if head.len == 0 {
            let (place, changes) = (class.place, &mut self.changes[head.shape_index()]);
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

    /// Records one change of these classes of a shape. Moves each class to the front of the shape's list.
    fn note_changes(&mut self, shape: usize, ids: &[ClassId]) {
        self.note_change_of(shape);
        let (heads, changes) = (&mut self.heads, &mut self.changes[shape]);
        for id in ids {
            let head = &mut heads[id.index()];
            head.changed = changes.count;
            if changes.newest == *id {
                continue;
            }
            let newest = std::mem::replace(&mut changes.newest, *id);
            let (before, after) = (head.before, head.after);
            (head.before, head.after) = (newest, NOWHERE);
            // Only a class that was not in the list has no successor here.
            if after != NOWHERE {
                heads[after.index()].before = before;
                if before != NOWHERE {
                    heads[before.index()].after = after;
                }
            }
            if newest != NOWHERE {
                heads[newest.index()].after = *id;
            }
        }
        changes.count += 1;
    }

    /// Records a change of a shape and moves the shape to the front of the list of shapes.
    fn note_change_of(&mut self, shape: usize) {
        self.changes[shape].changed = self.change_count;
        self.change_count += 1;
        if self.newest == Some(shape as u32) {
            return;
        }
        let Changes { before, after, .. } = self.changes[shape];
        if let Some(after) = after {
            self.changes[after as usize].before = before;
            if let Some(before) = before {
                self.changes[before as usize].after = Some(after);
            }
        }
        let newest = self.newest.replace(shape as u32);
        if let Some(newest) = newest {
            self.changes[newest as usize].after = Some(shape as u32);
        }
        (self.changes[shape].before, self.changes[shape].after) = (newest, None);
    }

    /// The shapes with a class that changed after the first `read` changes of all shapes, each once, latest change
    /// first.
    pub fn changed_shapes(&self, read: u64) -> impl Iterator<Item = usize> + '_ {
        let mut next = self.newest;
        std::iter::from_fn(move || {
            let shape = next? as usize;
            let changes = &self.changes[shape];
            next = changes.before;
            (changes.changed >= read).then_some(shape)
        })
    }

    /// How many changes all shapes have had together.
    pub fn all_changes(&self) -> u64 {
        self.change_count
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.inhabited.iter().map(|id| (*id, &self.slots[id.index()]))
    }

    /// The classes of a shape that changed after the first `read` changes of the shape, each once and with its head,
    /// latest change first. Some of them may be empty.
    pub fn changes(&self, shape: usize, read: u64) -> impl Iterator<Item = (ClassId, &ClassHead)> + '_ {
        let mut next = self.changes[shape].newest;
        std::iter::from_fn(move || {
            let id = next;
            // `NOWHERE` has no head.
            let head = self.heads.get(id.index())?;
            next = head.before;
            (head.changed >= read).then_some((id, head))
        })
    }

    /// How many changes the shape has had.
    pub fn change_count(&self, shape: usize) -> u64 {
        self.changes[shape].count
    }

    pub fn shapes(&self) -> &[ShapeGroup] {
        &self.shapes
    }

    /// The index of the node's shape in the list of shapes.
    pub fn shape_of(&self, node: NodeId) -> usize {
        self.heads[self.of_node[node.index()].index()].shape_index()
    }

    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    pub fn head(&self, class: ClassId) -> &ClassHead {
        &self.heads[class.index()]
    }

    pub fn get(&self, class: ClassId) -> &Class {
        &self.slots[class.index()]
    }

    pub fn assert_holds(&self, node: NodeId, shape: &Arc<NodeShape>, status: &NodeStatus) {
        let id = self.of_node[node.index()];
        let (class, head) = (self.get(id), self.head(id));
        assert!(class.members.contains(&node), "node {} is missing from its class", node.index());
        let of_members = (class.members.first(), class.members.len());
        assert_eq!((Some(head.first), head.len as usize), of_members, "of the class of node {}", node.index());
        let keys = self.shapes[head.shape_index()].keys(status);
        let has_shape = Arc::ptr_eq(&class.shape, shape) || class.shape == *shape;
        let is_its_own = has_shape && is_in_state(class, (status, keys.as_ref()));
        assert!(is_its_own, "node {} is in the wrong class: {status:?} in {:?}", node.index(), class.status);
    }

    /// Finds or creates the class of this status. If `its_own` is given, the only member of that class is about to move
    /// to the new class, so its slot may be reused.
    fn find_or_open(&mut self, shape_index: u32, status: &NodeStatus, its_own: Option<ClassId>) -> ClassId {
        let Classes { slots, heads, by_hash, shapes, changes, .. } = self;
        let (changes, group) = (&mut changes[shape_index as usize], &shapes[shape_index as usize]);
        let keys = group.keys(status);
        let hash = hash_of(shape_index, (status, keys.as_ref()));
        let same = by_hash.get(&hash).map_or(&[][..], |same| same);
        let is_it = |id: &&ClassId| {
            heads[id.index()].shape_index == shape_index && is_in_state(&slots[id.index()], (status, keys.as_ref()))
        };
        if let Some(id) = same.iter().find(is_it) {
            changes.come_back += usize::from(heads[id.index()].is_empty());
            return *id;
        }
        let of_class = group.status_of_class(status, keys.as_ref());
        let id = match its_own.or_else(|| changes.vacant(slots, group.count as usize)) {
            Some(id) => {
                let class = &mut slots[id.index()];
                if let Entry::Occupied(mut same) = by_hash.entry(class.hash) {
                    same.get_mut().retain(|class| *class != id);
                    if same.get().is_empty() {
                        same.remove();
                    }
                }
                (class.status, class.keys) = (of_class, keys);
                class.hash = hash;
                heads[id.index()].generation += 1;
                id
            }
            None => {
                let id = ClassId::new(slots.len() as u32);
                slots.push(Class {
                    // Use the shared `Arc` of equal shapes, because results derived from a shape are cached by its
                    // address.
                    shape: Arc::clone(&group.shape),
                    status: of_class,
                    keys,
                    hash,
                    place: 0,
                    is_listed: false,
                    members: OrderedSet::default(),
                });
                heads.push(ClassHead::new(shape_index));
                changes.empty += 1;
                id
            }
        };
        by_hash.entry(hash).or_default().push(id);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{GpuShape, GpuStatus, ISLANDS_LABEL};
    use dryrack_rng::Stream;
    use dryrack_units::{Bytes, GpuShare, MilliCpu};

    /// Compares the classes with nodes grouped by their taken resources. Some draws use few states, which recur, and
    /// others use many states, which do not.
    #[test]
    fn nodes_in_equal_state_are_one_class_whatever_was_before() {
        const NODES: usize = 30;
        let shape = Arc::new(NodeShape::of(MilliCpu::from_cores(1), Bytes::from_gib(1), Vec::new()));
        for states in [8, 40, 1000] {
            let mut draws = Stream::new(states, "classes test", 0);
            let mut classes = Classes::default();
            let mut nodes = vec![NodeStatus::idle(NodeState::Ready, &shape); NODES];
            nodes.iter().enumerate().for_each(|(index, idle)| {
                classes.insert(NodeId::new(index), &shape, idle);
            });
            let mut known = BTreeMap::new();
            for _ in 0..2000 {
                let index = draws.index(NODES);
                nodes[index].cpu_taken = MilliCpu::new(draws.between(1, states));
                classes.update(NodeId::new(index), &nodes[index], None);
                let mut plain: BTreeMap<MilliCpu, Vec<NodeId>> = BTreeMap::new();
                for (index, node) in nodes.iter().enumerate() {
                    plain.entry(node.cpu_taken).or_default().push(NodeId::new(index));
                }
                let kept = classes.iter().map(|(_, class)| (class.status.cpu_taken, class.members().collect()));
                assert_eq!(kept.collect::<BTreeMap<_, _>>(), plain);
                for (id, class) in classes.iter() {
                    let taken = *known.entry((id, classes.head(id).generation())).or_insert(class.status.cpu_taken);
                    assert_eq!(taken, class.status.cpu_taken, "another state is another generation");
                }
            }
            let most = 2 * NODES + KEPT_EMPTY;
            assert!(classes.slots.len() <= most, "{} slots for {NODES} nodes", classes.slots.len());
        }
    }

    /// Compares the classes with sorted GPU states. GPUs are not sorted if the node has two islands or foreign use.
    #[test]
    fn which_gpus_are_in_which_state_does_not_show_where_they_can_stand_in_for_each_other() {
        const NODES: usize = 40;
        let whole = |gpus: usize| {
            let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); gpus];
            NodeShape::of(MilliCpu::from_cores(1), Bytes::from_gib(1), gpus)
        };
        let mut halves = whole(4);
        halves.labels.insert(ISLANDS_LABEL.into(), "2+2".into());
        for (shape, is_symmetric) in [(whole(3), true), (whole(8), true), (whole(10), true), (halves, false)] {
            let shape = Arc::new(shape);
            let mut draws = Stream::new(7, "symmetric classes test", 0);
            let mut classes = Classes::default();
            let mut nodes = vec![NodeStatus::idle(NodeState::Ready, &shape); NODES];
            nodes.iter().enumerate().for_each(|(index, idle)| {
                classes.insert(NodeId::new(index), &shape, idle);
            });
            for _ in 0..1000 {
                let index = draws.index(NODES);
                let gpu = &mut nodes[index].gpus[draws.index(shape.gpus.len())];
                (gpu.taken, gpu.holders) = *draws.pick(&[(0, 0), (500, 1), (1000, 1), (1000, 2)].map(share));
                gpu.foreign.share = GpuShare::new(if draws.chance(20) { 100 } else { 0 });
                classes.update(NodeId::new(index), &nodes[index], None);
                let state = |status: &NodeStatus| {
                    let gpu = |gpu: &GpuStatus| (gpu.foreign.share, gpu.taken, gpu.holders);
                    let mut gpus: Vec<_> = status.gpus.iter().map(gpu).collect();
                    if is_symmetric && status.gpus.iter().all(|gpu| gpu.foreign.is_none()) {
                        gpus.sort_unstable();
                    }
                    gpus
                };
                let mut plain: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
                for (index, node) in nodes.iter().enumerate() {
                    plain.entry(state(node)).or_default().push(NodeId::new(index));
                    classes.assert_holds(NodeId::new(index), &shape, node);
                }
                let kept = classes.iter().map(|(_, class)| (state(&class.status), class.members().collect()));
                assert_eq!(kept.collect::<BTreeMap<_, _>>(), plain);
            }
        }
    }

    fn share((taken, holders): (u32, u32)) -> (GpuShare, u32) {
        (GpuShare::new(taken), holders)
    }
}
