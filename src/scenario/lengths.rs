//! Lengths that may be random, such as `30m`, `{exponential: 30m}` or `{lognormal: {median: 30m, sigma: 1.2}}`; and
//! rates such as `10/h`.

use dryrack_rng::Lengths;
use dryrack_units::{Money, SimDuration, UnitError};
use dryrack_yaml::{Entry, Fields, Node, Report, Tree, Value, value};

const SHAPES: [&str; 4] = ["exponential", "weibull", "lognormal", "uniform"];

/// Reads a duration, or a distribution of durations.
pub(super) fn lengths(tree: &Tree, report: &mut Report) -> Option<Lengths> {
    let Node::Map(entries) = &tree.node else {
        let typed = tree.scalar().unwrap_or("");
        let named = SHAPES.iter().find(|shape| typed.starts_with(**shape));
        if let Some(shape) = named {
            let message = format!("`{typed}` lacks its parameters");
            report.error_with_help(tree.span, message, format!("write `{}`", example(shape)));
            return None;
        }
        return value(tree, report).map(Lengths::Fixed);
    };
    let [Entry { key, key_span, value: inner, .. }] = entries.as_slice() else {
        let help = format!("write a duration such as 30m, or `{}`", example("lognormal"));
        report.error_with_help(tree.span, "expected one distribution", help);
        return None;
    };
    match key.as_str() {
        "exponential" => Some(Lengths::Exponential { mean: positive(inner, report)? }),
        "weibull" => {
            let fields = Fields::read(inner, "a Weibull distribution", &["shape", "scale"], report)?;
            let (shape, scale) = (fields.require("shape", "0.8", report), fields.require("scale", "30d", report));
            let shape = decimal(shape?, (0.05, 100.0), report);
            let scale = positive(scale?, report)?;
            Some(Lengths::Weibull { shape: shape?, scale })
        }
        "lognormal" => {
            let fields = Fields::read(inner, "a lognormal distribution", &["median", "sigma"], report)?;
            let (median, sigma) = (fields.require("median", "30m", report), fields.require("sigma", "1", report));
            let sigma = sigma.and_then(|tree| decimal(tree, (0.0, 10.0), report));
            let median = positive(median?, report)?;
            Some(Lengths::Lognormal { median, sigma: sigma? })
        }
        "uniform" => {
            let fields = Fields::read(inner, "a uniform distribution", &["from", "to"], report)?;
            let (from, to) = (fields.require("from", "10m", report), fields.require("to", "1h", report));
            let (from, to): (SimDuration, SimDuration) = (value(from?, report)?, value(to?, report)?);
            if from > to {
                let message = format!("the range from {from} to {to} is empty");
                report.error_with_help(inner.span, message, format!("write `{{from: {to}, to: {from}}}`"));
                return None;
            }
            Some(Lengths::Uniform(from, to))
        }
        other => {
            report.unknown(*key_span, format!("`{other}` is not a distribution"), other, SHAPES.into_iter());
            None
        }
    }
}

fn example(shape: &str) -> &'static str {
    match shape {
        "exponential" => "{exponential: 30m}",
        "weibull" => "{weibull: {shape: 0.8, scale: 30d}}",
        "uniform" => "{uniform: {from: 10m, to: 1h}}",
        _ => "{lognormal: {median: 30m, sigma: 1.2}}",
    }
}

/// Reads a duration that is longer than zero.
pub(super) fn positive(tree: &Tree, report: &mut Report) -> Option<SimDuration> {
    let length: SimDuration = value(tree, report)?;
    if length.is_zero() {
        report.error_with_help(tree.span, "the duration must be above 0", "write a duration such as 30m");
        return None;
    }
    Some(length)
}

struct Decimal(f64);

impl Value for Decimal {
    const EXPECTED: &'static str = "a number such as 0.8";
    fn parse(text: &str) -> Result<Decimal, UnitError> {
        let own = || text.to_string();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if let (true, Some(_)) = (text.starts_with('-'), text[1..].parse::<f64>().ok()) {
            return Err(UnitError::Negative { text: own(), expected: Self::EXPECTED });
        }
        let parsed = text.parse().ok().filter(|_| is_plain);
        parsed.map(Decimal).ok_or_else(|| UnitError::Malformed { text: own(), expected: Self::EXPECTED })
    }
}

pub(super) fn decimal(tree: &Tree, (least, most): (f64, f64), report: &mut Report) -> Option<f64> {
    let Decimal(number) = value(tree, report)?;
    if !(least..=most).contains(&number) {
        let help = format!("write a number from {least} to {most}");
        report.error_with_help(tree.span, format!("{number} is out of range"), help);
        return None;
    }
    Some(number)
}

/// A number of events per unit of time, stored as the mean time between two events. A rate of zero is stored as the
/// longest possible time.
#[derive(Clone, Copy)]
pub(super) struct Rate(pub SimDuration);

impl Value for Rate {
    const EXPECTED: &'static str = "a rate such as 10/h, 0.5/m or 200/d";
    const UNITS: &'static [&'static str] = &["/h"];
    const LARGEST: &'static str = "1000000/s";
    fn parse(text: &str) -> Result<Rate, UnitError> {
        let own = || text.to_string();
        let malformed = || UnitError::Malformed { text: own(), expected: Self::EXPECTED };
        let (count, unit) = text.split_once('/').ok_or_else(malformed)?;
        let unit: u64 = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(malformed()),
        };
        let millionths = count.trim().parse::<Money>().map_err(|_| malformed())?.get();
        if u128::from(millionths) > u128::from(unit) * 1_000_000_000_000 {
            return Err(UnitError::TooLarge { text: own() });
        }
        let gap = (u128::from(unit) * 1_000_000_000_000_000).checked_div(u128::from(millionths));
        let gap = gap.map_or(u64::MAX, |gap| u64::try_from(gap).unwrap_or(u64::MAX));
        Ok(Rate(SimDuration::from_nanos(gap)))
    }
}
