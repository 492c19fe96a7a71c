//! Compares metrics with their bounds.

use std::cmp::Ordering;

use super::expectation::{Bound, Expectation, ExpectationKind, MetricCheck, Quantity, Restriction, Sign, Unplaced};
use dryrack_ids::JobId;
use dryrack_metrics::{
    Function, OverRequests, RequestSeries, Row, RunAccount, RunMetrics, Series, ServiceAccount, Value,
};
use dryrack_units::{SimDuration, counted};

/// The aggregates of series that expectations use. The values of each pair of series and restriction are collected only
/// once for all aggregates.
pub(super) struct Figures<'a> {
    series: Vec<Figure<'a>>,
    /// For each metric of [`UNFINISHED`], between which values it lies, the numbers of replicas behind it, and its series.
    unfinished: Vec<(&'static str, Range, Replicas, Series)>,
}

struct Figure<'a> {
    series: Series,
    of: &'a Restriction,
    functions: Vec<(Function, Values)>,
    replicas: Replicas,
}

#[derive(Clone, Copy)]
struct Values {
    known: Value,
    range: Range,
}

/// Between which values a quantity lies, if something goes on at the end of the run.
#[derive(Clone, Copy)]
struct Range {
    /// The value if what goes on ended with the run, such as waits so far.
    at_least: Value,
    /// The value if what goes on lasts for ever.
    at_most: Value,
}

impl Range {
    const UNDEFINED: Range = Range { at_least: Value::Undefined, at_most: Value::Undefined };

    /// The range over these values and those that go on, each as it was at the end. So many further waits are infinite.
    fn of(function: Function, values: &[Value], open: &[Value], infinite: usize) -> Range {
        let is_begun = |value: &&Value| !matches!(value, Value::Time(SimDuration::ZERO));
        let going_on = open.iter().filter(is_begun).count();
        let for_ever = if let [Value::Ratio(_), ..] = open { Value::Ratio(f64::INFINITY) } else { INFINITE };
        let beside = |open: &[Value]| {
            let all = [values, open, &vec![INFINITE; infinite]].concat();
            with_infinite(function, &all, infinite)
        };
        Range {
            at_least: beside(open),
            at_most: match function {
                Function::Mean | Function::Sum if going_on > 0 => for_ever,
                _ => beside(&vec![for_ever; going_on]),
            },
        }
    }
}

/// The numbers of replicas behind a figure.
#[derive(Clone, Copy, Default)]
struct Replicas {
    /// Replicas with a value.
    counted: usize,
    without: usize,
    /// Replicas without a value for which it goes on at the end of the run.
    waiting: usize,
    /// All replicas concerned, and those of them that can never be placed, also of jobs from before the end of the warm-up.
    all: usize,
    unplaceable: usize,
    /// Replicas without a value that ended because there was no capacity for them. Their waits count as infinite.
    turned_away: usize,
    /// Replicas without a value that waited for their first place until their job failed. Their waits count as infinite too.
    cut_off: usize,
}

impl Replicas {
    /// Counts a replica if it ended without ever being placed, and its wait is infinite.
    fn count_infinite(&mut self, series: Series, replica: &Row<'_>) {
        self.turned_away += usize::from(replica.is_turned_away && series.is_wait());
        self.cut_off += usize::from(replica.is_cut_off && series.is_wait());
    }

    fn infinite(&self) -> usize {
        self.turned_away + self.cut_off
    }

    /// Why waits are infinite, such as `2 of them waited for a place until their job failed`.
    fn why_infinite(&self) -> Vec<String> {
        let turned_away = (self.turned_away, "ended without ever being placed, because there was no capacity");
        let cut_off = (self.cut_off, "waited for a place until their job failed");
        let known = [turned_away, cut_off].into_iter().filter(|(count, _)| *count > 0);
        known.map(|(count, what)| format!("{count} of them {what}")).collect()
    }
}

