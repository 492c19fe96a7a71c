//! Random worlds: fleets, workloads, faults and profiles drawn from a seed. Each world uses a random subset of the
//! features (swarm testing: Groce et al., ISSTA 2012) and runs with all checks on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::accounts::Accounts;
use super::answers::hold_answers;
use super::audit::Audit;
use super::cloud_models::CloudModels;
use super::records::Records;
use super::rehearsal::{Fault, InitialNode, ModelFiles, NodeTurn, Rehearsal};
use super::replay::replay;
use super::run::{Checks, Progress, RunOptions, run, run_streamed};
use super::swarm_dependencies::{add_dependencies, add_run_limits};
use super::swarm_fleets::add_fleets;
use super::swarm_nodes::restrict_cores;
use super::swarm_queues::add_queues;
use super::swarm_services::add_services;
use super::swarm_sets::add_sets;
use super::swarm_usage::{draw_options, draw_overrides, draw_usage};
use dryrack_catalog::{CpuArch, Os};
use dryrack_control::{
    Assignment, BeginRule, FlowOptions, GangRule, Loops, NoCapacityRule, PassTime, PrepareRule, Profile, RunsOptions,
    Trigger,
};
use dryrack_event::{Digest, Digester, Event, Input, Record, RecordBody};
use dryrack_fleet::{Foreign, GpuShape, GpuState, NodeShape, NodeSpec, NodeState, Reserved};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_rng::Stream;
use dryrack_scheduler::{Caching, Discipline, GpuOrder, Grouping, NeverFits, OrderKey, ScorerName, WeightedScorer};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Permille, SimDuration, SimTime};
use dryrack_workload::{
    Acks, Analyses, Arrival, Demand, Ending, EventRetry, Gang, GpuDemand, GpuTake, JobBehavior, JobSpec, Pick,
    RandomFaults, Restart, RetryEvent, RunTerms, Starts, StartupOrder, StopCriteria, TaskDemand, Unselectable,
};

/// The limit of records of a random world. Most worlds have a few hundred records. A world that exceeds the limit is
/// taken to be endless.
pub const MOST_RECORDS_OF_A_WORLD: u64 = 500_000;

/// The result of one random world.
#[derive(Clone, Copy, Debug)]
pub struct WorldResult {
    pub digest: Digest,
    pub records: u64,
    pub accounts: Accounts,
}

/// Runs a random world with all checks. Runs it again node by node, and once more as a stream or without
/// queries, and compares the results. Then replays the log and checks the answers to queries against it. Returns the
/// log too. Panics if a check fails.
pub fn run_world(rehearsal: &Rehearsal, progress: &Progress) -> (WorldResult, Vec<Record>) {
    let run_with = |rehearsal: &Rehearsal, grouping, caching, checks| {
        let (mut digester, mut audit) = (Digester::default(), Audit::new(&rehearsal.profile));
        let mut records = Records::default();
        let most_records = MOST_RECORDS_OF_A_WORLD;
        let options = RunOptions { grouping, caching, checks, progress: Some(progress), most_records };
        run(rehearsal, options, &mut [&mut digester, &mut audit, &mut records]);
        (digester.finish(), audit.finish(), records.0)
    };
    let (digest, accounts, records) = run_with(rehearsal, Grouping::Classes, Caching::Paranoid, Checks::EveryStep);
    let (plain, _, plain_records) = run_with(rehearsal, Grouping::EachNode, Caching::Off, Checks::AtTheEnd);
    if digest != plain {
        panic!("over classes and over nodes: {:?}", first_difference(&records, &plain_records));
    }
    if rehearsal.evaluations.is_empty() {
        let mut arrivals = rehearsal.arrivals.iter().cloned();
        let unlisted = Rehearsal { arrivals: Vec::new(), ..rehearsal.clone() };
        let mut streamed = Records::default();
        let most_records = MOST_RECORDS_OF_A_WORLD;
        let options = RunOptions { progress: Some(progress), most_records, ..RunOptions::default() };
        run_streamed(&unlisted, &mut arrivals, options, &mut [&mut streamed]);
        if records != streamed.0 {
            panic!("listed and streamed: {:?}", first_difference(&records, &streamed.0));
        }
    }
    if !rehearsal.evaluations.is_empty() {
        let unasked = Rehearsal { evaluations: Vec::new(), ..rehearsal.clone() };
        let (_, _, others) = run_with(&unasked, Grouping::Classes, Caching::On, Checks::AtTheEnd);
        let difference = first_that_questions_changed(&records, &others);
        // A scanning scheduler with nothing new to find keeps scanning while queries come. So only the run with queries
        // may have further records.
        let difference =
            difference.filter(|(_, unasked)| unasked.is_some() || !rehearsal.profile.flow.scans_without_news());
        assert!(difference.is_none(), "a question changed what happens: {difference:?}");
    }
    let count = records.len() as u64;
    if let Err(difference) = replay(Arc::clone(&rehearsal.profile), rehearsal.seed, records.iter().cloned()) {
        panic!("the replay differs: {difference:?}");
    }
    hold_answers(rehearsal, &records);
    (WorldResult { digest, records: count, accounts }, records)
}

