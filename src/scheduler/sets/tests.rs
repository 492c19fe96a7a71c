//! Tests of gangs of unequal tasks. The expected places follow from the rules by hand.

use std::sync::Arc;

use super::*;
use crate::by_node::implied;
use crate::options::GangPlaces;
use crate::room::room;
use crate::test_world::{cpu_task, fleet, gpu_task, hold, node, options, shares, whole_gpus, with_gpus};
use dryrack_event::Refusal;
use dryrack_fleet::{GpuClaim, NodeShape, RESTRICTED_CORES_LABEL};
use dryrack_rng::Stream;
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Demand, TaskDemand};

/// A set with a number of tasks, the least number, and the resources of each.
fn set(tasks: u32, min_tasks: u32, task: TaskDemand) -> TaskSet {
    TaskSet { name: "set".into(), tasks, min_tasks, task }
}

fn all_of(tasks: u32, task: TaskDemand) -> TaskSet {
    set(tasks, tasks, task)
}

fn with_ram(gib: u64, task: TaskDemand) -> TaskDemand {
    TaskDemand { ram: Bytes::from_gib(gib), ..task }
}

/// A task of whole GPUs of these models.
fn of_models(count: u32, models: &[&str]) -> TaskDemand {
    gpu_task(count, GpuTake::Whole, models)
}

fn with_cores(cores: u64, shape: NodeShape) -> NodeShape {
    NodeShape { cpu: MilliCpu::from_cores(cores), ..shape }
}

fn placer<'a>(options: &'a SchedulerOptions, sets: &'a [TaskSet], gang: Gang, fleet: &'a Fleet) -> SetPlacer<'a> {
    let context = PlacementContext::UNSUBMITTED;
    SetPlacer { options, sets, gang, pick: None, speeds: None, fields: None, context, fleet }
}

/// The nodes of the gang, each with its number of tasks of each set. `None` if it is refused.
fn placed_by(placer: SetPlacer<'_>) -> Option<Vec<(usize, Vec<u32>)>> {
    let places = |grouping| {
        let candidate = placer.candidates(grouping, 1).ok()?.into_iter().next().expect("a candidate");
        let counts = |claim: &NodeClaim| (claim.node.index(), claim.sets.as_ref().expect("sets").to_vec());
        Some(candidate.placement.claims().iter().map(counts).collect::<Vec<_>>())
    };
    assert_eq!(places(Grouping::Classes), places(Grouping::EachNode));
    places(Grouping::Classes)
}

fn placed(sets: &[TaskSet], gang: Gang, fleet: &Fleet) -> Option<Vec<(usize, Vec<u32>)>> {
    placed_by(placer(&options(), sets, gang, fleet))
}

fn in_places(gangs: GangPlaces) -> SchedulerOptions {
    SchedulerOptions { gangs, ..options() }
}

fn verdicts_of(placer: SetPlacer<'_>) -> Vec<Verdict> {
    let decision = placer.decide(Grouping::EachNode, 1);
    placer.findings(&decision).into_iter().map(|finding| finding.verdict).collect()
}

#[test]
fn sets_with_more_gpus_for_each_task_come_first_then_those_with_more_cores_and_more_ram() {
    let fleet = fleet([]);
    let options = options();
    let order = |sets: &[TaskDemand]| {
        let sets: Vec<TaskSet> = sets.iter().map(|task| all_of(1, task.clone())).collect();
        placer(&options, &sets, Gang::Anywhere, &fleet).order()
    };
    // 3 GPUs are less than 7 halves, and 4 are more.
    assert_eq!(order(&[whole_gpus(3), shares(7, 500)]), [1, 0]);
    assert_eq!(order(&[shares(7, 500), whole_gpus(4)]), [1, 0]);
    assert_eq!(order(&[cpu_task(64), whole_gpus(1)]), [1, 0]);
    assert_eq!(order(&[cpu_task(2), cpu_task(3), with_ram(1, cpu_task(2))]), [1, 2, 0]);
    assert_eq!(order(&[cpu_task(2), cpu_task(2)]), [0, 1]);
}

