//! Random worlds in which filters, scorers and the order are custom stages: expressions over nodes, jobs and the time, some
//! of which admit a job although nothing else has changed, or because a node is less empty than before.
//!
//! These worlds are a kind of their own, so that the other random worlds stay as they are.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use super::swarm::draw_world;
use dryrack_control::Profile;
use dryrack_rng::Stream;
use dryrack_scheduler::deployment::DeploymentFilter;
use dryrack_scheduler::{
    FilterName, FilterStage, OrderKey, OwnFilter, OwnKey, OwnScorer, Preempt, SchedulerOptions, ScorerName,
    WeightedScorer,
};

/// Draws the world with custom stages of one seed.
pub fn draw_stages_world(seed: u64, profiles: &[Arc<Profile>]) -> Rehearsal {
    let mut draws = Stream::new(seed, "swarm stages", 0);
    let pool: Vec<Arc<Profile>> =
        profiles.iter().filter(|profile| profile.flow.decides_by_scheduler()).cloned().collect();
    let mut world = draw_world(seed, &pool);
    let mut profile = Profile::clone(&world.profile);
    let scheduler = &mut profile.scheduler;
    for number in 0..draws.between(1, 2) {
        let own = draw_filter(&mut draws, number);
        // Before `resources`, or behind all filters.
        let resources = scheduler.filters.iter().position(|filter| filter.stage == FilterName::Resources);
        let place = resources.filter(|_| draws.chance(700)).unwrap_or(scheduler.filters.len());
        scheduler.filters.insert(place, FilterStage { stage: FilterName::Own(own), unless: None });
    }
    if draws.chance(500) {
        scheduler.deployments.filters.push(DeploymentFilter::Own(draw_filter(&mut draws, 2)));
    }
    if draws.chance(500) {
        scheduler.offers.filters.push(draw_filter(&mut draws, 3));
    }
    if draws.chance(500) {
        let is = draw_score(&mut draws);
        let own = OwnScorer::of_expression("drawn", &is).expect("a valid expression");
        let scorer = WeightedScorer { stage: ScorerName::Own(own), weight: 1.0 };
        match draws.chance(500) {
            true => scheduler.scorers = vec![scorer],
            false => scheduler.scorers.push(scorer),
        }
    }
    let is = match seed % 5 {
        1 => add_stages_of_queue(seed, scheduler),
        2 => add_stages_of_jobs(seed, scheduler),
        _ => None,
    };
    let is = if draws.chance(400) { Some(draw_rank(&mut draws)) } else { is };
    if let Some(is) = is {
        let own = OwnKey::of_expression("drawn", &is).expect("a valid expression");
        let before = std::mem::replace(&mut profile.scheduler.order, vec![OrderKey::Own(own), OrderKey::Submitted]);
        // Preemption and Slurm's priorities need orders of their own.
        if !profile.faults().is_empty() {
            profile.scheduler.order = before;
        }
    }
    let faults = profile.faults();
    assert!(faults.is_empty(), "a world has a profile that no file can have: {faults:?}");
    world.profile = Arc::new(profile);
    world
}

/// Adds stages that read the queue, and may draw such an order. They are drawn apart from all else, so that the worlds of
/// other seeds stay as they are.
fn add_stages_of_queue(seed: u64, scheduler: &mut SchedulerOptions) -> Option<String> {
    let mut draws = Stream::new(seed, "swarm stages of the queue", 0);
    let (few, many) = (draws.between(1, 4), draws.between(2, 8));
    let texts = [
        format!("queue.pending < {few}"),
        format!("job.gpus > 1 && queue.pending > {few}"),
        format!("queue.pending > {many} && gpus.free == gpus.total"),
        format!("time.hour < 0.5 && queue.pending > {few}"),
    ];
    if scheduler.preempt != Preempt::Nobody {
        return None;
    }
    let own =
        OwnFilter::of_expression("of_queue", draws.pick(&texts).as_str(), "of_queue").expect("a valid expression");
    scheduler.filters.push(FilterStage { stage: FilterName::Own(own), unless: None });
    if draws.chance(500) {
        let is = format!("queue.pending > {many} ? gpus.free : -gpus.free");
        let own = OwnScorer::of_expression("of_queue", &is).expect("a valid expression");
        scheduler.scorers.push(WeightedScorer { stage: ScorerName::Own(own), weight: 2.0 });
    }
    draws.chance(400).then(|| format!("queue.pending > {many} ? job.tasks : job.submitted"))
}

