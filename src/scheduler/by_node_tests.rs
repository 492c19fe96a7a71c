//! Tests of what is known of a demand without a fleet, and of decisions about single nodes.

use std::sync::Arc;

use crate::by_node::{asks_for_itself, asks_no_more, decide_among, is_by_node, may_ever_do};
use crate::context::PlacementContext;
use crate::decide::decide;
use crate::decision::Decision;
use crate::filter::{Exemption, FilterName};
use crate::gpu_order::GpuOrder;
use crate::node_class::Grouping;
use crate::options::{GangPlaces, SchedulerOptions, Ties};
use crate::room::{asks_for_readiness, is_by_room, nodes_among_neighbours, place_among_neighbours, room};
use crate::test_world::{cpu_task, fleet, hold, node, options, shares, whole_gpus, with_gpus};
use dryrack_catalog::{CpuArch, Os};
use dryrack_fleet::{Fleet, NodeState};
use dryrack_ids::{GpuId, NodeId};
use dryrack_rng::Stream;
use dryrack_units::{Bytes, MilliCpu};
use dryrack_workload::{Demand, Gang, GpuDemand, Pick, Requirements, TaskDemand, TaskSet};

fn gang_of(tasks: u32, gang: Gang) -> Demand {
    Demand { tasks, gang, ..Demand::of(whole_gpus(1)) }
}

fn of_sets() -> Demand {
    let set = TaskSet { name: "set".into(), tasks: 1, min_tasks: 1, task: cpu_task(1) };
    Demand::of(Arc::<[TaskSet]>::from(vec![set]))
}

fn picked(pick: Pick) -> Demand {
    Demand { pick: Some(pick), ..Demand::of(whole_gpus(1)) }
}

fn first_gpu() -> Vec<GpuId> {
    vec![GpuId { node: NodeId::new(0), index: 0 }]
}

const PLACES: [GangPlaces; 4] =
    [GangPlaces::Demand, GangPlaces::Racks, GangPlaces::Consolidate, GangPlaces::Neighbours];

#[test]
fn a_demand_is_decided_by_node_unless_nodes_are_compared_with_others_or_drawn() {
    let by_place = |demand: &Demand| PLACES.map(|gangs| is_by_node(&SchedulerOptions { gangs, ..options() }, demand));
    assert_eq!(by_place(&gang_of(1, Gang::Anywhere)), [true, true, false, false]);
    assert_eq!(by_place(&gang_of(1, Gang::Spread)), [true, true, true, false]);
    assert_eq!(by_place(&gang_of(2, Gang::Anywhere)), [true, false, false, false]);
    assert_eq!(by_place(&gang_of(2, Gang::Spread)), [true, false, true, false]);
    assert_eq!(by_place(&picked(Pick::Nodes(vec![NodeId::new(0)]))), [true, true, false, false]);
    for other in [of_sets(), picked(Pick::Gpus(first_gpu())), picked(Pick::AllGpus(first_gpu()))] {
        assert_eq!(by_place(&other), [false; 4]);
    }
    let by_chance = [
        SchedulerOptions { ties: Ties::Random, ..options() },
        SchedulerOptions { gpus: GpuOrder::Random, ..options() },
    ];
    assert!(by_chance.iter().all(|options| !is_by_node(options, &gang_of(1, Gang::Anywhere))));
    // Two jobs with the same demand for tasks are placed alike, unless it is by chance.
    assert!(!asks_for_itself(&options(), &gang_of(2, Gang::Anywhere)) && !asks_for_itself(&options(), &of_sets()));
    assert!(by_chance.iter().all(|options| asks_for_itself(options, &gang_of(1, Gang::Anywhere))));
    assert!(asks_for_itself(&options(), &Demand::of(Arc::new(Requirements::default()))));
}

