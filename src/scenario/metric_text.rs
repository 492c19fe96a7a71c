//! Metric expressions: `p95(queue_wait{queue: besteffort}) <= 10m`, `gpu_allocated >= 92%`.
//!
//! ```text
//! expression = quantity sign bound
//! quantity   = run-wide metric | "gpu_allocated_at(" percent ")" | function "(" series [ "{" key ":" value { "," key ":" value } "}" ] ")"
//! function   = "mean" | "min" | "max" | "sum" | "p" number
//! sign       = "<=" | "<" | ">=" | ">" | "==" | "!="
//! ```
//!
//! In braces, `=` may replace the colon. Without quotes, YAML would read a colon and a space as a map.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::expectation_words::ReadContext;
use dryrack_expect::{Bound, MetricCheck, Quantity, Restriction, Sign};
use dryrack_metrics::{Definition, Function, RequestSeries, Series, Unit, definitions};
use dryrack_units::{Money, Permille, SimDuration, UnitError};
use dryrack_workload::Arrival;
use dryrack_yaml::{Node, Report, Span, Tree, Value, value};

/// The functions that a message lists when a function is unknown.
pub(super) const FUNCTIONS: [&str; 8] = ["mean", "min", "max", "sum", "p50", "p90", "p95", "p99"];
/// The only metric with a number in its parentheses.
const ALLOCATED_AT: &str = "gpu_allocated_at";
pub(super) const RESTRICTIONS: [&str; 3] = ["job", "queue", "user"];

/// A part of the expression with its position.
#[derive(Clone, Copy)]
struct Part<'t> {
    text: &'t str,
    /// The number of bytes of the expression before it.
    offset: usize,
}

/// The whole expression. The offsets of its parts count from its beginning.
struct Whole<'t> {
    span: Span,
    length: usize,
    setting: &'t ReadContext<'t>,
}

impl<'t> Part<'t> {
    fn slice(self, from: usize, to: usize) -> Part<'t> {
        let text = &self.text[from..to];
        let trimmed = text.trim();
        let before = text.len() - text.trim_start().len();
        Part { text: trimmed, offset: self.offset + from + before }
    }

    /// Returns the parts before and after the bytes from `at` to `end`.
    fn split(self, at: usize, end: usize) -> (Part<'t>, Part<'t>) {
        (self.slice(0, at), self.slice(end, self.text.len()))
    }
}

impl Whole<'_> {
    fn span(&self, part: Part<'_>) -> Span {
        self.span.within(part.offset, part.text.len(), self.length)
    }
}

/// Reads the expression in `tree`; `jobs` are the jobs that `of:` names.
pub(super) fn read(
    tree: &Tree,
    setting: &ReadContext<'_>,
    jobs: Option<(Span, Restriction)>,
    report: &mut Report,
) -> Option<MetricCheck> {
    let Some(typed) = tree.scalar() else {
        let message = format!("expected a metric and its bound, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `p95(queue_wait) <= 10m` or `gpu_allocated >= 92%`");
        return None;
    };
    let whole = Whole { span: tree.span, length: typed.len(), setting };
    let all = Part { text: typed, offset: 0 };
    let Some((at, sign, length)) = sign(typed) else {
        if typed.matches('{').count() > typed.matches('}').count() {
            report.error_with_help(tree.span, format!("`{typed}` lacks a closing `}}`"), "add `}` before the `)`");
            return None;
        }
        let help = "write a metric, a sign and a bound, as in `p95(queue_wait) <= 10m`; for the state of a job, write \
                    `{job: train, is: running, by: 10m}`";
        report.error_with_help(tree.span, format!("`{typed}` has no comparison"), help);
        return None;
    };
    for (turned, meant) in [("=>", ">="), ("=<", "<=")] {
        if typed[at..].starts_with(turned) {
            let help = format!("write `{}`", typed.replacen(turned, meant, 1));
            report.error_with_help(tree.span, format!("`{turned}` is not a sign"), help);
            return None;
        }
    }
    let (left, right) = all.split(at, at + length);
    let quantity = quantity(left, &whole, jobs, report);
    let unit = quantity.as_ref()?.unit();
    let bound = bound(right, (left.text, unit), &whole, report)?;
    let unplaced = setting.unplaced;
    Some(MetricCheck { quantity: quantity?.0, sign, bound, unplaced, text: Arc::from(typed.trim()) })
}