/// Runs a random world once. Only the audit of its log checks it. Panics if the audit fails.
pub fn run_world_once(rehearsal: &Rehearsal, progress: &Progress) -> (WorldResult, Vec<Record>) {
    let (mut digester, mut audit) = (Digester::default(), Audit::new(&rehearsal.profile));
    let mut records = Records::default();
    let most_records = MOST_RECORDS_OF_A_WORLD;
    let options = RunOptions { progress: Some(progress), most_records, ..RunOptions::default() };
    run(rehearsal, options, &mut [&mut digester, &mut audit, &mut records]);
    let (digest, accounts) = (digester.finish(), audit.finish());
    (WorldResult { digest, records: records.0.len() as u64, accounts }, records.0)
}

/// The first pair of records that differ between two logs.
fn first_difference<'r>(a: &'r [Record], b: &'r [Record]) -> (Option<&'r Record>, Option<&'r Record>) {
    let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_else(|| a.len().min(b.len()));
    (a.get(at), b.get(at))
}

/// The first difference between the run with queries and the run without. Ignores step numbers, because a query takes
/// steps. Ignores wakeups, because a query in the same instant replaces a wakeup.
fn first_that_questions_changed<'r>(
    asked: &'r [Record],
    unasked: &'r [Record],
) -> Option<(Option<&'r Record>, Option<&'r Record>)> {
    let is_other = |record: &&Record| {
        !matches!(
            record.said,
            RecordBody::Input(Input::Evaluate { .. } | Input::Wakeup) | RecordBody::Event(Event::Evaluated { .. })
        )
    };
    let (mut asked, mut unasked) = (asked.iter().filter(is_other), unasked.iter().filter(is_other));
    loop {
        let pair = (asked.next(), unasked.next());
        let content = |record: Option<&'r Record>| record.map(|record| (record.at, &record.said));
        match content(pair.0) == content(pair.1) {
            false => return Some(pair),
            true if pair.0.is_none() => return None,
            true => {}
        }
    }
}

