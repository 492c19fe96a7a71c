//! `resample: {block: 1d}`: each seed draws another list of the recorded days of a trace.
//!
//! A task belongs to the block in which it was submitted and keeps its whole run time, even if it ended in a later
//! block. Days are counted from the start of the run.

use serde::Serialize;

use super::jobs::Chosen;
use super::settings::{ReadContext, Resampling, TraceSettings};
use dryrack_trace::{BlockMethod, Blocks};
use dryrack_units::{SimDuration, SimTime, counted};
use dryrack_yaml::{Fields, Report, Tree};

const FIELDS: [&str; 4] = ["block", "cycle", "length", "method"];
const METHODS: [(&str, BlockMethod); 2] = [("moving", BlockMethod::Moving), ("stationary", BlockMethod::Stationary)];
const DAY: SimDuration = SimDuration::from_secs(86_400);
const WEEK: SimDuration = SimDuration::from_secs(7 * 86_400);
/// The largest number of blocks in a new list. More would surely be a mistake.
const MAX_BLOCKS: u64 = 1_000_000;

/// How a list was resampled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resampled {
    /// A line for people.
    pub line: String,
    /// The number of blocks that the chosen part of the log has, rounded down.
    pub blocks: u64,
    /// The length of the new list in proportion to the log.
    pub length: f64,
}

/// Reads `{block: 1d}` with an optional `cycle`, `length` and `method`.
pub(super) fn read(tree: &Tree, report: &mut Report) -> Option<Resampling> {
    let fields = Fields::read(tree, "resampling", &FIELDS, report)?;
    let block = fields.require("block", "1d", report).and_then(|tree| dryrack_yaml::value::<SimDuration>(tree, report));
    let method = fields.word("method", "a method of resampling", &METHODS, report).unwrap_or(BlockMethod::Moving);
    let (cycle, length) = (fields.value("cycle", report), fields.value("length", report));
    let given = [("block", block), ("cycle", cycle), ("length", length)];
    for (key, _) in given.iter().filter(|(_, length)| *length == Some(SimDuration::ZERO)) {
        let span = fields.get(key).map_or(tree.span, |tree| tree.span);
        report.error_with_help(span, format!("`{key}` must be above 0"), "write a time such as `1d`");
    }
    let block = block.filter(|block| !block.is_zero())?;
    let is_of_weeks = block.as_nanos() % WEEK.as_nanos() == 0;
    let cycle = cycle.filter(|cycle| !cycle.is_zero()).unwrap_or(if is_of_weeks { WEEK } else { DAY });
    if method == BlockMethod::Stationary && block < cycle {
        let span = fields.get("block").map_or(tree.span, |tree| tree.span);
        let message = format!("a stationary block has whole cycles of {cycle}, so its mean cannot be {block}");
        report.error_with_help(span, message, format!("write `block: {cycle}` or more, or a shorter `cycle`"));
        return None;
    }
    let blocks = Blocks { method, block, cycle };
    let place = |key: &str| fields.get(key).map_or(tree.span, |tree| tree.span);
    let step = match method {
        BlockMethod::Moving => ("block", place("block")),
        BlockMethod::Stationary => ("cycle", place("cycle")),
    };
    Some(Resampling { span: tree.span, blocks, length: length.filter(|length| !length.is_zero()), step })
}

/// Reports settings that contradict resampling.
pub(super) fn refuse_contradictions(asked: &TraceSettings<'_>, fields: &Fields<'_>, report: &mut Report) {
    if asked.resample.is_none() {
        return;
    }
    for key in ["order", "tune"].into_iter().filter(|key| fields.has(key)) {
        let message = format!("`{key}` gives tasks no times, so there are no days to resample");
        report.error_with_help(fields.key_span(key), message, format!("leave `{key}` or `resample` out"));
    }
}

/// Replaces the chosen tasks, which are in order of time, by those of a new list. Also returns a line about it.
pub(super) fn resampled<'t>(
    chosen: &[Chosen<'t>],
    asked: Resampling,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> (Vec<Chosen<'t>>, Option<Resampled>) {
    let Resampling { span, blocks, length, step } = asked;
    let last = chosen.last().map_or(SimDuration::ZERO, |task| task.at.since(SimTime::ZERO));
    let cycles = blocks.cycles(last);
    let recorded = SimDuration::from_nanos(blocks.cycle.as_nanos().saturating_mul(cycles));
    if cycles < 2 || blocks.block > recorded {
        let message = match cycles {
            0 | 1 => format!(
                "the chosen tasks are submitted within {last}, which is less than two cycles of {}",
                blocks.cycle
            ),
            _ => format!("a block of {} is longer than the recorded {recorded}", blocks.block),
        };
        report.error_with_help(
            span,
            message,
            "write a shorter `block`, a shorter `cycle`, or a longer part of the trace",
        );
        return (Vec::new(), None);
    }
    let length = length.unwrap_or(recorded);
    if length.as_nanos().div_ceil(blocks.step().as_nanos()) > MAX_BLOCKS {
        let message = format!("a list of {length} has more than {MAX_BLOCKS} times `{}: {}`", step.0, blocks.step());
        report.error_with_help(step.1, message, format!("write a longer `{}`, such as `1d`", step.0));
        return (Vec::new(), None);
    }
    let within = |from: SimDuration| chosen.partition_point(|task| task.at.since(SimTime::ZERO) < from);
    let mut drawn = Vec::new();
    for piece in blocks.draw(cycles, length, &mut setting.stream("blocks of a trace")) {
        let (from, to) = (within(piece.from), within(piece.from.saturating_add(piece.length)));
        let moved = |task: &Chosen<'t>| {
            let into = task.at.since(SimTime::ZERO.saturating_add(piece.from));
            Chosen { at: SimTime::ZERO.saturating_add(piece.at).saturating_add(into), is_moved: true, ..*task }
        };
        drawn.extend(chosen[from..to].iter().map(moved));
    }
    let left_out = chosen.len() - within(recorded);
    let of = match blocks.method {
        BlockMethod::Moving => format!("blocks of {}", blocks.block),
        BlockMethod::Stationary => format!("blocks of {} on average", blocks.block),
    };
    let rest = match left_out {
        0 => String::new(),
        count => format!("; {} after the last whole cycle left out", counted(count, "task")),
    };
    let used = Resampled {
        line: format!("resampled: {of} from {recorded}, drawn with the seed{rest}"),
        blocks: recorded.as_nanos() / blocks.block.as_nanos(),
        length: length.as_nanos() as f64 / recorded.as_nanos() as f64,
    };
    (drawn, Some(used))
}
