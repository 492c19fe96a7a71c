//! Scores computed by hand, on nodes of which others hold some parts.

use crate::fragment::{self, Free, fragment};
use crate::node_class::{Grouping, NodeClass, all_classes};
use crate::scorer::{ScorerName, readiness, score};
use crate::target::{Target, TaskShape};
use crate::test_world::{cpu_task, fleet, gpu_task, node, shares, whole_gpus, with_gpus};
use dryrack_fleet::{
    Fleet, Foreign, GpuClaim, GpuState, NodeClaim, NodeShape, NodeSpec, NodeState, NodeStatus, Placement, Reliance,
};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Gang, GpuSpeed, GpuTake, Speed, SpeedSource, Speeds, TaskDemand, TaskGroup};

const fn gib(gib: u64) -> Bytes {
    Bytes::from_gib(gib)
}

fn group(task: &TaskDemand) -> TaskGroup<'_> {
    TaskGroup { tasks: 1, task, gang: Gang::Anywhere, pick: None, speeds: None, fields: None }
}

fn gpu(index: u16) -> GpuId {
    GpuId { node: NodeId::new(0), index }
}

/// Lets a task of another job hold cores, RAM in GiB, and parts of GPUs: index, thousandths and GiB.
fn hold(fleet: &mut Fleet, (cores, ram): (u64, u64), gpus: &[(u16, u32, u64)]) {
    let part = |(index, share, memory): &(u16, u32, u64)| GpuClaim {
        index: *index,
        share: GpuShare::new(*share),
        memory: gib(*memory),
    };
    let claim = NodeClaim {
        tasks: 1,
        cpu: MilliCpu::from_cores(cores),
        ram: gib(ram),
        gpus: gpus.iter().map(part).collect(),
        ..NodeClaim::of_nothing(NodeId::new(0))
    };
    fleet.take(&Placement::new([claim].into()));
}

fn use_elsewhere(fleet: &mut Fleet, index: u16, share: u32, memory: u64) {
    fleet.set_foreign(gpu(index), Foreign { share: GpuShare::new(share), memory: gib(memory) });
}

fn on_first<T>(fleet: &Fleet, judge: impl FnOnce(&NodeClass) -> T) -> T {
    judge(&all_classes(fleet, Grouping::EachNode)[0])
}

/// The score of the first node, in millionths.
fn of(scorer: ScorerName, fleet: &Fleet, task: &TaskDemand) -> i64 {
    let value = on_first(fleet, |class| score(&Target::default(), scorer, fleet.largest(), group(task), class));
    (value.get() * 1e6).round() as i64
}

fn asks(mut task: TaskDemand, cores: u64, ram: u64) -> TaskDemand {
    (task.cpu, task.ram) = (MilliCpu::from_cores(cores), gib(ram));
    task
}

/// A node with 12 of 16 cores and 48 of 64 GiB free. Its GPUs are free to 0, 500, 750 and 1000 thousandths, and to 0, 20,
/// 72 and 80 GiB. The largest node has 32 cores, 128 GiB and eight GPUs of 80 GiB.
fn partly_held() -> Fleet {
    let mut large = with_gpus(8);
    (large.cpu, large.ram) = (MilliCpu::from_cores(32), gib(128));
    let mut fleet = fleet([with_gpus(4), large]);
    hold(&mut fleet, (4, 16), &[(0, 1000, 80), (1, 500, 60)]);
    use_elsewhere(&mut fleet, 2, 250, 8);
    fleet
}

#[test]
fn the_best_fit_leaves_the_least_of_what_is_asked_for() {
    let fleet = partly_held();
    let best_fit = |task: TaskDemand| of(ScorerName::BestFit, &fleet, &task);
    // 10 of 32 cores, 40 of 128 GiB, and 2,000 of 8,000 thousandths of GPUs are left: 1 - (5/16 + 5/16 + 1/4) / 3.
    assert_eq!(best_fit(asks(shares(1, 250), 2, 8)), 708_333);
    assert_eq!(best_fit(cpu_task(2)), 687_500);
    // 2,250 - 2 * 1,000 and 2,250 - 3 * 250 thousandths.
    assert_eq!(best_fit(whole_gpus(2)), 968_750);
    assert_eq!(best_fit(shares(3, 250)), 812_500);
    // 172 - 2 * 10 of 640 GiB.
    assert_eq!(best_fit(gpu_task(2, GpuTake::Memory(gib(10)), &[])), 762_500);
    assert_eq!(best_fit(cpu_task(0)), 1_000_000);
}