/// Draws the world of one seed.
pub fn draw_world(seed: u64, profiles: &[Arc<Profile>]) -> Rehearsal {
    let mut draws = Stream::new(seed, "swarm", 0);
    let features = Features::draw(&mut draws);
    let profile = draw_profile(&mut draws, profiles, &features);
    let nodes = draw_nodes(&mut draws, &features);
    let horizon = SimDuration::from_secs(draws.between(60, 7200));
    let mut arrivals: Vec<Arrival> =
        (0..draws.between(1, 40)).map(|number| draw_arrival(&mut draws, &features, &nodes, number, horizon)).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut cancellations = Vec::new();
    for (index, arrival) in arrivals.iter().enumerate() {
        // Jobs without an end are always cancelled, so that the run ends.
        let endless = arrival.behavior.run.is_none() || arrival.spec.restart != Restart::Never;
        if endless || (features.cancellations && draws.chance(200)) {
            let at = SimTime::ZERO + horizon_part(&mut draws, horizon, 2);
            cancellations.push((at, JobId::new(index)));
        }
    }
    let faults = draw_faults(&mut draws, &features, &nodes, horizon);
    let mut scalings = Vec::new();
    for _ in 0..if features.scalings { draws.between(1, 8) } else { 0 } {
        let at = SimTime::ZERO + horizon_part(&mut draws, horizon, 1);
        scalings.push((at, JobId::new(draws.index(arrivals.len())), draws.between(1, 5) as u32));
    }
    scalings.sort_unstable();
    // Evaluations have their own stream, so they do not change any other draw.
    let mut asks = Stream::new(seed, "swarm evaluations", 0);
    let mut evaluations = Vec::new();
    for _ in 0..if asks.chance(500) { asks.between(1, 12) } else { 0 } {
        let at = SimTime::ZERO + horizon_part(&mut asks, horizon, 1);
        evaluations.push((at, JobId::new(asks.index(arrivals.len()))));
    }
    evaluations.sort_unstable();
    let goes_on = profile.flow.may_go_on_forever();
    let mut rehearsal = Rehearsal {
        title: format!("random world {seed}"),
        source: String::new(),
        seed,
        profile,
        fleets: Vec::new(),
        clouds: CloudModels::default(),
        nodes,
        arrivals,
        cancellations,
        scalings,
        faults,
        evaluations,
        // Some released versions scan or retry forever. A world with such a profile gets a time limit.
        until: (features.until || goes_on).then(|| SimTime::ZERO + horizon_part(&mut draws, horizon, 3)),
        branch: None,
        objects: None,
        kueue: Vec::new(),
        warm_up: None,
        currency: None,
        electricity: None,
    };
    add_fleets(seed, &mut rehearsal);
    add_services(seed, &mut rehearsal);
    add_queues(seed, &mut rehearsal);
    add_dependencies(seed, &mut rehearsal);
    add_run_limits(seed, &mut rehearsal);
    restrict_cores(seed, &mut rehearsal);
    add_sets(seed, &mut rehearsal);
    let faults = rehearsal.profile.faults();
    assert!(faults.is_empty(), "a world has a profile that no file can have: {faults:?}");
    rehearsal
}

/// The features of a world. Each feature is on in about half of the worlds.
struct Features {
    gpus: bool,
    shares: bool,
    memory: bool,
    gangs: bool,
    picks: bool,
    labels: bool,
    unified: bool,
    faults: bool,
    silence: bool,
    cancellations: bool,
    analysis: bool,
    failures: bool,
    replicas: bool,
    slow_decisions: bool,
    passes: bool,
    foreign: bool,
    until: bool,
    acks: bool,
    random_faults: bool,
    scalings: bool,
    usage: bool,
}

impl Features {
    fn draw(draws: &mut Stream) -> Features {
        let mut flip = || draws.chance(500);
        Features {
            gpus: flip() || flip(),
            shares: flip(),
            memory: flip(),
            gangs: flip(),
            picks: flip(),
            labels: flip(),
            unified: flip(),
            faults: flip(),
            silence: flip(),
            cancellations: flip(),
            analysis: flip(),
            failures: flip(),
            replicas: flip(),
            slow_decisions: flip(),
            passes: flip(),
            foreign: flip(),
            until: flip() && flip(),
            acks: flip(),
            random_faults: flip(),
            scalings: flip(),
            usage: flip(),
        }
    }
}

fn horizon_part(draws: &mut Stream, horizon: SimDuration, times: u64) -> SimDuration {
    // Times are whole seconds, so that many events fall into the same instant.
    SimDuration::from_secs(draws.between(0, horizon.as_nanos() / 1_000_000_000 * times))
}