#[test]
fn other_orders_are_tried_if_the_largest_tasks_cannot_be_placed_first() {
    // A set goes to the node with the fewest free cores. This rule has no search through all assignments.
    let options = in_places(GangPlaces::Neighbours);
    let models: [&[&str]; 3] = [&["a"; 4], &["b"; 4], &["c"; 4]];
    let fleet = fleet(models.iter().zip([1, 2, 3]).map(|(models, cores)| with_cores(cores, node(models))));
    let places = |sets: &[TaskSet]| placed_by(placer(&options, sets, Gang::Anywhere, &fleet));
    // The large task would take node 0 from the tasks of model `a`.
    let smallest_first = [all_of(1, of_models(4, &[])), all_of(4, of_models(1, &["a"]))];
    assert_eq!(places(&smallest_first), Some(vec![(0, vec![0, 4]), (1, vec![1, 0])]));
    // The first set must come before the second, and the second before the third.
    let as_written =
        [all_of(1, of_models(3, &["a"])), all_of(1, of_models(4, &["a", "b"])), all_of(1, of_models(2, &["b", "c"]))];
    assert_eq!(places(&as_written), Some(vec![(0, vec![1, 0, 0]), (1, vec![0, 1, 0]), (2, vec![0, 0, 1])]));
    // No order of these does: the second must come before the first, and the third before the second.
    let none = [as_written[1].clone(), as_written[2].clone(), as_written[0].clone()];
    assert_eq!(places(&none), None);
}

/// A task that takes a few cores, some RAM, and perhaps GPUs or shares of them.
fn drawn_task(draws: &mut Stream) -> TaskDemand {
    let count = draws.between(1, 3) as u32;
    let task = match draws.between(0, 3) {
        0 => cpu_task(0),
        1 => shares(count, *draws.pick(&[300, 500])),
        2 => of_models(count, &["b"]),
        _ => whole_gpus(count),
    };
    let cores = MilliCpu::from_cores(draws.between(0, 6));
    with_ram(draws.between(0, 2) * 12, TaskDemand { cpu: cores, ..task })
}

/// A node with one to four GPUs. Each of its GPUs may have two cores of its own.
fn drawn_node(draws: &mut Stream) -> NodeShape {
    let models: Vec<&str> = (0..draws.between(1, 4)).map(|_| *draws.pick(&["a", "b"])).collect();
    let mut shape = node(&models);
    if draws.chance(300) {
        shape.labels.insert(RESTRICTED_CORES_LABEL.into(), "2".into());
    }
    shape
}

#[test]
fn no_gang_is_ruled_out_that_an_order_or_the_search_places() {
    let mut draws = Stream::new(3, "bound test", 0);
    let (mut placed, mut ruled_out) = (0, [0, 0]);
    for _ in 0..3000 {
        let mut fleet = fleet((0..draws.between(1, 4)).map(|_| drawn_node(&mut draws)));
        for node in 0..fleet.len() {
            let first_gpu: &[u16] = if draws.chance(400) { &[0] } else { &[] };
            hold(&mut fleet, node, draws.between(0, 8), first_gpu);
        }
        let sets: Vec<TaskSet> =
            (0..draws.between(1, 3)).map(|_| all_of(draws.between(1, 3) as u32, drawn_task(&mut draws))).collect();
        let gangs = [Gang::Anywhere, Gang::Spread, Gang::Packed, Gang::StrictPack, Gang::PreferSpread];
        let (options, gang) = (options(), *draws.pick(&gangs));
        let placer = placer(&options, &sets, gang, &fleet);
        let (world, counts) = (World::Real(Grouping::Classes), placer.least());
        let fits = placer.orders().iter().any(|order| placer.greedy(world, &counts, order).is_ok())
            || matches!(placer.search(world, &counts, MOST_STEPS), Found::Assignment(_));
        let demand = Demand { gang, ..Demand::of(Arc::<[TaskSet]>::from(sets.clone())) };
        let part = implied(&options, &demand).expect("the filters are not custom");
        let room: u32 = fleet.iter().map(|(id, node)| room(&options, &part, &fleet, id, &node.status)).sum();
        let may_fit = [placer.may_fit(world, &counts), room >= part.tasks];
        assert!(!fits || may_fit == [true; 2], "{gang:?} {sets:?}");
        placed += u32::from(fits);
        ruled_out.iter_mut().zip(may_fit).for_each(|(count, may_fit)| *count += u32::from(!may_fit));
    }
    assert!(placed > 300 && ruled_out.iter().all(|count| *count > 300), "{placed} {ruled_out:?}");
}