#[test]
fn a_demand_is_decided_by_room_unless_it_consolidates_or_takes_exactly_its_picked_gpus() {
    let by_place = |demand: &Demand| PLACES.map(|gangs| is_by_room(&SchedulerOptions { gangs, ..options() }, demand));
    for by_room in [gang_of(3, Gang::Packed), gang_of(1, Gang::Spread), picked(Pick::Gpus(first_gpu()))] {
        assert_eq!(by_place(&by_room), [true, true, false, true]);
    }
    for other in [of_sets(), picked(Pick::AllGpus(first_gpu()))] {
        assert_eq!(by_place(&other), [false; 4]);
    }
}

#[test]
fn readiness_is_asked_for_by_a_filter_without_an_exemption() {
    let mut options = options();
    assert!(asks_for_readiness(&options));
    let place = options.filters.iter().position(|filter| filter.stage == FilterName::Ready).expect("the filter");
    options.filters[place].unless = Some(Exemption::PickedOnSeveralNodes);
    assert!(!asks_for_readiness(&options));
    options.filters.remove(place);
    assert!(!asks_for_readiness(&options));
    options.filters.retain(|filter| filter.stage == FilterName::Labels);
    assert!(!asks_for_readiness(&options));
}

#[test]
fn a_shape_may_ever_do_if_no_filter_of_fixed_properties_refuses_it() {
    let mut fleet = fleet([node(&["a", "b"])]);
    fleet.set_node_state(NodeId::new(0), NodeState::Gone);
    let of = |demand: &Demand| may_ever_do(&options(), demand, &fleet.shapes()[0]);
    assert!(of(&Demand::of(whole_gpus(2))) && of(&Demand::of(cpu_task(99))) && of(&of_sets()));
    let mut elsewhere = cpu_task(1);
    elsewhere.labels.insert("zone".into(), "a".into());
    assert!(!of(&Demand::of(elsewhere)));
    // The filter of the number of GPUs comes after that of readiness, which reads the state.
    assert!(of(&Demand::of(whole_gpus(3))));
}

/// Two tasks of two whole GPUs, 4 cores and 8 GiB each.
fn two_tasks() -> Demand {
    let task = TaskDemand { cpu: MilliCpu::from_cores(4), ram: Bytes::from_gib(8), ..whole_gpus(2) };
    Demand { tasks: 2, gang: Gang::Packed, ..Demand::of(task) }
}

fn with_task(change: impl FnOnce(&mut TaskDemand)) -> Demand {
    let mut task = two_tasks().task().expect("equal tasks").clone();
    change(&mut task);
    Demand { kind: task.into(), ..two_tasks() }
}

fn with_gpu_demand(change: impl FnOnce(&mut GpuDemand)) -> Demand {
    with_task(|task| change(task.gpus.as_mut().expect("it asks for GPUs")))
}

