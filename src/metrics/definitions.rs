//! The metrics: their names, meanings and values.
//!
//! Quantiles use the nearest rank. The p-quantile is the smallest value such that at least a fraction p of all values
//! are not larger (definition 1 of Hyndman and Fan, Sample Quantiles in Statistical Packages, The American Statistician
//! 50(4), 1996). So each quantile is a value that really occurred.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::account::RunAccount;
use super::finished::Row;
use super::own::own_values;
use super::request_series::RequestSeries;
use super::series::Function;
use super::service_account::ServiceAccount;
use super::value::{Definition, SLOWDOWN_BOUND, Value};
use dryrack_engine::{Accounts, Standing};
use dryrack_event::Outcome;
use dryrack_fleet::Payment;
use dryrack_planted::planted;
use dryrack_units::{Money, SimDuration, SimTime};

macro_rules! metrics {
    ($($name:literal, $counts_in:literal: $meaning:literal, $source:literal;)*) => {
        /// All built-in metrics, in the order of output.
        pub const METRICS: &[Definition] = &[$(
            Definition { name: $name, counts_in: $counts_in, meaning: $meaning, source: $source },
        )*];
    };
}

metrics! {
    "jobs_submitted", "count": "submitted jobs", "";
    "jobs_completed", "count": "jobs that ran to their end", "";
    "jobs_failed", "count": "jobs that failed and were not tried again", "";
    "jobs_cancelled", "count": "cancelled jobs", "";
    "jobs_lost", "count": "jobs that lost a node or GPU and were not tried again", "";
    "jobs_never_fits", "count": "jobs that were ended because they would not fit even if all nodes were empty", "";
    "jobs_expired", "count": "jobs that a limit ended: of run time, of retries, or of waiting", "";
    "jobs_refused", "count": "jobs that were rejected and did not wait: they fitted nowhere, or the nodes or GPUs that they picked could not be selected", "";
    "jobs_running", "count": "jobs with at least one placed replica at the end of the simulation", "";
    "jobs_waiting", "count": "unfinished jobs without a placed replica at the end of the simulation", "";
    "queue_wait_mean_seconds", "s": "mean time from the submission of a job to the first placement of each replica. For a replica that was added later, the time begins with the scale-up. Replicas that were never placed do not count", "";
    "queue_wait_p50_seconds", "s": "median of these times", "quantiles by nearest rank: Hyndman and Fan, The American Statistician 50(4), 1996, definition 1";
    "queue_wait_p95_seconds", "s": "95th percentile of these times", "quantiles by nearest rank: Hyndman and Fan, The American Statistician 50(4), 1996, definition 1";
    "queue_wait_max_seconds", "s": "longest of these times", "";
    "start_wait_mean_seconds", "s": "mean time from the submission of a job to the first start of each replica: the wait in the queue and, for example, the creation of an instance and a download. For a replica that was added later, the time begins with the scale-up. Replicas that never started do not count", "";
    "start_wait_p95_seconds", "s": "95th percentile of these times", "quantiles by nearest rank: Hyndman and Fan, The American Statistician 50(4), 1996, definition 1";
    "placed", "part": "fraction of all replicas that were placed at least once. Only these count in the metrics of waiting", "";
    "bounded_slowdown_mean", "ratio": "mean of max(1, (end - submission) / max(run time of the last attempt, 10 s)) over completed replicas", "Feitelson, Metrics for Parallel Job Scheduling and Their Convergence, JSSPP 2001";
    "makespan_seconds", "s": "time from the first submission to the last end of a replica", "Feitelson, Metrics for Parallel Job Scheduling and Their Convergence, JSSPP 2001";
    "gpu_allocated", "part": "allocated GPU time divided by the GPU time of all usable GPUs on ready nodes. A GPU that foreign processes use counts as not allocated", "";
    "cpu_allocated", "part": "allocated CPU time divided by the CPU time of all ready nodes", "";
    "rlscheduler_utilization", "part": "CPU time of all completed jobs, divided by the CPU time of all nodes from the first submission to the last start, without instances that never existed. Work after the last start counts too, so the value may exceed 1", "RLScheduler, cd433e3";
    "retries", "count": "attempts of a replica after its first attempt, without those for which a scale-up needs it again", "";
    "commits_refused", "count": "placements that were chosen and could not be committed", "";
    "deadlines_expired", "count": "states that lasted longer than their deadline", "";
    "safety_broken", "count": "commits that broke a safety rule, under a profile that allows it", "";
    "decisions_refused", "count": "decisions of a scheduler in another process that were refused, for example because they name an unknown node or place a part of a gang; 0 if a profile decides", "";
    "policies_fired", "count": "utilization policies that fired, and ended an attempt or only observed it", "";
    "policies_warned", "count": "utilization policies that fired, and warned", "";
    "instances_made", "count": "instances of cloud fleets that existed: those that were there when the warm-up ended, and those requested after it", "";
    "instances_taken", "count": "running instances that were lost, or that their cloud took back", "";
    "instance_hours", "h": "total hours of all instances of cloud fleets, from request to release", "";
    "instances_most", "count": "largest number of instances of cloud fleets at one time", "";
    "instance_gpus_most", "count": "largest number of GPUs of these instances at one time", "";
    "cost", "price": "sum over all nodes with a price: price per hour, times the hours during which the node existed. A committed or bought node is paid for in every hour of the run; the electricity of a bought node costs extra", "";
    "turnaround_mean_seconds", "s": "mean time from the submission of a job to the end of each completed replica. For a replica that was added later, the time begins with the scale-up", "Feitelson, Metrics for Parallel Job Scheduling and Their Convergence, JSSPP 2001";
    "turnaround_p95_seconds", "s": "95th percentile of these times", "";
    "bounded_slowdown_p95", "ratio": "95th percentile of the values whose mean is bounded_slowdown_mean", "Feitelson, Metrics for Parallel Job Scheduling and Their Convergence, JSSPP 2001";
    "fairness", "part": "Jain's index over the mean bounded slowdown of each user's completed replicas. The index is 1 if all n users are slowed equally, and 1/n if only one is slowed", "Jain, Chiu and Hawe, DEC-TR-301, 1984";
    "gpu_hours", "h": "allocated GPU hours, also on nodes that are not ready", "";
    "gpu_utilization", "part": "really used part of the allocated GPU time. Only jobs with a known usage count. Of a shared GPU, only the allocated part counts", "";
    "gpu_idle_hours", "h": "allocated GPU hours at a utilization of 0%, including the time before the start and while stopping. Only jobs with a known usage count", "Jeon and others, Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, USENIX ATC 2019, section 3.1, tells allocated from used GPUs";
    "gpu_idle_cost", "price": "price of these hours: each GPU costs an equal part of the price of its node", "";
    "energy", "kWh": "energy of all nodes with a stated power while they exist: power at rest, plus the additional power in proportion to the used GPUs. Allocated GPUs count as used if their usage is not known. On a node without GPUs, the allocated CPU counts", "linear in utilization: Fan, Weber and Barroso, Power Provisioning for a Warehouse-sized Computer, ISCA 2007";
    "fragmentation", "part": "part of the free GPU time on ready nodes that the target workload could not use, as the mean over the shapes of that workload. The target workload is that of the profile, or else all tasks of the simulation", "Weng and others, Beware of Fragmentation, USENIX ATC 2023, section 4.2";
    "preemptions", "count": "attempts that were stopped for another job, or that lost an instance which the cloud took back", "";
    "failures_survived", "count": "failed or lost attempts, except preempted ones, of jobs that completed or were placed at the end of the simulation", "";
    "policies_ended", "count": "attempts that a utilization policy ended", "";
    "policy_saved_hours", "h": "GPU hours that these attempts would still have held at levels which the policy calls idle. Only attempts with a known usage and a known end count", "dryrack policy counts alike";
    "policy_lost_hours", "h": "GPU hours that these attempts would still have used at higher levels: work that was cut off", "";
    "requests", "count": "requests to services for language models that arrived after the warm-up", "";
    "requests_unserved", "count": "of these, requests that had not ended at the end of the run", "";
    "requests_without_replica", "count": "of these, requests that arrived while no replica could take them, for example during a cold start", "";
    "requests_repeated", "count": "times that a request began again because its replica stopped or was lost", "";
    "ttft_p50_seconds", "s": "median time to first token: from the arrival of a request to its first token. A request without one counts as infinitely slow; an infinite value is null", "quantiles by nearest rank, rounded up by at most 0.4%";
    "ttft_p95_seconds", "s": "95th percentile of these times", "";
    "ttft_p99_seconds", "s": "99th percentile of these times", "";
    "tpot_p50_seconds", "s": "median time per output token: (last token - first token) / (tokens - 1). A request that was not served to its end counts as infinitely slow; an answer of one token does not count", "";
    "tpot_p95_seconds", "s": "95th percentile of these times", "";
    "tpot_p99_seconds", "s": "99th percentile of these times", "";
    "e2e_latency_p50_seconds", "s": "median time from the arrival of a request to its last token. A request that was not served to its end counts as infinitely slow", "";
    "e2e_latency_p95_seconds", "s": "95th percentile of these times", "";
    "e2e_latency_p99_seconds", "s": "99th percentile of these times", "";
    "output_tokens", "count": "tokens of the answers that were served to their end", "";
    "output_tokens_per_second", "ratio": "these tokens divided by the time from the warm-up to the end of the run", "";
    "cost_per_million_tokens", "price": "cost of all nodes divided by these tokens, times a million", "";
    "cost_per_month", "price": "cost of the run divided by its hours, times the 730 hours of a mean month (8,760 hours a year)", "";
    "carbon", "kg": "CO2 of the energy of all nodes with a stated power, times the power usage effectiveness of the site: the emissions per kWh are those of the hour in which the energy was drawn", "location-based method: GHG Protocol Scope 2 Guidance, 2015, with hourly factors";
}

