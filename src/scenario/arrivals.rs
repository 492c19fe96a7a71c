//! Arrival times of synthetic jobs: converts a job's `arrivals:` to a pattern of instants.

use super::lengths::{Rate, positive};
use dryrack_units::{Money, Permille, SimDuration, UnitError};
use dryrack_workload::{Arrivals, Batch, Spell};
use dryrack_yaml::{Entry, Fields, Node, Report, Tree, Value, value};

const KINDS: [&str; 5] = ["every", "poisson", "bursty", "daily", "hourly"];
/// The largest number of jobs that may arrive together. A larger number is surely a mistake.
const MAX_BATCH: u32 = 100_000;
/// The number of millionths in a weight of one.
const WEIGHT: u64 = 1_000_000;
/// The largest weight, in millionths. The bound keeps the sum of a week's weights from overflowing.
const MAX_WEIGHT: u64 = 1_000_000 * WEIGHT;

/// The fewest arrivals, on average, in a quiet and a busy time together. With fewer, it takes long to draw the next one.
const LEAST_OF_CYCLE: f64 = 1e-4;

/// When jobs arrive, and how many arrive together.
pub(super) struct ArrivalPattern {
    pub arrivals: Arrivals,
    pub batch: Batch,
}

/// Reads `{poisson: 10/h}`, `{every: 5m}`, `{bursty: …}`, `{daily: …}` or `{hourly: …}`, each with or without a
/// `batch`.
pub(super) fn arrivals(tree: &Tree, report: &mut Report) -> Option<ArrivalPattern> {
    let entries = match &tree.node {
        Node::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    let kinds: Vec<&Entry> = entries.iter().filter(|entry| entry.key != "batch").collect();
    let [kind] = kinds[..] else {
        let help = "write `{poisson: 10/h}`, `{every: 5m}`, `{bursty: …}`, `{daily: …}` or `{hourly: …}`";
        report.error_with_help(tree.span, "expected one kind of arrivals", help);
        return None;
    };
    let batch = tree.get("batch").map_or(Some(Batch::Fixed(1)), |tree| batch(tree, report));
    let arrivals = process(kind, report)?;
    Some(ArrivalPattern { arrivals, batch: batch? })
}

/// Reads `8`, `{uniform: {from: 1, to: 8}}` or `{geometric: 4}`.
fn batch(tree: &Tree, report: &mut Report) -> Option<Batch> {
    let mut size = |tree: &Tree| {
        let size: u32 = value(tree, report)?;
        let is_fine = (1..=MAX_BATCH).contains(&size);
        if !is_fine {
            let help = format!("write a number from 1 to {MAX_BATCH}");
            report.error_with_help(tree.span, format!("a batch of {size} jobs is not possible"), help);
        }
        is_fine.then_some(size)
    };
    let Node::Map(entries) = &tree.node else { return size(tree).map(Batch::Fixed) };
    let [Entry { key, key_span, value: inner, .. }] = entries.as_slice() else {
        let help = "write a number of jobs, `{uniform: {from: 1, to: 8}}` or `{geometric: 4}`";
        report.error_with_help(tree.span, "expected one batch size", help);
        return None;
    };
    match key.as_str() {
        "geometric" => size(inner).map(|mean| Batch::Geometric { mean }),
        "uniform" => {
            let fields = Fields::read(inner, "a uniform size of a batch", &["from", "to"], report)?;
            let (from, to) = (fields.require("from", "1", report), fields.require("to", "8", report));
            let (from, to): (u32, u32) = (value(from?, report)?, value(to?, report)?);
            if from == 0 || from > to || to > MAX_BATCH {
                let message = format!("the range of batch sizes, {from} to {to}, is not valid");
                let help = format!("write numbers from 1 to {MAX_BATCH}, with the smaller one as `from`");
                report.error_with_help(inner.span, message, help);
                return None;
            }
            Some(Batch::Uniform(from, to))
        }
        other => {
            let message = format!("`{other}` is not a batch size");
            report.unknown(*key_span, message, other, ["uniform", "geometric"].into_iter());
            None
        }
    }
}

/// A weight in millionths, parsed like an amount of money.
struct Weight(u64);

impl Value for Weight {
    const EXPECTED: &'static str = "a weight such as 1, 0.5 or 12";
    fn parse(text: &str) -> Result<Weight, UnitError> {
        let fault = |error: UnitError| match error {
            UnitError::TooLarge { text } => UnitError::TooLarge { text },
            _ => UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED },
        };
        text.parse::<Money>().map(|weight| Weight(weight.get())).map_err(fault)
    }
}

