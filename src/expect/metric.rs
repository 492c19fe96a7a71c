//! Metrics held against their bounds.

use std::cmp::Ordering;

use super::expectation::{Bound, Expectation, MetricCheck, Quantity, Restriction, What};
use crate::report::{Books, Function, Row, RunAccount, Series, Value};

/// What expectations ask of series: the values of a series and restriction are looked up once, whatever is made of them.
pub(super) struct Figures<'a>(Vec<Figure<'a>>);

struct Figure<'a> {
    series: Series,
    of: &'a Restriction,
    functions: Vec<(Function, Value)>,
    /// Replicas that have a value.
    counted: usize,
    without: usize,
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
            let (values, without) = figure.series.values(accounts, |replica| figure.of.takes(replica));
            (figure.counted, figure.without) = (values.len(), without);
            figure.functions.iter_mut().for_each(|(function, value)| *value = function.of(&values));
        }
        figures
    }

    fn ask(&mut self, function: Function, series: Series, of: &'a Restriction) {
        let known = self.0.iter().position(|figure| figure.series == series && figure.of == of);
        let place = known.unwrap_or_else(|| {
            self.0.push(Figure { series, of, functions: Vec::new(), counted: 0, without: 0 });
            self.0.len() - 1
        });
        let functions = &mut self.0[place].functions;
        if functions.iter().all(|(known, _)| *known != function) {
            functions.push((function, Value::Undefined));
        }
    }

    /// The value, and how many replicas have one and have none.
    fn get(&self, function: Function, series: Series, of: &Restriction) -> (Value, usize, usize) {
        let figure = self.0.iter().find(|figure| figure.series == series && figure.of == of);
        let figure = figure.expect("every series that is asked for was looked up");
        let value = figure.functions.iter().find(|(known, _)| *known == function);
        (value.expect("with every function of it").1, figure.counted, figure.without)
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
            let (value, counted, without) = figures.get(*function, *series, of);
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
