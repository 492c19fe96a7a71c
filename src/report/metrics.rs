//! Metrics: what they are called, what they mean, and their values.
//!
//! Quantiles are by nearest rank: the smallest value that at least p of all do not exceed (definition 1 of Hyndman and
//! Fan, Sample Quantiles in Statistical Packages, The American Statistician 50(4), 1996), so each is a value that occurred.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::account::RunAccount;
use crate::engine::Accounts;
use crate::event::Outcome;
use crate::units::{Money, SimDuration};

/// A metric's name, with its unit last where it has one, and what it means.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub meaning: &'static str,
}

macro_rules! metrics {
    ($($name:literal: $meaning:literal;)*) => {
        /// All metrics, in the order in which they are written.
        pub const METRICS: &[Definition] = &[$(Definition { name: $name, meaning: $meaning },)*];
    };
}

metrics! {
    "jobs_submitted": "jobs submitted";
    "jobs_completed": "jobs that ended for good by running to their end";
    "jobs_failed": "jobs that ended for good by failing";
    "jobs_cancelled": "jobs that were cancelled";
    "jobs_lost": "jobs that ended for good because a node or GPU was lost";
    "jobs_never_fits": "jobs ended because they fit no node of the fleet, however empty";
    "jobs_expired": "jobs ended by a limit: of time, of retries, of patience";
    "jobs_refused": "jobs turned away, because what they picked could not be selected or because they fitted nowhere and do not wait";
    "jobs_running": "jobs of which a replica had a place when the run ended";
    "jobs_waiting": "jobs of which no replica had a place when the run ended";
    "queue_wait_mean_seconds": "mean time from a job's submission (or its scaling up) to the first placement of each of its replicas that had one";
    "queue_wait_p50_seconds": "median of the same";
    "queue_wait_p95_seconds": "95th percentile of the same";
    "queue_wait_max_seconds": "longest of the same";
    "placed": "part of all replicas that had a place at least once; waits are of these alone";
    "bounded_slowdown_mean": "mean over completed replicas of max(1, (end - submission) / max(run of the last attempt, 10 s)) (Feitelson, Metrics for Parallel Job Scheduling and Their Convergence, JSSPP 2001)";
    "makespan_seconds": "from the first submission to the last end of a replica";
    "gpu_allocated": "part of the ready GPU time that was taken: the integral of what was taken of usable GPUs on ready nodes, over the integral of all of them; foreign use is capacity not taken";
    "cpu_allocated": "the same for the CPU of ready nodes";
    "rlscheduler_utilization": "the CPU time of all completed runs over that of all nodes from the first submission to the last start; what runs beyond the last start counts too, so it may exceed the whole (as RLScheduler, cd433e3, has it)";
    "retries": "attempts after a replica's first";
    "commits_refused": "placements that were chosen and could not be committed";
    "deadlines_expired": "states that lasted longer than their deadline";
    "safety_broken": "commits that broke safety, under a profile that does not prevent it";
    "policies_fired": "utilization policies that held, and ended a run or were only observed";
    "policies_warned": "utilization policies that held, and warned";
    "instances_made": "instances that were asked of clouds";
    "instances_taken": "instances that were up and that their clouds took away, or that were lost";
    "instance_hours": "hours for which instances of fleets whose cloud makes them were there or on their way, all together";
    "cost": "price per hour of each node that has one, times the hours for which it was not gone";
}

/// Runs shorter than this count as this long in a slowdown (Feitelson 2001 uses the same 10 s).
pub(super) const SLOWDOWN_BOUND: SimDuration = SimDuration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    Time(SimDuration),
    Ratio(f64),
    Money(Money),
    /// Nothing to take it of: no replica was placed, no GPU was ready, no node has a price.
    Undefined,
}

/// The metrics of one run, in the order of [`METRICS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics(Vec<Value>);

impl Metrics {
    /// Of books that are finished. Asserts that every job is accounted for once.
    pub fn of(accounts: &RunAccount) -> Metrics {
        let standings = count_standings(accounts);
        let waits = Waits::of(accounts);
        let placed = ratio(waits.0.len() as u128, accounts.replicas().count() as u128);
        let values =
            [standings.as_slice(), &waits.values(), &[placed, slowdown(accounts), makespan(accounts)]].concat();
        let sum = |part: fn(&super::NodeAccount) -> u128| accounts.nodes.iter().map(part).sum::<u128>();
        let rest = [
            ratio(sum(|node| node.gpu_taken_ready), sum(|node| node.gpu_ready)),
            ratio(sum(|node| node.cpu_taken_ready), sum(|node| node.cpu_ready)),
            rlscheduler_utilization(accounts),
            Value::Count(accounts.retries),
            Value::Count(accounts.commits_refused),
            Value::Count(accounts.deadlines_expired),
            Value::Count(accounts.safety_broken),
            Value::Count(accounts.policies_fired),
            Value::Count(accounts.policies_warned),
            Value::Count(accounts.instances_made),
            Value::Count(accounts.instances_taken),
            instance_hours(accounts),
            cost(accounts),
        ];
        let metrics = Metrics([values.as_slice(), &rest].concat());
        assert_eq!(metrics.0.len(), METRICS.len(), "a value for each metric");
        metrics
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
        METRICS.iter().zip(self.0.iter().copied())
    }
}

