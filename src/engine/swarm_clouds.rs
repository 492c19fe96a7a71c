//! Random clouds: some fleets of a random world create instances. Their clouds refuse some requests and take some
//! instances away.

use std::sync::Arc;

use super::cloud_models::OfferModel;
use super::rehearsal::{Fault, InitialNode, ModelFiles, NodeTurn, Rehearsal};
use dryrack_control::Profile;
use dryrack_fleet::{
    Blocks, Cloud, FleetKind, FleetNodes, FleetSpec, GpuShape, GpuState, IdleDuration, Instance, NodeShape, NodeSpec,
    NodeState,
};
use dryrack_ids::{FleetId, GpuId, NodeId};
use dryrack_rng::{Lengths, Stream};
use dryrack_scheduler::offers::NewInstances;
use dryrack_units::{Bytes, MilliCpu, Money, Permille, SimDuration, SimTime};

/// Adds clouds to the fleets of a world. Uses its own random stream.
pub(super) fn add_clouds(seed: u64, rehearsal: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm clouds", 0);
    rehearsal.clouds.offers = vec![Vec::new(); rehearsal.fleets.len()];
    let rules = [NewInstances::Never, NewInstances::Whole, NewInstances::AsFleet, NewInstances::AsFleet];
    let mut rule = *draws.pick(&rules);
    match rehearsal.profile.flow.requests_instances() {
        true => {
            let mut profile = Profile::clone(&rehearsal.profile);
            profile.scheduler.offers.new_instances = rule;
            rehearsal.profile = Arc::new(profile);
        }
        false => rule = NewInstances::AsFleet,
    }
    let last = rehearsal.arrivals.iter().map(|arrival| arrival.at).max().unwrap_or(SimTime::ZERO);
    for index in 0..rehearsal.fleets.len() {
        if rehearsal.fleets[index].kind == FleetKind::Cloud && draws.chance(800) {
            add_cloud(&mut draws, rehearsal, FleetId::new(index), rule, last);
        }
    }
    rehearsal.clouds.capacity.sort_by_key(|(at, ..)| *at);
    rehearsal.faults.sort_by_key(|(at, _)| *at);
    // Limit the run, because instances could be taken away and replaced forever.
    let until = last.saturating_add(SimDuration::from_secs(draws.between(600, 4 * 3600)));
    if rehearsal.clouds.offers.iter().any(|offers| !offers.is_empty()) && rehearsal.until.is_none_or(|at| at > until) {
        rehearsal.until = Some(until);
    }
}

fn add_cloud(draws: &mut Stream, rehearsal: &mut Rehearsal, fleet: FleetId, rule: NewInstances, last: SimTime) {
    let own = |node: &&InitialNode| node.spec.shape.instance.as_ref().is_some_and(|own| own.fleet == fleet);
    let there = rehearsal.nodes.iter().filter(own).filter(|node| node.state != NodeState::Gone).count() as u32;
    let offers = draws.between(1, 2) as u32;
    let min = draws.between(0, 2) as u32;
    let target = min + draws.between(0, 1) as u32;
    let most = there.max(target) + draws.between(0, 3) as u32;
    let max = draws.chance(700).then_some(most);
    let capacity: Vec<u32> = (0..offers).map(|_| draws.between(0, 3) as u32).collect();
    let minutes = |draws: &mut Stream, most| SimDuration::from_secs(60 * draws.between(0, most));
    let idle_duration = match draws.between(0, 3) {
        0 => IdleDuration::Usual,
        1 => IdleDuration::Off,
        _ => IdleDuration::After(minutes(draws, 20)),
    };
    for offer in 0..offers {
        rehearsal.clouds.offers[fleet.index()].push(draw_model(draws));
        let blocks = match rule {
            NewInstances::Whole => Blocks::Count(1),
            NewInstances::Never | NewInstances::AsFleet => Blocks::Auto,
        };
        let shape = Arc::new(draw_shape(draws, blocks, fleet, offer));
        for place in 0..4u32.min(max.unwrap_or(4)) {
            let spec =
                NodeSpec { name: format!("f{}-o{offer}-{place}", fleet.index()).into(), shape: Arc::clone(&shape) };
            let files = ModelFiles::default();
            rehearsal.nodes.push(InitialNode { spec, state: NodeState::Gone, gpus: Vec::new(), files });
            if draws.chance(300) {
                add_fault(draws, rehearsal, last);
            }
        }
        for _ in 0..draws.between(0, 2) {
            let at = SimTime::from_nanos(draws.between(0, last.as_nanos().max(1)));
            rehearsal.clouds.capacity.push((at, fleet, offer, draws.between(0, 4) as u32));
        }
    }
    let spec = FleetSpec::clone(&rehearsal.fleets[fleet.index()]);
    let nodes = Some(FleetNodes { min, target, max });
    let cloud = Some(Cloud { capacity, idle_duration });
    rehearsal.fleets[fleet.index()] = Arc::new(FleetSpec { nodes, cloud, ..spec });
}

