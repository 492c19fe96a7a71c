//! Random sequences of events of users and hosts on a fleet of split hosts: runs are submitted, finish, fail and are
//! cancelled; hosts are interrupted and come back. At the end every run is over and the idle fleet is entirely free. No
//! block is ever held twice, and a run of several nodes has all its hosts when it starts.
//!
//! The ledger is computed from the log alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use dryrack_control::{FlowOptions, Loops, Profile};
use dryrack_engine::{Fault, InitialNode, NodeTurn, Rehearsal, RunOptions, run};
use dryrack_event::{Event, Input, Phase, Sink};
use dryrack_fleet::{
    Blocks, FleetKind, FleetPlacement, FleetSpec, GpuShape, GpuState, Instance, NodeShape, NodeSpec, Placement,
};
use dryrack_ids::{AttemptId, FleetId, GpuId, JobId, NodeId};
use dryrack_profile::load_profile;
use dryrack_rng::Stream;
use dryrack_units::{Bytes, SimDuration, SimTime};
use dryrack_workload::{
    Arrival, Bounds, CreationPolicy, Demand, Ending, EventRetry, GpuRequirements, JobBehavior, JobSpec, Requirements,
    RetryEvent, RunTerms, SpotPolicy, StartupOrder, StopCriteria,
};

use crate::small_world;

trials! {
    Nothing: [
        an_idle_fleet_is_free_again_after_any_sequence,
    ]
    Time: [
        slow_an_idle_fleet_is_free_again_after_100_000_random_sequences,
    ]
}

/// What is held, according to the log alone.
#[derive(Default)]
struct Ledger {
    seed: u64,
    /// The number of nodes of each run, by job.
    nodes: Vec<u32>,
    held: BTreeMap<(NodeId, u16), AttemptId>,
    places: BTreeMap<AttemptId, Placement>,
    /// The submissions of which at least one node has begun.
    started: BTreeSet<(JobId, u32)>,
    ended: BTreeSet<JobId>,
    gangs: u64,
    lost: u64,
}

impl Ledger {
    fn take(&mut self, attempt: AttemptId, placement: &Placement) {
        for claim in placement.claims() {
            assert!(!claim.blocks.is_empty(), "seed {}: {attempt} is on a host without a block of it", self.seed);
            for block in &claim.blocks {
                let before = self.held.insert((claim.node, *block), attempt);
                assert!(before.is_none(), "seed {}: {attempt} and {before:?} hold one block", self.seed);
            }
        }
        self.places.insert(attempt, placement.clone());
    }

    fn give_back(&mut self, attempt: AttemptId, is_free: impl Fn(NodeId) -> bool) {
        self.held.retain(|(node, _), holder| *holder != attempt || !is_free(*node));
        self.places.remove(&attempt);
    }

    /// Checks that all nodes of a run have their hosts when the first of them begins.
    fn begins(&mut self, attempt: AttemptId) {
        if !self.started.insert((attempt.job, attempt.number)) {
            return;
        }
        let nodes = self.nodes[attempt.job.index()];
        let place = |replica| self.places.get(&AttemptId { replica, ..attempt });
        let hosts: BTreeSet<NodeId> = (0..nodes).filter_map(place).map(|place| place.claims()[0].node).collect();
        assert_eq!(hosts.len(), nodes as usize, "seed {}: {attempt} begins on {hosts:?}", self.seed);
        self.gangs += u64::from(nodes > 1);
    }
}

impl Sink for Ledger {
    fn input(&mut self, _: u64, _: SimTime, input: &Input) {
        if let Input::Submit { spec, .. } = input {
            self.nodes.push(spec.demand.tasks);
        }
    }

    fn event(&mut self, _: u64, _: SimTime, event: &Event) {
        match event {
            Event::Placed { attempt, placement, .. } => self.take(*attempt, placement),
            Event::Moved { attempt, to: Phase::Running, .. } => self.begins(*attempt),
            Event::Ended { attempt, kept, .. } => {
                self.lost += u64::from(!kept.is_empty());
                self.give_back(*attempt, |node| !kept.contains(&node));
            }
            Event::ClaimFreed { attempt, node } => self.give_back(*attempt, |other| other == *node),
            Event::JobEnded { job, .. } => {
                self.ended.insert(*job);
            }
            _ => {}
        }
    }
}