#[test]
fn a_node_is_full_by_the_mean_of_its_cores_its_ram_and_its_gpus() {
    let fleet = partly_held();
    let pack = |task: TaskDemand| of(ScorerName::Pack, &fleet, &task);
    // The GPUs are held to 1, 3/4, 1/4 and 0. With the task: 6 of 16 cores, 24 of 64 GiB, and 2.25 of 4 GPUs.
    assert_eq!(pack(asks(shares(1, 250), 2, 8)), 437_500);
    assert_eq!(of(ScorerName::Spread, &fleet, &asks(shares(1, 250), 2, 8)), 562_500);
    assert_eq!(pack(asks(whole_gpus(1), 2, 8)), 500_000);
    assert_eq!(pack(asks(gpu_task(1, GpuTake::Memory(gib(80)), &[]), 2, 8)), 500_000);
    assert_eq!(pack(asks(shares(2, 250), 2, 8)), 458_333);
    assert_eq!(pack(cpu_task(2)), 375_000);
    let no_gpus = crate::test_world::fleet([node(&[])]);
    assert_eq!(of(ScorerName::Pack, &no_gpus, &asks(cpu_task(0), 8, 16)), 375_000);
    let nothing = NodeShape::of(MilliCpu::ZERO, Bytes::ZERO, Vec::new());
    assert_eq!(of(ScorerName::Pack, &crate::test_world::fleet([nothing]), &cpu_task(0)), 0);
}

#[test]
fn a_node_is_reliable_by_its_heartbeats_its_losses_and_its_gpus() {
    let shape = with_gpus(4);
    let mut status = NodeStatus::idle(NodeState::Ready, &shape);
    assert_eq!(readiness(&status).to_bits(), 1.0f64.to_bits());
    (status.gpus[0].state, status.gpus[1].state) = (GpuState::Failed, GpuState::Degraded);
    assert_eq!(readiness(&status).to_bits(), 0.5f64.to_bits());
    status.reliance = Reliance { overdue: true, flaps: 3 };
    assert_eq!(readiness(&status).to_bits(), 0.0625f64.to_bits());
    let mut without = NodeStatus::idle(NodeState::Ready, &node(&[]));
    without.reliance = Reliance { overdue: false, flaps: 1 };
    assert_eq!(readiness(&without).to_bits(), 0.5f64.to_bits());
}

#[test]
fn the_fastest_node_is_that_with_the_fastest_of_the_slowest_accepted_gpus() {
    let speed = |gpu: &str, speed: &str| GpuSpeed {
        gpu: gpu.into(),
        speed: speed.parse::<Speed>().expect("a speed"),
        from: SpeedSource::File,
    };
    let speeds = Speeds { reference: "a".into(), others: vec![speed("b", "4"), speed("c", "0.5")] };
    let score_of = |models: &[&str], accepted: &[&str], is_stated: bool| {
        let (fleet, task) = (fleet([node(models)]), gpu_task(1, GpuTake::Whole, accepted));
        let demand = TaskGroup { speeds: is_stated.then_some(&speeds), ..group(&task) };
        let fastest =
            |class: &NodeClass| score(&Target::default(), ScorerName::Fastest, fleet.largest(), demand, class).get();
        (on_first(&fleet, fastest) * 1000.0) as u32
    };
    assert_eq!(
        [&["a"][..], &["b"], &["c"], &["b", "a"]].map(|models| score_of(models, &[], true)),
        [250, 1000, 125, 250]
    );
    assert_eq!(score_of(&["b", "a"], &["b"], true), 1000);
    assert_eq!(score_of(&["b"], &["a"], true), 0);
    assert_eq!(score_of(&["b"], &[], false), 0);
}