/// The first comparison sign outside of braces, with its position and length.
fn sign(text: &str) -> Option<(usize, Sign, usize)> {
    let mut depth = 0u32;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ => {
                let found = Sign::ALL.iter().find(|(_, written)| text[at..].starts_with(written));
                if let Some((sign, written)) = found {
                    return Some((at, *sign, written.len()));
                }
            }
        }
    }
    None
}

struct Measured(Quantity);

impl Measured {
    fn unit(&self) -> Unit {
        match &self.0 {
            Quantity::Run(definition) => definition.unit(),
            Quantity::AllocatedAt { .. } => Unit::Part,
            Quantity::Of { function, series, .. } => function.unit(series.unit()),
            Quantity::OfRequests { function, series, .. } => function.unit(series.unit()),
        }
    }
}

fn quantity(
    part: Part<'_>,
    whole: &Whole<'_>,
    jobs: Option<(Span, Restriction)>,
    report: &mut Report,
) -> Option<Measured> {
    let Some(open) = part.text.find('(') else {
        if let Some((span, _)) = jobs {
            let help = "leave `of` out, or use a series such as `p95(queue_wait)`";
            report.error_with_help(span, format!("`{}` is a metric of the whole run", part.text), help);
        }
        return run_wide(part, whole, report).map(|definition| Measured(Quantity::Run(definition)));
    };
    let (name, rest) = part.split(open, open + 1);
    let Some(inner) = rest.text.strip_suffix(')') else {
        report.error_with_help(whole.span(part), format!("`{}` lacks a closing `)`", part.text), "add `)`");
        return None;
    };
    let inner = rest.slice(0, inner.len());
    if name.text == ALLOCATED_AT {
        return allocated_at(inner, whole, report).map(Measured);
    }
    let (series_part, braces) = match inner.text.find('{') {
        None => (inner, None),
        Some(at) => {
            let (series, rest) = inner.split(at, at + 1);
            match rest.text.strip_suffix('}') {
                Some(text) => (series, Some(rest.slice(0, text.len()))),
                None => {
                    report.error_with_help(
                        whole.span(inner),
                        format!("`{}` lacks a closing `}}`", inner.text),
                        "add `}`",
                    );
                    return None;
                }
            }
        }
    };
    let function = function(name, whole, report);
    if let Some(series) = request_series_by_name(series_part.text) {
        return of_requests((function?, series), braces, whole, jobs, report);
    }
    let series = series(series_part, whole, report);
    let mut of = jobs.map(|(_, jobs)| jobs).unwrap_or_default();
    if let Some(braces) = braces {
        restrict(braces, whole, &mut of, report)?;
    }
    Some(Measured(Quantity::Of { function: function?, series: series?, of }))
}

/// Reads an aggregate over requests, which can be restricted by the service only.
fn of_requests(
    (function, series): (Function, RequestSeries),
    braces: Option<Part<'_>>,
    whole: &Whole<'_>,
    jobs: Option<(Span, Restriction)>,
    report: &mut Report,
) -> Option<Measured> {
    let serves = |arrival: &Arrival| arrival.behavior.serving.is_some();
    if !whole.setting.arrivals.iter().any(serves) && !whole.setting.is_varied {
        let message = format!("`{}` is a value of requests, but no job has `serving`", series.name());
        report.error_with_help(whole.span, message, "add `serving:` to a job, with the requests that it receives");
        return None;
    }
    let mut of = jobs.map(|(_, jobs)| jobs).unwrap_or_default();
    if let Some(braces) = braces {
        restrict(braces, whole, &mut of, report)?;
        if of.queue.is_some() || of.user.is_some() {
            let help = "restrict it by `job`: `p99(ttft{job=chat}) <= 2s`";
            report.error_with_help(whole.span(braces), "requests have no queue and no user", help);
            return None;
        }
    }
    Some(Measured(Quantity::OfRequests { function, series, jobs: of.jobs }))
}

/// Reads `130%`. Only whole percents are allowed, because recorded loads are rounded to whole percents.
fn allocated_at(part: Part<'_>, whole: &Whole<'_>, report: &mut Report) -> Option<Quantity> {
    let percent = part.text.strip_suffix('%').and_then(|number| number.parse().ok());
    if percent.is_none() {
        let message = format!("`{}` is not a whole percentage", part.text);
        report.error_with_help(whole.span(part), message, format!("write `{ALLOCATED_AT}(130%)`"));
    }
    percent.map(|percent| Quantity::AllocatedAt { percent })
}

