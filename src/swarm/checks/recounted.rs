//! The metrics of a run, counted a second time from the log. Here, each replica, claim and state of a node has a beginning
//! and an end, and everything is added up at the end of the run. The metrics themselves carry totals along.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::case::{Case, CheckResult, Judged};
use super::stopped;
use dryrack_event::{Declaration, Event, Histogram, Input, Outcome, Phase, Reason, Record, RecordBody, Refusal, Sink};
use dryrack_fleet::{GpuState, InstanceState, NodeClaim, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_metrics::{Metrics, RunAccount, Value};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// The history of a run, by what its log says.
#[derive(Default)]
struct History {
    jobs: Vec<Job>,
    nodes: Vec<Node>,
    stays: Vec<Stay>,
    /// For each fleet, whether a cloud makes its instances.
    clouds: Vec<bool>,
    /// The number of instances that were requested from clouds.
    requested: u32,
    /// When the scenario stops the run, if it does.
    until: Option<f64>,
    end: f64,
}

struct Job {
    spec: Arc<JobSpec>,
    submitted: f64,
    outcome: Option<Outcome>,
    replicas: Vec<Replica>,
    failures: u64,
}

#[derive(Default)]
struct Replica {
    wanted: f64,
    /// Whether the last decision about it said that it never fits.
    never: bool,
    /// Each attempt so far, the first one first.
    attempts: Vec<Attempt>,
}

#[derive(Default)]
struct Attempt {
    /// Whether it follows an attempt for another reason than a scale-up.
    is_retry: bool,
    placed: Option<f64>,
    started: Option<f64>,
    ended: Option<(f64, Outcome)>,
}

struct Node {
    spec: Arc<NodeSpec>,
    states: Vec<(f64, NodeState)>,
    gpus: Vec<Vec<(f64, GpuState)>>,
}

/// The time during which an attempt has a claim on one node.
struct Stay {
    attempt: AttemptId,
    claim: NodeClaim,
    from: f64,
    to: Option<f64>,
}

pub fn judge(case: &Case<'_>) -> CheckResult {
    if case.world.warm_up.is_some() || case.log.is_empty() {
        return Ok(Judged::DoesNotApply);
    }
    let history = History { until: case.world.until.map(seconds), ..History::of(case.log) };
    let expected = history.metrics();
    for mut accounts in [RunAccount::of(case.world), RunAccount::figures_only(case.world)] {
        for record in case.log {
            match &record.said {
                RecordBody::Input(input) => accounts.input(record.step, record.at, input),
                RecordBody::Event(event) => accounts.event(record.step, record.at, event),
            }
        }
        accounts.finish(case.log.last().expect("there is one").at);
        let found = Metrics::of(&accounts);
        for (name, expected) in &expected {
            let found = number(found.get(name).expect("a metric of the table"));
            if !is_same(name, *expected, found, history.nodes.len()) {
                return Err(format!("{name} is {found:?}, and counted again from the log, it is {expected:?}"));
            }
        }
    }
    stopped::judge(case)
}

/// A metric in the unit of its name.
fn number(value: Value) -> Option<f64> {
    match value {
        Value::Count(count) => Some(count as f64),
        Value::Time(time) => Some(time.as_secs_f64()),
        Value::Ratio(ratio) => Some(ratio),
        Value::Money(money) => Some(money.get() as f64 / 1e6),
        Value::Undefined => None,
    }
}

/// Seconds are sums of doubles here, and of integers there. The cost is rounded down to millionths for each node.
fn is_same(name: &str, one: Option<f64>, other: Option<f64>, nodes: usize) -> bool {
    let rounded = if name == "cost" { 1e-6 * nodes as f64 } else { 0.0 };
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(2.0) + rounded,
        (one, other) => one == other,
    }
}

fn seconds(at: SimTime) -> f64 {
    at.since(SimTime::ZERO).as_secs_f64()
}

