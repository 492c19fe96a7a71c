//! `usage:` and `sampling:`: the GPU usage of a job, and how it is sampled.

use std::sync::Arc;

use super::lengths::positive;
use super::usage_recorded::{Recorded, recorded};
use dryrack_trace::Roots;
use dryrack_units::{Bytes, Permille, SimDuration};
use dryrack_workload::{GpuUsage, Phases, Sampling, Shape, Usage, UsagePhase};
use dryrack_yaml::{Fields, Node, Report, Tree, list, report_unit, text, value};

const SHAPES: [&str; 6] = ["constant", "steps", "phases", "periodic", "csv", "trace"];
const USAGE: [&str; 11] =
    ["constant", "steps", "phases", "repeat", "periodic", "csv", "trace", "from", "gpus", "noise", "memory"];
const SAMPLING: [&str; 11] = [
    "interval",
    "jitter",
    "delay",
    "lost",
    "repeated",
    "late",
    "late_by",
    "not_available",
    "nan",
    "silent",
    "clock_steps",
];

/// The folders in which recordings are looked for.
pub(super) struct Places<'p> {
    pub folder: &'p std::path::Path,
    pub roots: &'p Roots,
}

/// Reads `40%`, a map that describes one shape, or a list with a percentage or map for each GPU.
pub(super) fn usage(tree: &Tree, places: &Places<'_>, report: &mut Report) -> Option<Usage> {
    let gpus: Vec<GpuUsage> = match &tree.node {
        Node::List(items) => {
            if items.is_empty() {
                report.error_with_help(
                    tree.span,
                    "the list of usages is empty",
                    "write `usage: 40%`, or one entry for each GPU",
                );
                return None;
            }
            let read = items.iter().map(|item| one(item, places, report)).collect::<Vec<_>>();
            let mut gpus = Vec::new();
            for (item, found) in items.iter().zip(read) {
                let found = found?;
                if found.len() > 1 {
                    let help = "write it as the whole of `usage`, or select one of its columns: `gpus: [gpu0]`";
                    report.error_with_help(
                        item.span,
                        "one entry describes one GPU, but this recording has several",
                        help,
                    );
                }
                gpus.extend(found.into_iter().take(1));
            }
            gpus
        }
        Node::Scalar { .. } | Node::Map(_) => one(tree, places, report)?,
    };
    (!gpus.is_empty()).then(|| Usage::new(gpus))
}

/// Reads the usage of one GPU. A recording may contain several GPUs.
fn one(tree: &Tree, places: &Places<'_>, report: &mut Report) -> Option<Vec<GpuUsage>> {
    if let Node::Scalar { .. } = tree.node {
        let level = percent(tree, report)?;
        return Some(vec![GpuUsage { shape: Shape::Constant(level), noise: Permille::ZERO, memory: None }]);
    }
    let fields = Fields::read(tree, "usage", &USAGE, report)?;
    fields.exclusive(&SHAPES, "usage has one shape", report);
    let given = SHAPES.iter().find_map(|shape| Some((*shape, fields.get(shape)?)));
    let Some((shape, of)) = given else {
        if fields.lacks_all(&SHAPES) {
            let help = format!("add one of {}, such as `constant: 40%`", list(SHAPES.into_iter()));
            report.error_with_help(fields.place(), "the usage of the GPUs is missing", help);
        }
        return None;
    };
    let only = |key: &'static str, shapes: &[&str], report: &mut Report| {
        if fields.has(key) && !shapes.contains(&shape) {
            let message = format!("`{key}` has no effect on usage of the kind `{shape}`");
            report.error_with_help(fields.key_span(key), message, "leave it out");
        }
    };
    only("repeat", &["phases"], report);
    only("from", &["csv", "trace"], report);
    only("gpus", &["csv", "trace"], report);
    let noise = fields.get("noise").map_or(Some(Permille::ZERO), |tree| percent(tree, report));
    let memory = fields.value::<Bytes>("memory", report);
    let shapes = match shape {
        "constant" => vec![Shape::Constant(percent(of, report)?)],
        "steps" => vec![Shape::Steps(steps(of, report)?)],
        "phases" => vec![Shape::Phases(phases(of, &fields, report)?)],
        "periodic" => vec![periodic(of, report)?],
        _ => {
            let from = fields.value("from", report).unwrap_or_default();
            let asked = Recorded { shape, of, gpus: fields.items("gpus", "a column or a pod", report) };
            let series = recorded(&asked, places, report)?;
            let late = series.iter().any(|series| series.length() <= from);
            if late {
                let message = format!("the recording ends before `from`, {from}");
                report.error_with_help(fields.key_span("from"), message, "write an earlier `from`");
                return None;
            }
            series.into_iter().map(|series| Shape::Recorded { series: Arc::new(series), from }).collect()
        }
    };
    let noise = noise?;
    Some(shapes.into_iter().map(|shape| GpuUsage { shape, noise, memory }).collect())
}