#[test]
fn one_demand_asks_no_more_than_another_if_every_amount_is_at_most_as_large() {
    let rows = [
        ("the same", two_tasks(), true),
        ("fewer cores", with_task(|task| task.cpu = MilliCpu::from_cores(3)), true),
        ("more cores", with_task(|task| task.cpu = MilliCpu::from_cores(5)), false),
        ("less RAM", with_task(|task| task.ram = Bytes::from_gib(7)), true),
        ("more RAM", with_task(|task| task.ram = Bytes::from_gib(9)), false),
        ("fewer GPUs", with_gpu_demand(|gpus| gpus.count = 1), true),
        ("more GPUs", with_gpu_demand(|gpus| gpus.count = 3), false),
        ("no GPUs", with_task(|task| task.gpus = None), false),
        ("shares", with_gpu_demand(|gpus| gpus.take = shares(1, 500).gpus.expect("shares").take), false),
        ("a model", with_gpu_demand(|gpus| gpus.models = vec!["a".into()]), false),
        ("large GPUs", with_gpu_demand(|gpus| gpus.min_memory = Some(Bytes::from_gib(1))), false),
        ("an operating system", with_task(|task| task.os = Some(Os::Linux)), false),
        ("an architecture", with_task(|task| task.arch = Some(CpuArch::X86_64)), false),
        ("a label", with_task(|task| drop(task.labels.insert("zone".into(), "a".into()))), false),
        ("a pick", Demand { pick: Some(Pick::Nodes(vec![NodeId::new(0)])), ..two_tasks() }, false),
        ("one task", Demand { tasks: 1, gang: Gang::Anywhere, ..two_tasks() }, true),
        ("more tasks", Demand { tasks: 3, ..two_tasks() }, false),
        ("another gang", Demand { gang: Gang::Spread, ..two_tasks() }, false),
        ("sets of tasks", of_sets(), false),
    ];
    for (name, one, expected) in rows {
        assert_eq!(asks_no_more(&options(), &one, &two_tasks()), expected, "{name}");
    }
    assert!(asks_no_more(&options(), &two_tasks(), &Demand { tasks: 3, ..two_tasks() }));
    assert!(!asks_no_more(&options(), &two_tasks(), &of_sets()));
    // Nodes with room for three shares of GPUs may be too full for two larger ones, so only equal numbers are compared.
    let parts = |count, thousandths| Demand::of(shares(count, thousandths));
    assert!(
        asks_no_more(&options(), &parts(2, 500), &parts(2, 500))
            && !asks_no_more(&options(), &parts(1, 500), &parts(2, 500))
    );
    assert!(!asks_no_more(&options(), &parts(2, 400), &parts(2, 500)));
    assert!(asks_no_more(&options(), &Demand::of(cpu_task(1)), &Demand::of(cpu_task(2))));
    assert!(!asks_no_more(&options(), &Demand::of(whole_gpus(1)), &Demand::of(cpu_task(2))));
}

/// A demand with small amounts, and a fleet on which some of it is taken.
fn draw_demand(draws: &mut Stream) -> Demand {
    let task = TaskDemand { cpu: MilliCpu::from_cores(draws.between(0, 9)), ..whole_gpus(draws.between(1, 3) as u32) };
    let gang = *draws.pick(&[Gang::Anywhere, Gang::Packed, Gang::Spread]);
    Demand { tasks: draws.between(1, 3) as u32, gang, ..Demand::of(task) }
}

fn draw_fleet(draws: &mut Stream) -> Fleet {
    let mut fleet = fleet((0..3).map(|_| with_gpus(draws.between(0, 4) as usize)));
    for node in 0..3 {
        let gpus = fleet.node(NodeId::new(node)).shape.gpus.len() as u64;
        let taken: Vec<u16> = (0..draws.between(0, gpus) as u16).collect();
        hold(&mut fleet, node, draws.between(0, 16), &taken);
    }
    fleet
}

#[test]
fn a_demand_that_asks_no_more_fits_wherever_the_other_fits() {
    let mut draws = Stream::new(1, "test", 0);
    let mut compared = 0;
    for _ in 0..6_000 {
        let (one, other, fleet) = (draw_demand(&mut draws), draw_demand(&mut draws), draw_fleet(&mut draws));
        let fits = |demand| matches!(decide(&options(), demand, &fleet, Grouping::Classes, 1), Decision::Place(_));
        if asks_no_more(&options(), &one, &other) && fits(&other) {
            compared += 1;
            assert!(fits(&one), "{other:?} fits, {one:?} does not");
        }
    }
    assert!(compared > 80, "{compared} of 6,000 pairs");
}