#[test]
fn tasks_beyond_the_least_number_fill_the_rest() {
    let fleet = fleet([with_gpus(2), with_gpus(2), with_gpus(2)]);
    let sets = [set(10, 1, whole_gpus(1))];
    assert_eq!(placed(&sets, Gang::Anywhere, &fleet), Some(vec![(0, vec![2]), (1, vec![2]), (2, vec![2])]));
    assert_eq!(placed(&sets, Gang::Spread, &fleet), Some(vec![(0, vec![1]), (1, vec![1]), (2, vec![1])]));
    assert_eq!(placed(&sets, Gang::Packed, &fleet), Some(vec![(0, vec![2]), (1, vec![2]), (2, vec![2])]));
    assert_eq!(placed(&sets, Gang::StrictPack, &fleet), Some(vec![(0, vec![2])]));
    assert_eq!(placed(&[set(10, 7, whole_gpus(1))], Gang::Anywhere, &fleet), None);
    // The larger tasks grow first.
    let sets = [set(9, 1, whole_gpus(1)), set(9, 1, whole_gpus(2))];
    assert_eq!(placed(&sets, Gang::Anywhere, &fleet), Some(vec![(0, vec![0, 1]), (1, vec![2, 0]), (2, vec![0, 1])]));
}

#[test]
fn a_set_takes_no_node_for_tasks_that_it_does_not_place() {
    // Consolidation takes the node with the least room that is enough, which for no task is any node.
    let options = in_places(GangPlaces::Consolidate);
    let fleet = fleet([with_gpus(4), node(&["b"]), node(&["b"; 3]), with_gpus(8)]);
    let never = set(1, 0, whole_gpus(64));
    let sets = [all_of(1, of_models(4, &["a"])), set(3, 0, of_models(1, &["b"])), never];
    let expected = vec![(0, vec![1, 0, 0]), (2, vec![0, 3, 0])];
    assert_eq!(placed_by(placer(&options, &sets, Gang::Anywhere, &fleet)), Some(expected));
}

#[test]
fn a_gang_on_one_node_takes_the_best_node_for_its_first_set_with_tasks() {
    // No node can hold a task of the first set or of the last, which may have none.
    let mut elsewhere = cpu_task(0);
    elsewhere.labels.insert("zone".into(), "a".into());
    let sets = [set(1, 0, whole_gpus(64)), all_of(2, with_ram(8, cpu_task(1))), set(1, 0, elsewhere)];
    let empty = fleet([with_gpus(1), with_gpus(1)]);
    assert_eq!(placed(&sets, Gang::StrictPack, &empty), Some(vec![(0, vec![0, 2, 0])]));
    assert_eq!(placed(&sets, Gang::Packed, &empty), Some(vec![(0, vec![0, 2, 0])]));
    // The last node is the first on which all tasks have room.
    let sets = [all_of(1, whole_gpus(2)), all_of(3, whole_gpus(1))];
    let fleet = fleet([with_gpus(4), with_gpus(3), with_gpus(5)]);
    for gang in [Gang::StrictPack, Gang::Packed] {
        assert_eq!(placed(&sets, gang, &fleet), Some(vec![(2, vec![1, 3])]), "{gang:?}");
    }
}

