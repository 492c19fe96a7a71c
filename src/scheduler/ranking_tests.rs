//! Cached decisions compared with plain ones, which look at each node, while a fleet changes at random.

use crate::decide::decide;
use crate::decision::Decision;
use crate::draw::Draw;
use crate::gpu_order::GpuOrder;
use crate::node_class::Grouping;
use crate::options::{GangPlaces, SchedulerOptions};
use crate::ranking::Rankings;
use crate::refusals::Refusals;
use crate::scorer::{ScorerName, WeightedScorer};
use crate::stage_name::StageName;
use crate::target::{Target, TaskShape};
use crate::test_world::{cpu_task, gpu_task, node, options, shares, whole_gpus, with_gpus};
use dryrack_fleet::{
    Fleet, Foreign, GpuState, ISLANDS_LABEL, NodeShape, NodeSpec, NodeState, Placement, RESTRICTED_CORES_LABEL,
    Reliance,
};
use dryrack_ids::{GpuId, NodeId};
use dryrack_rng::Stream;
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Demand, Gang, GpuTake, TaskDemand};

/// Two nodes of each shape.
fn shapes() -> Vec<NodeShape> {
    let mut labelled = node(&["b", "b"]);
    labelled.labels.insert("zone".into(), "z".into());
    let mut restricted = with_gpus(4);
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "3".into());
    let mut unified = node(&["a", "a"]);
    unified.gpus.iter_mut().for_each(|gpu| gpu.unified = true);
    let mut islands = with_gpus(8);
    islands.labels.insert(ISLANDS_LABEL.into(), "4+2+2".into());
    let mut larger = node(&["a", "a"]);
    larger.gpus[1].memory = Bytes::from_gib(96);
    vec![with_gpus(4), node(&["a", "b", "a"]), node(&[]), labelled, restricted, unified, islands, larger, with_gpus(9)]
}

fn demands() -> Vec<Demand> {
    let tasks = |tasks: u32, gang: Gang, task: TaskDemand| Demand { tasks, gang, ..Demand::of(task) };
    let one = |task: TaskDemand| tasks(1, Gang::Anywhere, task);
    let with_cpu = |cores: u64, task: TaskDemand| TaskDemand { cpu: MilliCpu::from_cores(cores), ..task };
    let mut in_zone = shares(1, 500);
    in_zone.labels.insert("zone".into(), "z".into());
    let mut large = gpu_task(1, GpuTake::Whole, &[]);
    large.gpus.as_mut().expect("GPUs").min_memory = Some(Bytes::from_gib(90));
    let memory = |count, gib| gpu_task(count, GpuTake::Memory(Bytes::from_gib(gib)), &[]);
    vec![
        one(cpu_task(3)),
        one(TaskDemand { ram: Bytes::from_gib(40), ..cpu_task(0) }),
        one(cpu_task(17)),
        one(whole_gpus(1)),
        one(with_cpu(4, whole_gpus(2))),
        one(with_cpu(13, whole_gpus(1))),
        one(gpu_task(2, GpuTake::Whole, &["b"])),
        one(with_cpu(2, shares(1, 250))),
        one(shares(2, 600)),
        one(shares(1, 1000)),
        one(memory(1, 30)),
        one(memory(2, 50)),
        one(in_zone),
        one(large),
        tasks(3, Gang::Anywhere, with_cpu(2, whole_gpus(1))),
        tasks(2, Gang::Spread, whole_gpus(2)),
        tasks(4, Gang::Packed, shares(1, 500)),
    ]
}

fn scored(scorers: &[(&str, f64)], gpus: GpuOrder) -> SchedulerOptions {
    let stage = |name: &str| ScorerName::named(name).expect("a scorer");
    let weighted = |(name, weight): &(&str, f64)| WeightedScorer { stage: stage(name), weight: *weight };
    let shape = |cores, gpus, share| TaskShape {
        cpu: MilliCpu::from_cores(cores),
        gpus,
        share: GpuShare::new(share),
        ..TaskShape::default()
    };
    let of_b = TaskShape { models: vec!["b".into()], ..shape(2, 1, 1000) };
    let target = [shape(1, 0, 0), shape(4, 1, 250), shape(8, 1, 1000), shape(12, 2, 1000), shape(0, 1, 500), of_b];
    SchedulerOptions {
        scorers: scorers.iter().map(weighted).collect(),
        gpus,
        target: Target::of(target.into_iter()),
        ..options()
    }
}

