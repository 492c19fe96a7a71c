//! Decisions that depend only on single nodes, each in a given status. Planning ahead uses them, because the future
//! status of a node differs from its current one. They exist only for demands that are decided node by node.
//! [`super::room`] counts how many tasks the nodes hold.

use super::context::PlacementContext;
use super::decision::Candidate;
use super::filter::FilterName;
use super::gpu_order::GpuOrder;
use super::node_class::{NodeClass, class_of_node};
use super::options::{GangPlaces, SchedulerOptions, Ties};
use super::ranking::fixed;
use super::tasks::TaskPlacer;
use super::verdict::Verdict;
use dryrack_fleet::{Fleet, NodeStatus, ShapeGroup};
use dryrack_ids::NodeId;
use dryrack_workload::{Demand, DemandKind, Gang, GpuTake, Pick, TaskDemand, TaskGroup, TaskSet};

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
    (demand.task().is_none() && demand.sets().is_empty()) || is_by_chance(options)
}

/// A demand that fits by single nodes wherever this demand fits, for a demand that is not decided node by node. For a
/// gang of unequal tasks, it is the part of its largest tasks. `None` if no such demand is known.
///
/// It helps only where no GPU uses part of the RAM. There, a node with fewer tasks may have less room.
pub fn implied(options: &SchedulerOptions, demand: &Demand) -> Option<Demand> {
    // A custom filter may accept a node only while other tasks are on it.
    if options.filters.iter().any(|filter| matches!(filter.stage, FilterName::Own(_))) {
        return None;
    }
    match &demand.kind {
        DemandKind::Tasks(_) => {
            let mut implied = demand.clone();
            // A task takes all GPUs that are picked on its node, whatever number it states.
            if let (Some(Pick::AllGpus(_)), DemandKind::Tasks(task)) = (&demand.pick, &mut implied.kind) {
                implied.tasks = 1;
                task.gpus.iter_mut().for_each(|gpus| gpus.count = 1);
            }
            Some(implied)
        }
        DemandKind::Sets(sets) => {
            let of_need = sets.iter().filter(|set| set.min_tasks > 0);
            let largest = of_need.max_by_key(|set| (set.task.gpus.as_ref().map(|gpus| gpus.count), set.task.cpu))?;
            let is_more = |other: &&TaskSet| {
                other.task.gpus == largest.task.gpus && task_asks_no_more(&largest.task, &other.task)
            };
            let tasks = sets.iter().filter(is_more).map(|set| set.min_tasks).sum();
            let gang = if demand.gang == Gang::Spread { Gang::Spread } else { Gang::Anywhere };
            Some(Demand { tasks, kind: DemandKind::Tasks(largest.task.clone()), gang, ..demand.clone() })
        }
        DemandKind::Model(_) | DemandKind::Requirements(_) => None,
    }
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
pub fn asks_no_more(options: &SchedulerOptions, one: &Demand, other: &Demand) -> bool {
    // A custom filter may refuse a small task where it accepts a large one.
    if options.filters_read_amounts() {
        return one == other;
    }
    let (Some(one), Some(other)) = (one.task_group(), other.task_group()) else { return false };
    let is_gang_of_no_more = one.tasks == 1 || (one.gang == other.gang && one.tasks <= other.tasks);
    one.pick == other.pick
        && one.fields == other.fields
        && is_gang_of_no_more
        && task_asks_no_more(one.task, other.task)
}

/// Whether a task asks for at most as much of every resource as another one. False if this is not obvious.
pub(super) fn task_asks_no_more(own: &TaskDemand, others: &TaskDemand) -> bool {
    let gpus = match (&own.gpus, &others.gpus) {
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
    let is_for_the_same = (own.os, own.arch) == (others.os, others.arch) && own.labels == others.labels;
    gpus && is_for_the_same && own.cpu <= others.cpu && own.ram <= others.ram
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