fn draw_profile(draws: &mut Stream, profiles: &[Arc<Profile>], features: &Features) -> Arc<Profile> {
    let mut profile = Profile::clone(&profiles[draws.index(profiles.len())]);
    let scheduler = &mut profile.scheduler;
    scheduler.discipline = *draws.pick(&[Discipline::Strict, Discipline::Skipping]);
    scheduler.gpus = *draws.pick(&[GpuOrder::First, GpuOrder::Tightest, GpuOrder::Emptiest]);
    scheduler.never_fits = *draws.pick(&[NeverFits::End, NeverFits::Wait]);
    let scorers = [ScorerName::BestFit, ScorerName::Pack, ScorerName::Spread, ScorerName::Readiness];
    if draws.chance(300) {
        scheduler.scorers = vec![WeightedScorer { stage: *draws.pick(&scorers), weight: 1.0 }];
    }
    if features.slow_decisions {
        profile.commit.decision_time = SimDuration::from_secs(draws.between(1, 30));
    }
    if features.passes {
        let period = SimDuration::from_secs(draws.between(1, 60));
        let looks_at_all = !scheduler.preempt.is_nobody() || profile.passes.backfill.is_some();
        for pass in [&mut profile.passes.analyse, &mut profile.passes.place] {
            pass.trigger = *draws.pick(&[Trigger::Event, Trigger::Every(period), Trigger::EachAfter(period)]);
            if matches!(pass.trigger, Trigger::EachAfter(_)) && looks_at_all {
                pass.trigger = Trigger::Every(period);
            }
            let each = matches!(pass.trigger, Trigger::EachAfter(_));
            pass.batch = (!each && draws.chance(500)).then(|| draws.between(1, 3) as u32);
            pass.jitter = SimDuration::from_secs(draws.between(0, 3));
        }
        // A pass that takes time must be periodic and without jitter, so other passes take none.
        let backfill = profile.passes.backfill.as_mut();
        [Some(&mut profile.passes.place), backfill].into_iter().flatten().for_each(|pass| pass.takes = PassTime::NONE);
    }
    // Retries get a limit, so that a job that always fails ends.
    profile.retry.limit.get_or_insert(6);
    profile.analysis.concurrency = draws.between(1, 4) as u32;
    if draws.chance(300) {
        profile.deadlines.pending = Some(SimDuration::from_secs(draws.between(60, 3600)));
    }
    let historic = profile.historic;
    if let FlowOptions::Polled(runs) = &mut profile.flow {
        draw_runs(draws, historic, runs);
    }
    if features.usage {
        draw_options(draws, &mut profile.policies.utilization);
    }
    if profile.slurm.is_some() && !profile.schedules_like_slurm() {
        profile.slurm = None;
        profile.scheduler.order.retain(|key| *key != OrderKey::Multifactor);
    }
    let faults = profile.faults();
    assert!(faults.is_empty(), "a drawn profile is valid: {faults:?}");
    Arc::new(profile)
}

fn draw_nodes(draws: &mut Stream, features: &Features) -> Vec<InitialNode> {
    let models: [Arc<str>; 2] = ["a".into(), "b".into()];
    let kinds: Vec<Arc<NodeShape>> =
        (0..draws.between(1, 3)).map(|_| Arc::new(draw_shape(draws, features, &models))).collect();
    let states = [NodeState::Joining, NodeState::NotReady, NodeState::Maintenance, NodeState::Gone];
    (0..draws.between(1, 8))
        .map(|number| {
            let shape = Arc::clone(draws.pick(&kinds));
            let state = if draws.chance(850) { NodeState::Ready } else { *draws.pick(&states) };
            let mut gpus = Vec::new();
            for index in 0..shape.gpus.len() as u16 {
                if features.foreign && draws.chance(100) {
                    gpus.push((index, GpuState::Ready, draw_foreign(draws, &shape, index)));
                } else if features.faults && draws.chance(60) {
                    let states = [GpuState::Degraded, GpuState::Draining, GpuState::Failed, GpuState::Unknown];
                    gpus.push((index, *draws.pick(&states), Foreign::NONE));
                }
            }
            InitialNode {
                spec: NodeSpec { name: format!("n{number}").into(), shape },
                state,
                gpus,
                files: ModelFiles::default(),
            }
        })
        .collect()
}

