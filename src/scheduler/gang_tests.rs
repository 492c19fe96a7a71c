//! Tests of the rules that choose the nodes of a gang: consolidation, racks and neighbours. All tasks take one GPU, so the
//! room of a node is the number of its free GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::by_rank::by_rank;
use crate::consolidate::consolidate;
use crate::gpu_order::GpuOrder;
use crate::neighbours::{Node, choose, neighbours};
use crate::node_class::{Grouping, NodeClass, all_classes};
use crate::racks;
use crate::verdict::Verdict;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, GpuClaim, GpuShape, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Gang, GpuDemand, GpuTake, TaskDemand, TaskGroup};

const MEMORY: Bytes = Bytes::from_gib(80);

/// Nodes with these numbers of GPUs, of which this many are taken by others, and in these racks.
fn fleet(nodes: &[(usize, u16, Option<&str>)]) -> Fleet {
    let mut fleet = Fleet::default();
    for (number, (gpus, taken, rack)) in nodes.iter().enumerate() {
        let gpu = GpuShape::of("a", MEMORY);
        let mut shape = NodeShape::of(MilliCpu::from_cores(32), Bytes::from_gib(64), vec![gpu; *gpus]);
        shape.rack = rack.map(Arc::from);
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape) };
        let node = fleet.declare(&spec, NodeState::Ready);
        let whole = |index| GpuClaim { index, share: GpuShare::WHOLE, memory: MEMORY };
        // Others hold two cores with each GPU.
        let cpu = MilliCpu::from_cores(2 * u64::from(*taken));
        let claim = NodeClaim { tasks: 1, cpu, gpus: (0..*taken).map(whole).collect(), ..NodeClaim::of_nothing(node) };
        fleet.take(&Placement::new([claim].into_iter().collect()));
    }
    fleet
}

fn task() -> TaskDemand {
    let gpus = GpuDemand { count: 1, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    TaskDemand {
        cpu: MilliCpu::ZERO,
        ram: Bytes::ZERO,
        gpus: Some(gpus),
        labels: BTreeMap::new(),
        os: None,
        arch: None,
    }
}

fn group(task: &TaskDemand, tasks: u32, gang: Gang) -> TaskGroup<'_> {
    TaskGroup { tasks, task, gang, pick: None, speeds: None, fields: None }
}

fn by_number(shares: Vec<(NodeId, usize, u32)>) -> Vec<(usize, u32)> {
    shares.into_iter().map(|(node, _, tasks)| (node.index(), tasks)).collect()
}

/// The nodes and their numbers of tasks by consolidation.
fn consolidated(free: &[u16], tasks: u32) -> Option<Vec<(usize, u32)>> {
    let nodes: Vec<_> = free.iter().map(|free| (8, 8 - free, None)).collect();
    let (fleet, task) = (fleet(&nodes), task());
    let classes = all_classes(&fleet, Grouping::EachNode);
    let fit: Vec<usize> = (0..classes.len()).collect();
    consolidate(group(&task, tasks, Gang::Anywhere), GpuOrder::First, &classes, &fit).map(by_number)
}

#[test]
fn nodes_by_rank_are_in_the_order_that_sorting_all_of_them_gives() {
    // Classes of three, two and one nodes, with members that alternate.
    let free = [4, 2, 4, 7, 2, 4];
    let fleet = fleet(&free.map(|free| (8, 8 - free, None)));
    // Ranks by the number of free GPUs: the fullest first, the emptiest first, or all alike.
    for sign in [1, -1, 0] {
        let mut sorted: Vec<usize> = (0..free.len()).collect();
        sorted.sort_by_key(|node| (-sign * i32::from(free[*node]), *node));
        for grouping in [Grouping::Classes, Grouping::EachNode] {
            let classes = all_classes(&fleet, grouping);
            let rank = |class: &NodeClass| sign * i32::from(free[class.first().index()]);
            let ranked = classes.iter().enumerate().map(|(number, class)| (number, class, rank(class)));
            let nodes: Vec<usize> = by_rank(ranked).map(|(_, node, _)| node.index()).collect();
            assert_eq!(nodes, sorted, "{sign} {grouping:?}");
        }
    }
    assert_eq!(by_rank(std::iter::empty::<(usize, &NodeClass, u32)>()).count(), 0);
}

#[test]
fn consolidation_takes_the_fullest_node_that_holds_the_gang() {
    let free = [8, 5, 3, 8, 3];
    for (tasks, node) in [(3, 2), (4, 1), (5, 1), (6, 0), (8, 0)] {
        assert_eq!(consolidated(&free, tasks), Some(vec![(node, tasks)]), "{tasks} tasks");
    }
    assert_eq!(consolidated(&[5, 3], 6), None);
    assert_eq!(consolidated(&[], 1), None);
}