#[test]
fn the_published_best_fit_and_dot_product_count_cores_and_gpus() {
    let mut large = with_gpus(8);
    large.cpu = MilliCpu::from_cores(128);
    let mut held = fleet([large.clone()]);
    let task = asks(whole_gpus(4), 64, 0);
    let both = |fleet: &Fleet, task: &TaskDemand| {
        [ScorerName::BestFitOpenb, ScorerName::DotProduct].map(|scorer| of(scorer, fleet, task) / 1_000_000)
    };
    // Half of the cores and half of the GPUs are left. The products are 1 * 1/2 each.
    assert_eq!(both(&held, &task), [50, 50]);
    // 32 cores and two GPUs are held: 1/4 of both is left. The products are 3/4 * 1/2.
    hold(&mut held, (32, 0), &[(0, 1000, 80), (1, 1000, 80)]);
    assert_eq!(both(&held, &task), [75, 62]);
    // 3/4 of the cores and 5,750 of 8,000 thousandths are left: 1 - (0.75 + 0.71875) / 2. The product is 3/4 * 1/32.
    assert_eq!(both(&held, &shares(1, 250)), [26, 98]);
    // The failed GPU is not free. A demand for memory takes no share.
    held.set_gpu_state(gpu(2), GpuState::Failed);
    assert_eq!(both(&held, &gpu_task(1, GpuTake::Memory(gib(8)), &[])), [31, 100]);
    assert_eq!(both(&held, &cpu_task(32)), [43, 90]);
}

#[test]
fn packing_prefers_gpus_in_use_then_nodes_in_use_then_small_nodes() {
    let packing = |fleet: &Fleet, task: TaskDemand| of(ScorerName::GpuPacking, fleet, &task) / 1_000_000;
    let mut held = fleet([with_gpus(4)]);
    assert_eq!(packing(&held, cpu_task(1)), 0);
    // Nothing is in use: 33 less the number of GPUs, but at least that number.
    assert_eq!(packing(&held, shares(1, 250)), 29);
    assert_eq!(packing(&fleet([with_gpus(20)]), shares(1, 250)), 20);
    hold(&mut held, (0, 0), &[(0, 1000, 80), (1, 500, 40), (2, 250, 20)]);
    // Of the GPUs with room, the fullest are taken: 500, then 750 thousandths are free there, and then a free GPU.
    assert_eq!(packing(&held, shares(1, 250)), 95);
    assert_eq!(packing(&held, shares(2, 250)), 88);
    assert_eq!(packing(&held, shares(3, 250)), 49);
    assert_eq!(packing(&held, shares(1, 600)), 93);
    assert_eq!(packing(&held, whole_gpus(1)), 49);
    let mut large = fleet([with_gpus(24)]);
    hold(&mut large, (0, 0), &[(0, 1000, 80)]);
    assert_eq!(packing(&large, whole_gpus(2)), 48);
    assert_eq!(packing(&large, whole_gpus(20)), 33);
    let little: Vec<(u16, u32, u64)> = (0..8).map(|index| (index, 100, 8)).collect();
    let mut shared = fleet([with_gpus(8)]);
    hold(&mut shared, (0, 0), &little);
    assert_eq!(packing(&shared, shares(4, 100)), 64);
    assert_eq!(packing(&shared, shares(6, 100)), 50);
}

#[test]
fn clustering_prefers_nodes_with_tasks_of_the_same_number_of_gpus() {
    let clustering = |fleet: &Fleet, task: TaskDemand| of(ScorerName::GpuClustering, fleet, &task) / 1_000_000;
    let with_kinds = |gpus: usize| {
        let mut fleet = Fleet::with_kinds();
        fleet.declare(&NodeSpec { name: "n".into(), shape: with_gpus(gpus).into() }, NodeState::Ready);
        fleet
    };
    let mut held = with_kinds(8);
    assert_eq!(clustering(&held, cpu_task(1)), 0);
    assert_eq!(clustering(&held, whole_gpus(2)), 25);
    // Four of eight GPUs do not exist, which counts as half full: 25 * 4,000 / 8,000.
    assert_eq!(clustering(&with_kinds(4), whole_gpus(2)), 37);
    hold(&mut held, (0, 0), &[(0, 1000, 80), (1, 1000, 80)]);
    // 25 * 2,000 / 8,000 is 6.25.
    assert_eq!(clustering(&held, whole_gpus(2)), 81);
    assert_eq!(clustering(&held, whole_gpus(1)), 6);
    assert_eq!(clustering(&held, shares(1, 100)), 6);
    // 25 * 2,500 / 8,000 is 7.8.
    hold(&mut held, (0, 0), &[(2, 500, 40)]);
    assert_eq!(clustering(&held, whole_gpus(2)), 57);
    assert_eq!(clustering(&held, shares(1, 100)), 57);
    assert_eq!(clustering(&held, gpu_task(1, GpuTake::Memory(gib(8)), &[])), 57);
    assert_eq!(clustering(&held, whole_gpus(4)), 7);
}