#[test]
fn tasks_go_to_different_nodes_as_far_as_possible_and_then_in_rounds() {
    let rows: [(&[usize], u32, &[u32]); 5] = [
        (&[4, 4, 4], 2, &[1, 1]),
        (&[4, 4, 4], 5, &[2, 2, 1]),
        (&[1, 4, 4], 7, &[1, 3, 3]),
        (&[1, 4, 4], 8, &[1, 4, 3]),
        (&[2, 1, 3], 6, &[2, 1, 3]),
    ];
    for (gpus, tasks, expected) in rows {
        let fleet = fleet(gpus.iter().map(|count| with_gpus(*count)));
        let expected: Vec<(usize, Vec<u32>)> =
            expected.iter().enumerate().map(|(node, tasks)| (node, vec![*tasks])).collect();
        let places = placed(&[all_of(tasks, whole_gpus(1))], Gang::PreferSpread, &fleet);
        assert_eq!(places, Some(expected), "{tasks} tasks on {gpus:?}");
    }
}

#[test]
fn sets_of_a_spread_gang_share_no_node() {
    let options = in_places(GangPlaces::Neighbours);
    let fleet = fleet([with_gpus(4), with_gpus(4), with_gpus(1)]);
    let sets = [all_of(2, whole_gpus(1)), all_of(1, whole_gpus(2))];
    let places = placed_by(placer(&options, &sets, Gang::Spread, &fleet));
    assert_eq!(places, Some(vec![(0, vec![0, 1]), (1, vec![1, 0]), (2, vec![1, 0])]));
}

#[test]
fn sets_that_share_a_gpu_hold_the_sum_of_their_shares() {
    let fleet = fleet([with_gpus(1)]);
    let (sets, options) = ([all_of(1, shares(1, 300)), all_of(1, shares(1, 200))], options());
    let found = placer(&options, &sets, Gang::Anywhere, &fleet).candidates(Grouping::Classes, 1);
    let candidate = &found.expect("half of the GPU is enough")[0];
    let part = &candidate.placement.claims()[0].gpus;
    // 24 GiB and 16 GiB of the 80 GiB.
    let both = GpuClaim { index: 0, share: GpuShare::new(500), memory: Bytes::from_gib(40) };
    assert_eq!(part.as_slice(), [both]);
}

#[test]
fn a_placement_still_fits_while_each_node_passes_the_filters_and_has_room_for_all_its_tasks() {
    let (sets, options) = ([all_of(2, whole_gpus(1)), all_of(1, cpu_task(8))], options());
    let mut fleet = fleet([with_gpus(3)]);
    let found = placer(&options, &sets, Gang::Anywhere, &fleet).candidates(Grouping::Classes, 1);
    let placement = found.expect("it fits")[0].placement.clone();
    let still_fits = |fleet: &Fleet| placer(&options, &sets, Gang::Anywhere, fleet).still_fits(&placement);
    assert!(still_fits(&fleet));
    hold(&mut fleet, 0, 8, &[2]);
    assert!(still_fits(&fleet));
    fleet.set_node_state(NodeId::new(0), NodeState::Maintenance);
    assert!(!still_fits(&fleet));
    fleet.set_node_state(NodeId::new(0), NodeState::Ready);
    // One task of each set would still fit.
    hold(&mut fleet, 0, 0, &[1]);
    assert!(!still_fits(&fleet));
}

