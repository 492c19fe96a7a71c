//! Compares offers with a search without order, classes or shortcuts: a job is refused only if no choice of hosts and
//! blocks suffices, and its placement is such a choice.

use std::path::Path;
use std::sync::Arc;

use dryrack_fleet::{
    Blocks, Fleet, FleetKind, FleetPlacement, FleetSpec, GpuShape, Instance, Node, NodeClaim, NodeShape, NodeSpec,
    NodeState, Placement,
};
use dryrack_ids::{FleetId, NodeId};
use dryrack_profile::load_profile;
use dryrack_rng::Stream;
use dryrack_scheduler::{Decision, Grouping, SchedulerOptions, decide};
use dryrack_units::{Bytes, MilliCpu, Money};
use dryrack_workload::{Bounds, Demand, GpuRequirements, Requirements, SpotPolicy};

trials! {
    Nothing: [
        a_job_is_refused_only_where_nothing_would_do,
    ]
}

const WORLDS: u64 = 20_000;

/// 20,000 partly used fleets, with one job each, under the correct profile.
fn a_job_is_refused_only_where_nothing_would_do() {
    let profile = load_profile("dstack", Path::new("")).expect("it comes with dryrack");
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..WORLDS {
        let mut draws = Stream::new(seed, "offers", 0);
        let fleet = draw_fleet(&mut draws);
        let demand = draw_demand(&mut draws);
        let possible = is_possible(&fleet, &demand);
        match answer(&profile.scheduler, &demand, &fleet) {
            Some(placement) => {
                assert!(possible, "seed {seed}: {placement:?} where nothing would do");
                hold(&fleet, &demand, &placement, seed);
                placed += 1;
            }
            None => {
                assert!(!possible, "seed {seed}: refused, and something would do");
                refused += 1;
            }
        }
    }
    assert!(placed > WORLDS / 5 && refused > WORLDS / 5, "{placed} placed, {refused} refused");
}

