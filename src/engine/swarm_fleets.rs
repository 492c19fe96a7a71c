//! Random fleets of instances: some nodes of a random world become instances, and some of its jobs require blocks.

use std::sync::Arc;

use super::rehearsal::{InitialNode, Rehearsal};
use super::swarm_clouds::add_clouds;
use dryrack_control::Profile;
use dryrack_fleet::{
    Blocks, FleetKind, FleetNodes, FleetPlacement, FleetSpec, GpuParts, Instance, NodeShape, NodeSpec,
};
use dryrack_ids::FleetId;
use dryrack_rng::Stream;
use dryrack_scheduler::offers::{
    FitTest, GangRule, MultinodeTakes, NetworkHost, NewInstances, OfferKey, OfferOptions, OfferPool, PinsRegion,
    SplitHosts, WithoutGpus,
};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Money};
use dryrack_workload::{Arrival, Bounds, CreationPolicy, Demand, GpuRequirements, JobSpec, Requirements, SpotPolicy};

/// Adds fleets to one world in three. Uses its own random stream, so other draws do not change.
pub fn add_fleets(seed: u64, rehearsal: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm fleets", 0);
    // Skip worlds with models, because models are placed on nodes and not on instances.
    let serves = rehearsal.arrivals.iter().any(|arrival| arrival.spec.demand.model().is_some());
    if serves || !draws.chance(333) {
        return;
    }
    let mut profile = Profile::clone(&rehearsal.profile);
    profile.scheduler.offers = draw_options(&mut draws, &profile.scheduler.offers);
    rehearsal.profile = Arc::new(profile);
    rehearsal.fleets = (0..draws.between(1, 3)).map(|number| Arc::new(draw_fleet(&mut draws, number))).collect();
    let fleets = rehearsal.fleets.len();
    let drawn = std::mem::take(&mut rehearsal.nodes);
    rehearsal.nodes = drawn.into_iter().map(|node| draw_instance(&mut draws, fleets, node)).collect();
    for arrival in &mut rehearsal.arrivals {
        if draws.chance(700) {
            draw_requirements(&mut draws, arrival);
        }
    }
    add_clouds(seed, rehearsal);
}

fn draw_options(draws: &mut Stream, base: &OfferOptions) -> OfferOptions {
    let keys =
        [OfferKey::Price, OfferKey::UnsplitFirst, OfferKey::SplitFirst, OfferKey::InUseFirst, OfferKey::SmallestSlice];
    OfferOptions {
        pool: *draws.pick(&[OfferPool::ChosenFleet, OfferPool::AllFleets]),
        cluster_only: draws.chance(500),
        fit_test: *draws.pick(&[FitTest::None, FitTest::NodesOrBlocks]),
        multinode_takes: *draws.pick(&[MultinodeTakes::WholeHost, MultinodeTakes::Blocks]),
        split_hosts_for_multinode: *draws.pick(&[SplitHosts::WhenFree, SplitHosts::WhenFree, SplitHosts::Never]),
        pins_master_region: *draws.pick(&[PinsRegion::Always, PinsRegion::UnsplitHosts]),
        gang: *draws.pick(&[GangRule::Whole, GangRule::NodeByNode]),
        network_host_when: *draws.pick(&[NetworkHost::AllBlocks, NetworkHost::Unsplit]),
        new_instances: NewInstances::Never,
        hosts_without_gpus: *draws.pick(&[WithoutGpus::Exempt, WithoutGpus::Exempt, WithoutGpus::Filtered]),
        filters: Vec::new(),
        order: (0..draws.between(0, 3)).map(|_| *draws.pick(&keys)).collect(),
        plan_order: base.plan_order.clone(),
        known_gpus: base.known_gpus,
    }
}

