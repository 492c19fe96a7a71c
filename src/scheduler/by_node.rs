//! Decisions that depend only on single nodes, each in a given status. Planning ahead uses them, because the future
//! status of a node differs from its current one. They exist only for demands that are decided node by node.
//! [`super::room`] counts how many tasks the nodes hold.

use super::context::PlacementContext;
use super::decision::Candidate;
use super::gpu_order::GpuOrder;
use super::node_class::{NodeClass, class_of_node};
use super::options::{GangPlaces, SchedulerOptions, Ties};
use super::ranking::fixed;
use super::tasks::TaskPlacer;
use super::verdict::Verdict;
use dryrack_fleet::{Fleet, NodeStatus, ShapeGroup};
use dryrack_ids::NodeId;
use dryrack_workload::{Demand, Gang, GpuTake, Pick, TaskGroup};

/// Whether a decision about the demand depends only on single nodes: how many tasks each node would hold and how good
/// it is.
pub fn is_by_node(options: &SchedulerOptions, demand: &Demand) -> bool {
    let is_plain = demand.task().is_some();
    let picks_gpus = demand.pick.as_ref().is_some_and(Pick::is_of_gpus);
    let gangs = match options.gangs {
        GangPlaces::Demand => true,
        GangPlaces::Racks => demand.tasks == 1,
        GangPlaces::Consolidate => demand.gang == Gang::Spread,
        GangPlaces::Neighbours => false,
    };
    is_plain && !picks_gpus && gangs && !is_by_chance(options)
}

/// Whether two jobs with equal demands may be placed differently on the same fleet.
pub fn asks_for_itself(options: &SchedulerOptions, demand: &Demand) -> bool {
    demand.task().is_none() || is_by_chance(options)
}

fn is_by_chance(options: &SchedulerOptions) -> bool {
    options.ties == Ties::Random || options.gpus == GpuOrder::Random
}

/// False if nodes of this shape hold no task in any status, because a filter of fixed properties refuses them before any
/// filter reads their status. True for every demand that is not a demand for tasks, because shapes do not decide such a
/// demand.
pub fn may_ever_do(options: &SchedulerOptions, demand: &Demand, group: &ShapeGroup) -> bool {
    demand.task_group().is_none_or(|tasks| fixed(options, tasks, &NodeClass::of_shape(group)).1.is_none())
}

/// Whether `one` certainly fits on every node on which `other` fits, because it asks for at most as much of every
/// resource. False if this is not obvious.
pub fn asks_no_more(one: &Demand, other: &Demand) -> bool {
    let (Some(one), Some(other)) = (one.task_group(), other.task_group()) else { return false };
    let gpus = match (&one.task.gpus, &other.task.gpus) {
        (None, None) => true,
        (Some(own), Some(others)) => {
            let is_like = (own.take, own.min_memory) == (others.take, others.min_memory) && own.models == others.models;
            is_like
                && match own.take {
                    GpuTake::Whole => own.count <= others.count,
                    GpuTake::Share(_) | GpuTake::Memory(_) => own.count == others.count,
                }
        }
        (None, Some(_)) | (Some(_), None) => false,
    };
    let (own, others) = (one.task, other.task);
    let is_for_the_same = (own.os, own.arch) == (others.os, others.arch) && own.labels == others.labels;
    let is_gang_of_no_more = one.tasks == 1 || (one.gang == other.gang && one.tasks <= other.tasks);
    gpus && is_for_the_same
        && one.pick == other.pick
        && is_gang_of_no_more
        && own.cpu <= others.cpu
        && own.ram <= others.ram
}

/// The tasks of a demand that is decided node by node.
pub(super) fn tasks_of(demand: &Demand) -> TaskGroup<'_> {
    demand.task_group().expect("only a demand for tasks is decided node by node")
}

/// The decision as if the fleet consisted only of these nodes in the given status. Each node must have room.
pub fn decide_among(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    nodes: &[(NodeId, NodeStatus)],
) -> Option<Candidate> {
    let demand = tasks_of(demand);
    let classes: Vec<NodeClass> =
        nodes.iter().map(|(node, status)| class_of_node(fleet, demand.pick, *node).as_if(status)).collect();
    let verdicts = vec![Verdict::Fit; classes.len()];
    let placer = TaskPlacer { options, group: demand, context, fleet };
    placer.candidates_of(&classes, &verdicts, 1).into_iter().next()
}
