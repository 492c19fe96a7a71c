//! Tests of how tasks fit on one node: reasons, counts, the choice of GPUs, and whether a claim still has room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::draw::Draw;
use crate::fit::{GpuChoice, capacity, fill, first_shortage, own_restricted};
use crate::gpu_order::GpuOrder;
use crate::node_class::{Grouping, NodeClass, all_classes};
use crate::states::ClassState;
use crate::target::{Target, TaskShape};
use crate::tasks::has_room;
use crate::uniform::Uniform;
use dryrack_event::Reason;
use dryrack_fleet::{
    Fleet, Foreign, GpuClaim, GpuShape, GpuState, ISLANDS_LABEL, NodeClaim, NodeShape, NodeSpec, NodeState, Placement,
    RESTRICTED_CORES_LABEL,
};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Gang, GpuDemand, GpuTake, TaskDemand, TaskGroup};

fn gib(gib: u64) -> Bytes {
    Bytes::from_gib(gib)
}

/// A node with 16 cores, 64 GiB of RAM and these GPUs of 80 GiB each.
fn shape(gpus: usize) -> NodeShape {
    NodeShape::of(MilliCpu::from_cores(16), gib(64), vec![GpuShape::of("a", gib(80)); gpus])
}

/// A fleet of this node, of which others hold these parts of GPUs: index, thousandths and GiB.
fn fleet(shape: NodeShape, held: &[(u16, u32, u64)]) -> Fleet {
    let mut fleet = Fleet::default();
    let node = fleet.declare(&NodeSpec { name: "n".into(), shape: Arc::new(shape) }, NodeState::Ready);
    let part = |(index, share, memory): &(u16, u32, u64)| part(*index, *share, gib(*memory));
    let claim = NodeClaim { tasks: 1, gpus: held.iter().map(part).collect(), ..NodeClaim::of_nothing(node) };
    fleet.take(&Placement::new([claim].into_iter().collect()));
    fleet
}

fn part(index: u16, share: u32, memory: Bytes) -> GpuClaim {
    GpuClaim { index, share: GpuShare::new(share), memory }
}

fn gpu(index: u16) -> GpuId {
    GpuId { node: NodeId::new(0), index }
}

fn used_elsewhere(fleet: &mut Fleet, index: u16, share: u32, memory: u64) {
    fleet.set_foreign(gpu(index), Foreign { share: GpuShare::new(share), memory: gib(memory) });
}

fn task(count: u32, take: GpuTake) -> TaskDemand {
    TaskDemand {
        cpu: MilliCpu::from_cores(1),
        ram: gib(1),
        gpus: Some(GpuDemand { count, take, models: Vec::new(), min_memory: None }),
        labels: BTreeMap::new(),
        os: None,
        arch: None,
    }
}

fn group(task: &TaskDemand) -> TaskGroup<'_> {
    TaskGroup { tasks: 1, task, gang: Gang::Anywhere, pick: None, speeds: None, fields: None }
}

fn on_node<T>(fleet: &Fleet, judge: impl FnOnce(&NodeClass) -> T) -> T {
    judge(&all_classes(fleet, Grouping::EachNode)[0])
}

/// Why the task does not fit. A node with equal GPUs is judged by counting too, which must give the same answer.
fn shortage(fleet: &Fleet, count: u32, take: GpuTake) -> Option<Reason> {
    let task = task(count, take);
    let found = on_node(fleet, |class| first_shortage(group(&task), GpuOrder::First, class));
    for (_, class) in fleet.classes() {
        let uniform = Uniform::of(group(&task), &class.shape).expect("the GPUs are equal");
        assert_eq!(uniform.first_shortage(&ClassState::of(class), || &class.status), found, "by counting");
    }
    found
}

#[test]
fn the_reason_is_the_first_check_that_leaves_too_few_whole_gpus() {
    let mut node = fleet(shape(4), &[(0, 1000, 80), (1, 1000, 80)]);
    let of = |node: &Fleet, count| shortage(node, count, GpuTake::Whole);
    assert_eq!(
        (of(&node, 2), of(&node, 3), of(&node, 4)),
        (None, Some(Reason::InsufficientGpus), Some(Reason::InsufficientGpus))
    );
    assert_eq!(of(&node, 5), Some(Reason::GpuNotUsable));
    node.set_gpu_state(gpu(1), GpuState::Failed);
    assert_eq!((of(&node, 3), of(&node, 4)), (Some(Reason::InsufficientGpus), Some(Reason::GpuNotUsable)));
    // GPUs 2 and 3 would be enough for two if no other program used one of them.
    used_elsewhere(&mut node, 3, 0, 1);
    assert_eq!((of(&node, 1), of(&node, 2)), (None, Some(Reason::GpuBusyElsewhere)));
    assert_eq!(of(&node, 3), Some(Reason::InsufficientGpus));
}

