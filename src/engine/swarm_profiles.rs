//! Random worlds under profiles that nobody has written: orders, backfilling, preemption, places of gangs, choices of GPUs,
//! passes, retries and heartbeats in combinations that no built-in profile has.
//!
//! These worlds are a kind of their own, so that the other random worlds stay as they are.

use std::sync::Arc;

use super::rehearsal::{InitialNode, Rehearsal};
use super::swarm::draw_world;
use dryrack_control::{FlowOptions, Instant, PausesFrom, Profile, ScaleDown, ScanOptions, SilentState, Trigger};
use dryrack_fleet::{ISLANDS_LABEL, NodeShape};
use dryrack_rng::Stream;
use dryrack_scheduler::{
    Backfill, Discipline, GangPlaces, GpuOrder, Lines, OrderKey, Preempt, SchedulerOptions, ScorerName, Target,
    TaskShape, Ties, WeightedScorer,
};
use dryrack_units::{Permille, SimDuration};

/// Draws the world with a profile of its own of one seed.
pub fn draw_profiles_world(seed: u64, profiles: &[Arc<Profile>]) -> Rehearsal {
    let mut draws = Stream::new(seed, "swarm profiles", 0);
    // The other flows have few options that their profiles do not use, and historic profiles are what releases did.
    let is_open = |profile: &&Arc<Profile>| profile.flow.decides_by_scheduler() && !profile.historic;
    let pool: Vec<Arc<Profile>> = profiles.iter().filter(is_open).cloned().collect();
    let mut world = draw_world(seed, &pool);
    label_nodes(&mut draws, &mut world.nodes);
    let mut profile = Profile::clone(&world.profile);
    let changes: [fn(&mut Stream, &mut Profile); 7] =
        [draw_queue, draw_places, draw_passes, draw_retries, draw_heartbeats, draw_deadlines, draw_flow];
    for change in changes {
        if draws.chance(600) {
            let before = profile.clone();
            change(&mut draws, &mut profile);
            // Many options are refused beside others.
            if !profile.faults().is_empty() {
                profile = before;
            }
        }
    }
    if profile.scheduler.needs_target() {
        let tasks = world.arrivals.iter().flat_map(|arrival| arrival.spec.demand.kinds_of_tasks());
        profile.scheduler.target =
            Target::of_counted(tasks.map(|(tasks, task)| (TaskShape::of(task), u64::from(tasks))));
    }
    world.profile = Arc::new(profile);
    world
}

/// Gives nodes racks, and their GPUs islands.
fn label_nodes(draws: &mut Stream, nodes: &mut [InitialNode]) {
    let (in_racks, in_islands) = (draws.chance(500), draws.chance(500));
    for node in nodes {
        let mut shape = NodeShape::clone(&node.spec.shape);
        if in_racks && draws.chance(900) {
            shape.rack = Some((*draws.pick(&["r1", "r2", "r3"])).into());
        }
        let half = shape.gpus.len() / 2;
        if in_islands && half > 0 {
            shape.labels.insert(ISLANDS_LABEL.into(), format!("{half}+{half}").into());
        }
        node.spec.shape = Arc::new(shape);
    }
}

fn draw_queue(draws: &mut Stream, profile: &mut Profile) {
    let scheduler = &mut profile.scheduler;
    let orders: [&[OrderKey]; 12] = [
        &[OrderKey::Submitted],
        &[OrderKey::Priority, OrderKey::Submitted],
        &[OrderKey::Priority, OrderKey::FairShare],
        &[OrderKey::Priority, OrderKey::Estimate],
        &[OrderKey::FairShare, OrderKey::Submitted],
        &[OrderKey::FairShare, OrderKey::Priority],
        &[OrderKey::Estimate, OrderKey::Tasks],
        &[OrderKey::Remaining, OrderKey::Submitted],
        &[OrderKey::Attained, OrderKey::Joined],
        &[OrderKey::Attained, OrderKey::Submitted],
        &[OrderKey::Wfp3, OrderKey::Submitted],
        &[OrderKey::Unicef, OrderKey::Priority],
    ];
    scheduler.order = draws.pick(&orders).to_vec();
    scheduler.levels = vec![draws.between(1, 600), draws.between(601, 7200)];
    scheduler.fair_share.half_life = SimDuration::from_secs(*draws.pick(&[60, 600, 86_400]));
    scheduler.discipline = *draws.pick(&[Discipline::Strict, Discipline::Committed, Discipline::Skipping]);
    scheduler.lines = *draws.pick(&[Lines::One, Lines::EachQueue]);
    let rules = [Backfill::None, Backfill::Easy, Backfill::Easy, Backfill::Conservative, Backfill::Rlscheduler];
    scheduler.backfill = *draws.pick(&rules);
    profile.passes.backfill = None;
    scheduler.preempt = match (draws.chance(500), &scheduler.order[..]) {
        (true, [OrderKey::Remaining, ..]) => Preempt::LongerRemaining,
        (true, [OrderKey::Attained, OrderKey::Joined]) => Preempt::MoreAttained,
        (true, order) if order.contains(&OrderKey::Priority) => Preempt::LowerPriority,
        _ => Preempt::Nobody,
    };
    profile.instant = *draws.pick(&[Instant::Whole, Instant::Whole, Instant::ArrivalsFirst]);
}