fn draw_foreign(draws: &mut Stream, shape: &NodeShape, index: u16) -> Foreign {
    let share = GpuShare::new(draws.between(0, 10) as u32 * 100);
    let memory = Bytes::new(shape.gpus[usize::from(index)].memory.get() / 4 * draws.between(0, 4));
    Foreign { share, memory }
}

fn draw_shape(draws: &mut Stream, features: &Features, models: &[Arc<str>]) -> NodeShape {
    let unified = features.unified && draws.chance(500);
    let count = match (features.gpus, unified) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => *draws.pick(&[0, 1, 2, 4, 8]),
    };
    let ram = Bytes::from_gib(*draws.pick(&[8, 64, 256]));
    let gpu = |draws: &mut Stream| GpuShape {
        model: Arc::clone(draws.pick(models)),
        memory: if unified { Bytes::new(ram.get() / 4 * 3) } else { Bytes::from_gib(*draws.pick(&[16, 24, 80])) },
        unified,
        ..GpuShape::of("", Bytes::ZERO)
    };
    let mut labels: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    if features.labels && draws.chance(600) {
        labels.insert("zone".into(), (*draws.pick(&["east", "west"])).into());
    }
    let reserve = draws.chance(200);
    let cpu = MilliCpu::from_cores(draws.between(1, 64));
    NodeShape {
        os: if unified { Os::Darwin } else { Os::Linux },
        arch: if unified { CpuArch::Aarch64 } else { CpuArch::X86_64 },
        labels,
        reserved: Reserved {
            cpu: MilliCpu::from_cores(u64::from(reserve)),
            ram: Bytes::from_gib(u64::from(reserve)),
            gpu_memory: Bytes::from_gib(u64::from(reserve)),
        },
        ..NodeShape::of(cpu, ram, (0..count).map(|_| gpu(draws)).collect())
    }
}

fn draw_runs(draws: &mut Stream, historic: bool, runs: &mut RunsOptions) {
    if draws.chance(400) {
        runs.loops = Loops::Ideal;
    }
    if let Loops::Polled(loops) = &mut runs.loops {
        loops.submitted.passes = *draws.pick(&[Assignment::OnePass, Assignment::TwoPasses]);
        loops.terminating.drains = draws.chance(500);
        for rounds in [
            &mut loops.submitted.rounds,
            &mut loops.running.rounds,
            &mut loops.terminating.rounds,
            &mut loops.runs.rounds,
        ] {
            rounds.every = SimDuration::from_secs(draws.between(1, 6));
            rounds.jitter = SimDuration::from_secs(*draws.pick(&[0, 0, 3]));
            rounds.batch = draws.chance(300).then(|| draws.between(1, 5) as u32);
        }
    }
    runs.begin = *draws.pick(&[BeginRule::AllPlaced, BeginRule::AllPrepared]);
    runs.prepare = match runs.begin {
        BeginRule::AllPlaced => *draws.pick(&[PrepareRule::AtOnce, PrepareRule::InTurn, PrepareRule::AllPlaced]),
        BeginRule::AllPrepared => *draws.pick(&[PrepareRule::AtOnce, PrepareRule::AllPlaced]),
    };
    runs.no_capacity = *draws.pick(&[NoCapacityRule::BacksOff, NoCapacityRule::KeepsTurn]);
    runs.gang = if historic && draws.chance(500) { GangRule::OneByOne } else { runs.gang };
}