impl History {
    fn of(log: &[Record]) -> History {
        let mut history = History::default();
        for record in log {
            let at = seconds(record.at);
            history.end = at;
            match &record.said {
                RecordBody::Input(input) => history.input(at, input),
                RecordBody::Event(event) => history.event(at, event),
            }
        }
        history
    }

    fn input(&mut self, at: f64, input: &Input) {
        match input.declaration() {
            Some(Declaration::Job { spec, .. }) => self.jobs.push(Job {
                spec: Arc::clone(spec),
                submitted: at,
                outcome: None,
                replicas: (0..spec.replicas).map(|_| Replica::new(at)).collect(),
                failures: 0,
            }),
            Some(Declaration::Node { state, spec, .. }) => self.nodes.push(Node {
                spec: Arc::new(spec.clone()),
                states: vec![(at, state)],
                gpus: vec![vec![(at, GpuState::Ready)]; spec.shape.gpus.len()],
            }),
            Some(Declaration::Fleet { spec, .. }) => self.clouds.push(spec.cloud.is_some()),
            None => {}
        }
    }

    fn event(&mut self, at: f64, event: &Event) {
        match event {
            Event::NodeChanged { node, to, .. } => self.nodes[node.index()].states.push((at, *to)),
            Event::GpuChanged { gpu, to, .. } => {
                self.nodes[gpu.node.index()].gpus[usize::from(gpu.index)].push((at, *to));
            }
            // A node stands for another instance once its last one is gone.
            Event::InstanceChanged { to: InstanceState::Pending, .. } => self.requested += 1,
            Event::Placed { attempt, placement, .. } => self.placed(at, *attempt, placement),
            Event::Held { attempt, refusal, reasons } => self.held(*attempt, *refusal, reasons),
            Event::Moved { attempt, to, .. } => {
                if *to == Phase::Running {
                    self.attempt(*attempt).started = Some(at);
                }
                if !to.holds_claim() {
                    self.leave(at, *attempt, |_| true);
                }
            }
            Event::Ended { attempt, outcome, because, kept, .. } => {
                self.attempt(*attempt).ended = Some((at, *outcome));
                let is_failure = matches!(outcome, Outcome::Failed | Outcome::Lost) && *because != Reason::Preempted;
                self.jobs[attempt.job.index()].failures += u64::from(is_failure);
                self.leave(at, *attempt, |node| !kept.contains(&node));
            }
            Event::ClaimFreed { attempt, node } => self.leave(at, *attempt, |other| other == *node),
            Event::Retry { attempt, because, .. } => {
                let replica = &mut self.jobs[attempt.job.index()].replicas[attempt.replica as usize];
                replica.attempts.push(Attempt { is_retry: *because != Reason::ScaledUp, ..Attempt::default() });
            }
            Event::ReplicaAdded { attempt } => self.jobs[attempt.job.index()].replicas.push(Replica::new(at)),
            Event::JobEnded { job, outcome, .. } => self.jobs[job.index()].outcome = Some(*outcome),
            _ => {}
        }
    }

    fn attempt(&mut self, attempt: AttemptId) -> &mut Attempt {
        let replica = &mut self.jobs[attempt.job.index()].replicas[attempt.replica as usize];
        &mut replica.attempts[attempt.number as usize - 1]
    }

    /// A place behind the head of the queue says nothing about the nodes, nor does a dependency.
    fn held(&mut self, attempt: AttemptId, refusal: Refusal, reasons: &Histogram) {
        let first = reasons.iter().next().map(|(reason, _)| reason);
        if first != Some(Reason::QueueOrder) {
            let is_of_nodes = first != Some(Reason::DependencyNeverSatisfied);
            let replica = &mut self.jobs[attempt.job.index()].replicas[attempt.replica as usize];
            replica.never = refusal == Refusal::Never && is_of_nodes;
        }
    }

    fn placed(&mut self, at: f64, attempt: AttemptId, placement: &Placement) {
        self.attempt(attempt).placed.get_or_insert(at);
        let stay = |claim: &NodeClaim| Stay { attempt, claim: claim.clone(), from: at, to: None };
        self.stays.extend(placement.claims().iter().map(stay));
    }

