//! Rows are the units that the stages judge. Each class of nodes has one row, and each node that a pick names has its
//! own.

use std::sync::Arc;

use smallvec::SmallVec;

use dryrack_fleet::{Class, Fleet, Node, NodeShape, NodeStatus, ShapeGroup};
use dryrack_ids::NodeId;
use dryrack_workload::{Pick, TaskGroup};

/// Whether nodes in equal state share a row. Decisions are the same either way. `EachNode` is the plain computation:
/// the other is checked against it, and explanations use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    Classes,
    EachNode,
}

/// Nodes that the stages treat alike.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub shape: &'a NodeShape,
    pub status: &'a NodeStatus,
    /// Whether the pick of the demand allows these nodes. True if there is no pick.
    pub picked: bool,
    /// The only GPUs that may be used, if GPUs were picked.
    pub gpus: Option<SmallVec<[u16; 8]>>,
    pub count: u32,
    /// Whether the nodes are assumed to be ready, healthy and empty, whatever their real state is.
    pub is_ideal: bool,
    members: Members<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Members<'a> {
    Class(&'a Class),
    Node(NodeId),
}

impl<'a> Row<'a> {
    /// The same row with this status.
    pub fn as_if<'b>(&self, status: &'b NodeStatus) -> Row<'b>
    where
        'a: 'b,
    {
        Row { status, ..self.clone() }
    }

    /// The row of one of these nodes alone, with the state of each of its GPUs. The row of a class does not tell which
    /// GPU is in which state.
    pub fn on(&self, fleet: &'a Fleet, node: NodeId) -> Row<'a> {
        match self.members {
            Members::Node(_) => self.clone(),
            Members::Class(_) => node_row(fleet, node, self.picked, self.gpus.clone()),
        }
    }
}

impl Row<'_> {
    /// The lowest id of these nodes.
    pub fn first(&self) -> NodeId {
        match &self.members {
            Members::Class(class) => class.first(),
            Members::Node(node) => *node,
        }
    }

    /// The nodes in order of ids.
    pub fn nodes(&self) -> Box<dyn Iterator<Item = NodeId> + '_> {
        match &self.members {
            Members::Class(class) => Box::new(class.members()),
            Members::Node(node) => Box::new(std::iter::once(*node)),
        }
    }

    /// Number of GPUs that one task takes on a node of this row.
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

/// The rows of a fleet for a demand with this pick. Every node is in exactly one row.
pub fn rows<'a>(fleet: &'a Fleet, pick: Option<&Pick>, grouping: Grouping) -> Vec<Row<'a>> {
    let Some(pick) = pick else {
        return all_rows(fleet, grouping);
    };
    if grouping == Grouping::EachNode {
        let row = |id| node_row(fleet, id, pick.allows_node(id), gpus_on(pick, id));
        return fleet.iter().map(|(id, _)| row(id)).collect();
    }
    let picked: Vec<NodeId> = pick.nodes().into_iter().filter(|node| fleet.knows(*node)).collect();
    let mut rows: Vec<Row<'a>> = Vec::with_capacity(picked.len() + 8);
    for (_, class) in fleet.classes() {
        let outside = class.len() - picked.iter().filter(|node| class.contains(**node)).count();
        if outside > 0 {
            rows.push(class_row(class, outside, false));
        }
    }
    rows.extend(picked.iter().map(|id| node_row(fleet, *id, true, gpus_on(pick, *id))));
    rows
}

/// The rows of a fleet for a demand without a pick.
pub fn all_rows(fleet: &Fleet, grouping: Grouping) -> Vec<Row<'_>> {
    match grouping {
        Grouping::Classes => fleet.classes().map(|(_, class)| class_row(class, class.len(), true)).collect(),
        Grouping::EachNode => fleet.iter().map(|(id, _)| node_row(fleet, id, true, None)).collect(),
    }
}

/// The row of one node for a demand with this pick, as in [`rows`] with [`Grouping::EachNode`].
pub fn row_of<'a>(fleet: &'a Fleet, pick: Option<&Pick>, id: NodeId) -> Row<'a> {
    match pick {
        None => node_row(fleet, id, true, None),
        Some(pick) => node_row(fleet, id, pick.allows_node(id), gpus_on(pick, id)),
    }
}

/// The rows of the fleet as declared, with every node ready, healthy and empty. They show what could ever fit.
pub fn ideal_rows<'a>(fleet: &'a Fleet, pick: Option<&Pick>) -> Vec<Row<'a>> {
    match pick {
        None => fleet.shapes().iter().map(|group| ideal_row(group, group.first, group.count)).collect(),
        Some(pick) => {
            let row = |(id, node): (NodeId, &'a Node)| {
                let group = fleet
                    .shapes()
                    .iter()
                    .find(|group| Arc::ptr_eq(&group.shape, &node.shape) || group.shape == node.shape);
                let group = group.expect("every node's shape is listed");
                Row { picked: pick.allows_node(id), gpus: gpus_on(pick, id), ..ideal_row(group, id, 1) }
            };
            fleet.iter().map(row).collect()
        }
    }
}

impl Row<'_> {
    /// The row of all nodes of one shape, ready and empty.
    pub(super) fn of_shape(group: &ShapeGroup) -> Row<'_> {
        ideal_row(group, group.first, group.count)
    }
}

fn ideal_row(group: &ShapeGroup, first: NodeId, count: u32) -> Row<'_> {
    let members = Members::Node(first);
    Row { shape: &group.shape, status: &group.idle, picked: true, gpus: None, count, is_ideal: true, members }
}

fn gpus_on(pick: &Pick, node: NodeId) -> Option<SmallVec<[u16; 8]>> {
    pick.gpus_on(node).map(SmallVec::from_vec)
}

/// The row of a class that has members, for a demand without a pick.
pub fn row_of_class(class: &Class) -> Row<'_> {
    class_row(class, class.len(), true)
}

fn class_row(class: &Class, count: usize, picked: bool) -> Row<'_> {
    let members = Members::Class(class);
    Row {
        shape: &class.shape,
        status: &class.status,
        picked,
        gpus: None,
        count: count as u32,
        is_ideal: false,
        members,
    }
}

fn node_row(fleet: &Fleet, id: NodeId, picked: bool, gpus: Option<SmallVec<[u16; 8]>>) -> Row<'_> {
    let node = fleet.node(id);
    Row {
        shape: &node.shape,
        status: &node.status,
        picked,
        gpus,
        count: 1,
        is_ideal: false,
        members: Members::Node(id),
    }
}