fn draw_arrival(
    draws: &mut Stream,
    features: &Features,
    nodes: &[InitialNode],
    number: u64,
    horizon: SimDuration,
) -> Arrival {
    let restarts = [Restart::Never, Restart::OnFailure, Restart::Always];
    let endless = draws.chance(200);
    let mut behavior = JobBehavior {
        run: (!endless).then(|| SimDuration::from_secs(draws.between(0, 1800))),
        together: None,
        recorded_run: None,
        master_run: None,
        ending: if features.failures && draws.chance(200) { Ending::Failed } else { Ending::Completed },
        prepare: SimDuration::from_secs(if draws.chance(300) { draws.between(1, 300) } else { 0 }),
        analysis: (!draws.chance(100)).then(|| SimDuration::from_secs(draws.between(0, 60))),
        analysis_fails: features.failures && draws.chance(100),
        failing_starts: if features.failures && draws.chance(200) { draws.between(1, 3) as u32 } else { 0 },
        stop: SimDuration::from_secs(if draws.chance(300) { draws.between(0, 900) } else { 0 }),
        checkpoint: None,
        random_faults: Some(Box::new(draw_random_faults(draws, features))),
        usage: None,
        requests: None,
        serving: None,
        sampling: Arc::default(),
        launch: None,
    };
    let demand = draw_demand(draws, features, nodes);
    let mut spec = JobSpec {
        replicas: if features.replicas { draws.between(1, 3) as u32 } else { 1 },
        priority: draws.between(0, 2) as i32,
        time_limit: draws.chance(150).then(|| SimDuration::from_secs(draws.between(1, 1200))),
        analyse: features.analysis && draws.chance(500),
        restart: if features.failures { *draws.pick(&restarts) } else { Restart::Never },
        unselectable: *draws.pick(&[Unselectable::Wait, Unselectable::Wait, Unselectable::Refuse]),
        terms: Arc::new(draw_terms(draws)),
        ..JobSpec::of(format!("j{number}").into(), demand)
    };
    if features.usage {
        draw_usage(draws, &mut behavior);
        spec.utilization = Arc::new(draw_overrides(draws));
    }
    Arrival {
        at: SimTime::ZERO + horizon_part(draws, horizon, 1),
        spec: Arc::new(spec),
        behavior: Arc::new(behavior),
        recorded_wait: None,
    }
}

/// Draws the limits and the retry rule of a job of a polled flow.
fn draw_terms(draws: &mut Stream) -> RunTerms {
    let retry = draws.chance(600).then(|| {
        let mut on = RetryEvent::ALL.to_vec();
        on.retain(|_| draws.chance(700));
        EventRetry { on, duration: SimDuration::from_secs(draws.between(0, 7200)) }
    });
    let startup = *draws.pick(&[StartupOrder::Any, StartupOrder::MasterFirst, StartupOrder::WorkersFirst]);
    RunTerms { retry, startup, stop: *draws.pick(&[StopCriteria::AllDone, StopCriteria::MasterDone]), idle: None }
}

fn draw_random_faults(draws: &mut Stream, features: &Features) -> RandomFaults {
    let mut random_faults = RandomFaults::default();
    let draw = |draws: &mut Stream| Permille::new(*draws.pick(&[0, 0, 50, 300]));
    let by = SimDuration::from_secs(draws.between(1, 900));
    if features.acks && draws.chance(700) {
        random_faults.acks = Acks { lost: draw(draws), late: draw(draws), repeated: draw(draws), late_by: by };
    }
    if features.random_faults && draws.chance(500) {
        random_faults.starts = Starts { fail: draw(draws), slow: draw(draws), slow_by: by };
        random_faults.analyses = Analyses { fail: draw(draws), hang: draw(draws), slow: draw(draws), slow_by: by };
    }
    random_faults
}