#[test]
fn the_reason_is_the_first_check_that_leaves_too_few_shares() {
    let half = GpuTake::Share(GpuShare::new(500));
    let taken = |share, memory| fleet(shape(1), &[(0, share, memory)]);
    assert_eq!(shortage(&taken(500, 40), 1, half), None);
    assert_eq!(shortage(&taken(501, 40), 1, half), Some(Reason::InsufficientGpuShare));
    assert_eq!(shortage(&taken(500, 41), 1, half), Some(Reason::InsufficientGpuShare));
    // Another program has what would be enough, and then what would not.
    for (share, memory, reason) in [
        (500, 40, Reason::GpuBusyElsewhere),
        (501, 40, Reason::InsufficientGpuShare),
        (500, 41, Reason::InsufficientGpuShare),
    ] {
        let mut node = taken(share, memory);
        used_elsewhere(&mut node, 0, 1, 0);
        assert_eq!(shortage(&node, 1, half), Some(reason), "{share} and {memory} GiB are taken");
    }
}

#[test]
fn the_reason_is_the_first_check_that_leaves_too_little_memory() {
    let memory = GpuTake::Memory(gib(40));
    let taken = |share, memory| fleet(shape(1), &[(0, share, memory)]);
    assert_eq!(shortage(&taken(999, 40), 1, memory), None);
    assert_eq!(shortage(&taken(999, 41), 1, memory), Some(Reason::InsufficientGpuMemory));
    assert_eq!(shortage(&taken(1000, 40), 1, memory), Some(Reason::InsufficientGpuMemory));
    for (share, taken_memory, reason) in [
        (999, 40, Reason::GpuBusyElsewhere),
        (999, 41, Reason::InsufficientGpuMemory),
        (1000, 40, Reason::InsufficientGpuMemory),
    ] {
        let mut node = taken(share, taken_memory);
        used_elsewhere(&mut node, 0, 0, 1);
        assert_eq!(shortage(&node, 1, memory), Some(reason), "{share} and {taken_memory} GiB are taken");
    }
}

#[test]
fn a_claim_still_has_room_up_to_what_is_free_of_each_resource() {
    let mut plain = shape(2);
    plain.labels.insert(RESTRICTED_CORES_LABEL.into(), "2".into());
    let mut node = fleet(plain, &[(0, 500, 30)]);
    let claim = |cores, ram, gpus: &[GpuClaim]| NodeClaim {
        cpu: MilliCpu::from_cores(cores),
        ram: gib(ram),
        gpus: gpus.iter().copied().collect(),
        ..NodeClaim::of_nothing(NodeId::new(0))
    };
    let fits = |node: &Fleet, claim: NodeClaim| on_node(node, |class| has_room(class, &claim));
    let (half, whole) = (part(0, 500, gib(50)), part(1, 1000, gib(80)));
    assert!(fits(&node, claim(0, 64, &[half, whole])));
    assert!(!fits(&node, claim(0, 65, &[])));
    assert!(!fits(&node, claim(0, 0, &[part(0, 501, gib(50))])));
    assert!(!fits(&node, claim(0, 0, &[part(0, 500, gib(51))])));
    assert!(!fits(&node, claim(0, 0, &[whole, part(0, 501, gib(50))])));
    // Four of the 16 cores are restricted to the GPUs. GPU 1 brings two of them.
    assert!(fits(&node, claim(12, 0, &[])) && !fits(&node, claim(13, 0, &[])));
    assert!(fits(&node, claim(14, 0, &[whole])) && !fits(&node, claim(15, 0, &[whole])));
    assert!(fits(&node, claim(15, 0, &[half, whole])) && !fits(&node, claim(17, 0, &[half, whole])));
    node.set_gpu_state(gpu(1), GpuState::Failed);
    assert!(fits(&node, claim(0, 0, &[half])) && !fits(&node, claim(0, 0, &[whole])));
    let node = fleet(shape(1), &[]);
    assert!(fits(&node, claim(16, 64, &[])) && !fits(&node, claim(17, 0, &[])));
}

