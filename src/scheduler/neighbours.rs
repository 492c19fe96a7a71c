//! Neighbours are nodes that are consecutive in the order of declaration, and consecutive suitable nodes form a run of
//! nodes. A gang goes to the run that it fills best, as in Slurm's select/cons_tres (22.05) without a configured
//! topology.
//!
//! The runs are compared in order, and the first run is the best at the beginning. A later run replaces the best run in
//! one of three cases: it has enough room and the best does not; it has enough room and fewer free cores than the best;
//! or it has too little room but more free cores than the best, even if the best has enough room. The nodes of the best
//! run are taken in order. Then the next best run is chosen, until all tasks have a place. If some nodes of a run can
//! hold all remaining tasks, the one with the fewest free cores takes them, so nodes in use fill up first.

use super::consolidate::NodeShare;
use super::fit;
use super::gpu_order::GpuOrder;
use super::node_class::NodeClass;
use dryrack_ids::NodeId;
use dryrack_units::MilliCpu;
use dryrack_workload::{Gang, TaskGroup};

/// A suitable node: its class, the number of tasks for which it has room, and its free cores.
#[derive(Clone, Copy)]
pub struct Node {
    pub id: NodeId,
    pub class: usize,
    pub room: u32,
    pub cores: MilliCpu,
}

/// The nodes for the tasks; `None` if the tasks do not fit. `classes` are all classes of the fleet. `fit` holds the
/// indexes of the classes that passed every filter.
pub fn neighbours(
    demand: TaskGroup<'_>,
    order: GpuOrder,
    classes: &[NodeClass],
    fit: &[usize],
) -> Option<Vec<NodeShare>> {
    let most = if demand.gang == Gang::Spread { 1 } else { demand.tasks };
    let mut nodes: Vec<Node> = Vec::new();
    for index in fit {
        let class = &classes[*index];
        let (room, cores) = (fit::capacity(demand, order, class, most), class.status.cpu_free(class.shape));
        nodes.extend(class.nodes().map(|id| Node { id, class: *index, room, cores }));
    }
    nodes.retain(|node| node.room > 0);
    nodes.sort_unstable_by_key(|node| node.id);
    choose(demand.tasks, &nodes)
}

/// The nodes for this many tasks. All given nodes must have room and be in order of ids.
pub fn choose(tasks: u32, nodes: &[Node]) -> Option<Vec<NodeShare>> {
    let mut runs: Vec<&[Node]> = nodes.chunk_by(|a, b| a.id.index() + 1 == b.id.index()).collect();
    let mut shares: Vec<NodeShare> = Vec::new();
    let mut left = tasks;
    while left > 0 {
        let run = runs.remove(best(&runs, left)?);
        match run.iter().filter(|node| node.room >= left).min_by_key(|node| node.cores) {
            Some(node) => {
                shares.push((node.id, node.class, left));
                left = 0;
            }
            None => {
                for node in run {
                    let tasks = node.room.min(left);
                    if tasks > 0 {
                        shares.push((node.id, node.class, tasks));
                    }
                    left -= tasks;
                }
            }
        }
    }
    Some(shares)
}

/// The index of the best run of nodes.
fn best(runs: &[&[Node]], left: u32) -> Option<usize> {
    let room = |run: &[Node]| run.iter().map(|node| u64::from(node.room)).sum::<u64>() >= u64::from(left);
    let cores = |run: &[Node]| run.iter().map(|node| node.cores).sum::<MilliCpu>();
    let of_all = runs.iter().map(|run| (room(run), cores(run))).enumerate();
    let better = |best: (usize, (bool, MilliCpu)), other: (usize, (bool, MilliCpu))| {
        let ((_, (suffices, cores)), (_, (other_suffices, other_cores))) = (best, other);
        let wins = match other_suffices {
            true => !suffices || other_cores < cores,
            false => other_cores > cores,
        };
        if wins { other } else { best }
    };
    of_all.reduce(better).map(|(place, _)| place)
}
