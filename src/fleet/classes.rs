//! Nodes in equal state, kept together: of one shape, with equal status.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::node::{NodeShape, NodeState, NodeStatus};
use crate::ids::NodeId;

/// A class by its slot; slots are used again once their class is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    pub fn new(index: usize) -> ClassId {
        ClassId(u32::try_from(index).expect("fewer classes than nodes"))
    }

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
    members: BTreeSet<NodeId>,
}

impl Class {
    /// In order of ids; never empty.
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

/// The classes of one shape whose members changed, in order: what is kept of a class can follow from there. Of the
/// oldest changes only the number is kept.
#[derive(Clone, Debug, Default)]
struct Journal {
    dropped: u64,
    changed: Vec<ClassId>,
}

/// So many changes of one shape are kept.
const JOURNAL_LENGTH: usize = 1 << 14;

impl Journal {
    fn note(&mut self, class: ClassId) {
        if self.changed.len() >= JOURNAL_LENGTH {
            self.changed.drain(..JOURNAL_LENGTH / 2);
            self.dropped += JOURNAL_LENGTH as u64 / 2;
        }
        self.changed.push(class);
    }

    fn since(&self, read: u64) -> Option<&[ClassId]> {
        self.changed.get(usize::try_from(read.checked_sub(self.dropped)?).ok()?..)
    }

    fn end(&self) -> u64 {
        self.dropped + self.changed.len() as u64
    }
}

type Key = (u32, NodeStatus);

#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    slots: Vec<Class>,
    vacant: Vec<ClassId>,
    by_key: HashMap<Key, ClassId, foldhash::fast::FixedState>,
    shape_index: HashMap<Arc<NodeShape>, u32, foldhash::fast::FixedState>,
    shapes: Vec<ShapeGroup>,
    journals: Vec<Journal>,
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
                self.journals.push(Journal::default());
                self.shapes.push(ShapeGroup { shape: Arc::clone(shape), idle, first: node, count: 0 });
                index
            }
        };
        self.shapes[shape_index as usize].count += 1;
        let class = self.find_or_open(shape_index, status);
        self.slots[class.index()].members.insert(node);
        self.of_node.push(class);
        self.journals[shape_index as usize].note(class);
    }

    pub fn update(&mut self, node: NodeId, status: &NodeStatus) {
        let old_id = self.of_node[node.index()];
        let old = &mut self.slots[old_id.index()];
        if old.status == *status {
            return;
        }
        let shape_index = old.shape_index;
        old.members.remove(&node);
        if old.members.is_empty() {
            self.by_key.remove(&(shape_index, old.status.clone()));
            self.vacant.push(old_id);
        }
        let new_id = self.find_or_open(shape_index, status);
        self.slots[new_id.index()].members.insert(node);
        self.of_node[node.index()] = new_id;
        let journal = &mut self.journals[shape_index as usize];
        journal.note(old_id);
        journal.note(new_id);
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        let listed = self.slots.iter().enumerate().filter(|(_, class)| !class.is_empty());
        listed.map(|(index, class)| (ClassId(index as u32), class))
    }

    /// The classes of a shape that changed since so many of its changes were read, a class as often as it did; `None` where
    /// they are no longer known.
    pub fn changes(&self, shape: usize, read: u64) -> Option<&[ClassId]> {
        self.journals[shape].since(read)
    }

    /// How many changes of a shape there have been.
    pub fn change_count(&self, shape: usize) -> u64 {
        self.journals[shape].end()
    }

    /// Slots that were ever in use.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    pub fn shapes(&self) -> &[ShapeGroup] {
        &self.shapes
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
        let key = (shape_index, status.clone());
        if let Some(class) = self.by_key.get(&key) {
            return *class;
        }
        // The one Arc of equal shapes, so that what is worked out of a shape can be kept by it.
        let shape = Arc::clone(&self.shapes[shape_index as usize].shape);
        let mut class = Class { shape, status: status.clone(), shape_index, generation: 0, members: BTreeSet::new() };
        let id = match self.vacant.pop() {
            Some(id) => {
                class.generation = self.slots[id.index()].generation + 1;
                self.slots[id.index()] = class;
                id
            }
            None => {
                self.slots.push(class);
                ClassId((self.slots.len() - 1) as u32)
            }
        };
        self.by_key.insert(key, id);
        id
    }
}