/// Adds a fault of the last node, which affects an instance only if one is there at that time. The node may recover.
fn add_fault(draws: &mut Stream, rehearsal: &mut Rehearsal, last: SimTime) {
    let node = NodeId::new(rehearsal.nodes.len() - 1);
    let at = SimTime::from_nanos(draws.between(0, last.as_nanos().max(1)));
    let turns = [NodeTurn::Silent, NodeTurn::Crashed, NodeTurn::NotReady, NodeTurn::Gone];
    if !rehearsal.nodes[node.index()].spec.shape.gpus.is_empty() && draws.chance(300) {
        let fault = Fault::Gpu { gpu: GpuId { node, index: 0 }, becomes: GpuState::Failed };
        return rehearsal.faults.push((at, fault));
    }
    rehearsal.faults.push((at, Fault::Node { node, becomes: *draws.pick(&turns) }));
    if draws.chance(500) {
        let back = at.saturating_add(SimDuration::from_secs(draws.between(10, 3600)));
        rehearsal.faults.push((back, Fault::Node { node, becomes: NodeTurn::Ready }));
    }
}

fn draw_model(draws: &mut Stream) -> OfferModel {
    let secs = SimDuration::from_secs;
    OfferModel {
        provisioning: *draws.pick(&[
            Lengths::Fixed(SimDuration::ZERO),
            Lengths::Fixed(secs(90)),
            Lengths::Uniform(secs(10), secs(300)),
            // Sometimes longer than the control plane waits for an instance.
            Lengths::Exponential { mean: secs(300) },
        ]),
        termination: secs(*draws.pick(&[0, 0, 30, 300])),
        interrupted: draws.chance(400).then(|| Lengths::Exponential { mean: secs(draws.between(60, 3600)) }),
        refused: Permille::new(*draws.pick(&[0, 0, 100, 500])),
        failed: Permille::new(*draws.pick(&[0, 0, 200])),
    }
}

fn draw_shape(draws: &mut Stream, blocks: Blocks, fleet: FleetId, offer: u32) -> NodeShape {
    let gpus = vec![GpuShape::of("a", Bytes::from_gib(24)); *draws.pick(&[0, 2, 4, 8])];
    let instance = Instance {
        fleet,
        blocks,
        total_blocks: None,
        disk: Bytes::from_gib(500),
        backend: "cloud".into(),
        region: (*draws.pick(&["eu", "us"])).into(),
        spot: draws.chance(200),
        offer: Some(offer),
    };
    let cpu = MilliCpu::from_cores(*draws.pick(&[8, 16]));
    let ram = Bytes::from_gib(*draws.pick(&[32, 64]));
    let shape = NodeShape {
        price_per_hour: draws.chance(700).then(|| Money::new(1_000_000 * draws.between(1, 3))),
        ..NodeShape::of(cpu, ram, gpus)
    };
    shape.into_instance(instance)
}
