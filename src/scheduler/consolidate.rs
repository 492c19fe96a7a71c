//! Consolidation: the tasks of a gang go to as few nodes as possible, as HeliosArtifact (bdaae10, "framework/QSSF
//! Service") places jobs with many GPUs on nodes of 8.
//!
//! A gang that one node could hold goes to the node with the least room that holds it. A larger gang takes as many
//! empty nodes as it fills, and the rest goes to the node with the most room after these. If there are too few such
//! nodes, or the rest does not fit there, the gang waits, even if more nodes would hold it. Ties go to the node
//! declared first.

use std::cmp::Reverse;

use super::fit;
use super::options::GpuOrder;
use super::row::Row;
use dryrack_ids::NodeId;
use dryrack_workload::TaskGroup;

/// A node, the index of its row, and how many of the tasks it takes.
pub type Share = (NodeId, usize, u32);

/// The nodes that the tasks go to; `None` if they do not fit by this rule. `rows` are all rows of the fleet, and
/// `fit` the indexes of those that passed every filter.
pub fn consolidate(demand: TaskGroup<'_>, order: GpuOrder, rows: &[Row], fit: &[usize]) -> Option<Vec<Share>> {
    let size = fit.iter().map(|index| whole_node(demand, order, &rows[*index])).max()?;
    let room = |index: usize| fit::capacity(demand, order, &rows[index], size);
    if demand.tasks <= size {
        let holds = fit.iter().map(|index| (room(*index), rows[*index].first(), *index));
        let (_, node, index) = holds.filter(|(room, ..)| *room >= demand.tasks).min()?;
        return Some(vec![(node, index, demand.tasks)]);
    }
    let mut nodes: Vec<(Reverse<u32>, NodeId, usize)> = Vec::new();
    for index in fit {
        let room = room(*index);
        nodes.extend(rows[*index].nodes().map(|node| (Reverse(room), node, *index)));
    }
    nodes.sort_unstable();
    let (full, rest) = ((demand.tasks / size) as usize, demand.tasks % size);
    let wanted = full + usize::from(rest > 0);
    if nodes.len() < wanted || nodes[..full].iter().any(|(Reverse(room), ..)| *room < size) {
        return None;
    }
    if rest > 0 && nodes[full].0.0 < rest {
        return None;
    }
    let tasks = |place: usize| if place < full { size } else { rest };
    Some(nodes[..wanted].iter().enumerate().map(|(place, (_, node, index))| (*node, *index, tasks(place))).collect())
}

/// How many of the tasks an empty node of this row would hold.
pub fn whole_node(demand: TaskGroup<'_>, order: GpuOrder, row: &Row) -> u32 {
    let idle = dryrack_fleet::NodeStatus::idle(row.status.state, row.shape);
    fit::capacity(demand, order, &row.as_if(&idle), u32::MAX)
}