/// The metrics of one run: first the metrics of [`METRICS`] in their order, then the registered metrics by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics(Vec<(&'static Definition, Value)>);

impl Metrics {
    /// Computes the metrics of finished accounts. Panics if a job is not counted exactly once.
    pub fn of(accounts: &RunAccount) -> Metrics {
        let (standings, survived) = count_standings(accounts);
        let mut rows = Rows::of(accounts);
        let placed = ratio(rows.waits.len() as u128, rows.count);
        let values =
            [standings.as_slice(), &rows.waits(), &rows.start_waits(), &[placed, rows.slowdown(), rows.makespan()]]
                .concat();
        let sum = |part: fn(&super::NodeAccount) -> u128| accounts.nodes.iter().map(part).sum::<u128>();
        let rest = [
            ratio(sum(|node| node.gpu_taken_ready), sum(|node| node.gpu_ready)),
            ratio(sum(|node| node.cpu_taken_ready), sum(|node| node.cpu_ready)),
            rows.rlscheduler_utilization(accounts),
            Value::Count(accounts.retries),
            Value::Count(accounts.outside.commits),
            Value::Count(accounts.deadlines_expired),
            Value::Count(accounts.safety_broken),
            Value::Count(accounts.outside.decisions),
            Value::Count(accounts.policies_fired),
            Value::Count(accounts.policies_warned),
            Value::Count(accounts.instances_made),
            Value::Count(accounts.instances_taken),
            instance_hours(accounts),
            Value::Count(accounts.instances_most.0),
            Value::Count(accounts.instances_most.1),
            cost(accounts),
        ];
        let rest =
            [rest.as_slice(), &rows.of_jobs_and_users(), &of_gpus(accounts), &of_random_faults(accounts, survived)]
                .concat();
        let rest = [rest.as_slice(), &of_requests(accounts), &of_months(accounts)].concat();
        let values = [values.as_slice(), &rest].concat();
        assert_eq!(values.len(), METRICS.len(), "a value for each metric");
        Metrics(METRICS.iter().zip(values).chain(own_values(accounts)).collect())
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        self.iter().find(|(definition, _)| definition.name == name).map(|(_, value)| value)
    }