/// The first candidate, which must be the same over classes as over single nodes.
fn answer(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Option<Placement> {
    let decisions = [Grouping::Classes, Grouping::EachNode].map(|grouping| decide(options, demand, fleet, grouping, 1));
    assert_eq!(decisions[0], decisions[1]);
    match &decisions[0] {
        Decision::Place(candidates) => Some(candidates[0].placement.clone()),
        Decision::Refuse { .. } => None,
    }
}

/// Whether `blocks` blocks of a host are within every range of the demand.
fn would_do(node: &Node, demand: &Demand, blocks: u64) -> bool {
    let wanted = demand.requirements().expect("drawn with requirements");
    let Some(total) = node.shape.total_blocks().map(u64::from) else { return false };
    let instance = node.shape.instance.as_deref().expect("it has blocks");
    let (cpus, mib) = (node.shape.cpu.get() / 1000 / total * blocks, (node.shape.ram.get() >> 20) / total * blocks);
    let gpus = node.shape.gpus.len() as u64 / total * blocks;
    let gpu = wanted.gpu.as_ref().is_none_or(|gpu| {
        (gpu.count.min == Some(0) && gpus == 0)
            || (gpu.count.contains(gpus as u32)
                && gpu.memory.is_none_or(|memory| gpus > 0 && memory.contains(node.shape.gpus[0].memory)))
    });
    node.status.state == NodeState::Ready
        && wanted.cpu.contains(cpus)
        && wanted.memory.contains(Bytes::from_mib(mib))
        && wanted.disk.is_none_or(|disk| instance.disk == Bytes::ZERO || disk.contains(instance.disk))
        && (wanted.regions.is_empty() || wanted.regions.contains(&instance.region))
        && gpu
}

fn is_possible(fleet: &Fleet, demand: &Demand) -> bool {
    let idle = |node: &Node| u64::from(node.shape.total_blocks().unwrap_or(0) - node.status.blocks.count());
    if demand.tasks == 1 {
        return fleet.iter().any(|(_, node)| (1..=idle(node)).any(|blocks| would_do(node, demand, blocks)));
    }
    // All hosts must be whole, and in the same cluster and region.
    let whole = |node: &Node| {
        let total = u64::from(node.shape.total_blocks().unwrap_or(0));
        total > 0 && idle(node) == total && would_do(node, demand, total)
    };
    fleet.fleets().any(|(id, spec)| {
        ["eu", "us"].iter().any(|region| {
            let here = fleet.iter().filter(|(_, node)| {
                let instance = node.shape.instance.as_deref().expect("every node is one");
                instance.fleet == id && &*instance.region == *region && whole(node)
            });
            spec.placement == FleetPlacement::Cluster && here.count() >= demand.tasks as usize
        })
    })
}

/// Checks that a placement takes the smallest sufficient number of idle blocks, and a separate host for each node of
/// the job.
fn hold(fleet: &Fleet, demand: &Demand, placement: &Placement, seed: u64) {
    assert_eq!(placement.claims().len(), demand.tasks as usize, "seed {seed}");
    for claim in placement.claims() {
        let node = fleet.node(claim.node);
        let blocks = claim.blocks.len() as u64;
        assert!(would_do(node, demand, blocks), "seed {seed}: {claim:?}");
        assert!(claim.blocks.iter().all(|block| !node.status.blocks.contains(*block)), "seed {seed}: {claim:?}");
        let fewer = (1..blocks).filter(|fewer| would_do(node, demand, *fewer)).count();
        assert!(demand.tasks > 1 || fewer == 0, "seed {seed}: fewer blocks would do");
        let each = node.shape.gpus.len() / node.shape.total_blocks().expect("it is split") as usize;
        let gpus: Vec<usize> = claim.gpus.iter().map(|gpu| usize::from(gpu.index)).collect();
        let expected: Vec<usize> =
            claim.blocks.iter().flat_map(|block| (0..each).map(move |at| usize::from(*block) * each + at)).collect();
        assert_eq!(gpus, expected, "seed {seed}: the GPUs are those of the blocks");
    }
    let mut after = fleet.clone();
    after.take(placement);
    placement.claims().iter().for_each(|claim| after.release(claim));
    for (id, node) in fleet.iter() {
        assert_eq!(node.status, after.node(id).status, "seed {seed}: what was taken is given back");
    }
}

fn draw_fleet(draws: &mut Stream) -> Fleet {
    let mut fleet = Fleet::default();
    let fleets = draws.between(1, 2);
    for number in 0..fleets {
        fleet.declare_fleet(Arc::new(FleetSpec {
            name: format!("f{number}").into(),
            kind: FleetKind::Ssh,
            placement: *draws.pick(&[FleetPlacement::Any, FleetPlacement::Cluster, FleetPlacement::Cluster]),
            blocks: Blocks::Count(1),
            nodes: None,
            cloud: None,
        }));
    }
    for number in 0..draws.between(1, 6) {
        let shape = Arc::new(draw_shape(draws, fleets as usize));
        let state = if draws.chance(900) { NodeState::Ready } else { NodeState::NotReady };
        let node = fleet.declare(&NodeSpec { name: format!("n{number}").into(), shape }, state);
        let total = fleet.node(node).shape.total_blocks().unwrap_or(0);
        let held: Vec<u16> = (0..total as u16).filter(|_| draws.chance(250)).collect();
        take(&mut fleet, node, &held);
    }
    fleet
}

fn take(fleet: &mut Fleet, node: NodeId, blocks: &[u16]) {
    if let Some(cut) = fleet.node(node).shape.cut(blocks).filter(|_| !blocks.is_empty()) {
        let blocks = blocks.iter().copied().collect();
        let claim = NodeClaim { node, tasks: 1, cpu: cut.cpu, ram: cut.ram, gpus: cut.gpus, blocks, sets: None };
        fleet.take(&Placement::new([claim].into()));
    }
}

fn draw_shape(draws: &mut Stream, fleets: usize) -> NodeShape {
    let memory = Bytes::from_gib(*draws.pick(&[16, 80]));
    let cpu = MilliCpu::from_cores(*draws.pick(&[4, 8, 12, 32]));
    let ram = Bytes::from_gib(*draws.pick(&[8, 64]));
    let gpus = vec![GpuShape::of("A", memory); *draws.pick(&[0, 2, 4, 8])];
    let shape = NodeShape {
        price_per_hour: draws.chance(500).then(|| Money::new(draws.between(1, 3))),
        ..NodeShape::of(cpu, ram, gpus)
    };
    shape.into_instance(Instance {
        fleet: FleetId::new(draws.index(fleets)),
        blocks: draws.pick(&[Blocks::Auto, Blocks::Count(1), Blocks::Count(2), Blocks::Count(4)]).clone(),
        total_blocks: None,
        disk: Bytes::from_gib(*draws.pick(&[0, 50, 500])),
        backend: "remote".into(),
        region: (*draws.pick(&["eu", "us"])).into(),
        spot: false,
        offer: None,
    })
}

fn draw_demand(draws: &mut Stream) -> Demand {
    let count = match draws.between(0, 3) {
        0 => Bounds::exactly(draws.between(0, 8) as u32),
        1 => Bounds { min: Some(1), max: Some(draws.between(1, 8) as u32) },
        _ => Bounds::from(draws.between(0, 2) as u32),
    };
    let memory = draws.chance(200).then(|| Bounds::from(Bytes::from_gib(40)));
    let requirements = Requirements {
        cpu: Bounds { min: Some(draws.between(1, 4)), max: draws.chance(300).then(|| draws.between(4, 16)) },
        memory: Bounds { min: Some(Bytes::from_gib(draws.between(1, 8))), max: None },
        disk: draws.chance(300).then(|| Bounds::from(Bytes::from_gib(100))),
        gpu: draws.chance(800).then(|| GpuRequirements { count, memory, ..GpuRequirements::default() }),
        spot: SpotPolicy::Auto,
        regions: if draws.chance(100) { vec!["eu".into()] } else { Vec::new() },
        ..Requirements::default()
    };
    let tasks = *draws.pick(&[1, 1, 2, 3]);
    Demand { tasks, ..Demand::of(Arc::new(requirements)) }
}