#[test]
fn a_larger_gang_fills_empty_nodes_and_its_rest_goes_to_one_node() {
    let free = [8, 5, 3, 8];
    let rows = [
        // The rest goes to the node with the most room among the others.
        (12, vec![(0, 8), (3, 4)]),
        (16, vec![(0, 8), (3, 8)]),
        (19, vec![(0, 8), (3, 8), (1, 3)]),
        (21, vec![(0, 8), (3, 8), (1, 5)]),
    ];
    for (tasks, nodes) in rows {
        assert_eq!(consolidated(&free, tasks), Some(nodes), "{tasks} tasks");
    }
    // The rest of 6 does not fit on one node, and no third node is empty.
    assert_eq!([22, 24, 25].map(|tasks| consolidated(&free, tasks)), [None, None, None]);
    // As many nodes as are needed, and one too few.
    assert_eq!(consolidated(&[8, 8], 16), Some(vec![(0, 8), (1, 8)]));
    assert_eq!(consolidated(&[8, 8], 17), None);
    assert_eq!(consolidated(&[8, 8], 9), Some(vec![(0, 8), (1, 1)]));
}

/// The nodes that may be used by the choice of racks: three nodes of rack `a` with four free GPUs each, one of rack `b` with
/// eight, one without a rack with two, and one of rack `c` that a filter refused.
fn in_racks(tasks: u32, gang: Gang, grouping: Grouping) -> Vec<usize> {
    let a = (8, 4, Some("a"));
    let fleet = fleet(&[a, (8, 0, Some("b")), a, (2, 0, None), a, (64, 0, Some("c"))]);
    let classes = all_classes(&fleet, grouping);
    let refused = Verdict::Unfit(Reason::NodeNotReady);
    let is_refused = |class: &NodeClass| class.shape.rack.as_deref() == Some("c");
    let verdicts: Vec<Verdict> =
        classes.iter().map(|class| if is_refused(class) { refused } else { Verdict::Fit }).collect();
    let task = task();
    let chosen = racks::within(group(&task, tasks, gang), GpuOrder::First, &classes, &verdicts);
    let mut nodes = Vec::new();
    for (class, verdict) in classes.iter().zip(chosen) {
        match verdict {
            Verdict::Fit => nodes.extend(class.nodes().map(NodeId::index)),
            verdict if is_refused(class) => assert_eq!(verdict, refused),
            verdict => assert_eq!(verdict, Verdict::Unfit(Reason::GangIncomplete)),
        }
    }
    nodes.sort_unstable();
    nodes
}