/// The metrics of a run that measure what may go on at its end.
const UNFINISHED: [(&str, Series, Function); 10] = [
    ("queue_wait_mean_seconds", Series::QueueWait, Function::Mean),
    ("queue_wait_p50_seconds", Series::QueueWait, Function::Quantile(500)),
    ("queue_wait_p95_seconds", Series::QueueWait, Function::Quantile(950)),
    ("queue_wait_max_seconds", Series::QueueWait, Function::Max),
    ("start_wait_mean_seconds", Series::StartWait, Function::Mean),
    ("start_wait_p95_seconds", Series::StartWait, Function::Quantile(950)),
    ("turnaround_mean_seconds", Series::Turnaround, Function::Mean),
    ("turnaround_p95_seconds", Series::Turnaround, Function::Quantile(950)),
    ("bounded_slowdown_mean", Series::BoundedSlowdown, Function::Mean),
    ("bounded_slowdown_p95", Series::BoundedSlowdown, Function::Quantile(950)),
];

/// The wait of a replica that ended because there was no capacity for it.
const INFINITE: Value = Value::Time(SimDuration::MAX);

/// The aggregate of values of which the last so many are infinite.
fn with_infinite(function: Function, values: &[Value], infinite: usize) -> Value {
    match function {
        Function::Mean | Function::Sum if infinite > 0 => INFINITE,
        Function::Mean | Function::Sum | Function::Min | Function::Max | Function::Quantile(_) => function.of(values),
    }
}

fn may_go_on(name: &str) -> bool {
    UNFINISHED.iter().any(|(metric, ..)| *metric == name)
}