    fn leave(&mut self, at: f64, attempt: AttemptId, leaves: impl Fn(NodeId) -> bool) {
        let stays = self.stays.iter_mut().filter(|stay| stay.attempt == attempt && stay.to.is_none());
        stays.filter(|stay| leaves(stay.claim.node)).for_each(|stay| stay.to = Some(at));
    }

    fn metrics(&self) -> Vec<(&'static str, Option<f64>)> {
        [self.of_jobs(), self.of_waits(), self.of_completed(), self.of_capacity(), self.of_money()].concat()
    }

    fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.jobs.iter().flat_map(|job| &job.replicas)
    }

    fn of_jobs(&self) -> Vec<(&'static str, Option<f64>)> {
        let ended = |outcome| Some(self.jobs.iter().filter(|job| job.outcome == Some(outcome)).count() as f64);
        let holding: BTreeSet<usize> = self.stays.iter().filter(|stay| self.holds(stay)).map(Stay::job).collect();
        let unended: Vec<usize> = (0..self.jobs.len()).filter(|job| self.jobs[*job].outcome.is_none()).collect();
        let running = unended.iter().filter(|job| holding.contains(job)).count();
        let survives = |(number, job): &(usize, &Job)| {
            job.outcome == Some(Outcome::Completed) || (job.outcome.is_none() && holding.contains(number))
        };
        let survived: u64 = self.jobs.iter().enumerate().filter(survives).map(|(_, job)| job.failures).sum();
        let retries = self.replicas().flat_map(|replica| &replica.attempts).filter(|attempt| attempt.is_retry).count();
        vec![
            ("jobs_submitted", Some(self.jobs.len() as f64)),
            ("jobs_completed", ended(Outcome::Completed)),
            ("jobs_failed", ended(Outcome::Failed)),
            ("jobs_cancelled", ended(Outcome::Cancelled)),
            ("jobs_lost", ended(Outcome::Lost)),
            ("jobs_never_fits", ended(Outcome::NeverFits)),
            ("jobs_expired", ended(Outcome::Expired)),
            ("jobs_refused", ended(Outcome::Refused)),
            ("jobs_running", Some(running as f64)),
            ("jobs_waiting", Some((unended.len() - running) as f64)),
            ("retries", Some(retries as f64)),
            ("failures_survived", Some(survived as f64)),
        ]
    }

    /// Whether the last attempt of a replica still has this claim. A claim that was kept after the end of its attempt does
    /// not count.
    fn holds(&self, stay: &Stay) -> bool {
        let replica = &self.jobs[stay.job()].replicas[stay.attempt.replica as usize];
        stay.to.is_none() && replica.attempts[stay.attempt.number as usize - 1].ended.is_none()
    }

    fn of_waits(&self) -> Vec<(&'static str, Option<f64>)> {
        let placed = |replica: &Replica| replica.attempts.iter().find_map(|attempt| attempt.placed);
        let waits: Vec<f64> = self.replicas().filter_map(|one| Some(placed(one)? - one.wanted)).collect();
        let started = |replica: &Replica| replica.attempts.iter().find_map(|attempt| attempt.started);
        let start_waits: Vec<f64> = self.replicas().filter_map(|one| Some(started(one)? - one.wanted)).collect();
        // Those that come in the instant in which the run is stopped, and wait then, do not count.
        let is_late = |replica: &&Replica| {
            let is_open = placed(replica).is_none() && replica.attempts.last().is_none_or(|last| last.ended.is_none());
            is_open && !replica.never && replica.wanted >= self.end && self.until.is_some_and(|until| until <= self.end)
        };
        let all = self.replicas().count() - self.replicas().filter(is_late).count();
        vec![
            ("queue_wait_mean_seconds", mean(&waits)),
            ("queue_wait_p50_seconds", quantile(&waits, 0.5)),
            ("queue_wait_p95_seconds", quantile(&waits, 0.95)),
            ("queue_wait_max_seconds", waits.iter().copied().reduce(f64::max)),
            ("start_wait_mean_seconds", mean(&start_waits)),
            ("start_wait_p95_seconds", quantile(&start_waits, 0.95)),
            ("placed", (all > 0).then(|| waits.len() as f64 / all as f64)),
        ]
    }

    fn of_completed(&self) -> Vec<(&'static str, Option<f64>)> {
        let (mut turnarounds, mut slowdowns) = (Vec::new(), Vec::new());
        let mut of_users: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut last = None;
        for (job, replica) in self.jobs.iter().flat_map(|job| job.replicas.iter().map(move |replica| (job, replica))) {
            let attempt = replica.attempts.last().expect("there is a first one");
            let Some((ended, outcome)) = attempt.ended else { continue };
            last = Some(last.map_or(ended, |last: f64| last.max(ended)));
            if outcome != Outcome::Completed {
                continue;
            }
            turnarounds.push(ended - replica.wanted);
            let Some(started) = attempt.started else { continue };
            let slowdown = f64::max(1.0, (ended - replica.wanted) / f64::max(10.0, ended - started));
            slowdowns.push(slowdown);
            if let Some(user) = job.spec.user.as_deref() {
                of_users.entry(user).or_default().push(slowdown);
            }
        }
        let first = self.jobs.iter().filter(|job| !job.replicas.is_empty()).map(|job| job.submitted).reduce(f64::min);
        let users: Vec<f64> = of_users.values().filter_map(|slowdowns| mean(slowdowns)).collect();
        let sum: f64 = users.iter().sum();
        let squares: f64 = users.iter().map(|user| user * user).sum();
        vec![
            ("turnaround_mean_seconds", mean(&turnarounds)),
            ("turnaround_p95_seconds", quantile(&turnarounds, 0.95)),
            ("bounded_slowdown_mean", mean(&slowdowns)),
            ("bounded_slowdown_p95", quantile(&slowdowns, 0.95)),
            ("makespan_seconds", first.zip(last).map(|(first, last)| last - first)),
            ("fairness", (!users.is_empty()).then(|| sum * sum / (users.len() as f64 * squares))),
        ]
    }

    fn of_capacity(&self) -> Vec<(&'static str, Option<f64>)> {
        let mut sums = Sums::default();
        for (number, node) in self.nodes.iter().enumerate() {
            let stays: Vec<&Stay> = self.stays.iter().filter(|stay| stay.claim.node.index() == number).collect();
            node.add_to(&mut sums, &stays, self.end);
        }
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let has_gpus = self.nodes.iter().any(|node| !node.gpus.is_empty());
        vec![
            ("gpu_hours", has_gpus.then(|| sums.gpu_taken / 3600.0)),
            ("gpu_allocated", ratio(sums.gpu_taken_ready, sums.gpu_ready)),
            ("cpu_allocated", ratio(sums.cpu_taken_ready, sums.cpu_ready)),
        ]
    }

    fn of_money(&self) -> Vec<(&'static str, Option<f64>)> {
        let hours = |node: &Node| node.while_in(self.end, |state| state != NodeState::Gone) / 3600.0;
        let is_made = |node: &&Node| {
            let instance = node.spec.shape.instance.as_ref();
            instance.is_some_and(|instance| self.clouds.get(instance.fleet.index()) == Some(&true))
        };
        let made: Vec<f64> = self.nodes.iter().filter(is_made).map(hours).collect();
        let mut metrics = vec![
            ("instance_hours", (!made.is_empty()).then(|| made.iter().sum())),
            ("instances_made", Some(f64::from(self.requested))),
        ];
        // Nodes that are bought or committed also cost something while they are gone, and draw electricity.
        if self.nodes.iter().all(|node| node.spec.shape.payment.is_none()) {
            let price = |node: &Node| Some(node.spec.shape.price_per_hour?.get() as f64 / 1e6 * hours(node));
            let costs: Vec<f64> = self.nodes.iter().filter_map(price).collect();
            metrics.push(("cost", (!costs.is_empty()).then(|| costs.iter().sum())));
        }
        metrics
    }
}