/// A target of one shape: cores, and a share in thousandths of each of this many GPUs of these models.
fn target(cores: u64, (gpus, share): (u32, u32), models: &[&str]) -> Target {
    let models = models.iter().map(|model| (*model).into()).collect();
    let (cpu, share) = (MilliCpu::from_cores(cores), GpuShare::new(share));
    Target::of([TaskShape { cpu, share, gpus, models, ..TaskShape::default() }].into_iter())
}

#[test]
fn free_time_is_useless_where_the_target_cannot_use_it() {
    let useless = |target: &Target, shape: &NodeShape, cores: u64, gpus: &[u32]| {
        let free = Free { cpu: MilliCpu::from_cores(cores), gpus: gpus.into() };
        fragment(target, shape, &free) as u32
    };
    let pair_of_halves = target(4, (2, 500), &[]);
    let of = |cores, gpus: &[u32]| useless(&pair_of_halves, &with_gpus(gpus.len()), cores, gpus);
    assert_eq!(of(4, &[499, 500, 1000]), 499);
    assert_eq!(of(3, &[499, 500, 1000]), 1999);
    assert_eq!(of(4, &[499, 400, 1000]), 1899);
    assert_eq!(of(4, &[500, 500]), 0);
    let mixed = node(&["a", "b", "a"]);
    let of_b = target(0, (1, 1000), &["b"]);
    assert_eq!(useless(&of_b, &mixed, 0, &[1000, 1000, 500]), 1500);
    assert_eq!(useless(&of_b, &with_gpus(2), 0, &[1000, 500]), 1500);
    assert_eq!(useless(&target(1, (0, 0), &[]), &mixed, 4, &[100, 200, 300]), 600);
    // Half of the tasks need nothing of a GPU, and the others need all of one.
    let shapes = |gpus| TaskShape { gpus, share: GpuShare::new(1000 * gpus), ..TaskShape::default() };
    let half = Target::of([shapes(0), shapes(1)].into_iter());
    assert_eq!(useless(&half, &with_gpus(2), 0, &[400, 1000]), 900);
}

#[test]
fn a_task_goes_where_the_least_time_becomes_useless() {
    let of_whole = target(0, (1, 1000), &[]);
    let gains = |fleet: &Fleet, target: &Target, task: TaskDemand| {
        on_first(fleet, |class| {
            let best = fragment::score(target, group(&task), class);
            let gpus = (0..class.shape.gpus.len()).map(|at| fragment::score_of_gpu(target, group(&task), class, at));
            (best, gpus.collect::<Vec<_>>())
        })
    };
    // 100 / (1 + exp(0.5)) = 37.8 if 500 thousandths become useless, 100 / (1 + exp(-0.5)) = 62.2 if they become useful.
    let mut held = fleet([with_gpus(2)]);
    assert_eq!(gains(&held, &of_whole, shares(1, 500)), (37, vec![37, 37]));
    hold(&mut held, (0, 0), &[(0, 500, 40)]);
    assert_eq!(gains(&held, &of_whole, shares(1, 500)), (62, vec![62, 37]));
    // Whole GPUs are taken where the least is free, which changes nothing here.
    assert_eq!(gains(&held, &of_whole, whole_gpus(1)), (50, vec![0, 0]));
    // GPUs with equal free parts differ by their models: only those of the target count.
    let mixed = fleet([node(&["a", "b"])]);
    assert_eq!(gains(&mixed, &target(0, (1, 1000), &["a"]), shares(1, 500)).0, 62);
    // The task takes the cores that the target needs: 100 / (1 + exp(1.5)) = 18.2.
    let cores = target(10, (1, 1000), &[]);
    assert_eq!(gains(&fleet([with_gpus(2)]), &cores, asks(shares(1, 500), 8, 0)), (18, vec![18, 18]));
    assert_eq!(gains(&fleet([with_gpus(2)]), &cores, cpu_task(8)).0, 11);
}