fn secs(draws: &mut Stream, from: u64, to: u64) -> SimDuration {
    SimDuration::from_secs(draws.between(from, to))
}

fn draw_host(draws: &mut Stream, number: u64) -> InitialNode {
    let host = small_world::node(&format!("h{number}"));
    let gpus = vec![GpuShape::of("a100", Bytes::from_gib(80)); *draws.pick(&[0, 4, 4, 8])];
    let instance = Instance {
        fleet: FleetId::new(0),
        blocks: draws.pick(&[Blocks::Auto, Blocks::Count(1), Blocks::Count(2), Blocks::Count(4)]).clone(),
        total_blocks: None,
        disk: Bytes::from_gib(500),
        backend: "remote".into(),
        region: "remote".into(),
        spot: false,
        offer: None,
    };
    let shape = NodeShape { gpus, ..NodeShape::clone(&host.spec.shape) }.into_instance(instance);
    InitialNode { spec: NodeSpec { shape: Arc::new(shape), ..host.spec }, ..host }
}

fn draw_run(draws: &mut Stream, number: u64) -> Arrival {
    let plain = small_world::arrival(&format!("run-{number}"), draws.between(0, 300), draws.between(0, 240));
    let gpu = draws
        .chance(600)
        .then(|| GpuRequirements { count: Bounds::from(*draws.pick(&[0, 1, 2, 4])), ..GpuRequirements::default() });
    let requirements = Requirements {
        cpu: Bounds::from(draws.between(0, 4)),
        memory: Bounds::from(Bytes::from_gib(draws.between(0, 16))),
        gpu,
        spot: SpotPolicy::Auto,
        creation: CreationPolicy::Reuse,
        ..Requirements::default()
    };
    let retry = draws.chance(600).then(|| {
        let mut on = RetryEvent::ALL.to_vec();
        on.retain(|_| draws.chance(700));
        EventRetry { on, duration: secs(draws, 0, 600) }
    });
    let startup = *draws.pick(&[StartupOrder::Any, StartupOrder::MasterFirst, StartupOrder::WorkersFirst]);
    let spec = JobSpec {
        demand: Arc::new(Demand { tasks: *draws.pick(&[1, 1, 2, 2, 3]), ..Demand::of(Arc::new(requirements)) }),
        priority: draws.between(0, 2) as i32,
        time_limit: draws.chance(150).then(|| secs(draws, 1, 200)),
        terms: Arc::new(RunTerms {
            retry,
            startup,
            stop: *draws.pick(&[StopCriteria::AllDone, StopCriteria::MasterDone]),
            idle: None,
        }),
        ..JobSpec::clone(&plain.spec)
    };
    let behavior = JobBehavior {
        ending: if draws.chance(250) { Ending::Failed } else { Ending::Completed },
        prepare: secs(draws, 0, 20),
        failing_starts: if draws.chance(150) { 1 } else { 0 },
        stop: secs(draws, 0, 30),
        ..JobBehavior::clone(&plain.behavior)
    };
    Arrival { spec: Arc::new(spec), behavior: Arc::new(behavior), ..plain }
}