impl Replica {
    fn new(wanted: f64) -> Replica {
        Replica { wanted, never: false, attempts: vec![Attempt::default()] }
    }
}

impl Stay {
    fn job(&self) -> usize {
        self.attempt.job.index()
    }

    fn is_at(&self, at: f64) -> bool {
        self.from <= at && self.to.is_none_or(|to| at < to)
    }
}

/// GPU seconds and core seconds.
#[derive(Default)]
struct Sums {
    gpu_taken: f64,
    gpu_taken_ready: f64,
    gpu_ready: f64,
    cpu_taken_ready: f64,
    cpu_ready: f64,
}

impl Node {
    /// The seconds during which the node was in one of these states.
    fn while_in(&self, end: f64, counts: impl Fn(NodeState) -> bool) -> f64 {
        let ends = self.states.iter().skip(1).map(|(at, _)| *at).chain([end]);
        self.states.iter().zip(ends).filter(|((_, state), _)| counts(*state)).map(|((from, _), to)| to - from).sum()
    }

    /// Cuts the time of the run at each moment in which anything of this node changes, and adds up the pieces.
    fn add_to(&self, sums: &mut Sums, stays: &[&Stay], end: f64) {
        let of_gpus = self.gpus.iter().flatten().map(|(at, _)| *at);
        let of_stays = stays.iter().flat_map(|stay| [Some(stay.from), stay.to]).flatten();
        let mut cuts: Vec<f64> = self.states.iter().map(|(at, _)| *at).chain(of_gpus).chain(of_stays).collect();
        cuts.push(end);
        cuts.sort_by(f64::total_cmp);
        cuts.dedup();
        for cut in cuts.windows(2) {
            let (at, length) = (cut[0], cut[1] - cut[0]);
            let is_ready = last_of(&self.states, at) == Some(NodeState::Ready);
            let there: Vec<&NodeClaim> = stays.iter().filter(|stay| stay.is_at(at)).map(|stay| &stay.claim).collect();
            let cores = there.iter().map(|claim| claim.cpu.get() as f64).sum::<f64>() / 1000.0;
            if is_ready {
                sums.cpu_ready += length * self.spec.shape.cpu_capacity().get() as f64 / 1000.0;
                sums.cpu_taken_ready += length * cores;
            }
            for (index, states) in self.gpus.iter().enumerate() {
                let part = self.part_taken(index, &there);
                sums.gpu_taken += length * part;
                let is_usable = matches!(last_of(states, at), Some(GpuState::Ready | GpuState::Degraded));
                if is_ready && is_usable {
                    sums.gpu_ready += length;
                    sums.gpu_taken_ready += length * part;
                }
            }
        }
    }

    /// The part of a GPU that is taken: the larger of its share and, in whole thousandths, its memory.
    fn part_taken(&self, index: usize, claims: &[&NodeClaim]) -> f64 {
        let on_gpu = || claims.iter().flat_map(|claim| &claim.gpus).filter(|gpu| usize::from(gpu.index) == index);
        let share: f64 = on_gpu().map(|gpu| f64::from(gpu.share.get())).sum();
        let memory: f64 = on_gpu().map(|gpu| gpu.memory.get() as f64).sum();
        let whole = self.spec.shape.gpu_memory_capacity(index).get().max(1) as f64;
        f64::min(1000.0, f64::max(share, (memory * 1000.0 / whole).floor())) / 1000.0
    }
}

/// The last entry up to this time.
fn last_of<T: Copy>(entries: &[(f64, T)], at: f64) -> Option<T> {
    entries.iter().rev().find(|(from, _)| *from <= at).map(|(_, entry)| *entry)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest value that is at least as large as this part of all values.
fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let is_enough =
        |value: &f64| values.iter().filter(|other| *other <= value).count() as f64 >= part * values.len() as f64;
    values.iter().copied().filter(is_enough).reduce(f64::min)
}
