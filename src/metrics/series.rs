//! Series: one value for each replica of a run, and functions that aggregate these values.

use super::account::{RunAccount, RunRange};
use super::finished::Row;
use super::value::{Definition, SLOWDOWN_BOUND, Value};
use dryrack_planted::planted;
use dryrack_units::SimDuration;

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Time,
    /// A proportion of a whole.
    Part,
    Number,
}

/// A value that is computed for each replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    QueueWait,
    StartWait,
    RunTime,
    Turnaround,
    BoundedSlowdown,
    Attempts,
}

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Mean,
    Min,
    Max,
    Sum,
    /// The quantile by nearest rank, in thousandths. For example, 950 is p95, and 999 is p99.9.
    Quantile(u16),
}

impl Series {
    /// All series, each with its name and its meaning for one replica.
    pub const ALL: [(Series, &'static str, &'static str); 6] = [
        (
            Series::QueueWait,
            "queue_wait",
            "from the job's submission, or the scale-up that added the replica, to its first placement",
        ),
        (
            Series::StartWait,
            "start_wait",
            "from the job's submission, or the scale-up that added the replica, to its first start",
        ),
        (Series::RunTime, "run_time", "the last attempt of a completed replica, from its start to its end"),
        (
            Series::Turnaround,
            "turnaround",
            "from the job's submission, or the scale-up that added the replica, to its end if it completed",
        ),
        (
            Series::BoundedSlowdown,
            "bounded_slowdown",
            "of a completed replica, max(1, turnaround / max(run_time, 10 s))",
        ),
        (Series::Attempts, "attempts", "attempts so far, the first among them"),
    ];

    pub fn name(self) -> &'static str {
        Series::ALL.iter().find(|(series, ..)| *series == self).expect("every series has a row").1
    }

    pub fn unit(self) -> Unit {
        match self {
            Series::QueueWait | Series::StartWait | Series::RunTime | Series::Turnaround => Unit::Time,
            Series::BoundedSlowdown => Unit::Number,
            Series::Attempts => Unit::Count,
        }
    }

    /// A phrase that says why replicas have no value, such as "were never placed".
    pub fn lack(self) -> &'static str {
        match self {
            Series::QueueWait => "were never placed",
            Series::StartWait => "never started",
            Series::RunTime | Series::Turnaround | Series::BoundedSlowdown => "did not complete",
            Series::Attempts => "have no attempt",
        }
    }

    /// The value of a replica. Its time counts from the time from which it should run.
    pub fn of(self, replica: &Row<'_>) -> Option<Value> {
        let since = replica.wanted;
        let completed = replica.completed();
        let run = completed.zip(replica.last_started).map(|(ended, started)| ended.since(started));
        let turnaround = completed.map(|ended| ended.since(since));
        match self {
            Series::QueueWait => replica.placed.map(|at| Value::Time(at.since(since))),
            Series::StartWait => replica.started.map(|at| Value::Time(at.since(since))),
            Series::RunTime => run.map(Value::Time),
            Series::Turnaround => turnaround.map(Value::Time),
            Series::BoundedSlowdown => {
                run.zip(turnaround).map(|(run, turnaround)| Value::Ratio(bounded_slowdown(turnaround, run)))
            }
            Series::Attempts => Some(Value::Count(u64::from(replica.attempt))),
        }
    }

    /// The least that the value of a replica can become if what it measures goes on at the end of the run. `None` if it is over, if the replica has ended, if it can never be placed, or if it runs until it is stopped.
    pub fn at_least(self, replica: &Row<'_>, accounts: &RunAccount) -> Option<Value> {
        let since = replica.wanted;
        if replica.outcome.is_some() || replica.is_unplaceable {
            return None;
        }
        let so_far = accounts.now.since(since);
        if let Series::QueueWait | Series::StartWait = self {
            let is_over = if self == Series::QueueWait { replica.placed.is_some() } else { replica.started.is_some() };
            return (!is_over).then_some(Value::Time(so_far));
        }
        let RunRange { least, most } = accounts.run_range(replica)?;
        let turnaround = || accounts.earliest_end(replica, least).since(since);
        match self {
            Series::RunTime => {
                let runs_for = replica.last_started.map_or(SimDuration::ZERO, |at| accounts.now.since(at));
                Some(Value::Time(runs_for.max(least)))
            }
            Series::Turnaround => Some(Value::Time(turnaround())),
            Series::BoundedSlowdown => {
                Some(Value::Ratio(most.map_or(1.0, |most| bounded_slowdown(turnaround(), most))))
            }
            Series::QueueWait | Series::StartWait | Series::Attempts => None,
        }
    }

    /// Whether it measures the time until a replica is placed or starts.
    pub fn is_wait(self) -> bool {
        matches!(self, Series::QueueWait | Series::StartWait)
    }

    /// What the replicas of which the time goes on have not done by the end of the run, such as "still waited".
    pub fn goes_on(self) -> &'static str {
        match self {
            Series::QueueWait | Series::StartWait => "still waited",
            Series::RunTime | Series::Turnaround | Series::BoundedSlowdown | Series::Attempts => "had not ended",
        }
    }

    /// Whether the value of a replica that can never run is infinite.
    pub fn ends_with_a_run(self) -> bool {
        matches!(self, Series::QueueWait | Series::StartWait | Series::Turnaround | Series::BoundedSlowdown)
    }

    /// The values of the replicas for which `wanted` returns true, and the number of such replicas without a value.
    pub fn values(self, accounts: &RunAccount, mut wanted: impl FnMut(&Row<'_>) -> bool) -> (Vec<Value>, usize) {
        let (mut values, mut without) = (Vec::new(), 0);
        accounts.each_row(|replica| {
            if wanted(&replica) {
                match self.of(&replica) {
                    Some(value) => values.push(value),
                    None => without += 1,
                }
            }
        });
        (values, without)
    }
}

