//! Classes of nodes are the units that the stages judge. All nodes of a class are in equal state. Each node that a pick
//! names is a separate class.

use std::sync::Arc;

use smallvec::SmallVec;

use dryrack_fleet::{Class, ClassId, Fleet, Moment, Node, NodeShape, NodeStatus, ShapeGroup};
use dryrack_ids::NodeId;
use dryrack_workload::{Pick, TaskGroup};

/// Whether nodes in equal state form one class. Decisions are the same either way. `EachNode` is the plain computation:
/// classes are checked against it, and explanations use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    Classes,
    EachNode,
}

/// Nodes that the stages treat alike.
#[derive(Clone, Debug)]
pub struct NodeClass<'a> {
    pub shape: &'a NodeShape,
    pub status: &'a NodeStatus,
    /// Whether the pick of the demand allows these nodes. True if there is no pick.
    pub picked: bool,
    /// The only GPUs that may be used, if GPUs were picked.
    pub gpus: Option<SmallVec<[u16; 8]>>,
    pub count: u32,
    pub moment: Moment,
    /// Whether the nodes are assumed to be ready, healthy and empty instead of in their real state.
    pub is_ideal: bool,
    members: Members<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Members<'a> {
    Class(&'a Class),
    Node(NodeId),
}

impl<'a> NodeClass<'a> {
    /// The same class with this status.
    pub fn as_if<'b>(&self, status: &'b NodeStatus) -> NodeClass<'b>
    where
        'a: 'b,
    {
        NodeClass { status, ..self.clone() }
    }

    /// This one node, ready, healthy and empty.
    pub fn as_idle(&self, fleet: &'a Fleet) -> NodeClass<'a> {
        let group = &fleet.shapes()[fleet.shape_index(self.first())];
        NodeClass { status: &group.idle, is_ideal: true, ..self.clone() }
    }

    /// One of these nodes as a class of its own, with the state of each of its GPUs. A class of several nodes does not
    /// say which GPU is in which state.
    pub fn on(&self, fleet: &'a Fleet, node: NodeId) -> NodeClass<'a> {
        match self.members {
            Members::Node(_) => self.clone(),
            Members::Class(_) => class_of_one(fleet, node, self.picked, self.gpus.clone()),
        }
    }
}

impl NodeClass<'_> {
    /// The lowest id of these nodes.
    pub fn first(&self) -> NodeId {
        match &self.members {
            Members::Class(class) => class.first(),
            Members::Node(node) => *node,
        }
    }

    /// The node of these with the next higher id.
    pub fn after(&self, node: NodeId) -> Option<NodeId> {
        match &self.members {
            Members::Class(class) => class.after(node),
            Members::Node(_) => None,
        }
    }

    /// The nodes in order of ids.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let (class, node) = match &self.members {
            Members::Class(class) => (Some(class.members()), None),
            Members::Node(node) => (None, Some(*node)),
        };
        class.into_iter().flatten().chain(node)
    }

    /// Number of GPUs that one task takes on a node of this class.
    pub fn gpus_per_task(&self, demand: TaskGroup<'_>) -> u32 {
        match (demand.pick, &self.gpus, &demand.task.gpus) {
            (Some(Pick::AllGpus(_)), Some(picked), _) => picked.len() as u32,
            (_, _, Some(gpus)) => gpus.count,
            (_, _, None) => 0,
        }
    }

    pub fn allows_gpu(&self, index: usize) -> bool {
        self.gpus.as_ref().is_none_or(|picked| picked.iter().any(|allowed| usize::from(*allowed) == index))
    }
}

/// The classes of a fleet for a demand with this pick. Every node is in exactly one class.
pub fn node_classes<'a>(fleet: &'a Fleet, pick: Option<&Pick>, grouping: Grouping) -> Vec<NodeClass<'a>> {
    let Some(pick) = pick else {
        return all_classes(fleet, grouping);
    };
    if grouping == Grouping::EachNode {
        let class = |id| class_of_one(fleet, id, pick.allows_node(id), gpus_on(pick, id));
        return fleet.iter().map(|(id, _)| class(id)).collect();
    }
    let picked: Vec<NodeId> = pick.nodes().into_iter().filter(|node| fleet.knows(*node)).collect();
    let mut classes: Vec<NodeClass<'a>> = Vec::with_capacity(picked.len() + 8);
    for (_, class) in fleet.classes() {
        let outside = class.len() - picked.iter().filter(|node| class.contains(**node)).count();
        if outside > 0 {
            classes.push(class_of_members(fleet, class, outside, false));
        }
    }
    classes.extend(picked.iter().map(|id| class_of_one(fleet, *id, true, gpus_on(pick, *id))));
    classes
}