#[test]
fn memory_of_unified_gpus_and_ram_are_one_pool() {
    let mut pooled = shape(2);
    for gpu in &mut pooled.gpus {
        (gpu.unified, gpu.memory) = (true, gib(48));
    }
    let node = fleet(pooled, &[]);
    let fits = |ram, of_gpus: &[u64]| {
        let gpus = of_gpus.iter().enumerate().map(|(index, memory)| part(index as u16, 0, gib(*memory))).collect();
        let claim = NodeClaim { ram: gib(ram), gpus, ..NodeClaim::of_nothing(NodeId::new(0)) };
        on_node(&node, |class| has_room(class, &claim))
    };
    assert!(fits(16, &[48]) && fits(16, &[24, 24]) && fits(0, &[32, 32]));
    assert!(!fits(17, &[48]) && !fits(17, &[24, 24]) && !fits(0, &[33, 32]));
}

#[test]
fn a_task_may_use_the_restricted_cores_of_all_its_gpus() {
    let mut restricted = shape(4);
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "3".into());
    let node = fleet(restricted, &[]);
    let own = |count, take| on_node(&node, |class| own_restricted(group(&task(count, take)), class));
    assert_eq!(own(2, GpuTake::Whole), MilliCpu::from_cores(6));
    assert_eq!(own(2, GpuTake::Share(GpuShare::new(250))), MilliCpu::new(1500));
    assert_eq!(own(2, GpuTake::Memory(gib(8))), MilliCpu::ZERO);
    // Of 16 cores, 12 are restricted. Two tasks of six cores have three of their own GPU each, which leaves three each.
    let mut large = task(1, GpuTake::Whole);
    large.cpu = MilliCpu::from_cores(6);
    assert_eq!(on_node(&node, |class| capacity(group(&large), GpuOrder::First, class, 9)), 1);
    large.cpu = MilliCpu::from_cores(5);
    assert_eq!(on_node(&node, |class| capacity(group(&large), GpuOrder::First, class, 9)), 2);
}

#[test]
fn tasks_take_gpus_of_one_island_and_degraded_ones_last() {
    let mut halves = shape(4);
    halves.labels.insert(ISLANDS_LABEL.into(), "2+2".into());
    let mut node = fleet(halves, &[(0, 1000, 80)]);
    let target = Target::default();
    let taken = |node: &Fleet, order, take| {
        let choice = GpuChoice::new(order, &target, Draw::NONE);
        let load = on_node(node, |class| fill(group(&task(2, take)), choice, class, 1));
        load.gpus.iter().map(|part| part.index).collect::<Vec<_>>()
    };
    assert_eq!(taken(&node, GpuOrder::First, GpuTake::Whole), [1, 2]);
    assert_eq!(taken(&node, GpuOrder::Islands, GpuTake::Whole), [2, 3]);
    node.set_gpu_state(gpu(2), GpuState::Degraded);
    assert_eq!(taken(&node, GpuOrder::First, GpuTake::Whole), [1, 3]);
    assert_eq!(taken(&node, GpuOrder::First, GpuTake::Share(GpuShare::new(100))), [1, 3]);
}

#[test]
fn degraded_gpus_of_an_island_come_after_its_sound_ones() {
    let mut halves = shape(6);
    halves.labels.insert(ISLANDS_LABEL.into(), "3+3".into());
    let mut node = fleet(halves, &[]);
    for degraded in [0, 3, 5] {
        node.set_gpu_state(gpu(degraded), GpuState::Degraded);
    }
    // Four GPUs are wanted, and three are sound: all of the first island, and the sound one of the second.
    let target = Target::default();
    let choice = GpuChoice::new(GpuOrder::Islands, &target, Draw::NONE);
    let load = on_node(&node, |class| fill(group(&task(4, GpuTake::Whole)), choice, class, 1));
    assert_eq!(load.gpus.iter().map(|part| part.index).collect::<Vec<_>>(), [0, 1, 2, 4]);
}

