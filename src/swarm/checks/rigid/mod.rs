//! Small worlds in which a rule can be computed on one page: one node with some GPUs, and jobs that need whole GPUs.
//! Reservations name GPUs, so a plan may leave a GPU free that a plan of numbers would use. Where that matters, jobs need
//! cores instead, which have no names.

mod plain;
mod scale_down;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::case::{Case, CheckResult, Judged, log_of};
use dryrack_control::Profile;
use dryrack_engine::{CloudModels, InitialNode, ModelFiles, Rehearsal};
use dryrack_event::{Event, RecordBody};
use dryrack_fleet::{GpuShape, NodeShape, NodeSpec, NodeState};
use dryrack_profile::load_profile;
use dryrack_rng::Stream;
use dryrack_scheduler::{Backfill, Discipline, OrderKey, Preempt};
use dryrack_units::{Bytes, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Arrival, Demand, GpuDemand, GpuTake, JobBehavior, JobSpec, TaskDemand};
use plain::{Job, Rank, Rule, starts, starts_with_preemption};
pub use scale_down::judge as scale_down;

const USERS: [&str; 3] = ["ann", "bob", "eve"];

/// A drawn list of jobs, and the number of GPUs.
struct Drawn {
    seed: u64,
    gpus: u64,
    jobs: Vec<Job>,
    /// Whether the jobs need cores instead of GPUs.
    on_cores: bool,
    draws: Stream,
}

fn draw(seed: u64, purpose: &'static str, is_exact: bool) -> Drawn {
    let mut draws = Stream::new(seed, purpose, 0);
    let gpus = draws.between(2, 8);
    let mut jobs: Vec<Job> = (0..draws.between(3, 25))
        .map(|_| {
            let run = draws.between(1, 40) * 5;
            let more = if is_exact { 0 } else { *draws.pick(&[0, 0, 5, 60, 400]) };
            Job {
                // Few different times, so that many things happen at once.
                at: draws.between(0, 30) * 10,
                gpus: draws.between(1, gpus),
                run,
                estimate: run + more,
                priority: draws.between(0, 2) as i64,
                user: draws.index(USERS.len()),
            }
        })
        .collect();
    jobs.sort_by_key(|job| job.at);
    Drawn { seed, gpus, jobs, on_cores: false, draws }
}

/// The profile `fifo`, which each of these worlds changes.
fn fifo() -> Profile {
    static FIFO: OnceLock<Arc<Profile>> = OnceLock::new();
    let load = || load_profile("fifo", Path::new("")).expect("it is built in");
    Profile::clone(FIFO.get_or_init(load))
}

impl Drawn {
    fn world(&self, profile: Profile, gpus: u64) -> Rehearsal {
        assert!(profile.faults().is_empty(), "{:?}", profile.faults());
        let gpu = GpuShape::of("g", Bytes::from_gib(16));
        let shape = NodeShape::of(MilliCpu::from_cores(gpus), Bytes::from_gib(1), vec![gpu; gpus as usize]);
        let node = InitialNode {
            spec: NodeSpec { name: "n0".into(), shape: Arc::new(shape) },
            state: NodeState::Ready,
            gpus: Vec::new(),
            files: ModelFiles::default(),
        };
        Rehearsal {
            title: format!("jobs on one node {}", self.seed),
            source: String::new(),
            seed: self.seed,
            profile: Arc::new(profile),
            fleets: Vec::new(),
            clouds: CloudModels::default(),
            objects: None,
            kueue: Vec::new(),
            nodes: vec![node],
            arrivals: self.jobs.iter().enumerate().map(|(number, job)| self.arrival(number, job)).collect(),
            cancellations: Vec::new(),
            scalings: Vec::new(),
            faults: Vec::new(),
            evaluations: Vec::new(),
            until: None,
            branch: None,
            warm_up: None,
            currency: None,
            electricity: None,
        }
    }