/// Reads a list of weights: 24 for the hours of a day, or 168 for those of a week.
fn weights(tree: &Tree, report: &mut Report) -> Option<Vec<u64>> {
    let Node::List(items) = &tree.node else {
        let message = format!("expected a list of weights, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write 24 numbers; the first is for the hour from midnight");
        return None;
    };
    if ![24, 168].contains(&items.len()) {
        let message = format!("expected 24 or 168 weights, found {}", items.len());
        report.error_with_help(tree.span, message, "write 24 numbers for a day, or 168 for a week");
        return None;
    }
    let mut weights = Vec::with_capacity(items.len());
    for item in items {
        let Weight(weight) = value(item, report)?;
        if weight > MAX_WEIGHT {
            let help = format!("write {} or less", MAX_WEIGHT / WEIGHT);
            report.error_with_help(item.span, "this weight is too large", help);
            return None;
        }
        weights.push(weight);
    }
    if weights.iter().all(|weight| *weight == 0) {
        report.error_with_help(
            tree.span,
            "with these weights, no job is ever submitted",
            "write at least one weight above 0",
        );
        return None;
    }
    Some(weights)
}

fn process(Entry { key, key_span, value: inner }: &Entry, report: &mut Report) -> Option<Arrivals> {
    match key.as_str() {
        "every" => positive(inner, report).map(Arrivals::Every),
        "poisson" => counted(inner, report).map(|gap| Arrivals::Poisson { gap }),
        "bursty" => {
            let known = ["quiet", "quiet_for", "busy", "busy_for"];
            let fields = Fields::read(inner, "bursty arrivals", &known, report)?;
            let examples = ["2/h", "2h", "40/h", "20m"];
            let found: Vec<Option<&Tree>> =
                known.iter().zip(examples).map(|(key, example)| fields.require(key, example, report)).collect();
            let [quiet, quiet_for, busy, busy_for] = found[..] else { return None };
            let mut spell = |rate: Option<&Tree>, lasts: Option<&Tree>| {
                let gap = rate.and_then(|tree| value::<Rate>(tree, report));
                let lasts = lasts.and_then(|tree| positive(tree, report));
                Some(Spell { gap: gap?.0, lasts: lasts? })
            };
            let (quiet, busy) = (spell(quiet, quiet_for)?, spell(busy, busy_for)?);
            let in_spell = |spell: Spell| spell.lasts.as_secs_f64() / spell.gap.as_secs_f64();
            if in_spell(quiet) + in_spell(busy) < LEAST_OF_CYCLE {
                let message = "a quiet and a busy time together are too short for their rates: they have fewer than one \
                               arrival in 10,000";
                report.error_with_help(inner.span, message, "write longer times, or `{poisson: 10/h}`");
                return None;
            }
            Some(Arrivals::Bursty { quiet, busy })
        }
        "daily" => {
            let fields = Fields::read(inner, "daily arrivals", &["mean", "peak", "swing"], report)?;
            let mean = fields.require("mean", "10/h", report);
            let gap = mean.and_then(|tree| counted(tree, report));
            let peak = fields.value::<SimDuration>("peak", report).unwrap_or(SimDuration::from_secs(14 * 3600));
            if peak >= SimDuration::from_secs(86_400) {
                let help = "write a time of day such as 14h";
                report.error_with_help(fields.key_span("peak"), "the peak must be a time of day", help);
            }
            let swing = fields.value::<Permille>("swing", report).unwrap_or(Permille::new(500));
            if swing > Permille::new(1000) {
                let message = format!("a swing of {swing} would make the rate negative");
                report.error_with_help(fields.key_span("swing"), message, "write 100% or less");
                return None;
            }
            Some(Arrivals::Daily { gap: gap?, peak, swing })
        }
        "hourly" => {
            let fields = Fields::read(inner, "hourly arrivals", &["mean", "weights"], report)?;
            let gap = fields.require("mean", "10/h", report).and_then(|tree| counted(tree, report));
            let weights = fields.require("weights", "[…]", report).and_then(|tree| weights(tree, report));
            Some(Arrivals::Hourly { gap: gap?, weights: weights? })
        }
        other => {
            report.unknown(*key_span, format!("`{other}` is not a kind of arrivals"), other, KINDS.into_iter());
            None
        }
    }
}

/// A rate above zero.
fn counted(tree: &Tree, report: &mut Report) -> Option<SimDuration> {
    let Rate(gap) = value(tree, report)?;
    if gap == SimDuration::MAX {
        report.error_with_help(tree.span, "at this rate, no job is ever submitted", "write a rate such as 10/h");
        return None;
    }
    Some(gap)
}