/// Draws interruptions; an interrupted host comes back.
fn draw_faults(draws: &mut Stream, nodes: &[InitialNode]) -> Vec<(SimTime, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..draws.between(0, 4) {
        let index = draws.index(nodes.len());
        let node = NodeId::new(index);
        let at = SimTime::ZERO + secs(draws, 0, 400);
        let back = at + secs(draws, 1, 900);
        let gpus = nodes[index].spec.shape.gpus.len();
        if gpus > 0 && draws.chance(300) {
            let gpu = GpuId { node, index: draws.index(gpus) as u16 };
            faults.push((at, Fault::Gpu { gpu, becomes: GpuState::Failed }));
            faults.push((back, Fault::Gpu { gpu, becomes: GpuState::Ready }));
        } else {
            let becomes = *draws.pick(&[NodeTurn::Crashed, NodeTurn::Silent, NodeTurn::Gone, NodeTurn::NotReady]);
            faults.push((at, Fault::Node { node, becomes }));
            faults.push((back, Fault::Node { node, becomes: NodeTurn::Ready }));
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn draw_sequence(seed: u64, profile: &Arc<Profile>) -> Rehearsal {
    let draws = &mut Stream::new(seed, "run sequences", 0);
    let nodes: Vec<InitialNode> = (0..draws.between(1, 4)).map(|number| draw_host(draws, number)).collect();
    let mut arrivals: Vec<Arrival> = (0..draws.between(1, 6)).map(|number| draw_run(draws, number)).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut cancellations = Vec::new();
    for (index, arrival) in arrivals.iter().enumerate() {
        // The retry duration starts again with each placement, so a run that always fails would be retried forever.
        let on_error = |retry: &EventRetry| retry.on.contains(&RetryEvent::Error);
        let fails = arrival.behavior.ending == Ending::Failed || arrival.spec.time_limit.is_some();
        if fails && arrival.spec.terms.retry.as_ref().is_some_and(on_error) {
            cancellations.push((arrival.at + secs(draws, 0, 3000), JobId::new(index)));
        } else if draws.chance(200) {
            cancellations.push((arrival.at + secs(draws, 0, 300), JobId::new(index)));
        }
    }
    let fleet = FleetSpec {
        name: "fleet".into(),
        kind: FleetKind::Ssh,
        placement: FleetPlacement::Cluster,
        blocks: Blocks::Auto,
        nodes: None,
        cloud: None,
    };
    Rehearsal {
        title: format!("sequence {seed}"),
        source: String::new(),
        seed,
        profile: Arc::clone(profile),
        fleets: vec![Arc::new(fleet)],
        clouds: dryrack_engine::CloudModels::default(),
        faults: draw_faults(draws, &nodes),
        nodes,
        arrivals,
        cancellations,
        scalings: Vec::new(),
        evaluations: Vec::new(),
        branch: None,
        until: None,
        objects: None,
        kueue: Vec::new(),
        warm_up: None,
        currency: None,
        electricity: None,
    }
}

fn hold(sequences: u64) {
    let load = |name| load_profile(name, Path::new("")).expect("it comes with dryrack");
    let ideal = |profile: &Profile| {
        let mut profile = profile.clone();
        let FlowOptions::Polled(options) = &mut profile.flow else { panic!("it has loops") };
        options.loops = Loops::Ideal;
        Arc::new(profile)
    };
    let (mended, released) = (load("dstack"), load("dstack-0.22.5"));
    let profiles = [Arc::clone(&mended), ideal(&mended), Arc::clone(&released), ideal(&released)];
    let (mut gangs, mut lost) = (0, 0);
    for seed in 0..sequences {
        let sequence = draw_sequence(seed, &profiles[(seed % 4) as usize]);
        let mut ledger = Ledger { seed, ..Ledger::default() };
        run(&sequence, RunOptions::default(), &mut [&mut ledger]);
        assert!(ledger.held.is_empty(), "seed {seed}: the fleet is idle, and {:?} is held", ledger.held);
        assert_eq!(ledger.ended.len(), sequence.arrivals.len(), "seed {seed}: only {:?} are over", ledger.ended);
        (gangs, lost) = (gangs + ledger.gangs, lost + ledger.lost);
    }
    assert!(gangs > sequences / 4 && lost > sequences / 100, "{gangs} gangs began, {lost} claims were kept");
}

fn an_idle_fleet_is_free_again_after_any_sequence() {
    hold(2_000);
}

fn slow_an_idle_fleet_is_free_again_after_100_000_random_sequences() {
    hold(100_000);
}