#[test]
fn no_more_tasks_are_put_on_a_node_than_it_has_whole_gpus_for() {
    let mut node = fleet(shape(6), &[(1, 1000, 80)]);
    let target = Target::default();
    let filled = |node: &Fleet, order, each, limit| {
        let choice = GpuChoice::new(order, &target, Draw::NONE);
        let task = task(each, GpuTake::Whole);
        let load = on_node(node, |class| fill(group(&task), choice, class, limit));
        let gpus = load.gpus.iter().map(|part| part.index).collect::<Vec<_>>();
        (load.tasks, load.cpu.get() / 1000, load.ram, gpus)
    };
    // Five of six GPUs are idle, which is enough for two tasks with two GPUs each. A task has one core and 1 GiB.
    for order in [GpuOrder::First, GpuOrder::Islands] {
        assert_eq!(filled(&node, order, 2, 3), (2, 2, gib(2), vec![0, 2, 3, 4]), "{order:?}");
        assert_eq!(filled(&node, order, 2, 1), (1, 1, gib(1), vec![0, 2]), "{order:?}");
        assert_eq!(filled(&node, order, 3, 9), (1, 1, gib(1), vec![0, 2, 3]), "{order:?}");
        assert_eq!(filled(&node, order, 6, 9), (0, 0, gib(0), vec![]), "{order:?}");
    }
    // A degraded GPU is taken only if the others are not enough.
    node.set_gpu_state(gpu(0), GpuState::Degraded);
    assert_eq!(filled(&node, GpuOrder::First, 2, 3), (2, 2, gib(2), vec![2, 3, 4, 5]));
    assert_eq!(filled(&node, GpuOrder::First, 5, 3), (1, 1, gib(1), vec![0, 2, 3, 4, 5]));
}

/// A task of so many cores.
fn with_cores(cores: u64, task: TaskDemand) -> TaskDemand {
    TaskDemand { cpu: MilliCpu::from_cores(cores), ..task }
}

/// The GPUs that tasks take in this order, as far as they fit.
fn indexes(fleet: &Fleet, order: GpuOrder, target: &Target, draw: Draw, (task, tasks): (&TaskDemand, u32)) -> Vec<u16> {
    let choice = GpuChoice::new(order, target, draw);
    let load = on_node(fleet, |class| fill(group(task), choice, class, tasks));
    load.gpus.iter().map(|part| part.index).collect()
}

#[test]
fn a_task_without_gpus_is_counted_by_its_cores_and_its_memory() {
    let of = |cores, ram| {
        let task = TaskDemand { ram: gib(ram), ..with_cores(cores, task(0, GpuTake::Whole)) };
        on_node(&fleet(shape(2), &[]), |class| capacity(group(&task), GpuOrder::First, class, 99))
    };
    assert_eq!((of(1, 1), of(3, 1), of(1, 5), of(0, 0)), (16, 5, 12, 99));
}

/// Placing the tasks one by one is the plain way to count them.
#[test]
fn parts_of_gpus_are_counted_as_they_are_placed() {
    let target = Target::default();
    let takes = [
        GpuTake::Share(GpuShare::new(100)),
        GpuTake::Share(GpuShare::new(450)),
        GpuTake::Memory(gib(7)),
        GpuTake::Memory(gib(30)),
    ];
    let held: [&[(u16, u32, u64)]; 4] =
        [&[], &[(0, 600, 48)], &[(0, 1000, 0), (1, 0, 79)], &[(0, 900, 10), (1, 100, 75), (2, 550, 20), (3, 0, 40)]];
    for (take, held) in takes.into_iter().flat_map(|take| held.map(|held| (take, held))) {
        for (count, gpus, cores) in [(1, 4, 0), (2, 4, 0), (3, 4, 0), (4, 4, 0), (2, 5, 1), (3, 7, 2), (5, 4, 0)] {
            let node = fleet(shape(gpus), held);
            let task = with_cores(cores, task(count, take));
            let choice = GpuChoice::new(GpuOrder::First, &target, Draw::NONE);
            let placed = on_node(&node, |class| fill(group(&task), choice, class, 999)).tasks;
            let counted = on_node(&node, |class| capacity(group(&task), GpuOrder::First, class, 999));
            assert_eq!(counted, placed, "{count} of {gpus} GPUs, {take:?}, held {held:?}");
        }
    }
    // A byte each, of 80 GiB on two GPUs. Placing that many one by one would take minutes.
    let byte = TaskDemand { ram: gib(0), ..with_cores(0, task(1, GpuTake::Memory(Bytes::new(1)))) };
    let all = on_node(&fleet(shape(2), &[]), |class| capacity(group(&byte), GpuOrder::First, class, u32::MAX));
    assert_eq!(all, u32::MAX);
}

