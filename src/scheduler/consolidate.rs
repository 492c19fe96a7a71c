//! Consolidation: the tasks of a gang on as few nodes as they fill, as HeliosArtifact (bdaae10, "framework/QSSF Service")
//! places jobs of so many GPUs on nodes of 8.
//!
//! A gang that one node could hold goes to the one with the least room that holds it. A larger one takes as many empty
//! nodes as it fills, and the rest of it the node with the most room after these; if there are too few, or the rest does
//! not fit there, it waits, even where more nodes would hold it. Among equals the first in order of declaration.

use std::cmp::Reverse;

use super::fit;
use super::options::GpuOrder;
use super::row::Row;
use dryrack_ids::NodeId;
use dryrack_workload::Demand;

/// A node by its row, with how many of the tasks it takes.
pub type Share = (NodeId, usize, u32);

/// Where the tasks go; nothing if they do not fit by this rule. `rows` are all of the fleet, `fit` those that passed every
/// filter, by their place in it.
pub fn consolidate(demand: &Demand, order: GpuOrder, rows: &[Row], fit: &[usize]) -> Option<Vec<Share>> {
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

/// How many of the tasks a node of this row would hold if it were empty.
pub fn whole_node(demand: &Demand, order: GpuOrder, row: &Row) -> u32 {
    let idle = dryrack_fleet::NodeStatus::idle(row.status.state, row.shape);
    fit::capacity(demand, order, &row.as_if(&idle), u32::MAX)
}
