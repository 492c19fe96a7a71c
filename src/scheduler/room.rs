//! Room by node: how many tasks each node would take, for demands that fit exactly if their nodes have room for all
//! tasks together. A caller can ask about many nodes or many times, and decide the whole demand by adding up.

use super::decide::{Candidate, before_filters, shared};
use super::deployment::PlacementContext;
use super::filter;
use super::fit::{self, GpuChoice};
use super::neighbours::{Node, choose, neighbours};
use super::options::{FilterName, GangPlaces, SchedulerOptions};
use super::row::{Row, row_of};
use dryrack_fleet::{Fleet, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_units::MilliCpu;
use dryrack_workload::{Demand, Gang, Pick};

/// Whether the demand fits on some nodes if and only if the [`room`] on them adds up to its tasks.
pub fn is_by_room(options: &SchedulerOptions, demand: &Demand) -> bool {
    let is_gang_counted = match options.gangs {
        GangPlaces::Demand | GangPlaces::Racks | GangPlaces::Neighbours => true,
        GangPlaces::Consolidate => false,
    };
    is_gang_counted
        && demand.deployment.is_none()
        && demand.requirements.is_none()
        && !matches!(demand.pick, Some(Pick::AllGpus(_)))
}

/// Whether a node that is not ready has no room for any demand.
pub fn asks_for_readiness(options: &SchedulerOptions) -> bool {
    options.filters.iter().any(|filter| filter.stage == FilterName::Ready && filter.unless.is_none())
}

/// How many tasks of the demand the node would take in this status.
pub fn room(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId, status: &NodeStatus) -> u32 {
    let row = row_of(fleet, demand, node);
    let row = row.as_if(status);
    let passes = |stage| filter::judge_one(stage, options.gpus, demand, &row).is_fit();
    if !before_filters(row.shape).is_fit() || !options.filters.iter().all(passes) {
        return 0;
    }
    match options.gangs {
        GangPlaces::Demand | GangPlaces::Racks if demand.tasks == 1 => 1,
        GangPlaces::Demand | GangPlaces::Racks | GangPlaces::Neighbours | GangPlaces::Consolidate => {
            fit::capacity(demand, options.gpus, &row, most(demand))
        }
    }
}

/// The maximum number of tasks on one node.
fn most(demand: &Demand) -> u32 {
    if demand.gang == Gang::Spread { 1 } else { demand.tasks }
}

/// The nodes that the demand would take if gangs go to neighbours. The given nodes are in ascending order of ids, each
/// with its room and its free cores.
pub fn nodes_among_neighbours(
    demand: &Demand,
    nodes: impl Iterator<Item = (NodeId, u32, MilliCpu)>,
) -> Option<Vec<NodeId>> {
    let nodes = nodes.filter(|(_, room, _)| *room > 0).map(|(id, room, cores)| Node { id, row: 0, room, cores });
    let shares = choose(demand.tasks, &nodes.collect::<Vec<_>>())?;
    Some(shares.into_iter().map(|(node, ..)| node).collect())
}

/// The placement on these nodes alone in these statuses, if gangs go to neighbours. All of them must have room.
pub fn place_among_neighbours(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    nodes: &[(NodeId, NodeStatus)],
) -> Option<Candidate> {
    let rows: Vec<Row> = nodes.iter().map(|(id, status)| row_of(fleet, demand, *id).as_if(status)).collect();
    let all: Vec<usize> = (0..rows.len()).collect();
    let shares = neighbours(demand, options.gpus, &rows, &all)?;
    Some(shared(demand, fleet, &rows, shares, GpuChoice::new(options, context.draw)))
}