fn run_wide(part: Part<'_>, whole: &Whole<'_>, report: &mut Report) -> Option<&'static Definition> {
    let typed = part.text;
    if let Some(known) = definitions().into_iter().find(|known| known.short_name() == typed) {
        return Some(known);
    }
    let span = whole.span(part);
    if let Some(known) = definitions().into_iter().find(|known| known.name == typed) {
        let short = known.short_name();
        let help = format!("write `{short}`, with the unit in the bound: `{short} <= 10m`");
        report.error_with_help(span, format!("`{typed}` contains a unit, which belongs to the bound"), help);
    } else if request_series_by_name(typed.split('{').next().unwrap_or("").trim()).is_some() {
        let help = format!("write a function: `p99({typed})`, `mean({typed})` or `max({typed})`");
        report.error_with_help(span, format!("`{typed}` has one value for each request"), help);
    } else if series_by_name(typed.split('{').next().unwrap_or("").trim()).is_some() {
        let help = format!("write a function: `p95({typed})`, `mean({typed})` or `max({typed})`");
        report.error_with_help(span, format!("`{typed}` has one value for each replica"), help);
    } else {
        let names = definitions().into_iter().map(Definition::short_name);
        report.unknown(span, format!("no metric is named `{typed}`"), typed, names);
    }
    None
}

fn function(part: Part<'_>, whole: &Whole<'_>, report: &mut Report) -> Option<Function> {
    let typed = part.text;
    let named = match typed {
        "mean" => Some(Function::Mean),
        "min" => Some(Function::Min),
        "max" => Some(Function::Max),
        "sum" => Some(Function::Sum),
        _ => None,
    };
    let percent = typed.strip_prefix('p').filter(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    if let Some(percent) = percent {
        let permille = format!("{percent}%").parse::<Permille>().ok().map(Permille::get);
        let permille = permille.and_then(|permille| u16::try_from(permille).ok()).filter(|p| (1..=1000).contains(p));
        if permille.is_none() {
            let help = "write p50, p95, p99.9 or another percentile with at most one decimal";
            report.error_with_help(whole.span(part), format!("`{typed}` is not a percentile"), help);
        }
        return permille.map(Function::Quantile);
    }
    let meant = match typed {
        "median" => Some("p50"),
        "avg" | "average" => Some("mean"),
        _ => None,
    };
    if let Some(meant) = meant {
        let message = format!("no function is named `{typed}`");
        report.error_with_help(whole.span(part), message, format!("did you mean `{meant}`?"));
    } else if named.is_none() {
        report.unknown(whole.span(part), format!("no function is named `{typed}`"), typed, FUNCTIONS.into_iter());
    }
    named
}

fn series_by_name(name: &str) -> Option<Series> {
    Series::ALL.iter().find(|(_, known, _)| *known == name).map(|(series, ..)| *series)
}

fn request_series_by_name(name: &str) -> Option<RequestSeries> {
    RequestSeries::ALL.iter().find(|(_, known, _)| *known == name).map(|(series, ..)| *series)
}

fn series(part: Part<'_>, whole: &Whole<'_>, report: &mut Report) -> Option<Series> {
    let found = series_by_name(part.text);
    if found.is_none() {
        let (typed, span) = (part.text, whole.span(part));
        match definitions().iter().any(|known| known.short_name() == typed) {
            true => {
                let message = format!("`{typed}` is one number for the whole run");
                report.error_with_help(span, message, format!("write `{typed}` without a function"));
            }
            false => {
                let of_requests = RequestSeries::ALL.iter().map(|(_, name, _)| *name);
                let names = Series::ALL.iter().map(|(_, name, _)| *name).chain(of_requests);
                report.unknown(span, format!("no series is named `{typed}`"), typed, names);
            }
        }
    }
    found
}

/// Reads `queue: besteffort, user: ann`.
fn restrict(part: Part<'_>, whole: &Whole<'_>, of: &mut Restriction, report: &mut Report) -> Option<()> {
    let mut start = 0;
    let mut all = Some(());
    for end in part.text.match_indices(',').map(|(at, _)| at).chain([part.text.len()]) {
        let pair = part.slice(start, end);
        start = end + 1;
        let Some(at) = pair.text.find([':', '=']) else {
            let help = "write `queue: besteffort`, `user: ann` or `job: chat-*`";
            report.error_with_help(whole.span(pair), format!("`{}` restricts nothing", pair.text), help);
            all = None;
            continue;
        };
        let (key, wanted) = pair.split(at, at + 1);
        let arrivals = whole.setting.arrivals;
        let found = match key.text {
            "job" => {
                let jobs = whole.setting.world.jobs(wanted.text, whole.span(wanted), report);
                let is_known = !jobs.is_empty() || whole.setting.world.may_come(wanted.text);
                of.jobs = Some(jobs.into());
                is_known
            }
            "queue" => {
                let chances = whole.setting.world.chances.values().filter_map(|chance| chance.queue.as_deref());
                let known = arrivals.iter().filter_map(|arrival| arrival.spec.queue.as_deref()).chain(chances);
                of.queue = Some(Arc::from(wanted.text));
                is_known("queue", wanted, whole, known, report)
            }
            "user" => {
                let chances = whole.setting.world.chances.values().filter_map(|chance| chance.user.as_deref());
                let known = arrivals.iter().filter_map(|arrival| arrival.spec.user.as_deref()).chain(chances);
                of.user = Some(Arc::from(wanted.text));
                is_known("user", wanted, whole, known, report)
            }
            other => {
                let message = format!("a series cannot be restricted by `{other}`");
                report.unknown(whole.span(key), message, other, RESTRICTIONS.into_iter());
                false
            }
        };
        all = all.filter(|()| found);
    }
    all
}

fn is_known<'k>(
    what: &str,
    wanted: Part<'_>,
    whole: &Whole<'_>,
    known: impl Iterator<Item = &'k str> + Clone,
    report: &mut Report,
) -> bool {
    // If the trace is missing, a job of the trace may have this name, so do not report it.
    let found = known.clone().any(|name| name == wanted.text) || report.lacks_a_trace();
    if !found {
        let message = format!("no job has the {what} `{}`", wanted.text);
        let known: BTreeSet<&str> = known.collect();
        report.unknown(whole.span(wanted), message, wanted.text, known.into_iter());
    }
    found
}