/// Submitted, ended by each outcome, running, waiting; submitted is the sum of the others.
fn count_standings(accounts: &RunAccount) -> [Value; 10] {
    let mut counted = Accounts { submitted: accounts.jobs.len() as u64, ..Accounts::default() };
    accounts.jobs.iter().for_each(|job| counted.add(job.standing()));
    let Accounts { submitted, outcomes, running, waiting } = counted.checked();
    assert_eq!(outcomes, accounts.ended, "each ended job has one record of its end");
    let [completed, failed, cancelled, lost, never_fits, expired, refused] = outcomes;
    [submitted, completed, failed, cancelled, lost, never_fits, expired, refused, running, waiting].map(Value::Count)
}

/// Queue waits in ascending order.
struct Waits(Vec<SimDuration>);

impl Waits {
    fn of(accounts: &RunAccount) -> Waits {
        let wait = |replica: &super::ReplicaAccount| replica.placed.map(|at| at.since(replica.wanted));
        let mut waits: Vec<SimDuration> = accounts.replicas().filter_map(|(_, _, replica)| wait(replica)).collect();
        waits.sort_unstable();
        Waits(waits)
    }

    fn values(&self) -> [Value; 4] {
        let Some(longest) = self.0.last() else { return [Value::Undefined; 4] };
        let sum: u128 = self.0.iter().map(|wait| u128::from(wait.as_nanos())).sum();
        let mean = u64::try_from(sum / self.0.len() as u128).expect("a mean is no more than the longest");
        [SimDuration::from_nanos(mean), quantile(&self.0, 50), quantile(&self.0, 95), *longest].map(Value::Time)
    }
}

/// The nearest-rank quantile of ascending values, of which there must be one: rank ⌈p·n⌉, counted from 1.
pub(super) fn quantile(ascending: &[SimDuration], percent: usize) -> SimDuration {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending[rank - 1]
}

fn slowdown(accounts: &RunAccount) -> Value {
    let (mut sum, mut count) = (0.0, 0u64);
    for (_, _, replica) in accounts.replicas() {
        let (Some(Outcome::Completed), Some(started), Some(ended)) =
            (replica.outcome, replica.last_started, replica.ended)
        else {
            continue;
        };
        let run = ended.since(started).max(SLOWDOWN_BOUND);
        sum += (ended.since(replica.wanted).as_secs_f64() / run.as_secs_f64()).max(1.0);
        count += 1;
    }
    if count == 0 { Value::Undefined } else { Value::Ratio(sum / count as f64) }
}

fn makespan(accounts: &RunAccount) -> Value {
    let first = accounts.jobs.iter().map(|job| job.submitted).min();
    let last = accounts.replicas().filter_map(|(_, _, replica)| replica.ended).max();
    first.zip(last).map_or(Value::Undefined, |(first, last)| Value::Time(last.since(first)))
}

fn rlscheduler_utilization(accounts: &RunAccount) -> Value {
    let first = accounts.jobs.iter().map(|job| job.submitted).min();
    let last = accounts.replicas().filter_map(|(_, _, replica)| replica.last_started).max();
    let Some((first, last)) = first.zip(last) else { return Value::Undefined };
    let mut work = 0;
    for (_, job, replica) in accounts.replicas() {
        let (Some(Outcome::Completed), Some(started), Some(ended)) =
            (replica.outcome, replica.last_started, replica.ended)
        else {
            continue;
        };
        let cpu = u128::from(job.spec.demand.task.cpu.get()) * u128::from(job.spec.demand.tasks);
        work += u128::from(ended.since(started).as_nanos()) * cpu;
    }
    let cpu: u128 = accounts.nodes.iter().map(|node| u128::from(node.spec.shape.cpu.get())).sum();
    ratio(work, u128::from(last.since(first).as_nanos()) * cpu)
}

/// Undefined where no fleet has instances made.
fn instance_hours(accounts: &RunAccount) -> Value {
    let mut of_clouds = accounts.nodes.iter().filter(|node| accounts.is_made(node)).peekable();
    match of_clouds.peek() {
        None => Value::Undefined,
        Some(_) => ratio(of_clouds.map(|node| node.there_ns).sum(), NANOS_PER_HOUR),
    }
}

/// To the millionth, each node's rounded down; at most what a `Money` holds.
fn cost(accounts: &RunAccount) -> Value {
    let of = |node: &super::NodeAccount| {
        let price = node.spec.shape.price_per_hour?;
        Some(node.there_ns * u128::from(price.get()) / NANOS_PER_HOUR)
    };
    let costs: Vec<u128> = accounts.nodes.iter().filter_map(of).collect();
    let sum = u64::try_from(costs.iter().sum::<u128>()).unwrap_or(u64::MAX);
    if costs.is_empty() { Value::Undefined } else { Value::Money(Money::new(sum)) }
}

const NANOS_PER_HOUR: u128 = 3_600_000_000_000;

fn ratio(part: u128, whole: u128) -> Value {
    // The only division of the integrals; both are far below 2^127, and a double keeps 15 digits of each.
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
        // The example of the nearest-rank method: 15, 20, 35, 40, 50.
        let values = [15, 20, 35, 40, 50].map(SimDuration::from_secs);
        for (percent, seconds) in [(5, 15), (30, 20), (40, 20), (50, 35), (100, 50)] {
            assert_eq!(quantile(&values, percent), SimDuration::from_secs(seconds), "p{percent}");
        }
    }
}
