//! Metrics held against their bounds.

use std::cmp::Ordering;

use super::expectation::{Bound, Expectation, MetricCheck, Quantity, Restriction, Sign, Unplaced, What};
use crate::report::{Books, Function, Row, RunAccount, Series, Value};

/// What expectations ask of series: the values of a series and restriction are looked up once, whatever is made of them.
pub(super) struct Figures<'a>(Vec<Figure<'a>>);

struct Figure<'a> {
    series: Series,
    of: &'a Restriction,
    functions: Vec<(Function, Value)>,
    replicas: Replicas,
}

/// How many replicas a figure is of.
#[derive(Clone, Copy, Default)]
struct Replicas {
    /// Have a value.
    counted: usize,
    without: usize,
    /// Of those without, the ones that could never be placed.
    unplaceable: usize,
}

impl<'a> Figures<'a> {
    pub(super) fn of(expectations: &'a [Expectation], accounts: &RunAccount) -> Figures<'a> {
        let mut figures = Figures(Vec::new());
        for expectation in expectations {
            if let What::Metric(MetricCheck { quantity: Quantity::Of { function, series, of }, .. }) = &expectation.what
            {
                figures.ask(*function, *series, of);
            }
        }
        for figure in &mut figures.0 {
            let mut unplaceable = 0;
            let (values, without) = figure.series.values(accounts, |replica| {
                let is_taken = figure.of.takes(replica);
                unplaceable += usize::from(is_taken && replica.is_unplaceable);
                is_taken
            });
            figure.replicas = Replicas { counted: values.len(), without, unplaceable };
            figure.functions.iter_mut().for_each(|(function, value)| *value = function.of(&values));
        }
        figures
    }

    fn ask(&mut self, function: Function, series: Series, of: &'a Restriction) {
        let known = self.0.iter().position(|figure| figure.series == series && figure.of == of);
        let place = known.unwrap_or_else(|| {
            self.0.push(Figure { series, of, functions: Vec::new(), replicas: Replicas::default() });
            self.0.len() - 1
        });
        let functions = &mut self.0[place].functions;
        if functions.iter().all(|(known, _)| *known != function) {
            functions.push((function, Value::Undefined));
        }
    }

    /// The value, and how many replicas it is of.
    fn get(&self, function: Function, series: Series, of: &Restriction) -> (Value, Replicas) {
        let figure = self.0.iter().find(|figure| figure.series == series && figure.of == of);
        let figure = figure.expect("every series that is asked for was looked up");
        let value = figure.functions.iter().find(|(known, _)| *known == function);
        (value.expect("with every function of it").1, figure.replicas)
    }
}

/// Whether it holds, and what the value was.
pub(super) fn judge(check: &MetricCheck, books: &Books, figures: &Figures<'_>) -> (bool, String) {
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
            let (value, Replicas { counted, without, .. }) = figures.get(*function, *series, of);
            let rest = match without {
                0 => String::new(),
                1 => format!("; 1 more does not count, for it {}", series.lack().replacen("were", "was", 1)),
                more => format!("; {more} more do not count, for they {}", series.lack()),
            };
            let replicas = if counted == 1 { "replica" } else { "replicas" };
            let rest = format!(" over {counted} {replicas}{rest}");
            (value, format!("{}({})", function.name(), series.name()), rest)
        }
    };
    if let Some(told) = unplaceable(check, accounts, figures) {
        let others = match value {
            Value::Undefined => String::new(),
            value => format!("; {name} of the others was {}", text(value, check.bound)),
        };
        return (false, format!("{told}{others}"));
    }
    match compare(value, check.bound) {
        Some(order) => (check.sign.holds(order), format!("{name} was {}{rest}", text(value, check.bound))),
        None => (false, format!("{name} has no value{rest}, so nothing can be said of it")),
    }
}

/// What stands against an upper bound on waiting: jobs that can never run wait for ever.
fn unplaceable(check: &MetricCheck, accounts: &RunAccount, figures: &Figures<'_>) -> Option<String> {
    let is_upper = matches!(check.sign, Sign::Less | Sign::AtMost | Sign::Equal);
    if check.unplaced == Unplaced::Ignore || !is_upper {
        return None;
    }
    let is_concerned = match &check.quantity {
        Quantity::Run(definition) => definition.name.starts_with("queue_wait") && accounts.unplaceable.jobs > 0,
        Quantity::AllocatedAt { .. } => false,
        Quantity::Of { function: Function::Min, .. } => false,
        Quantity::Of { function, series, of } => {
            let is_wait = matches!(series, Series::QueueWait | Series::StartWait);
            is_wait && figures.get(*function, *series, of).1.unplaceable > 0
        }
    };
    let told = accounts.unplaceable.sentence(accounts.submitted()).filter(|_| is_concerned)?;
    match &check.quantity {
        Quantity::Of { function, series, of } if *of != Restriction::default() => {
            let Replicas { counted, without, unplaceable } = figures.get(*function, *series, of).1;
            Some(format!(
                "{unplaceable} of the {} replicas that it is about can never run (of all, {told})",
                counted + without
            ))
        }
        _ => Some(told),
    }
}

/// Whether every job could be placed on an empty fleet, and if not, what is missing.
pub(super) fn judge_each_can_run(accounts: &RunAccount) -> (bool, String) {
    match accounts.unplaceable.sentence(accounts.submitted()) {
        Some(sentence) => (false, sentence),
        None => (true, "every job can".to_string()),
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