#[test]
fn a_gang_goes_to_the_rack_with_the_least_room_for_it_or_to_as_few_racks_as_possible() {
    for grouping in [Grouping::Classes, Grouping::EachNode] {
        let of = |tasks| in_racks(tasks, Gang::Anywhere, grouping);
        assert_eq!(of(2), [3]);
        assert_eq!(of(6), [1]);
        assert_eq!(of(8), [1]);
        assert_eq!(of(9), [0, 2, 4]);
        assert_eq!(of(12), [0, 2, 4]);
        // No rack holds it: the 12 of rack `a` and the 8 of rack `b` are enough for 20.
        assert_eq!(of(13), [0, 1, 2, 4]);
        assert_eq!(of(20), [0, 1, 2, 4]);
        assert_eq!(of(21), [0, 1, 2, 3, 4]);
        assert_eq!(of(23), [0, 1, 2, 3, 4]);
        // A node takes one task of a gang that must be spread: three in rack `a`, one in each of the others.
        let spread = |tasks| in_racks(tasks, Gang::Spread, grouping);
        assert_eq!(spread(2), [0, 2, 4]);
        assert_eq!(spread(1), [3]);
        assert_eq!(spread(5), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn of_racks_with_equal_room_the_first_by_name_is_taken() {
    let fleet = fleet(&[(4, 0, Some("b")), (4, 0, Some("a"))]);
    let classes = all_classes(&fleet, Grouping::EachNode);
    let task = task();
    let chosen = racks::within(group(&task, 3, Gang::Anywhere), GpuOrder::First, &classes, &[Verdict::Fit; 2]);
    assert_eq!(chosen, [Verdict::Unfit(Reason::GangIncomplete), Verdict::Fit]);
}

#[test]
fn a_rack_has_the_room_of_its_nodes_even_if_the_gang_needs_less_of_each() {
    let fleet = fleet(&[(8, 0, Some("a")), (4, 0, Some("b")), (2, 0, Some("c")), (2, 0, Some("c")), (2, 0, Some("c"))]);
    let classes = all_classes(&fleet, Grouping::EachNode);
    let task = task();
    let fits = |tasks, gang| {
        let chosen = racks::within(group(&task, tasks, gang), GpuOrder::First, &classes, &[Verdict::Fit; 5]);
        chosen.into_iter().map(Verdict::is_fit).collect::<Vec<_>>()
    };
    // The racks have room for 8, 4 and 6 tasks.
    for tasks in [1, 2, 3, 4] {
        assert_eq!(fits(tasks, Gang::Anywhere), [false, true, false, false, false], "{tasks} tasks");
    }
    assert_eq!(fits(5, Gang::Packed), [false, false, true, true, true]);
    // Of a gang that must be spread, each node holds one task.
    assert_eq!(fits(1, Gang::Spread), [true, false, false, false, false]);
    assert_eq!(fits(2, Gang::Spread), [false, false, true, true, true]);
}

/// The choice among nodes that are given as id, room and free cores.
fn chosen(tasks: u32, nodes: &[(usize, u32, u64)]) -> Option<Vec<(usize, u32)>> {
    let node = |(id, room, cores): &(usize, u32, u64)| Node {
        id: NodeId::new(*id),
        class: 0,
        room: *room,
        cores: MilliCpu::from_cores(*cores),
    };
    choose(tasks, &nodes.iter().map(node).collect::<Vec<_>>()).map(by_number)
}

#[test]
fn of_runs_with_enough_room_the_one_with_the_fewest_free_cores_is_filled() {
    let first = [(0, 2, 4), (1, 2, 4)];
    let with = |later: (usize, u32, u64)| [first[0], first[1], later];
    assert_eq!(chosen(3, &with((3, 3, 6))), Some(vec![(3, 3)]));
    assert_eq!(chosen(3, &with((3, 3, 9))), Some(vec![(0, 2), (1, 1)]));
    // On a tie, the first run stays the best.
    assert_eq!(chosen(3, &with((3, 3, 8))), Some(vec![(0, 2), (1, 1)]));
    // A run with too little room does not replace it, unless it has more free cores.
    assert_eq!(chosen(4, &with((3, 3, 6))), Some(vec![(0, 2), (1, 2)]));
    assert_eq!(chosen(4, &with((3, 3, 8))), Some(vec![(0, 2), (1, 2)]));
    assert_eq!(chosen(4, &with((3, 3, 10))), Some(vec![(3, 3), (0, 1)]));
    // The first run has too little room, so one with enough replaces it, although it has more free cores.
    assert_eq!(chosen(2, &[(0, 1, 2), (2, 3, 8)]), Some(vec![(2, 2)]));
}

#[test]
fn the_node_with_the_fewest_free_cores_takes_what_is_left_if_it_can() {
    assert_eq!(chosen(2, &[(0, 3, 9), (1, 2, 5), (2, 1, 1), (3, 4, 7)]), Some(vec![(1, 2)]));
    // No node of the run holds all, so its nodes are taken in order.
    assert_eq!(chosen(5, &[(0, 3, 9), (1, 2, 5), (2, 1, 1), (3, 4, 7)]), Some(vec![(0, 3), (1, 2)]));
    assert_eq!(chosen(11, &[(0, 3, 9), (1, 2, 5), (2, 1, 1), (3, 4, 7)]), None);
    assert_eq!(chosen(10, &[(0, 3, 9), (1, 2, 5), (2, 1, 1), (3, 4, 7)]).map(|nodes| nodes.len()), Some(4));
}

#[test]
fn a_node_without_room_separates_its_neighbours() {
    // Free cores: 28, 24, 28, 32, 30 and 30. Nodes 1 and 3 have no free GPU.
    let fleet = fleet(&[(4, 2, None), (4, 4, None), (4, 2, None), (0, 0, None), (4, 1, None), (3, 1, None)]);
    let task = task();
    for grouping in [Grouping::Classes, Grouping::EachNode] {
        let classes = all_classes(&fleet, grouping);
        let fit: Vec<usize> = (0..classes.len()).collect();
        let nodes = |tasks, gang| {
            let found = neighbours(group(&task, tasks, gang), GpuOrder::First, &classes, &fit);
            found.map(by_number)
        };
        // Nodes 0 and 2 are runs of their own with room for 2 each, so the run of nodes 4 and 5 is the best. If nodes 1 and
        // 3 did not separate them, the first nodes would be taken.
        assert_eq!(nodes(4, Gang::Anywhere), Some(vec![(4, 3), (5, 1)]));
        assert_eq!(nodes(2, Gang::Spread), Some(vec![(4, 1), (5, 1)]));
        assert_eq!(nodes(4, Gang::Spread), Some(vec![(4, 1), (5, 1), (0, 1), (2, 1)]));
        assert_eq!(nodes(5, Gang::Spread), None);
        assert_eq!(nodes(10, Gang::Anywhere), None);
    }
}