/// The classes of a fleet for a demand without a pick.
pub fn all_classes(fleet: &Fleet, grouping: Grouping) -> Vec<NodeClass<'_>> {
    match grouping {
        Grouping::Classes => {
            fleet.classes().map(|(_, class)| class_of_members(fleet, class, class.len(), true)).collect()
        }
        Grouping::EachNode => fleet.iter().map(|(id, _)| class_of_one(fleet, id, true, None)).collect(),
    }
}

/// One node as a class of its own, for a demand with this pick, as in [`node_classes`] with [`Grouping::EachNode`].
pub fn class_of_node<'a>(fleet: &'a Fleet, pick: Option<&Pick>, id: NodeId) -> NodeClass<'a> {
    match pick {
        None => class_of_one(fleet, id, true, None),
        Some(pick) => class_of_one(fleet, id, pick.allows_node(id), gpus_on(pick, id)),
    }
}

/// The classes of the fleet as declared, with every node ready, healthy and empty. They show what could ever fit.
pub fn ideal_classes<'a>(fleet: &'a Fleet, pick: Option<&Pick>) -> Vec<NodeClass<'a>> {
    match pick {
        None => fleet.shapes().iter().map(|group| ideal_class(group, group.first, group.count)).collect(),
        Some(pick) => {
            let class = |(id, node): (NodeId, &'a Node)| {
                let group = fleet
                    .shapes()
                    .iter()
                    .find(|group| Arc::ptr_eq(&group.shape, &node.shape) || group.shape == node.shape);
                let group = group.expect("every node's shape is listed");
                NodeClass { picked: pick.allows_node(id), gpus: gpus_on(pick, id), ..ideal_class(group, id, 1) }
            };
            fleet.iter().map(class).collect()
        }
    }
}

impl NodeClass<'_> {
    /// All nodes of one shape as one class, ready and empty.
    pub(super) fn of_shape(group: &ShapeGroup) -> NodeClass<'_> {
        ideal_class(group, group.first, group.count)
    }
}

fn ideal_class(group: &ShapeGroup, first: NodeId, count: u32) -> NodeClass<'_> {
    let members = Members::Node(first);
    NodeClass {
        shape: &group.shape,
        status: &group.idle,
        picked: true,
        gpus: None,
        count,
        // Stages that read the time let ideal nodes pass.
        moment: Moment::default(),
        is_ideal: true,
        members,
    }
}

fn gpus_on(pick: &Pick, node: NodeId) -> Option<SmallVec<[u16; 8]>> {
    pick.gpus_on(node).map(SmallVec::from_vec)
}

/// The [`NodeClass`] of a class of the fleet that is not empty, for a demand without a pick.
pub fn class_with_members(fleet: &Fleet, id: ClassId) -> NodeClass<'_> {
    let class = fleet.class(id);
    class_of_members(fleet, class, class.len(), true)
}

fn class_of_members<'a>(fleet: &Fleet, class: &'a Class, count: usize, picked: bool) -> NodeClass<'a> {
    let members = Members::Class(class);
    NodeClass {
        shape: &class.shape,
        status: &class.status,
        picked,
        gpus: None,
        count: count as u32,
        moment: fleet.moment(),
        is_ideal: false,
        members,
    }
}

fn class_of_one(fleet: &Fleet, id: NodeId, picked: bool, gpus: Option<SmallVec<[u16; 8]>>) -> NodeClass<'_> {
    let node = fleet.node(id);
    NodeClass {
        shape: &node.shape,
        status: &node.status,
        picked,
        gpus,
        count: 1,
        moment: fleet.moment(),
        is_ideal: false,
        members: Members::Node(id),
    }
}