fn draw_demand(draws: &mut Stream, features: &Features, nodes: &[InitialNode]) -> Demand {
    let take = match (draws.between(0, 2), features.shares, features.memory) {
        (0, true, _) => GpuTake::Share(GpuShare::new(draws.between(1, 10) as u32 * 100)),
        (1, _, true) => GpuTake::Memory(Bytes::from_gib(draws.between(1, 30))),
        _ => GpuTake::Whole,
    };
    let gpus = (features.gpus && draws.chance(700)).then(|| GpuDemand {
        count: *draws.pick(&[1, 1, 1, 1, 1, 2, 2, 4]),
        take,
        models: if draws.chance(100) { vec![(*draws.pick(&["a", "b"])).into()] } else { Vec::new() },
        min_memory: draws.chance(100).then(|| Bytes::from_gib(24)),
    });
    let mut labels: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    if features.labels && draws.chance(100) {
        labels.insert("zone".into(), (*draws.pick(&["east", "west"])).into());
    }
    let task = TaskDemand {
        cpu: MilliCpu::new(draws.between(0, 6) * 500),
        ram: Bytes::from_gib(draws.between(0, 6)),
        gpus,
        labels,
        os: draws.chance(50).then_some(Os::Linux),
        arch: None,
    };
    let gang = *draws.pick(&[Gang::Anywhere, Gang::Spread, Gang::Packed]);
    let mut demand = Demand { gang, ..Demand::of(task) };
    if features.gangs && draws.chance(400) {
        demand.tasks = draws.between(2, 6) as u32;
    }
    if features.picks && draws.chance(300) {
        draw_pick(draws, nodes, &mut demand);
    }
    demand
}

fn draw_pick(draws: &mut Stream, nodes: &[InitialNode], demand: &mut Demand) {
    let some_nodes: Vec<NodeId> = (0..nodes.len()).filter(|_| draws.chance(400)).map(NodeId::new).collect();
    let gpu_ids = some_nodes.iter().flat_map(|node| {
        (0..nodes[node.index()].spec.shape.gpus.len() as u16).map(|index| GpuId { node: *node, index })
    });
    let some_gpus: Vec<GpuId> = gpu_ids.filter(|_| draws.chance(500)).collect();
    let kind = draws.between(0, 2);
    if kind == 0 && !some_nodes.is_empty() {
        demand.pick = Some(Pick::Nodes(some_nodes));
    } else if demand.gpus().is_some() && !some_gpus.is_empty() {
        if kind == 1 {
            demand.pick = Some(Pick::Gpus(some_gpus));
        } else {
            let pick = Pick::AllGpus(some_gpus);
            demand.tasks = pick.nodes().len() as u32;
            demand.pick = Some(pick);
        }
    }
}

fn draw_faults(
    draws: &mut Stream,
    features: &Features,
    nodes: &[InitialNode],
    horizon: SimDuration,
) -> Vec<(SimTime, Fault)> {
    let mut faults = Vec::new();
    if !features.faults {
        return faults;
    }
    for _ in 0..draws.between(1, 12) {
        let index = draws.index(nodes.len());
        let (node, shape) = (NodeId::new(index), &nodes[index].spec.shape);
        let at = SimTime::ZERO + horizon_part(draws, horizon, 1);
        let turns = match features.silence {
            true => &[NodeTurn::Silent, NodeTurn::Crashed, NodeTurn::Gone, NodeTurn::NotReady][..],
            false => &[NodeTurn::NotReady, NodeTurn::Maintenance, NodeTurn::Gone][..],
        };
        if shape.gpus.is_empty() || draws.chance(600) {
            faults.push((at, Fault::Node { node, becomes: *draws.pick(turns) }));
            // Most nodes recover.
            if draws.chance(800) {
                let back = at + horizon_part(draws, horizon, 1);
                faults.push((back, Fault::Node { node, becomes: NodeTurn::Ready }));
            }
            continue;
        }
        let gpu = GpuId { node, index: draws.index(shape.gpus.len()) as u16 };
        let states = [GpuState::Ready, GpuState::Degraded, GpuState::Draining, GpuState::Failed];
        match features.foreign && draws.chance(400) {
            true => faults.push((at, Fault::Foreign { gpu, foreign: draw_foreign(draws, shape, gpu.index) })),
            false => faults.push((at, Fault::Gpu { gpu, becomes: *draws.pick(&states) })),
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}