    pub fn count(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(Value::Count(count)) => count,
            other => panic!("{name} is {other:?}, not a count"),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static Definition, Value)> + '_ {
        self.0.iter().copied()
    }
}

/// The numbers of jobs: submitted, ended by each outcome, running, and waiting. The first is the sum of the others.
/// Also returns the number of failures after which the job still completed.
fn count_standings(accounts: &RunAccount) -> ([Value; 10], Value) {
    let (mut all, mut counted) = (Accounts::default(), Accounts::default());
    let mut survived = 0;
    for job in accounts.job_rows() {
        all.submitted += 1;
        all.add(job.standing);
        if job.submitted >= accounts.warm_up {
            counted.submitted += 1;
            counted.add(job.standing);
            let survives = match job.standing {
                Standing::Ended(outcome) => outcome == Outcome::Completed,
                Standing::Running => true,
                Standing::Waiting => false,
            };
            survived += if survives { job.failures } else { 0 };
        }
    }
    assert_eq!(all.checked().outcomes, accounts.ended, "each ended job has one record of its end");
    let Accounts { submitted, outcomes, running, waiting } = counted.checked();
    let [completed, failed, cancelled, lost, never_fits, expired, refused] = outcomes;
    let counts = [submitted, completed, failed, cancelled, lost, never_fits, expired, refused, running, waiting];
    (counts.map(Value::Count), Value::Count(survived))
}