/// Parses a percentage with two to four decimals. The result is in millionths of the whole.
fn fine_part(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    let (_, decimals) = number.split_once('.')?;
    if !(2..=4).contains(&decimals.len()) {
        return None;
    }
    number.parse::<Money>().ok().map(|amount| amount.get() / 100)
}

/// A decimal number in millionths.
struct Decimal(u64);

impl Value for Decimal {
    const EXPECTED: &'static str = "a number such as 3 or 3.5";
    const LARGEST: &'static str = "18446744073709";
    fn parse(text: &str) -> Result<Decimal, UnitError> {
        text.parse::<Money>().map(|amount| Decimal(amount.get())).map_err(|error| match error {
            UnitError::TooLarge { .. } => error,
            _ => UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED },
        })
    }
}

fn bound(part: Part<'_>, (name, unit): (&str, Unit), whole: &Whole<'_>, report: &mut Report) -> Option<Bound> {
    let (kind, example) = match unit {
        Unit::Time => ("a time", "10m"),
        Unit::Part => ("a proportion", "92%"),
        Unit::Count => ("a count", "3"),
        Unit::Number => ("a number", "3.5"),
    };
    if part.text.is_empty() {
        report.error_with_help(whole.span, "the bound is missing", format!("add one after the sign: `{example}`"));
        return None;
    }
    let tree = Tree { span: whole.span(part), node: Node::Scalar { text: part.text.to_string(), quoted: true } };
    let help = format!("`{name}` is {kind}: write the bound like `{example}`");
    let is_bare = part.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let fine = fine_part(part.text).filter(|_| unit == Unit::Part);
    if let Some(millionths) = fine {
        return Some(Bound::FinePart(millionths));
    }
    let fault = match unit {
        Unit::Time if !is_bare => SimDuration::parse(part.text).err(),
        Unit::Part if !is_bare || part.text.contains('.') => Permille::parse(part.text).err(),
        Unit::Count => u64::parse(part.text).err(),
        Unit::Number => Decimal::parse(part.text).err(),
        // The number has no unit. `value` reports that and suggests the nearest unit.
        Unit::Time | Unit::Part => None,
    };
    if let Some(error) = fault {
        report.error_with_help(tree.span, error.to_string(), help);
        return None;
    }
    match unit {
        Unit::Time => value::<SimDuration>(&tree, report).map(Bound::Time),
        Unit::Part => value::<Permille>(&tree, report).map(Bound::Part),
        Unit::Count => value::<u64>(&tree, report).map(Bound::Count),
        Unit::Number => value::<Decimal>(&tree, report).map(|Decimal(number)| Bound::Number(number)),
    }
}