fn bounded_slowdown(turnaround: SimDuration, run: SimDuration) -> f64 {
    let bound = if planted!(SlowdownOfShortJobsIsUnbounded) { SimDuration::from_secs(1) } else { SLOWDOWN_BOUND };
    (turnaround.as_secs_f64() / run.max(bound).as_secs_f64()).max(1.0)
}

impl Function {
    /// Aggregates values that all have the same unit. The result is undefined if there are no values.
    pub fn of(self, values: &[Value]) -> Value {
        match values.first() {
            None | Some(Value::Undefined) => Value::Undefined,
            Some(Value::Ratio(_)) => Value::Ratio(self.of_ratios(values.iter().map(|value| match value {
                Value::Ratio(ratio) => *ratio,
                other => panic!("{other:?} among ratios"),
            }))),
            Some(Value::Money(_)) => panic!("no series is of money"),
            Some(Value::Time(_)) => {
                let nanos = values.iter().map(|value| match value {
                    Value::Time(time) => time.as_nanos(),
                    other => panic!("{other:?} among times"),
                });
                let nanos = self.of_whole(nanos).min(u128::from(u64::MAX));
                Value::Time(SimDuration::from_nanos(u64::try_from(nanos).expect("bounded by u64::MAX")))
            }
            Some(Value::Count(_)) => {
                let counts: Vec<u64> = (values.iter())
                    .map(|value| match value {
                        Value::Count(count) => *count,
                        other => panic!("{other:?} among counts"),
                    })
                    .collect();
                // The mean of counts may be a fraction.
                if self == Function::Mean {
                    let sum: u64 = counts.iter().sum();
                    return Value::Ratio(sum as f64 / counts.len() as f64);
                }
                let count = self.of_whole(counts.into_iter()).min(u128::from(u64::MAX));
                Value::Count(u64::try_from(count).expect("bounded by u64::MAX"))
            }
        }
    }

    pub(super) fn of_whole(self, values: impl Iterator<Item = u64>) -> u128 {
        let mut values: Vec<u64> = values.collect();
        let sum = |values: &[u64]| values.iter().map(|value| u128::from(*value)).sum::<u128>();
        let one = |value: Option<&u64>| u128::from(*value.expect("there is a value"));
        match self {
            Function::Mean => sum(&values) / values.len() as u128,
            Function::Sum => sum(&values),
            Function::Min => one(values.iter().min()),
            Function::Max => one(values.iter().max()),
            Function::Quantile(permille) => {
                let rank = rank(values.len(), permille);
                u128::from(*values.select_nth_unstable(rank).1)
            }
        }
    }