/// The values of all replicas that metrics use, collected in one pass.
#[derive(Default)]
struct Rows<'a> {
    /// The number of replicas, without those that came when the run was stopped.
    count: u128,
    /// The time until the first placement of each placed replica, in nanoseconds.
    waits: Vec<u64>,
    /// The time until the first start of each started replica, in nanoseconds.
    start_waits: Vec<u64>,
    /// The time until the end of each completed replica, in nanoseconds.
    turnarounds: Vec<u64>,
    /// The bounded slowdown of each completed replica.
    slowdowns: Vec<f64>,
    users: Users<'a>,
    first_submitted: Option<SimTime>,
    last_started: Option<SimTime>,
    last_ended: Option<SimTime>,
    /// The work of completed replicas, in nanoseconds times thousandths of a core.
    work: u128,
}

impl<'a> Rows<'a> {
    fn of(accounts: &'a RunAccount) -> Rows<'a> {
        let mut rows = Rows::default();
        accounts.each_row(|replica| {
            rows.count += u128::from(!accounts.comes_at_the_end(&replica));
            rows.add(replica);
        });
        rows
    }

    fn add(&mut self, replica: Row<'a>) {
        self.waits.extend(replica.placed.map(|at| at.since(replica.wanted).as_nanos()));
        self.start_waits.extend(replica.started.map(|at| at.since(replica.wanted).as_nanos()));
        self.first_submitted = Some(self.first_submitted.map_or(replica.submitted, |at| at.min(replica.submitted)));
        self.last_started = self.last_started.max(replica.last_started);
        self.last_ended = self.last_ended.max(replica.ended);
        let (Some(Outcome::Completed), Some(ended)) = (replica.outcome, replica.ended) else { return };
        let turnaround = ended.since(replica.wanted);
        self.turnarounds.push(turnaround.as_nanos());
        let Some(started) = replica.last_started else { return };
        let run = ended.since(started);
        let slowdown = (turnaround.as_secs_f64() / run.max(SLOWDOWN_BOUND).as_secs_f64()).max(1.0);
        self.slowdowns.push(slowdown);
        if let Some(user) = replica.user {
            self.users.add(user, slowdown);
        }
        self.work += u128::from(run.as_nanos()) * replica.cpu;
    }

    fn waits(&self) -> [Value; 4] {
        [Function::Mean, Function::Quantile(500), Function::Quantile(950), Function::Max]
            .map(|function| of_times(function, &self.waits))
    }

    fn start_waits(&self) -> [Value; 2] {
        [Function::Mean, Function::Quantile(950)].map(|function| of_times(function, &self.start_waits))
    }

    /// The mean bounded slowdown. Sums are in the order of the replicas, so that the result is always the same.
    fn slowdown(&self) -> Value {
        let sum: f64 = self.slowdowns.iter().fold(0.0, |sum, slowdown| sum + slowdown);
        if self.slowdowns.is_empty() { Value::Undefined } else { Value::Ratio(sum / self.slowdowns.len() as f64) }
    }

    fn makespan(&self) -> Value {
        let ends = self.first_submitted.zip(self.last_ended);
        ends.map_or(Value::Undefined, |(first, last)| Value::Time(last.since(first)))
    }

    fn rlscheduler_utilization(&self, accounts: &RunAccount) -> Value {
        let Some((first, last)) = self.first_submitted.zip(self.last_started) else { return Value::Undefined };
        let existed = accounts.nodes.iter().filter(|node| !accounts.is_made(node) || node.there_ns > 0);
        let cpu: u128 = existed.map(|node| u128::from(node.spec.shape.cpu.get())).sum();
        ratio(self.work, u128::from(last.since(first).as_nanos()) * cpu)
    }

    /// Mean and p95 turnaround, p95 slowdown, and fairness between users.
    fn of_jobs_and_users(&mut self) -> [Value; 4] {
        let (mean, late) = (Function::Mean, Function::Quantile(950));
        let slowdown = match self.slowdowns.is_empty() {
            true => Value::Undefined,
            false => Value::Ratio(late.of_ratios(self.slowdowns.iter().copied())),
        };
        [of_times(mean, &self.turnarounds), of_times(late, &self.turnarounds), slowdown, self.users.fairness()]
    }
}

fn of_times(function: Function, nanos: &[u64]) -> Value {
    if nanos.is_empty() {
        return Value::Undefined;
    }
    let nanos = function.of_whole(nanos.iter().copied());
    Value::Time(SimDuration::from_nanos(u64::try_from(nanos).expect("no more than the longest")))
}

/// The sum and the number of slowdowns for each user. Sums are in the order of the replicas.
#[derive(Default)]
struct Users<'a> {
    sums: Vec<(&'a str, f64, u64)>,
    /// Positions in `sums` by the address of a user's name. Usually all jobs of a user share one address.
    places: HashMap<*const u8, usize, FixedState>,
}

impl<'a> Users<'a> {
    fn add(&mut self, user: &'a str, slowdown: f64) {
        let place = *self.places.entry(user.as_ptr()).or_insert_with(|| {
            self.sums.iter().position(|(name, ..)| *name == user).unwrap_or_else(|| {
                self.sums.push((user, 0.0, 0));
                self.sums.len() - 1
            })
        });
        let (_, sum, count) = &mut self.sums[place];
        *sum += slowdown;
        *count += 1;
    }