fn draw_fleet(draws: &mut Stream, number: u64) -> FleetSpec {
    let cloud = draws.chance(300);
    let most = draws.between(1, 8) as u32;
    FleetSpec {
        name: format!("f{number}").into(),
        kind: if cloud { FleetKind::Cloud } else { FleetKind::Ssh },
        placement: *draws.pick(&[FleetPlacement::Any, FleetPlacement::Cluster, FleetPlacement::Cluster]),
        blocks: draw_blocks(draws),
        nodes: cloud.then_some(FleetNodes { min: 0, target: 0, max: draws.chance(500).then_some(most) }),
        cloud: None,
    }
}

fn draw_blocks(draws: &mut Stream) -> Blocks {
    match draws.between(0, 5) {
        0 => Blocks::Parts(GpuParts {
            name: "part".into(),
            per_gpu: 4,
            share: GpuShare::new(250),
            memory: Bytes::from_gib(3),
        }),
        1 | 2 => Blocks::Auto,
        _ => Blocks::Count(*draws.pick(&[1, 2, 4, 8])),
    }
}

fn draw_instance(draws: &mut Stream, fleets: usize, node: InitialNode) -> InitialNode {
    // Blocks would count unified memory twice, because it is both GPU memory and RAM.
    if node.spec.shape.gpus.iter().any(|gpu| gpu.unified) || draws.chance(150) {
        return node;
    }
    let instance = Instance {
        fleet: FleetId::new(draws.index(fleets)),
        blocks: draw_blocks(draws),
        total_blocks: None,
        disk: Bytes::from_gib(*draws.pick(&[0, 50, 500])),
        backend: "cloud".into(),
        region: (*draws.pick(&["eu", "us"])).into(),
        spot: draws.chance(100),
        offer: None,
    };
    // Core counts that can be split into several blocks.
    let cpu = MilliCpu::from_cores(*draws.pick(&[4, 8, 16, 32]));
    let price_per_hour = draws.chance(500).then(|| Money::new(1_000_000 * draws.between(1, 3)));
    let shape = NodeShape { cpu, reserved: Default::default(), price_per_hour, ..NodeShape::clone(&node.spec.shape) };
    let shape = Arc::new(shape.into_instance(instance));
    InitialNode { spec: NodeSpec { name: node.spec.name, shape }, ..node }
}

fn draw_requirements(draws: &mut Stream, arrival: &mut Arrival) {
    let gpu = draws.chance(700).then(|| GpuRequirements {
        count: match draws.between(0, 2) {
            0 => Bounds::from(draws.between(0, 2) as u32),
            1 => Bounds::exactly(draws.between(0, 8) as u32),
            _ => Bounds { min: Some(1), max: Some(draws.between(1, 8) as u32) },
        },
        names: if draws.chance(100) { vec![(*draws.pick(&["A", "b"])).into()] } else { Vec::new() },
        memory: draws.chance(100).then(|| Bounds::from(Bytes::from_gib(16))),
        ..GpuRequirements::default()
    });
    let requirements = Requirements {
        cpu: Bounds { min: Some(draws.between(0, 4)), max: draws.chance(200).then(|| draws.between(4, 32)) },
        memory: Bounds::from(Bytes::from_gib(draws.between(0, 8))),
        disk: draws.chance(500).then(|| Bounds::from(Bytes::from_gib(40))),
        gpu,
        max_price: draws.chance(100).then(|| Money::new(2_000_000)),
        spot: *draws.pick(&[SpotPolicy::Auto, SpotPolicy::OnDemand, SpotPolicy::Auto]),
        regions: if draws.chance(100) { vec!["eu".into()] } else { Vec::new() },
        fleets: if draws.chance(100) { vec!["f0".into()] } else { Vec::new() },
        creation: *draws.pick(&[CreationPolicy::Reuse, CreationPolicy::ReuseOrCreate]),
        ..Requirements::default()
    };
    let demand = Demand {
        tasks: if draws.chance(300) { draws.between(2, 4) as u32 } else { 1 },
        ..Demand::of(Arc::new(requirements))
    };
    arrival.spec = Arc::new(JobSpec { demand: Arc::new(demand), ..JobSpec::clone(&arrival.spec) });
}