/// Reads a percentage of at most 100%.
pub(super) fn percent(tree: &Tree, report: &mut Report) -> Option<Permille> {
    let found: Permille = value(tree, report)?;
    if found > Permille::new(1000) {
        report.error_with_help(tree.span, format!("{found} is more than 100%"), "write 100% or less");
        return None;
    }
    Some(found)
}

/// Reads `[{at: 0s, is: 0%}, {at: 5m, is: 90%}]`.
fn steps(tree: &Tree, report: &mut Report) -> Option<Vec<(SimDuration, Permille)>> {
    let items = list_of(tree, "steps such as `[{at: 5m, is: 90%}]`", report)?;
    let mut steps: Vec<(SimDuration, Permille)> = Vec::new();
    for item in items {
        let fields = Fields::read(item, "a step of usage", &["at", "is"], report)?;
        let at = fields.require("at", "5m", report).and_then(|tree| value::<SimDuration>(tree, report));
        let level = fields.require("is", "90%", report).and_then(|tree| percent(tree, report));
        let (at, level) = (at?, level?);
        if steps.last().is_some_and(|(before, _)| *before >= at) {
            report.error_with_help(fields.key_span("at"), "the steps must be sorted by time", "write a later time");
            return None;
        }
        steps.push((at, level));
    }
    Some(steps)
}

/// Reads `[{load: 5m}, {train: 20m, is: 95%}, {evaluate: 3m}, {idle: 2m}]`.
fn phases(tree: &Tree, around: &Fields<'_>, report: &mut Report) -> Option<Phases> {
    let items = list_of(tree, "phases such as `[{load: 5m}, {train: 1h, is: 95%}]`", report)?;
    let names = UsagePhase::ALL.map(|(name, _)| name);
    let mut phases = Vec::new();
    for item in items {
        let known = [names.as_slice(), &["is"]].concat();
        let fields = Fields::read(item, "a phase of usage", &known, report)?;
        fields.exclusive(&names, "a phase has one kind", report);
        let given = UsagePhase::ALL.iter().find_map(|(name, phase)| Some((*phase, fields.get(name)?)));
        let Some((phase, tree)) = given else {
            if fields.lacks_all(&names) {
                let help = format!("add one of {}, such as `train: 1h`", list(names.into_iter()));
                report.error_with_help(fields.place(), "the kind of this phase is missing", help);
            }
            return None;
        };
        let length = positive(tree, report)?;
        let level = fields.get("is").map_or(Some(phase.level()), |tree| percent(tree, report))?;
        phases.push((phase, length, level));
    }
    Some(Phases { phases, repeat: around.value("repeat", report).unwrap_or(false) })
}

/// Reads `{period: 10m, high_for: 6m, high: 90%, low: 5%}`.
fn periodic(tree: &Tree, report: &mut Report) -> Option<Shape> {
    let fields = Fields::read(tree, "periodic usage", &["period", "high_for", "high", "low"], report)?;
    let period = fields.require("period", "10m", report).and_then(|tree| positive(tree, report));
    let high_for = fields.require("high_for", "6m", report).and_then(|tree| value::<SimDuration>(tree, report));
    let high = fields.require("high", "90%", report).and_then(|tree| percent(tree, report));
    let low = fields.get("low").map_or(Some(Permille::ZERO), |tree| percent(tree, report));
    let (period, high_for, high, low) = (period?, high_for?, high?, low?);
    if high_for > period {
        let help = format!("write {period} or less");
        report.error_with_help(fields.key_span("high_for"), "`high_for` is longer than the period", help);
        return None;
    }
    Some(Shape::Periodic { period, high_for, high, low })
}

fn list_of<'t>(tree: &'t Tree, expected: &str, report: &mut Report) -> Option<&'t [Tree]> {
    match &tree.node {
        Node::List(items) if !items.is_empty() => Some(items),
        node => {
            let found = if matches!(node, Node::List(_)) { "an empty list" } else { tree.kind() };
            let message = format!("expected {expected}, found {found}");
            report.error_with_help(
                tree.span,
                message,
                "write each entry after `- `, or all entries in brackets with commas between them",
            );
            None
        }
    }
}