    fn arrival(&self, number: usize, job: &Job) -> Arrival {
        let task = match self.on_cores {
            true => TaskDemand::cpu_only(MilliCpu::from_cores(job.gpus)),
            false => {
                let (count, models) = (job.gpus as u32, Vec::new());
                let gpus = GpuDemand { count, take: GpuTake::Whole, models, min_memory: None };
                TaskDemand { gpus: Some(gpus), ..TaskDemand::cpu_only(MilliCpu::ZERO) }
            }
        };
        let spec = JobSpec {
            estimate: Some(SimDuration::from_secs(job.estimate)),
            priority: job.priority as i32,
            user: Some(USERS[job.user].into()),
            ..JobSpec::of(format!("j{number}").into(), Demand::of(task))
        };
        let behavior = JobBehavior { run: Some(SimDuration::from_secs(job.run)), ..JobBehavior::default() };
        let (at, spec, behavior) = (SimTime::from_secs(job.at), Arc::new(spec), Arc::new(behavior));
        Arrival { at, spec, behavior, recorded_wait: None }
    }

    /// The times at which the scheduler starts each job.
    fn starts(&self, profile: Profile, gpus: u64) -> Vec<Vec<u64>> {
        let mut starts = vec![Vec::new(); self.jobs.len()];
        for record in log_of(&self.world(profile, gpus)) {
            if let RecordBody::Event(Event::Placed { attempt, .. }) = record.said {
                starts[attempt.job.index()].push(record.at.as_nanos() / 1_000_000_000);
            }
        }
        starts
    }

    fn compare(&self, what: &str, expected: &[Vec<u64>], found: &[Vec<u64>]) -> Result<(), String> {
        let Some(job) = (0..self.jobs.len()).find(|job| expected[*job] != found[*job]) else { return Ok(()) };
        Err(format!(
            "{} GPUs, {what}: job {job} of {:?} starts at {:?} s by the rule, and at {:?} s here",
            self.gpus, self.jobs, expected[job], found[job]
        ))
    }
}