#[test]
fn as_many_shares_fit_as_cores_are_left_that_are_not_restricted() {
    let mut restricted = shape(4);
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "3".into());
    let node = fleet(restricted, &[]);
    // Each task has 1.5 restricted cores of its half GPU, and takes one of the 4 cores that are not restricted.
    let task = TaskDemand { cpu: MilliCpu::new(2500), ..task(1, GpuTake::Share(GpuShare::new(500))) };
    assert_eq!(on_node(&node, |class| capacity(group(&task), GpuOrder::First, class, 99)), 4);
}

#[test]
fn several_tasks_of_several_shares_take_the_gpus_with_room_for_the_most_tasks() {
    let tenths = |count| with_cores(9, task(count, GpuTake::Share(GpuShare::new(100))));
    let taken = |node: &Fleet, order, count, tasks| {
        indexes(node, order, &Target::default(), Draw::NONE, (&tenths(count), tasks))
    };
    // There is room for 4, 5 and 10 tasks on the GPUs, but cores for only one.
    let node = fleet(shape(3), &[(0, 600, 48), (1, 500, 40)]);
    assert_eq!(taken(&node, GpuOrder::First, 2, 2), [1, 2]);
    // A single task, or a task of one share, takes them in the order of the profile.
    assert_eq!(taken(&node, GpuOrder::First, 2, 1), [0, 1]);
    assert_eq!(taken(&node, GpuOrder::First, 1, 2), [0]);
    assert_eq!(taken(&node, GpuOrder::Tightest, 1, 2), [0]);
    assert_eq!(taken(&node, GpuOrder::Emptiest, 1, 2), [2]);
    // On a tie, a degraded GPU comes last.
    let mut node = fleet(shape(3), &[]);
    node.set_gpu_state(gpu(0), GpuState::Degraded);
    assert_eq!(taken(&node, GpuOrder::First, 2, 2), [1, 2]);
}

/// Two GPUs of which others hold 300 and 700 thousandths.
fn two_in_use(unified: bool) -> Fleet {
    let mut shape = shape(2);
    for gpu in &mut shape.gpus {
        (gpu.unified, gpu.memory) = (unified, gib(10));
    }
    fleet(shape, &[(0, 300, 3), (1, 700, 7)])
}

#[test]
fn a_share_goes_where_the_least_gpu_time_becomes_useless() {
    // Half of the tasks take a whole GPU, and half 400 thousandths. A task of 200 on GPU 0 takes time that is useless to
    // the first half alone. On GPU 1, it takes time that is useless to all.
    let of = |share| TaskShape { share: GpuShare::new(share), gpus: 1, ..TaskShape::default() };
    let target = Target::of([of(1000), of(400)].into_iter());
    let task = task(1, GpuTake::Share(GpuShare::new(200)));
    let taken = |node, order| indexes(node, order, &target, Draw::NONE, (&task, 1));
    let node = two_in_use(false);
    assert_eq!(taken(&node, GpuOrder::First), [0]);
    assert_eq!(taken(&node, GpuOrder::LeastFragmentation), [1]);
    // Memory that is part of the RAM limits which GPUs fit, so such GPUs are taken in order.
    assert_eq!(taken(&two_in_use(true), GpuOrder::LeastFragmentation), [0]);
}

#[test]
fn gpus_are_drawn_unless_their_memory_is_part_of_the_ram() {
    let task = task(1, GpuTake::Share(GpuShare::new(200)));
    let drawn = |node: &Fleet| {
        let of = |job| {
            let attempt = AttemptId { job: JobId::new(job), replica: 0, number: 1 };
            indexes(node, GpuOrder::Random, &Target::default(), Draw::new(7, attempt), (&task, 1))
        };
        (0..40).map(of).collect::<BTreeSet<_>>()
    };
    assert_eq!(drawn(&two_in_use(false)), BTreeSet::from([vec![0], vec![1]]));
    assert_eq!(drawn(&two_in_use(true)), BTreeSet::from([vec![0]]));
}