/// Adds stages that read fields of jobs beyond what they ask for, and may draw such an order. They are drawn apart from all
/// else, like those that read the queue.
fn add_stages_of_jobs(seed: u64, scheduler: &mut SchedulerOptions) -> Option<String> {
    let mut draws = Stream::new(seed, "swarm stages of jobs", 0);
    let (priority, seconds) = (draws.between(1, 2), draws.between(60, 2400));
    let texts = [
        format!("job.priority < {priority} && node.labels.zone == ''"),
        format!("job.priority >= {priority} && gpus.free == gpus.total"),
        format!("job.estimate > {seconds} && node.labels.zone != 'east'"),
        format!("!job.estimated && time.hour < {}", draws.between(1, 3)),
        format!("job.time_limit > {seconds} && node.cpus_free < node.cpus"),
        "job.user == 'bob' && node.labels.zone == 'west'".to_string(),
        "job.user in ['ann', 'eve'] && gpus.unready > 0".to_string(),
        "job.queue == 'long' && gpus.free * 2 < gpus.total".to_string(),
        "job.project == 'a' && node.labels.zone == ''".to_string(),
        "!job.checkpoints && node.ram_free < node.ram / 2".to_string(),
        "job.model != '' && job.priority == 0 && node.labels.zone == ''".to_string(),
        "job.gpus == 1 && job.tasks == 1 && node.labels.zone == ''".to_string(),
        "job.cpus < 4 && node.labels.zone == 'east'".to_string(),
    ];
    let filter = |draws: &mut Stream, name: &str| {
        OwnFilter::of_expression(name, draws.pick(&texts).as_str(), name).expect("a valid expression")
    };
    let own = filter(&mut draws, "of_jobs");
    let resources = scheduler.filters.iter().position(|filter| filter.stage == FilterName::Resources);
    let place = resources.filter(|_| draws.chance(500)).unwrap_or(scheduler.filters.len());
    scheduler.filters.insert(place, FilterStage { stage: FilterName::Own(own), unless: None });
    if draws.chance(500) {
        let own = filter(&mut draws, "of_deployments");
        scheduler.deployments.filters.push(DeploymentFilter::Own(own));
    }
    if draws.chance(500) {
        let own = filter(&mut draws, "of_offers");
        scheduler.offers.filters.push(own);
    }
    if draws.chance(500) {
        let texts = [
            format!("job.priority < {priority} ? gpus.free : -gpus.free"),
            format!("job.estimate < {seconds} ? 1 : gpus.memory_free"),
            "job.user == 'ann' ? node.cpus_free : node.ram_free".to_string(),
            "job.checkpoints == node.spot ? 1 : 0".to_string(),
        ];
        let own = OwnScorer::of_expression("of_jobs", draws.pick(&texts).as_str()).expect("a valid expression");
        scheduler.scorers.push(WeightedScorer { stage: ScorerName::Own(own), weight: 2.0 });
    }
    let texts = [
        "job.total_gpus * job.estimate",
        "job.total_cpus + job.total_ram / 4",
        "job.user == 'bob' ? 0 : 1",
        "job.queue == 'short' ? job.submitted : 1e9 - job.waited",
        "job.project == 'a' || job.model != '' ? job.tasks : 9",
        "job.checkpoints ? 0 : job.time_limit",
    ];
    draws.chance(500).then(|| (*draws.pick(&texts)).to_string())
}

fn draw_filter(draws: &mut Stream, number: u64) -> OwnFilter {
    let (from, until) = draw_hours(draws);
    let texts = [
        format!("time.hour >= {from} && time.hour < {until}"),
        format!("job.gpus > 1 && time.hour < {until}"),
        "gpus.free == gpus.total && job.gpus == 1".to_string(),
        "node.cpus_free == node.cpus && job.tasks == 1".to_string(),
        "gpus.free * 2 < gpus.total".to_string(),
        "job.tasks > 1 && node.labels.zone == ''".to_string(),
        "node.ram_free < node.ram / 2".to_string(),
        "gpus.unready > 0".to_string(),
    ];
    let name = format!("drawn_{number}");
    let unless = draws.pick(&texts).as_str();
    OwnFilter::of_expression(&name, unless, &name).expect("a valid expression")
}

fn draw_score(draws: &mut Stream) -> String {
    let (_, until) = draw_hours(draws);
    let texts = [
        format!("time.hour < {until} ? gpus.free : -gpus.free"),
        format!("time.hour < {until} ? 1 : node.cpus_free"),
        "gpus.memory_free".to_string(),
        "node.ram_free / node.ram".to_string(),
        "node.labels.zone == '' ? 1 : 0".to_string(),
    ];
    draws.pick(&texts).clone()
}

fn draw_rank(draws: &mut Stream) -> String {
    let (_, until) = draw_hours(draws);
    let texts = [
        format!("time.hour < {until} ? job.tasks : -job.tasks"),
        "job.tasks * job.estimate".to_string(),
        "job.waited > 600 ? 0 : job.tasks".to_string(),
        "-job.priority".to_string(),
    ];
    draws.pick(&texts).clone()
}

/// A time of the first hours and a later one, in hours. Jobs are submitted in the first two hours.
fn draw_hours(draws: &mut Stream) -> (f64, f64) {
    let from = draws.between(0, 120);
    let until = draws.between(from + 1, 240);
    (from as f64 / 60.0, until as f64 / 60.0)
}