/// Changes one thing of the fleet at random. What a job takes is a place that was decided for it.
fn change(fleet: &mut Fleet, held: &mut Vec<Placement>, options: &SchedulerOptions, draws: &mut Stream) {
    let node = NodeId::new(draws.index(fleet.len()));
    let gpus = fleet.node(node).shape.gpus.len();
    let gpu = (gpus > 0).then(|| GpuId { node, index: draws.index(gpus) as u16 });
    match (draws.between(0, 9), gpu) {
        (0, _) => {
            let state = *draws.pick(&[NodeState::Ready, NodeState::Ready, NodeState::NotReady, NodeState::Maintenance]);
            fleet.set_node_state(node, state);
        }
        (1, Some(gpu)) => {
            let state = *draws.pick(&[GpuState::Ready, GpuState::Ready, GpuState::Degraded, GpuState::Failed]);
            fleet.set_gpu_state(gpu, state);
        }
        (2, Some(gpu)) => {
            let (share, memory) = *draws.pick(&[(0, 0), (0, 0), (0, 8), (250, 8), (1000, 80)]);
            fleet.set_foreign(gpu, Foreign { share: GpuShare::new(share), memory: Bytes::from_gib(memory) });
        }
        (3, _) => {
            fleet.set_reliance(node, Reliance { overdue: draws.chance(300), flaps: draws.between(0, 2) as u32 });
        }
        (4 | 5, _) if !held.is_empty() => {
            let ended = held.swap_remove(draws.index(held.len()));
            ended.claims().iter().for_each(|claim| fleet.release(claim));
        }
        _ => {
            let demands = demands();
            if let Decision::Place(candidates) = decide(options, draws.pick(&demands), fleet, Grouping::EachNode, 1) {
                let placement = candidates[0].placement.clone();
                fleet.take(&placement);
                held.push(placement);
            }
        }
    }
}

/// Compares all decisions after each change. Returns how often a demand was placed and refused.
fn compare(options: &SchedulerOptions, seed: u64) -> (u32, u32) {
    let mut fleet = if options.needs_kinds() { Fleet::with_kinds() } else { Fleet::default() };
    let (demands, mut rankings, mut refusals) = (demands(), Rankings::new(options), Refusals::default());
    let (mut held, mut draws) = (Vec::new(), Stream::new(seed, "ranking test", 0));
    let (mut placed, mut refused) = (0, 0);
    let mut shapes = shapes();
    shapes.extend(shapes.clone());
    for step in 0..120 {
        // The fleet grows at the beginning.
        match shapes.pop() {
            Some(shape) => {
                fleet.declare(&NodeSpec { name: format!("n{step}").into(), shape: shape.into() }, NodeState::Ready);
            }
            None => change(&mut fleet, &mut held, options, &mut draws),
        }
        for (number, demand) in demands.iter().enumerate() {
            let number = number as u32;
            let plain = decide(options, demand, &fleet, Grouping::EachNode, 1);
            let cached = rankings.decide(options, (number, demand), &fleet, Draw::NONE);
            let cached = cached.or_else(|| refusals.still(number, &fleet)).unwrap_or_else(|| {
                let of_classes = decide(options, demand, &fleet, Grouping::Classes, 1);
                refusals.keep(options, (number, demand), &fleet, &of_classes);
                of_classes
            });
            assert_eq!(cached, plain, "step {step}, demand {number}");
            match plain {
                Decision::Place(_) => placed += 1,
                Decision::Refuse { .. } => refused += 1,
            }
        }
    }
    (placed, refused)
}

#[test]
fn cached_decisions_are_those_of_the_plain_computation() {
    use GpuOrder::{Emptiest, First, Islands, LeastFragmentation, Tightest};
    let consolidating = SchedulerOptions { gangs: GangPlaces::Consolidate, ..scored(&[], First) };
    let racks = SchedulerOptions { gangs: GangPlaces::Racks, ..scored(&[("best_fit", 1.0)], Tightest) };
    let all = [
        scored(&[], First),
        scored(&[("fgd", 1.0)], LeastFragmentation),
        scored(&[("fgd", 1.0), ("pack", -20.0)], First),
        scored(&[("spread", 1.0), ("readiness", 0.5)], Emptiest),
        scored(&[("islands", 1.0), ("best_fit", 0.1)], Islands),
        scored(&[("best_fit_openb", 1.0)], LeastFragmentation),
        scored(&[("gpu_packing", 1.0)], Tightest),
        scored(&[("gpu_clustering", 1.0)], LeastFragmentation),
        consolidating,
        racks,
    ];
    for (seed, options) in all.iter().enumerate() {
        let (placed, refused) = compare(options, seed as u64);
        assert!(placed > 300 && refused > 100, "{seed}: {placed} placed, {refused} refused");
    }
}