    pub(super) fn of_ratios(self, values: impl Iterator<Item = f64>) -> f64 {
        let mut values: Vec<f64> = values.collect();
        // Sum in ascending order, so that the result does not depend on the order of the values.
        let sum = |values: &mut [f64]| {
            values.sort_unstable_by(f64::total_cmp);
            values.iter().sum::<f64>()
        };
        let one = |values: &mut [f64], rank: usize| *values.select_nth_unstable_by(rank, f64::total_cmp).1;
        let count = values.len();
        match self {
            Function::Mean => sum(&mut values) / count as f64,
            Function::Sum => sum(&mut values),
            Function::Min => one(&mut values, 0),
            Function::Max => one(&mut values, count - 1),
            Function::Quantile(permille) => one(&mut values, rank(count, permille)),
        }
    }

    /// The name, such as `p95` or `mean`.
    pub fn name(self) -> String {
        match self {
            Function::Mean => "mean".to_string(),
            Function::Min => "min".to_string(),
            Function::Max => "max".to_string(),
            Function::Sum => "sum".to_string(),
            Function::Quantile(permille) if permille % 10 == 0 => format!("p{}", permille / 10),
            Function::Quantile(permille) => format!("p{}.{}", permille / 10, permille % 10),
        }
    }

    /// The unit of the result for values with the unit `of`.
    pub fn unit(self, of: Unit) -> Unit {
        match (self, of) {
            (Function::Mean, Unit::Count) => Unit::Number,
            (_, unit) => unit,
        }
    }
}

/// The index of the nearest rank ⌈p·n⌉, counted from 0.
fn rank(count: usize, permille: u16) -> usize {
    let rank = count * usize::from(permille);
    let rank = if planted!(QuantileRankIsRoundedDown) { rank / 1000 } else { rank.div_ceil(1000) };
    rank.max(1) - 1
}

impl Definition {
    /// The unit of the metric.
    pub fn unit(&self) -> Unit {
        match self.counts_in {
            "s" => Unit::Time,
            "part" => Unit::Part,
            "h" | "kWh" | "kg" | "ratio" | "price" => Unit::Number,
            "count" => Unit::Count,
            other => panic!("{} counts in {other}, which is no unit", self.name),
        }
    }

    /// The name in an expectation, such as `makespan` for `makespan_seconds`. It has no unit, because the compared
    /// value has one.
    pub fn short_name(&self) -> &'static str {
        self.name.strip_suffix("_seconds").unwrap_or(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{METRICS, Metrics};

    fn times(seconds: &[u64]) -> Vec<Value> {
        seconds.iter().map(|seconds| Value::Time(SimDuration::from_secs(*seconds))).collect()
    }

    #[test]
    fn many_values_become_one() {
        // A common example of the nearest-rank method, out of order: 15, 20, 35, 40, 50.
        let values = times(&[40, 15, 50, 20, 35]);
        let rows = [
            (Function::Mean, 32),
            (Function::Min, 15),
            (Function::Max, 50),
            (Function::Sum, 160),
            (Function::Quantile(50), 15),
            (Function::Quantile(300), 20),
            (Function::Quantile(400), 20),
            (Function::Quantile(500), 35),
            (Function::Quantile(999), 50),
            (Function::Quantile(1000), 50),
        ];
        for (function, seconds) in rows {
            assert_eq!(function.of(&values), Value::Time(SimDuration::from_secs(seconds)), "{function:?}");
        }
        assert_eq!(Function::Mean.of(&[Value::Count(1), Value::Count(2)]), Value::Ratio(1.5));
        assert_eq!(Function::Sum.of(&[Value::Count(1), Value::Count(2)]), Value::Count(3));
        assert_eq!(Function::Max.of(&[]), Value::Undefined);
    }

    #[test]
    fn the_value_of_each_metric_is_of_its_unit() {
        for (definition, value) in Metrics::of(&RunAccount::default()).iter() {
            let fits = match value {
                Value::Count(_) => definition.unit() == Unit::Count,
                Value::Time(_) | Value::Ratio(_) | Value::Money(_) | Value::Undefined => {
                    definition.unit() != Unit::Count
                }
            };
            assert!(fits, "{} is {value:?}", definition.name);
        }
        let short: std::collections::BTreeSet<_> = METRICS.iter().map(Definition::short_name).collect();
        assert_eq!(short.len(), METRICS.len(), "short names are still names");
    }
}
