//! Metrics held against their bounds.

use std::cmp::Ordering;

use super::expectation::{Bound, MetricCheck, Quantity, Restriction};
use crate::report::{Books, Row, Value};

/// Whether it holds, and what the value was.
pub(super) fn judge(check: &MetricCheck, books: &Books) -> (bool, String) {
    let accounts = books.accounts();
    let (value, name, rest) = match &check.quantity {
        Quantity::Run(definition) => {
            let value = books.metrics().get(definition.name).expect("every metric has a value");
            (value, definition.short_name().to_string(), String::new())
        }
        Quantity::AllocatedAt { percent } => {
            let value = accounts.load.allocated_at(*percent).map_or(Value::Undefined, Value::Ratio);
            (value, format!("gpu_allocated_at({percent}%)"), String::new())
        }
        Quantity::Of { function, series, of } => {
            let (values, without) = series.values(accounts, |replica| of.takes(replica));
            let rest = match without {
                0 => String::new(),
                1 => format!("; 1 more does not count, for it {}", series.lack().replacen("were", "was", 1)),
                more => format!("; {more} more do not count, for they {}", series.lack()),
            };
            let replicas = if values.len() == 1 { "replica" } else { "replicas" };
            let rest = format!(" over {} {replicas}{rest}", values.len());
            (function.of(&values), format!("{}({})", function.name(), series.name()), rest)
        }
    };
    match compare(value, check.bound) {
        Some(order) => (check.sign.holds(order), format!("{name} was {}{rest}", text(value, check.bound))),
        None => (false, format!("{name} has no value{rest}, so nothing can be said of it")),
    }
}

impl Restriction {
    fn takes(&self, replica: &Row<'_>) -> bool {
        self.jobs.as_ref().is_none_or(|jobs| jobs.binary_search(&replica.job).is_ok())
            && self.queue.as_ref().is_none_or(|queue| replica.queue == Some(queue))
            && self.user.as_ref().is_none_or(|user| replica.user == Some(user))
    }
}

/// `None` for a value that is undefined.
fn compare(value: Value, bound: Bound) -> Option<Ordering> {
    Some(match (value, bound) {
        (Value::Undefined, _) => return None,
        (Value::Count(count), Bound::Count(bound)) => count.cmp(&bound),
        (Value::Time(time), Bound::Time(bound)) => time.cmp(&bound),
        (Value::Money(money), Bound::Number(bound)) => money.get().cmp(&bound),
        (Value::Ratio(ratio), Bound::Part(bound)) => ratio.total_cmp(&(f64::from(bound.get()) / 1e3)),
        (Value::Ratio(ratio), Bound::FinePart(bound) | Bound::Number(bound)) => ratio.total_cmp(&(bound as f64 / 1e6)),
        (value, bound) => panic!("{value:?} is of another unit than {bound:?}"),
    })
}

fn text(value: Value, bound: Bound) -> String {
    match (value, bound) {
        (Value::Ratio(ratio), Bound::Part(_) | Bound::FinePart(_)) => format!("{:.2}%", ratio * 100.0),
        (Value::Ratio(ratio), _) => format!("{ratio:.3}"),
        (Value::Count(count), _) => count.to_string(),
        (Value::Money(money), _) => money.to_string(),
        (Value::Time(time), _) => time.to_string(),
        (Value::Undefined, _) => "undefined".to_string(),
    }
}