#[test]
fn a_demand_fits_if_the_room_of_all_nodes_is_enough_and_each_node_takes_its_room() {
    let mut draws = Stream::new(2, "test", 0);
    for _ in 0..1_000 {
        let (demand, fleet) = (draw_demand(&mut draws), draw_fleet(&mut draws));
        let places = *draws.pick(&[GangPlaces::Demand, GangPlaces::Racks, GangPlaces::Neighbours]);
        let options = SchedulerOptions { gangs: places, ..options() };
        let task = demand.task().expect("equal tasks");
        let mut sum = 0;
        for (id, node) in fleet.iter() {
            // By the amounts that are free.
            let gpus = (0..node.shape.gpus.len()).filter(|index| node.status.gpu_is_idle(*index)).count() as u64;
            let cores = node.status.cpu_free(&node.shape).get().checked_div(task.cpu.get()).unwrap_or(u64::MAX);
            let most = if demand.gang == Gang::Spread { 1 } else { u64::from(demand.tasks) };
            let each = u64::from(task.gpus.as_ref().expect("it asks for GPUs").count);
            let expected = cores.min(gpus / each).min(most);
            assert_eq!(u64::from(room(&options, &demand, &fleet, id, &node.status)), expected, "{demand:?}");
            sum += expected;
            if expected > 0 {
                let context = PlacementContext::UNSUBMITTED;
                let own = Demand { tasks: expected as u32, ..demand.clone() };
                let found = decide_among(&options, &own, context, &fleet, &[(id, node.status.clone())]);
                assert_eq!(found.expect("it has room").placement.tasks(), expected as u32);
            }
        }
        let fits = matches!(decide(&options, &demand, &fleet, Grouping::Classes, 1), Decision::Place(_));
        assert_eq!(fits, sum >= u64::from(demand.tasks), "{demand:?}");
    }
}

#[test]
fn a_node_that_a_filter_refuses_has_no_room_and_no_other_is_judged_by_its_resources() {
    let mut fleet = fleet([with_gpus(2)]);
    let id = NodeId::new(0);
    let of = |options: &SchedulerOptions, fleet: &Fleet, tasks| {
        room(options, &Demand { tasks, ..Demand::of(whole_gpus(1)) }, fleet, id, &fleet.node(id).status)
    };
    assert_eq!((of(&options(), &fleet, 1), of(&options(), &fleet, 9)), (1, 2));
    fleet.set_node_state(id, NodeState::Maintenance);
    assert_eq!((of(&options(), &fleet, 1), of(&options(), &fleet, 9)), (0, 0));
    fleet.set_node_state(id, NodeState::Ready);
    hold(&mut fleet, 0, 0, &[0, 1]);
    // A profile without the filter of resources places a single task on any node. The tasks of a gang are counted.
    let mut unchecked = options();
    unchecked.filters.retain(|filter| filter.stage != FilterName::Resources);
    assert_eq!((of(&unchecked, &fleet, 1), of(&unchecked, &fleet, 2)), (1, 0));
    let single = decide(&unchecked, &Demand::of(cpu_task(99)), &fleet, Grouping::Classes, 1);
    assert!(matches!(single, Decision::Place(_)));
}

#[test]
fn neighbours_are_nodes_in_a_row_that_all_have_room() {
    let nodes = |tasks, rooms: &[u32]| {
        let cores = MilliCpu::from_cores(4);
        let each = rooms.iter().enumerate().map(|(id, room)| (NodeId::new(id), *room, cores));
        let demand = gang_of(tasks, Gang::Anywhere);
        nodes_among_neighbours(&demand, each).map(|nodes| nodes.into_iter().map(NodeId::index).collect::<Vec<_>>())
    };
    // A run of two nodes has room for four, and no node for more than two.
    assert_eq!(nodes(4, &[2, 0, 2, 2]), Some(vec![2, 3]));
    assert_eq!(nodes(4, &[2, 2, 0, 2]), Some(vec![0, 1]));
    assert_eq!(nodes(7, &[2, 0, 2, 2]), None);
    let fleet = fleet([2, 0, 2, 2].map(with_gpus));
    let all: Vec<_> = [0, 2, 3].map(|id| (NodeId::new(id), fleet.node(NodeId::new(id)).status.clone())).to_vec();
    let context = PlacementContext::UNSUBMITTED;
    let found = place_among_neighbours(&options(), &gang_of(4, Gang::Anywhere), context, &fleet, &all);
    let claims = found.expect("there is room").placement;
    assert_eq!(claims.claims().iter().map(|claim| claim.node.index()).collect::<Vec<_>>(), [2, 3]);
}