fn draw_places(draws: &mut Stream, profile: &mut Profile) {
    let scheduler: &mut SchedulerOptions = &mut profile.scheduler;
    let orders =
        [GpuOrder::Islands, GpuOrder::LeastFragmentation, GpuOrder::Random, GpuOrder::Tightest, GpuOrder::Emptiest];
    scheduler.gpus = *draws.pick(&orders);
    scheduler.gangs =
        *draws.pick(&[GangPlaces::Demand, GangPlaces::Consolidate, GangPlaces::Racks, GangPlaces::Neighbours]);
    scheduler.ties = *draws.pick(&[Ties::First, Ties::First, Ties::Random]);
    let mut scorer = || WeightedScorer { stage: *draws.pick(ScorerName::ALL), weight: *draws.pick(&[1.0, 0.5, -1.0]) };
    scheduler.scorers = (0..2).map(|_| scorer()).collect();
    if scheduler.scorers[0].stage == scheduler.scorers[1].stage {
        scheduler.scorers.pop();
    }
}

fn draw_passes(draws: &mut Stream, profile: &mut Profile) {
    let second = SimDuration::from_secs;
    let passes = &mut profile.passes;
    for pass in [&mut passes.analyse, &mut passes.place] {
        if let Trigger::Every(_) = pass.trigger {
            pass.offset = second(draws.between(0, 90));
        }
    }
    if profile.scheduler.backfill != Backfill::None && draws.chance(500) {
        let mut pass = passes.place;
        (pass.trigger, pass.batch) = (Trigger::Every(second(draws.between(1, 120))), None);
        (pass.offset, pass.jitter) = (second(draws.between(0, 60)), second(*draws.pick(&[0, 3])));
        passes.backfill = Some(pass);
    }
    profile.commit.candidates = draws.between(1, 4) as u32;
    profile.commit.decision_time = second(*draws.pick(&[0, 0, 1, 20]));
    profile.completing = second(*draws.pick(&[0, 0, 1, 30]));
    profile.kill_invalid_depend = draws.chance(500);
}

fn draw_retries(draws: &mut Stream, profile: &mut Profile) {
    profile.retry.limit = Some(draws.between(0, 6) as u32);
    profile.retry.first = SimDuration::from_secs(draws.between(1, 60));
    profile.retry.factor = Permille::new(*draws.pick(&[1000, 1500, 2000, 3000]));
    profile.retry.max = SimDuration::from_secs(draws.between(60, 600));
}

fn draw_heartbeats(draws: &mut Stream, profile: &mut Profile) {
    let second = SimDuration::from_secs;
    let heartbeat = &mut profile.heartbeat;
    heartbeat.every = second(draws.between(5, 30));
    heartbeat.grace = second(draws.between(30, 90));
    heartbeat.evict_after = second(draws.between(90, 600));
    heartbeat.flap_window = second(draws.between(0, 1200));
    heartbeat.becomes = *draws.pick(&[SilentState::NotReady, SilentState::Unreachable]);
    heartbeat.checked_every = draws.chance(400).then(|| second(draws.between(1, 60)));
    heartbeat.evicted_every = draws.chance(400).then(|| second(draws.between(1, 60)));
}

fn draw_deadlines(draws: &mut Stream, profile: &mut Profile) {
    let second = SimDuration::from_secs;
    let deadlines = &mut profile.deadlines;
    deadlines.analysing = second(draws.between(5, 300));
    deadlines.scheduled = second(draws.between(1, 120));
    deadlines.preparing = second(draws.between(10, 600));
    deadlines.stopping = second(draws.between(1, 120));
    profile.policies.utilization.grace = second(draws.between(0, 120));
}

fn draw_flow(draws: &mut Stream, profile: &mut Profile) {
    let FlowOptions::Scanned(scan) = &mut profile.flow else { return };
    let ScanOptions { every, restarts_in_place, pauses_from, scale_down, .. } = scan;
    *every = SimDuration::from_secs(draws.between(1, 300));
    *restarts_in_place = draws.chance(500).then(|| SimDuration::from_secs(draws.between(1, 30)));
    *pauses_from = *draws.pick(&[PausesFrom::Failure, PausesFrom::LastStart]);
    *scale_down = *draws.pick(&[ScaleDown::YoungestOfTheLeastWell, ScaleDown::OldestOfTheMostCrowded]);
}