    /// Jain's fairness index (Σx)² / (n Σx²) over the users' mean slowdowns. Ignores jobs without a user.
    fn fairness(&mut self) -> Value {
        // Sum in the order of user names, so that the result is always the same.
        self.sums.sort_unstable_by_key(|(user, ..)| *user);
        let means = || self.sums.iter().map(|(_, sum, count)| sum / *count as f64);
        let (sum, squares) = (means().sum::<f64>(), means().map(|mean| mean * mean).sum::<f64>());
        let count = self.sums.len();
        if count == 0 { Value::Undefined } else { Value::Ratio(sum * sum / (count as f64 * squares)) }
    }
}

/// The nearest-rank quantile of values in ascending order: rank ⌈p·n⌉, counted from 1. Panics if there are no values.
pub fn quantile(ascending: &[SimDuration], percent: usize) -> SimDuration {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending[rank - 1]
}

/// The percentiles of waits that are kept for each run.
pub const WAIT_PERCENTS: [u8; 101] = {
    let (mut all, mut percent) = ([0; 101], 0);
    while percent < all.len() {
        all[percent] = percent as u8;
        percent += 1;
    }
    all
};

/// The waits in seconds at the percentiles of [`WAIT_PERCENTS`]. Replicas that were never placed count as the longest
/// waits. If a percentile falls on such a replica, its value is `None`.
pub fn wait_quantiles(accounts: &RunAccount) -> Vec<Option<f64>> {
    let mut waits: Vec<SimDuration> = Vec::new();
    let wait = |replica: Row<'_>| replica.placed.map_or(SimDuration::MAX, |at| at.since(replica.wanted));
    accounts.each_row(|replica| waits.push(wait(replica)));
    if planted!(WaitQuantilesOfPlacedOnly) {
        waits.retain(|wait| *wait < SimDuration::MAX);
    }
    waits.sort_unstable();
    let at = |percent: &u8| match quantile(&waits, usize::from(*percent)) {
        SimDuration::MAX => None,
        wait => Some(wait.as_secs_f64()),
    };
    if waits.is_empty() { vec![None; WAIT_PERCENTS.len()] } else { WAIT_PERCENTS.iter().map(at).collect() }
}

/// The metrics of GPUs: hours, utilization, idle time, energy and fragmentation.
fn of_gpus(accounts: &RunAccount) -> [Value; 6] {
    let taken: u128 = accounts.nodes.iter().map(|node| node.gpu_taken).sum();
    let has_gpus = accounts.nodes.iter().any(|node| node.gpu_count() > 0);
    let usage = &accounts.usage;
    let price = usage.idle_price().map(|price| price / (NANOS_PER_HOUR * 1000));
    let price = price.map(|price| Value::Money(Money::new(u64::try_from(price).unwrap_or(u64::MAX))));
    [
        if has_gpus { ratio(taken, NANOS_PER_HOUR * 1000) } else { Value::Undefined },
        ratio(usage.used, usage.known * 1000),
        if usage.known == 0 { Value::Undefined } else { ratio(usage.idle, NANOS_PER_HOUR * 1000) },
        price.unwrap_or(Value::Undefined),
        energy(accounts),
        accounts.fragmentation().map_or(Value::Undefined, |(useless, free)| ratio(useless, free)),
    ]
}

/// The metrics of preemptions, survived failures and utilization policies.
fn of_random_faults(accounts: &RunAccount, survived: Value) -> [Value; 5] {
    let saved = &accounts.saved;
    let hours = |time: u128| match saved.ended == saved.unknown {
        true => Value::Undefined,
        false => ratio(time, NANOS_PER_HOUR * 1000),
    };
    [Value::Count(accounts.preemptions), survived, Value::Count(saved.ended), hours(saved.idle), hours(saved.busy)]
}

/// The metrics of requests to services for language models.
fn of_requests(accounts: &RunAccount) -> [Value; 16] {
    let mut all = ServiceAccount::default();
    accounts.services.values().for_each(|service| all.merge(service));
    let total = &all.total;
    let at = |series, permille| Value::from(all.of(Function::Quantile(permille), series));
    let ([ttft_p50, ttft_p95, ttft_p99], [tpot_p50, tpot_p95, tpot_p99], [e2e_p50, e2e_p95, e2e_p99]) = (
        [500, 950, 990].map(|permille| at(RequestSeries::Ttft, permille)),
        [500, 950, 990].map(|permille| at(RequestSeries::Tpot, permille)),
        [500, 950, 990].map(|permille| at(RequestSeries::Latency, permille)),
    );
    let tokens = u128::from(total.output_tokens);
    let length = accounts.now.checked_since(accounts.warm_up).unwrap_or_default();
    let per_million = match cost(accounts) {
        Value::Money(cost) => (u128::from(cost.get()) * 1_000_000).checked_div(tokens),
        _ => None,
    };
    let per_million = per_million.map(|price| Value::Money(Money::new(u64::try_from(price).unwrap_or(u64::MAX))));
    [
        Value::Count(total.arrived),
        Value::Count(all.unserved()),
        Value::Count(total.without_replica),
        Value::Count(total.repeated),
        ttft_p50,
        ttft_p95,
        ttft_p99,
        tpot_p50,
        tpot_p95,
        tpot_p99,
        e2e_p50,
        e2e_p95,
        e2e_p99,
        Value::Count(total.output_tokens),
        if tokens == 0 { Value::Undefined } else { ratio(tokens * 1_000_000_000, u128::from(length.as_nanos())) },
        per_million.unwrap_or(Value::Undefined),
    ]
}

/// The hours of cloud instances. Undefined if no fleet creates instances.
fn instance_hours(accounts: &RunAccount) -> Value {
    let mut of_clouds = accounts.nodes.iter().filter(|node| accounts.is_made(node)).peekable();
    match of_clouds.peek() {
        None => Value::Undefined,
        Some(_) => ratio(of_clouds.map(|node| node.there_ns).sum(), NANOS_PER_HOUR),
    }
}

/// The cost in millionths. Each node's cost is rounded down, and the sum is limited to the largest `Money`.
fn cost(accounts: &RunAccount) -> Value {
    cost_millionths(accounts).map_or(Value::Undefined, money)
}

fn money(millionths: u128) -> Value {
    Value::Money(Money::new(u64::try_from(millionths).unwrap_or(u64::MAX)))
}

/// The time that counts in metrics, in nanoseconds.
fn measured_ns(accounts: &RunAccount) -> u128 {
    u128::from(accounts.now.checked_since(accounts.warm_up).unwrap_or_default().as_nanos())
}

fn cost_millionths(accounts: &RunAccount) -> Option<u128> {
    let of = |node: &super::NodeAccount| {
        let price = node.spec.shape.price_per_hour?;
        let there_ns = if planted!(CostOnlyWhileReady) { node.ready_ns } else { node.there_ns };
        let paid_ns = if node.spec.shape.payment.is_some() { measured_ns(accounts) } else { there_ns };
        Some(paid_ns * u128::from(price.get()) / NANOS_PER_HOUR)
    };
    let costs: Vec<u128> = accounts.nodes.iter().filter_map(of).collect();
    if costs.is_empty() {
        None
    } else {
        Some(costs.iter().sum::<u128>().saturating_add(electricity_millionths(accounts)))
    }
}

/// The price of the electricity of all bought nodes, in millionths.
fn electricity_millionths(accounts: &RunAccount) -> u128 {
    let Some(electricity) = accounts.electricity.as_deref() else { return 0 };
    let is_bought = |node: &&super::NodeAccount| node.spec.shape.payment.is_some_and(Payment::is_purchase);
    let drawn: u128 = accounts.nodes.iter().filter(is_bought).filter_map(drawn_without_gpus).sum();
    let site = (drawn + accounts.usage.drawn_bought / 1_000_000) * u128::from(electricity.pue.get()) / 1000;
    // First milliwatt hours, then millionths, so that only absurd products exceed 128 bits.
    let price = electricity.price_per_kwh.unwrap_or_default();
    let millionths = (site / (NANOS_PER_HOUR / 1_000_000)).saturating_mul(u128::from(price.get()));
    millionths / (MILLIWATTS_PER_KILOWATT * 1_000_000)
}

/// The cost of a month, and the emissions.
fn of_months(accounts: &RunAccount) -> [Value; 2] {
    let measured = measured_ns(accounts);
    let month = cost_millionths(accounts).filter(|_| measured > 0);
    [
        month.map_or(Value::Undefined, |cost| money(cost.saturating_mul(HOURS_PER_MONTH * NANOS_PER_HOUR) / measured)),
        carbon(accounts),
    ]
}

/// The emissions in kg.
fn carbon(accounts: &RunAccount) -> Value {
    let Some(electricity) = accounts.electricity.as_deref().filter(|electricity| !electricity.carbon.is_empty()) else {
        return Value::Undefined;
    };
    let of = |node: &super::NodeAccount| {
        let power = node.spec.shape.power?;
        let (idle, more) = (u128::from(power.idle.get()), u128::from((power.busy - power.idle).get()));
        let capacity = u128::from(node.spec.shape.cpu_capacity().get()).max(1);
        let taken = if node.gpu_count() == 0 { node.cpu_emitted } else { 0 };
        Some(node.there_emitted.saturating_mul(idle).saturating_add((taken / capacity).saturating_mul(more)))
    };
    let emitted: Vec<u128> = accounts.nodes.iter().filter_map(of).collect();
    if emitted.is_empty() {
        return Value::Undefined;
    }
    let emitted = emitted.into_iter().fold(accounts.usage.emitted, u128::saturating_add);
    let whole = (emitted / 1000).saturating_mul(u128::from(electricity.pue.get()));
    // Milliwatts times nanoseconds times milligrams per kWh.
    ratio(whole, MILLIWATTS_PER_KILOWATT * NANOS_PER_HOUR * 1_000_000)
}

/// The energy of a node with a stated power, without what its GPUs draw above rest, in milliwatts times nanoseconds.
fn drawn_without_gpus(node: &super::NodeAccount) -> Option<u128> {
    let power = node.spec.shape.power?;
    let (idle, more) = (u128::from(power.idle.get()), u128::from((power.busy - power.idle).get()));
    let capacity = u128::from(node.spec.shape.cpu_capacity().get()).max(1);
    // For nodes with GPUs, the energy above idle is counted with the runs that use the GPUs.
    let taken = if node.gpu_count() == 0 { node.cpu_taken_total } else { 0 };
    let there_ns = if planted!(EnergyOnlyWhileReady) { node.ready_ns } else { node.there_ns };
    Some(there_ns * idle + taken / capacity * more + taken % capacity * more / capacity)
}

/// The energy of all nodes that state their power draw.
fn energy(accounts: &RunAccount) -> Value {
    let drawn: Vec<u128> = accounts.nodes.iter().filter_map(drawn_without_gpus).collect();
    // `drawn` has two factors of a thousand: thousandths of a GPU, and thousandths of its use.
    let whole = drawn.iter().sum::<u128>() + accounts.usage.drawn / 1_000_000;
    if drawn.is_empty() { Value::Undefined } else { ratio(whole, MILLIWATTS_PER_KILOWATT * NANOS_PER_HOUR) }
}

const MILLIWATTS_PER_KILOWATT: u128 = 1_000_000;
/// A twelfth of the 8,760 hours of a year of 365 days.
const HOURS_PER_MONTH: u128 = 730;
const NANOS_PER_HOUR: u128 = 3_600_000_000_000;

fn ratio(part: u128, whole: u128) -> Value {
    // The integrals are divided only here. Both are far below 2^127, and a double keeps 15 digits of each.
    if whole == 0 { Value::Undefined } else { Value::Ratio(part as f64 / whole as f64) }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Count(count) => serializer.serialize_u64(*count),
            Value::Time(time) => serializer.serialize_f64(time.as_secs_f64()),
            Value::Ratio(ratio) => serializer.serialize_f64(*ratio),
            Value::Money(money) => serializer.serialize_f64(money.get() as f64 / 1e6),
            Value::Undefined => serializer.serialize_none(),
        }
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (definition, value) in self.iter() {
            map.serialize_entry(definition.name, &value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_value_of_its_nearest_rank() {
        // A common example of the nearest-rank method: 15, 20, 35, 40, 50.
        let values = [15, 20, 35, 40, 50].map(SimDuration::from_secs);
        for (percent, seconds) in [(5, 15), (30, 20), (40, 20), (50, 35), (100, 50)] {
            assert_eq!(quantile(&values, percent), SimDuration::from_secs(seconds), "p{percent}");
        }
    }
}