#[test]
fn a_node_of_the_gang_is_explained_for_the_set_that_it_holds() {
    let (sets, options) =
        ([all_of(1, TaskDemand { cpu: MilliCpu::from_cores(4), ..whole_gpus(2) }), all_of(1, cpu_task(15))], options());
    let fleet = fleet([with_gpus(2), with_gpus(0), with_gpus(0)]);
    let placer = placer(&options, &sets, Gang::Anywhere, &fleet);
    let findings = placer.findings(&placer.decide(Grouping::EachNode, 1));
    assert_eq!(placed_by(placer), Some(vec![(0, vec![1, 0]), (1, vec![0, 1])]));
    let said: Vec<_> = findings.iter().map(|found| (found.verdict, found.refusals.as_slice())).collect();
    assert_eq!(said[..2], [(Verdict::Fit, [].as_slice()), (Verdict::Fit, [].as_slice())]);
    // The last node is not taken. It is explained for the set with the largest tasks.
    assert_eq!((said[2].0, said[2].1[0]), (Verdict::Never(Reason::TooFewGpus), ("compatible", Reason::TooFewGpus)));
    assert_eq!(findings.iter().map(|found| found.shortages.len()).collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn a_refused_gang_is_explained_for_the_set_that_had_no_room() {
    let options = options();
    let verdicts = |sets: &[TaskSet], gang, fleet: &Fleet| verdicts_of(placer(&options, sets, gang, fleet));
    let nodes = fleet([with_gpus(4), with_gpus(1)]);
    let sets = |ones| [all_of(1, whole_gpus(2)), all_of(ones, whole_gpus(1))];
    // The task of two GPUs is on node 0. The other set has room there, unless no two tasks may share a node.
    let incomplete = Verdict::Unfit(Reason::GangIncomplete);
    assert_eq!(verdicts(&sets(2), Gang::Spread, &nodes), [incomplete, Verdict::Fit]);
    assert_eq!(verdicts(&sets(4), Gang::Anywhere, &nodes), [Verdict::Fit, Verdict::Fit]);
    // On one node, the reason is that of the first set without room.
    let few = Verdict::Never(Reason::TooFewGpus);
    let beside = [all_of(1, whole_gpus(3)), all_of(1, whole_gpus(2))];
    assert_eq!(verdicts(&beside, Gang::StrictPack, &nodes), [Verdict::Unfit(Reason::InsufficientGpus), few]);
    let with_memory = [all_of(1, whole_gpus(3)), all_of(1, with_ram(128, whole_gpus(1))), all_of(1, whole_gpus(1))];
    assert_eq!(verdicts(&with_memory, Gang::StrictPack, &nodes), [Verdict::Unfit(Reason::InsufficientRam), few]);
    // A set that may have no task is no reason.
    let sets = [set(1, 0, whole_gpus(2)), all_of(1, with_ram(128, cpu_task(1)))];
    let reasons = placer(&options, &sets, Gang::StrictPack, &nodes).candidates(Grouping::Classes, 1);
    assert_eq!(reasons.expect_err("no node has 128 GiB"), Histogram::of(Reason::InsufficientRam, 2));
}

#[test]
fn a_gang_never_fits_if_a_set_alone_does_not_or_if_the_search_tries_every_choice() {
    let options = options();
    let refusal = |sets: &[TaskSet], shape: NodeShape| {
        let fleet = fleet([shape]);
        match placer(&options, sets, Gang::Anywhere, &fleet).decide(Grouping::Classes, 1) {
            Decision::Place(_) => None,
            Decision::Refuse { refusal, .. } => Some(refusal),
        }
    };
    let three = [all_of(1, whole_gpus(2)), all_of(1, whole_gpus(1))];
    assert_eq!(refusal(&three, with_gpus(3)), None);
    let four = [all_of(1, whole_gpus(2)), all_of(2, whole_gpus(1))];
    assert_eq!(refusal(&four, with_gpus(3)), Some(Refusal::Never));
    // There are too few GPUs and shares in all.
    assert_eq!(refusal(&four, node(&["a", "a", "b"])), Some(Refusal::Never));
    assert_eq!(refusal(&[all_of(1, shares(1, 600)), all_of(1, shares(1, 700))], with_gpus(1)), Some(Refusal::Never));
    // Other GPUs might do: with memory that is part of the RAM, or with room for more shares.
    let mut unified = with_gpus(2);
    unified.gpus.iter_mut().for_each(|gpu| gpu.unified = true);
    let two = [all_of(1, whole_gpus(1)), all_of(1, with_ram(1, whole_gpus(1)))];
    assert_eq!(refusal(&two, unified), Some(Refusal::Unfit));
    assert_eq!(refusal(&[all_of(2, shares(1, 600)), all_of(1, shares(1, 700))], with_gpus(2)), Some(Refusal::Unfit));
    // No share of this model is there at all.
    let missing = gpu_task(1, GpuTake::Share(GpuShare::new(600)), &["z"]);
    assert_eq!(refusal(&[all_of(1, cpu_task(1)), all_of(1, missing)], with_gpus(1)), Some(Refusal::Never));
}

#[test]
fn only_nodes_are_picked_for_unequal_tasks() {
    let (sets, options) = ([all_of(1, whole_gpus(2)), all_of(1, cpu_task(15))], options());
    let mut fleet = fleet([with_gpus(2), with_gpus(0), with_gpus(0)]);
    hold(&mut fleet, 2, 2, &[]);
    let pick = Pick::Nodes(vec![NodeId::new(0)]);
    let placer = SetPlacer { pick: Some(&pick), ..placer(&options, &sets, Gang::Anywhere, &fleet) };
    // A node does if it can hold a task of any set. Otherwise the largest tasks give the reason.
    let verdicts = [0, 1, 2].map(|node| placer.select_node(NodeId::new(node)).0);
    assert_eq!(verdicts, [Verdict::Fit, Verdict::Fit, Verdict::Never(Reason::TooFewGpus)]);
    assert!(!placer.takes_gpus());
}

/// What a search of at most this many steps finds on nodes with these numbers of GPUs, for sets with these numbers of
/// tasks and of GPUs for each task.
fn searched(gpus: &[usize], sets: &[(u32, u32)], steps: u32) -> Result<Option<Vec<Vec<u32>>>, &'static str> {
    let fleet = fleet(gpus.iter().map(|count| with_gpus(*count)));
    let sets: Vec<TaskSet> = sets.iter().map(|(tasks, gpus)| all_of(*tasks, whole_gpus(*gpus))).collect();
    let options = options();
    let placer = placer(&options, &sets, Gang::Anywhere, &fleet);
    match placer.search(World::Real(Grouping::Classes), &placer.most(), steps) {
        Found::Assignment(assignment) => Ok(Some(assignment.into_iter().map(|(_, counts)| counts).collect())),
        Found::Nothing => Ok(None),
        Found::GaveUp => Err("gave up"),
    }
}

#[test]
fn a_search_takes_a_step_for_each_number_of_tasks_that_it_tries_on_a_node() {
    // One step for the task of the first set, and one for the task of the second beside it.
    assert_eq!(searched(&[2], &[(1, 1), (1, 1)], 2), Ok(Some(vec![vec![1, 1]])));
    assert_eq!(searched(&[2], &[(1, 1), (1, 1)], 1), Err("gave up"));
    // The second task does not fit beside the first, so it takes a third step on the second node. No task is no step.
    assert_eq!(searched(&[1, 1], &[(1, 1), (1, 1)], 3), Ok(Some(vec![vec![1, 0], vec![0, 1]])));
    assert_eq!(searched(&[1, 1], &[(1, 1), (1, 1)], 2), Err("gave up"));
    // Nodes that can hold no task take no step.
    assert_eq!(searched(&[0, 2, 0], &[(1, 1), (1, 1)], 2), Ok(Some(vec![vec![1, 1]])));
    // Two tasks of the first set fit, but neither two nor one of the second beside them.
    assert_eq!(searched(&[2, 2], &[(2, 1), (2, 1)], 4), Ok(Some(vec![vec![2, 0], vec![0, 2]])));
    assert_eq!(searched(&[2, 2], &[(2, 1), (2, 1)], 3), Err("gave up"));
}

#[test]
fn a_search_tries_what_is_left_for_the_later_nodes_only_once() {
    // Each node must hold a task of two GPUs, and the thirteenth small task has no room. On each node, a small task is
    // placed or not, so there are 4,096 ways, but at most 13 numbers of small tasks that are left for a node.
    let nodes = [3; 12];
    assert_eq!(searched(&nodes, &[(12, 2), (13, 1)], MOST_STEPS), Ok(None));
    assert!(searched(&nodes, &[(12, 2), (12, 1)], MOST_STEPS).is_ok_and(|found| found.is_some()));
}

/// Three GPUs are on no node, so the gang starts without the tasks that it may lack.
#[test]
fn tasks_that_a_gang_may_lack_need_no_room() {
    let sets = [set(1, 0, gpu_task(3, GpuTake::Whole, &[])), all_of(1, cpu_task(1))];
    let fleet = fleet([with_gpus(2)]);
    assert_eq!(placed(&sets, Gang::Anywhere, &fleet), Some(vec![(0, vec![0, 1])]));
    assert!(placer(&options(), &sets, Gang::Anywhere, &fleet).place(Grouping::Classes).is_some());
}