impl<'a> Figures<'a> {
    pub(super) fn of(expectations: &'a [Expectation], accounts: &RunAccount) -> Figures<'a> {
        let mut figures = Figures { series: Vec::new(), unfinished: Vec::new() };
        let mut asks_for_unfinished = false;
        for expectation in expectations {
            match &expectation.what {
                ExpectationKind::Metric(MetricCheck { quantity: Quantity::Of { function, series, of }, .. }) => {
                    figures.ask(*function, *series, of);
                }
                ExpectationKind::Metric(MetricCheck { quantity: Quantity::Run(definition), .. }) => {
                    asks_for_unfinished |= may_go_on(definition.name);
                }
                _ => {}
            }
        }
        for figure in &mut figures.series {
            let (mut replicas, mut so_far) = (Replicas::default(), Vec::new());
            let (values, without) = figure.series.values(accounts, |replica| {
                let is_taken = figure.of.takes(replica);
                if is_taken {
                    so_far.extend(figure.series.at_least(replica, accounts));
                    replicas.count_infinite(figure.series, replica);
                }
                is_taken
            });
            // A job that can never run is not one of those that the warm-up leaves out because the cluster begins empty.
            accounts.each_row_of_all(|replica| {
                if figure.of.takes(&replica) {
                    replicas.all += 1;
                    replicas.unplaceable += usize::from(replica.is_unplaceable);
                }
            });
            figure.replicas = Replicas { counted: values.len(), without, waiting: so_far.len(), ..replicas };
            for (function, of) in &mut figure.functions {
                let range = Range::of(*function, &values, &so_far, replicas.infinite());
                *of = Values { known: function.of(&values), range };
            }
        }
        if asks_for_unfinished {
            figures.find_unfinished(accounts);
        }
        figures
    }

    fn find_unfinished(&mut self, accounts: &RunAccount) {
        for of in [Series::QueueWait, Series::StartWait, Series::Turnaround, Series::BoundedSlowdown] {
            let (mut values, mut open, mut replicas) = (Vec::new(), Vec::new(), Replicas::default());
            accounts.each_row(|replica| {
                let over = of.of(&replica);
                let so_far = of.at_least(&replica, accounts);
                replicas.count_infinite(of, &replica);
                replicas.waiting += usize::from(so_far.is_some());
                replicas.counted += usize::from(over.is_some());
                values.extend(over);
                open.extend(so_far);
            });
            let of_series = UNFINISHED.iter().filter(|(_, series, _)| *series == of);
            self.unfinished.extend(of_series.map(|(name, _, function)| {
                (*name, Range::of(*function, &values, &open, replicas.infinite()), replicas, of)
            }));
        }
    }

    fn ask(&mut self, function: Function, series: Series, of: &'a Restriction) {
        let known = self.series.iter().position(|figure| figure.series == series && figure.of == of);
        let place = known.unwrap_or_else(|| {
            self.series.push(Figure { series, of, functions: Vec::new(), replicas: Replicas::default() });
            self.series.len() - 1
        });
        let functions = &mut self.series[place].functions;
        if functions.iter().all(|(known, _)| *known != function) {
            functions.push((function, Values { known: Value::Undefined, range: Range::UNDEFINED }));
        }
    }

    /// The values of an aggregate, and the numbers of replicas behind them.
    fn get(&self, function: Function, series: Series, of: &Restriction) -> (Values, Replicas) {
        let figure = self.series.iter().find(|figure| figure.series == series && figure.of == of);
        let figure = figure.expect("every series that is asked for was looked up");
        let value = figure.functions.iter().find(|(known, _)| *known == function);
        (value.expect("with every function of it").1, figure.replicas)
    }

    /// Between which values a quantity lies that includes what has not ended, the numbers of replicas behind it, and its
    /// series. `None` if all of them are over, or if the quantity has no value.
    fn range(&self, quantity: &Quantity) -> Option<(Range, Replicas, Series)> {
        let (range, replicas, series) = match quantity {
            Quantity::Run(definition) => {
                let known = self.unfinished.iter().find(|(name, ..)| *name == definition.name)?;
                (known.1, known.2, known.3)
            }
            Quantity::AllocatedAt { .. } | Quantity::OfRequests { .. } => return None,
            Quantity::Of { function, series, of } => {
                let (values, replicas) = self.get(*function, *series, of);
                (values.range, replicas, *series)
            }
        };
        let is_known = replicas.infinite() > 0 || replicas.waiting > 0 && replicas.counted > 0;
        is_known.then_some((range, replicas, series))
    }
}

/// Judges a check. Returns whether it holds, and the value in words.
pub(super) fn judge(check: &MetricCheck, run_metrics: &RunMetrics, figures: &Figures<'_>) -> (bool, String) {
    let accounts = run_metrics.accounts();
    if let Quantity::OfRequests { function, series, jobs } = &check.quantity {
        return judge_requests(check, accounts, (*function, *series, jobs.as_deref()));
    }
    let (value, name, rest) = match &check.quantity {
        Quantity::Run(definition) => {
            let value = run_metrics.metrics().get(definition.name).expect("every metric has a value");
            let open = figures.range(&check.quantity);
            let open = open.filter(|(_, replicas, _)| replicas.waiting > 0);
            let rest = open.map_or(String::new(), |(_, Replicas { waiting, .. }, series)| {
                format!("; {waiting} more {} at the end", series.goes_on())
            });
            let partial = accounts.partial_power().filter(|_| ["energy", "carbon"].contains(&definition.name));
            let partial = partial.map_or(String::new(), |part| {
                format!("; it is partial: nodes with {:.1}% of the node hours state no power", (1.0 - part) * 100.0)
            });
            (value, definition.short_name().to_string(), rest + &partial)
        }
        Quantity::OfRequests { .. } => unreachable!("judged above"),
        Quantity::AllocatedAt { percent } => {
            let value = accounts.load.allocated_at(*percent).map_or(Value::Undefined, Value::Ratio);
            (value, format!("gpu_allocated_at({percent}%)"), String::new())
        }
        Quantity::Of { function, series, of } => {
            let (Values { known: value, .. }, Replicas { counted, without, .. }) = figures.get(*function, *series, of);
            let rest = match without {
                0 => String::new(),
                1 => format!("; 1 more is not counted because it {}", series.lack().replacen("were", "was", 1)),
                more => format!("; {more} more are not counted because they {}", series.lack()),
            };
            let replicas = if counted == 1 { "replica" } else { "replicas" };
            let rest = format!(" over {counted} {replicas}{rest}");
            (value, format!("{}({})", function.name(), series.name()), rest)
        }
    };
    if let Some(described) = unplaceable(check, accounts, figures) {
        let range = figures.range(&check.quantity).filter(|(_, replicas, _)| replicas.infinite() > 0);
        let is = if range.is_some_and(|(_, replicas, _)| replicas.waiting > 0) { "is at least" } else { "was" };
        let others = match range.map_or(value, |(range, ..)| range.at_least) {
            Value::Undefined => String::new(),
            INFINITE => format!("; {name} of the others was {}", text(INFINITE, check.bound)),
            value => format!("; {name} of the others {is} {}", text(value, check.bound)),
        };
        return (false, format!("{described}{others}"));
    }
    if let Some(described) = broken_by_who_waits(check, figures, &name).or_else(|| undecided_makespan(check, accounts))
    {
        return (false, described);
    }
    if let Some((value, all)) = known_with_infinite(check, figures)
        && let Some(order) = compare(value, check.bound)
    {
        return (check.sign.holds(order), format!("{name} was {} over {all}", text(value, check.bound)));
    }
    match compare(value, check.bound) {
        Some(order) => (check.sign.holds(order), format!("{name} was {}{rest}", text(value, check.bound))),
        None => (false, format!("{name} has no value{rest}, so it cannot be judged")),
    }
}

/// Judges an aggregate over requests. A request that was never served is infinitely slow.
fn judge_requests(
    check: &MetricCheck,
    accounts: &RunAccount,
    (function, series, jobs): (Function, RequestSeries, Option<&[JobId]>),
) -> (bool, String) {
    let mut all = ServiceAccount::default();
    let is_asked = |job: &JobId| jobs.is_none_or(|jobs| jobs.binary_search(job).is_ok());
    (accounts.services.iter().filter(|(job, _)| is_asked(job))).for_each(|(_, service)| all.merge(service));
    let (name, count, without) =
        (format!("{}({})", function.name(), series.name()), all.count(series), all.without(series));
    let requests = if count == 1 { "request" } else { "requests" };
    let rest = match without {
        0 => format!(" over {count} {requests}"),
        _ => format!(" over {count} {requests}; {without} of them {}", series.lack()),
    };
    let rest = rest + &cold_start(check, &all, (function, series));
    match all.of(function, series) {
        OverRequests::None => {
            (false, format!("{name} has no value, because no request arrived, so it cannot be judged"))
        }
        OverRequests::Infinite => {
            let holds = matches!(check.sign, Sign::AtLeast | Sign::More | Sign::Unequal);
            (holds, format!("{name} was infinite{rest}"))
        }
        OverRequests::Finite(time) => {
            let order = compare(Value::Time(time), check.bound).expect("a time");
            (check.sign.holds(order), format!("{name} was {}{rest}", text(Value::Time(time), check.bound)))
        }
    }
}

/// What a time limits if it fails because requests arrived while no replica was ready, such as those that wake up a service which
/// was scaled to zero. Empty if it holds, and if a service never served.
fn cold_start(check: &MetricCheck, all: &ServiceAccount, (function, series): (Function, RequestSeries)) -> String {
    let holds = |found: OverRequests| match found {
        OverRequests::None => true,
        OverRequests::Infinite => false,
        OverRequests::Finite(time) => {
            compare(Value::Time(time), check.bound).is_some_and(|order| check.sign.holds(order))
        }
    };
    let cold = all.total.without_replica;
    let is_of_arrival = matches!(series, RequestSeries::Ttft | RequestSeries::Latency);
    let is_concerned = is_of_arrival && is_upper(check.sign) && cold > 0 && all.total.ttft.count > 0;
    if !is_concerned || holds(all.of(function, series)) {
        return String::new();
    }
    let arrived = format!("{cold} of them arrived while no replica was ready");
    match all.without_slowest(cold, function, series).is_some_and(holds) {
        true => format!("; the cause is the {COLD_START}: {arrived}"),
        false => format!("; {arrived}"),
    }
}

/// What is said of a bound that what goes on at the end could still break, so that only a longer run would tell.
pub const NOT_DECIDED: &str = "not decided";

/// What it is called if requests wait for the first replica.
pub const COLD_START: &str = "cold start";

/// Explains why an upper bound on a time fails because some jobs can never run. Such jobs wait forever. `None` if this
/// is not so.
fn unplaceable(check: &MetricCheck, accounts: &RunAccount, figures: &Figures<'_>) -> Option<String> {
    if check.unplaced == Unplaced::Ignore || !is_upper(check.sign) {
        return None;
    }
    let is_concerned = match &check.quantity {
        Quantity::Run(definition) => may_go_on(definition.name) && accounts.unplaceable.jobs > 0,
        Quantity::AllocatedAt { .. } | Quantity::OfRequests { .. } => false,
        Quantity::Of { function: Function::Min, .. } => false,
        Quantity::Of { function, series, of } => {
            series.ends_with_a_run() && figures.get(*function, *series, of).1.unplaceable > 0
        }
    };
    if !is_concerned {
        return None;
    }
    let described = accounts.never_run()?;
    match &check.quantity {
        Quantity::Of { function, series, of } if *of != Restriction::default() => {
            let Replicas { all, unplaceable, .. } = figures.get(*function, *series, of).1;
            Some(format!("{unplaceable} of the {all} replicas concerned can never run (of all: {described})"))
        }
        _ => Some(described),
    }
}

/// The value with the waits that are infinite, and the replicas behind it in words, if nothing goes on at the end. `None` if
/// something does, or if no wait is infinite.
fn known_with_infinite(check: &MetricCheck, figures: &Figures<'_>) -> Option<(Value, String)> {
    let (range, replicas, _) = figures.range(&check.quantity)?;
    let is_known = replicas.waiting == 0 && replicas.infinite() > 0 && check.unplaced != Unplaced::Ignore;
    is_known.then(|| {
        let all = counted(replicas.counted + replicas.infinite(), "replica");
        (range.at_least, format!("{all}: {}", replicas.why_infinite().join(", and ")))
    })
}

/// Explains why an upper bound fails because of the jobs for which it goes on at the end: they have already taken too
/// long. `None` if this is not so.
fn broken_by_who_waits(check: &MetricCheck, figures: &Figures<'_>, name: &str) -> Option<String> {
    if check.unplaced == Unplaced::Ignore || !is_upper(check.sign) {
        return None;
    }
    let (range, replicas, series) = figures.range(&check.quantity)?;
    let waiting = replicas.waiting;
    if waiting == 0 {
        return None;
    }
    let all = counted(replicas.counted + waiting + replicas.infinite(), "replica");
    let holds = |value: Value| match (check.sign, compare(value, check.bound)?) {
        (Sign::Equal, order) => Some(order.is_le()),
        (sign, order) => Some(sign.holds(order)),
    };
    if holds(range.at_least)? {
        let known = (!holds(range.at_most)?).then_some(range.at_least)?;
        let (goes_on, known) = (series.goes_on(), text(known, check.bound));
        return Some(format!(
            "{name} is at least {known}, and {NOT_DECIDED}: {waiting} of {all} {goes_on} at the end; a longer run would decide it"
        ));
    }
    let value = range.at_least;
    let open = format!("{waiting} of them {} at the end", series.goes_on());
    let why = std::iter::once(open).chain(replicas.why_infinite()).collect::<Vec<_>>().join(", and ");
    Some(match value {
        INFINITE => format!("{name} was infinite over {all}: {why}"),
        value => format!("{name} is at least {} over {all}: {why}", text(value, check.bound)),
    })
}

/// Explains why an upper bound on the makespan cannot be judged, because jobs go on at the end that end by themselves. `None` if
/// this is not so.
fn undecided_makespan(check: &MetricCheck, accounts: &RunAccount) -> Option<String> {
    let is_of_makespan = matches!(&check.quantity, Quantity::Run(definition) if definition.name == "makespan_seconds");
    if check.unplaced == Unplaced::Ignore || !is_upper(check.sign) || !is_of_makespan {
        return None;
    }
    let (mut open, mut all) = (0_u64, 0_u64);
    accounts.each_row(|replica| {
        all += 1;
        let goes_on = replica.outcome.is_none() && !replica.is_unplaceable && replica.wanted < accounts.now;
        open += u64::from(goes_on && accounts.run_range(&replica).is_some());
    });
    let is = format!("makespan is {NOT_DECIDED}");
    (open > 0).then(|| format!("{is}: {open} of {all} replicas had not ended at the end; a longer run would decide it"))
}

fn is_upper(sign: Sign) -> bool {
    matches!(sign, Sign::Less | Sign::AtMost | Sign::Equal)
}

/// Whether every job could be placed on an empty fleet. If not, also says what is missing.
pub(super) fn judge_each_can_run(accounts: &RunAccount) -> (bool, String) {
    match accounts.never_run() {
        Some(sentence) => (false, sentence),
        None => match accounts.unplaceable.refused_empty() {
            Some(sentence) => (false, sentence),
            None => (true, "every job can run".to_string()),
        },
    }
}

impl Restriction {
    fn takes(&self, replica: &Row<'_>) -> bool {
        self.jobs.as_ref().is_none_or(|jobs| jobs.binary_search(&replica.job).is_ok())
            && self.queue.as_ref().is_none_or(|queue| replica.queue == Some(queue))
            && self.user.as_ref().is_none_or(|user| replica.user == Some(user))
    }
}

/// Compares a value with a bound. `None` if the value is undefined.
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
        (INFINITE, _) => "infinite".to_string(),
        (Value::Time(time), _) => time.to_string(),
        (Value::Undefined, _) => "undefined".to_string(),
    }
}
