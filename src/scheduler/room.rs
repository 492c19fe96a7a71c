//! Room by node: how many tasks each node would take. This is for demands that fit if and only if their nodes together
//! have room for all tasks. For such a demand, a caller can ask about many nodes, or many times, and decide the whole
//! demand by adding up.

use super::by_node::tasks_of;
use super::context::PlacementContext;
use super::decision::Candidate;
use super::filter;
use super::filter::FilterName;
use super::fit;
use super::neighbours::{Node, choose};
use super::node_class::{NodeClass, class_of_node};
use super::options::{GangPlaces, SchedulerOptions};
use super::tasks::{TaskPlacer, before_filters};
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_units::MilliCpu;
use dryrack_workload::{Demand, Gang, Pick, TaskGroup};

/// Whether the demand fits on a set of nodes if and only if their [`room`] adds up to at least its tasks.
pub fn is_by_room(options: &SchedulerOptions, demand: &Demand) -> bool {
    let is_gang_counted = match options.gangs {
        GangPlaces::Demand | GangPlaces::Racks | GangPlaces::Neighbours => true,
        GangPlaces::Consolidate => false,
    };
    is_gang_counted && demand.task().is_some() && !matches!(demand.pick, Some(Pick::AllGpus(_)))
}

/// Whether the profile gives no demand any room on a node that is not ready.
pub fn asks_for_readiness(options: &SchedulerOptions) -> bool {
    options.filters.iter().any(|filter| filter.stage == FilterName::Ready && filter.unless.is_none())
}

/// How many tasks of the demand the node would take in this status.
pub fn room(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId, status: &NodeStatus) -> u32 {
    let demand = tasks_of(demand);
    let class = class_of_node(fleet, demand.pick, node);
    let class = class.as_if(status);
    let passes = |stage| filter::judge_one(stage, options.gpus, demand, &class).is_fit();
    if !before_filters(class.shape).is_fit() || !options.filters.iter().all(passes) {
        return 0;
    }
    match options.gangs {
        GangPlaces::Demand | GangPlaces::Racks if demand.tasks == 1 => 1,
        GangPlaces::Demand | GangPlaces::Racks | GangPlaces::Neighbours | GangPlaces::Consolidate => {
            fit::capacity(demand, options.gpus, &class, most(demand))
        }
    }
}

/// Why the node takes no task of the demand now. `None` if it would take one.
pub fn why_no_room(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Option<Reason> {
    let demand = tasks_of(demand);
    let class = class_of_node(fleet, demand.pick, node);
    let refusal = |stage| filter::judge_one(stage, options.gpus, demand, &class).reason();
    before_filters(class.shape).reason().or_else(|| options.filters.iter().find_map(refusal))
}

/// The maximum number of tasks on one node.
fn most(demand: TaskGroup<'_>) -> u32 {
    if demand.gang == Gang::Spread { 1 } else { demand.tasks }
}

/// The nodes that the demand would take if gangs go to neighbours. Each given node has its room and its free cores, and
/// the nodes are in ascending order of ids.
pub fn nodes_among_neighbours(
    demand: &Demand,
    nodes: impl Iterator<Item = (NodeId, u32, MilliCpu)>,
) -> Option<Vec<NodeId>> {
    let nodes = nodes.filter(|(_, room, _)| *room > 0).map(|(id, room, cores)| Node { id, class: 0, room, cores });
    let shares = choose(demand.tasks, &nodes.collect::<Vec<_>>())?;
    Some(shares.into_iter().map(|(node, ..)| node).collect())
}

/// The placement if gangs go to neighbours and only these nodes exist, in these statuses. All of them must have room.
pub fn place_among_neighbours(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    nodes: &[(NodeId, NodeStatus)],
) -> Option<Candidate> {
    let demand = tasks_of(demand);
    let classes: Vec<NodeClass> =
        nodes.iter().map(|(id, status)| class_of_node(fleet, demand.pick, *id).as_if(status)).collect();
    let all: Vec<usize> = (0..classes.len()).collect();
    TaskPlacer { options, group: demand, context, fleet }.among_neighbours(&classes, &all)
}