/// The orders that do not change while jobs wait.
const ORDERS: [(&[OrderKey], Rank<'static>); 3] = [
    (&[OrderKey::Submitted], &|_, _| 0.0),
    (&[OrderKey::Priority, OrderKey::Submitted], &|queue, job| -queue.jobs[job].priority as f64),
    (&[OrderKey::Estimate], &|queue, job| queue.jobs[job].estimate as f64),
];

/// The profile of a rule.
fn profile_of(order: &[OrderKey], rule: Rule) -> Profile {
    let mut profile = fifo();
    profile.scheduler.order = order.to_vec();
    (profile.scheduler.discipline, profile.scheduler.backfill) = match rule {
        Rule::Strict => (Discipline::Strict, Backfill::None),
        Rule::Skipping => (Discipline::Skipping, Backfill::None),
        Rule::Easy => (Discipline::Strict, Backfill::Easy),
        Rule::Conservative => (Discipline::Strict, Backfill::Conservative),
    };
    profile
}

/// Compares a drawn list under a rule, with each order.
fn compare_orders(drawn: &Drawn, rules: &[Rule]) -> CheckResult {
    for (order, rank) in ORDERS {
        for rule in rules {
            let expected = starts(&drawn.jobs, drawn.gpus, *rule, rank);
            let found = drawn.starts(profile_of(order, *rule), drawn.gpus);
            drawn.compare(&format!("{rule:?} by {order:?}"), &expected, &found)?;
        }
    }
    Ok(Judged::Holds)
}

pub fn queue(case: &Case<'_>) -> CheckResult {
    compare_orders(&draw(case.world.seed, "swarm rigid queue", false), &[Rule::Strict, Rule::Skipping])
}

pub fn easy(case: &Case<'_>) -> CheckResult {
    compare_orders(&draw(case.world.seed, "swarm rigid easy", false), &[Rule::Easy])
}

pub fn conservative(case: &Case<'_>) -> CheckResult {
    let drawn = Drawn { on_cores: true, ..draw(case.world.seed, "swarm rigid conservative", false) };
    compare_orders(&drawn, &[Rule::Conservative])
}

pub fn victims(case: &Case<'_>) -> CheckResult {
    let drawn = draw(case.world.seed, "swarm rigid victims", true);
    let (order, rank) = ORDERS[1];
    let mut profile = profile_of(order, Rule::Skipping);
    profile.scheduler.preempt = Preempt::LowerPriority;
    let Some(expected) = starts_with_preemption(&drawn.jobs, drawn.gpus, rank) else {
        return Ok(Judged::DoesNotApply);
    };
    drawn.compare("preemption of lower priorities", &expected, &drawn.starts(profile, drawn.gpus))?;
    Ok(Judged::Holds)
}

/// With one more GPU, a job of a strict queue by submission never starts later: all jobs ahead of it start no later, so
/// they are over no later. Other work-conserving queues may be slower with more GPUs (Graham, *Bounds on Multiprocessing
/// Timing Anomalies*, SIAM J. Appl. Math. 1969), but never by more than their bound, twice the best makespan.
pub fn one_more_gpu(case: &Case<'_>) -> CheckResult {
    let mut drawn = draw(case.world.seed, "swarm rigid gpus", true);
    let is_bounded = drawn.draws.chance(500);
    if is_bounded {
        // The bound is that of jobs that are all there from the beginning.
        drawn.jobs.iter_mut().for_each(|job| job.at = 0);
    }
    let (other, _) = *drawn.draws.pick(&ORDERS);
    let rule = *drawn.draws.pick(&[Rule::Skipping, Rule::Easy, Rule::Conservative]);
    for (order, rule) in [(ORDERS[0].0, Rule::Strict), (other, rule)] {
        let few = drawn.starts(profile_of(order, rule), drawn.gpus);
        let more = drawn.starts(profile_of(order, rule), drawn.gpus + 1);
        let makespan = |starts: &[Vec<u64>]| {
            let ends = drawn.jobs.iter().zip(starts).map(|(job, starts)| starts.last().map_or(0, |at| at + job.run));
            ends.max().unwrap_or(0)
        };
        let is_broken = match rule {
            Rule::Strict => few.iter().zip(&more).any(|(few, more)| more > few),
            Rule::Skipping | Rule::Easy | Rule::Conservative => is_bounded && makespan(&more) > 2 * makespan(&few),
        };
        if is_broken {
            return Err(format!(
                "{rule:?} by {order:?}, {:?}: with {} GPUs they start at {few:?}, with one more at {more:?}",
                drawn.jobs, drawn.gpus
            ));
        }
    }
    Ok(Judged::Holds)
}

pub fn fair_share(case: &Case<'_>) -> CheckResult {
    let mut drawn = draw(case.world.seed, "swarm rigid fair share", true);
    let half_life = *drawn.draws.pick(&[60, 600, 86_400]);
    let weights = [1.0, *drawn.draws.pick(&[1.0, 2.0]), *drawn.draws.pick(&[1.0, 0.5])];
    let is_close = std::cell::Cell::new(false);
    let usage = |queue: &plain::Queue<'_>, user: usize| -> f64 {
        let of_run = |job: &Job, start: u64| {
            let half_lives = |at: u64| (queue.now - at) as f64 / half_life as f64;
            let end = (start + job.run).min(queue.now);
            let decayed = libm::exp2(-half_lives(end)) - libm::exp2(-half_lives(start));
            job.gpus as f64 * decayed * half_life as f64 / std::f64::consts::LN_2
        };
        let jobs = queue.jobs.iter().zip(&queue.starts).filter(|(job, _)| job.user == user);
        let used: f64 = jobs.flat_map(|(job, starts)| starts.iter().map(move |at| of_run(job, *at))).sum();
        used / weights[user]
    };
    let rank = |queue: &plain::Queue<'_>, job: usize| {
        let own = usage(queue, queue.jobs[job].user);
        // The same sum in another order of additions: which of two users used less is then not for rounding to say.
        let is_near = |user: usize| {
            let other = usage(queue, user);
            user != queue.jobs[job].user && other != 0.0 && (own - other).abs() <= 1e-9 * other
        };
        is_close.set(is_close.get() || (0..USERS.len()).any(is_near));
        own
    };
    for rule in [Rule::Strict, Rule::Skipping] {
        let mut profile = profile_of(&[OrderKey::FairShare, OrderKey::Submitted], rule);
        profile.scheduler.fair_share.half_life = SimDuration::from_secs(half_life);
        profile.scheduler.fair_share.weights =
            USERS.iter().zip(weights).map(|(user, weight)| ((*user).to_string(), weight)).collect();
        let expected = starts(&drawn.jobs, drawn.gpus, rule, &rank);
        if is_close.get() {
            return Ok(Judged::DoesNotApply);
        }
        let found = drawn.starts(profile, drawn.gpus);
        let what = format!("{rule:?} by fair share, half-life {half_life} s, weights {weights:?}");
        drawn.compare(&what, &expected, &found)?;
    }
    Ok(Judged::Holds)
}