/// How samples are taken, and their interval if it is stated.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampled {
    pub sampling: Arc<Sampling>,
    pub interval: Option<SimDuration>,
}

/// Reads `{interval: 10s, lost: 5%}`; missing settings come from `above`.
pub(super) fn sampling(tree: &Tree, above: &Sampled, report: &mut Report) -> Option<Sampled> {
    let fields = Fields::read(tree, "sampling", &SAMPLING, report)?;
    let interval = fields.get("interval").map(|tree| positive(tree, report));
    let mut sampling = (*above.sampling).clone();
    for (key, length) in
        [("jitter", &mut sampling.jitter), ("delay", &mut sampling.delay), ("late_by", &mut sampling.late_by)]
    {
        *length = fields.value(key, report).unwrap_or(*length);
    }
    for (key, chance) in [
        ("lost", &mut sampling.lost),
        ("repeated", &mut sampling.repeated),
        ("late", &mut sampling.late),
        ("not_available", &mut sampling.not_available),
        ("nan", &mut sampling.nan),
    ] {
        *chance = fields.get(key).and_then(|tree| percent(tree, report)).unwrap_or(*chance);
    }
    for (keys, chances) in [
        (["lost", "late", "repeated"].as_slice(), [sampling.lost, sampling.late, sampling.repeated].as_slice()),
        (&["not_available", "nan"], &[sampling.not_available, sampling.nan]),
    ] {
        if chances.iter().map(|chance| u64::from(chance.get())).sum::<u64>() > 1000 {
            let span = keys.iter().find(|key| fields.has(key)).map_or(fields.place(), |key| fields.key_span(key));
            let message = format!("{} add up to more than 100%", list(keys.iter().copied()));
            report.error_with_help(span, message, "write probabilities that add up to 100% or less");
        }
    }
    for (key, chance) in [("late", sampling.late), ("repeated", sampling.repeated)] {
        if chance > Permille::ZERO && sampling.late_by.is_zero() && fields.has(key) {
            let help = "add `late_by: 30s`";
            report.error_with_help(fields.key_span(key), format!("`{key}` needs the delay `late_by`"), help);
        }
    }
    let silences = fields.get("silent").map(|tree| silences(tree, report));
    let steps = fields.get("clock_steps").map(|tree| clock_steps(tree, report));
    if let Some(silences) = silences {
        sampling.silences = silences?;
    }
    if let Some(steps) = steps {
        sampling.clock_steps = steps?;
    }
    let interval = interval.map_or(Some(above.interval), |found| found.map(Some))?;
    Some(Sampled { sampling: Arc::new(sampling), interval })
}

/// Reads `[{from: 5m, for: 10m}]`. Times are relative to the start of the run.
fn silences(tree: &Tree, report: &mut Report) -> Option<Vec<(SimDuration, SimDuration)>> {
    let mut silences = Vec::new();
    for item in list_of(tree, "silences such as `[{from: 5m, for: 10m}]`", report)? {
        let fields = Fields::read(item, "a silence", &["from", "for"], report)?;
        let from = fields.require("from", "5m", report).and_then(|tree| value::<SimDuration>(tree, report));
        let length = fields.require("for", "10m", report).and_then(|tree| positive(tree, report));
        silences.push((from?, length?));
    }
    Some(silences)
}

/// Reads `[{at: 5m, by: -1h}]`. Times are relative to the start of the run.
fn clock_steps(tree: &Tree, report: &mut Report) -> Option<Vec<(SimDuration, i64)>> {
    let mut steps = Vec::new();
    for item in list_of(tree, "steps such as `[{at: 5m, by: -1h}]`", report)? {
        let fields = Fields::read(item, "a step of the clock", &["at", "by"], report)?;
        let at = fields.require("at", "5m", report).and_then(|tree| value::<SimDuration>(tree, report));
        let by = fields.require("by", "-1h", report)?;
        let typed = text(by, "a duration such as 1h or -1h", report)?;
        let (sign, length) = typed.strip_prefix('-').map_or((1, typed), |length| (-1, length));
        match length.parse::<SimDuration>().map(|length| i64::try_from(length.as_nanos())) {
            Ok(Ok(nanos)) => steps.push((at?, sign * nanos)),
            Ok(Err(_)) => report.error_with_help(by.span, format!("`{typed}` is too large"), "write 100000d or less"),
            Err(error) => report_unit(&error, typed, by.span, report),
        }
    }
    Some(steps)
}
