//! Tasks of a trace that are read during a run. The list is read once before the run to find every error, and again
//! during the run.

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use super::gpu_names::{GpuNames, NameCounts};
use super::gpu_nodes::{NodeKinds, UnstatedNodes};
use super::jobs::{QueueNames, Shared, arrival, run_time};
use super::settings::{Estimates, GpuShares, ReadContext, TraceSettings, value_or_report};
use super::speeds::TraceSpeeds;
use super::unfinished::{Running, Unfinished};
use crate::world::World;
use dryrack_trace::{self as trace, Format, Rows, RunBasis, Tally, TraceError, TraceTask};
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, Checkpoint};
use dryrack_yaml::Report;

/// A list that was read to its end without an error, and the choice of tasks.
#[derive(Clone, Debug)]
pub(crate) struct TaskList {
    path: PathBuf,
    format: Format,
    choice: Choice,
    estimates: Estimates,
    running: Running,
    pub(super) gpu_names: GpuNames,
    kinds: NodeKinds,
    gpu_shares: GpuShares,
    checkpoint: Option<Checkpoint>,
    as_pods: bool,
    speeds: TraceSpeeds,
    /// The number of chosen tasks. `start` is the start of the run in the trace's time.
    pub tasks: usize,
    start: SimTime,
}

/// The conditions that choose tasks.
#[derive(Clone, Debug)]
struct Choice {
    queues: Vec<String>,
    offset: SimTime,
    from: Option<SimTime>,
    to: Option<SimTime>,
    skip: u64,
    limit: u64,
}

impl Choice {
    fn of(asked: &TraceSettings<'_>) -> Choice {
        Choice {
            queues: asked.queues.iter().map(|(queue, _)| (*queue).to_string()).collect(),
            offset: asked.offset,
            from: asked.from,
            to: asked.to,
            skip: asked.skip.into(),
            limit: asked.limit.map_or(u64::MAX, u64::from),
        }
    }

    /// Returns whether a task is chosen, and counts it.
    fn takes(&mut self, task: &TraceTask, queue: Option<&str>) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let is_of_queue = self.queues.is_empty() || self.queues.iter().any(|typed| queue == Some(typed));
        let is_within = task.submit >= self.offset
            && self.from.is_none_or(|from| task.submit >= from)
            && self.to.is_none_or(|to| task.submit <= to);
        let is_taken = self.limit > 0 && is_of_queue && is_within;
        self.limit -= u64::from(is_taken);
        is_taken
    }
}

/// Reads a list to its end. It must be in order of submission, and each task must have a unique name.
pub(super) fn checked(
    format: Format,
    asked: &TraceSettings<'_>,
    setting: &ReadContext<'_>,
    world: &mut World,
    report: &mut Report,
) -> Option<(TaskList, Tally)> {
    refuse_other_load(asked, setting, report);
    let Some((typed, span)) = asked.file.filter(|_| is_plain(asked, report)) else {
        if asked.file.is_none() {
            let help = "write `file:` and `format:`, or leave `--stream` out";
            report.error_with_help(asked.span, "a known trace is read as a whole and cannot be streamed", help);
        }
        return None;
    };
    let path = setting.find(typed, span, report)?;
    let choice = Choice::of(asked);
    let mut stream = value_or_report(trace::TaskStream::open(&path, Some(format)), span, report)?;
    let mut list = TaskList {
        path: path.clone(),
        format,
        choice: choice.clone(),
        estimates: asked.estimates,
        running: asked.running,
        gpu_names: GpuNames::default(),
        kinds: NodeKinds::of(asked, world),
        gpu_shares: asked.gpu_shares,
        checkpoint: asked.checkpoint,
        as_pods: setting.as_pods,
        speeds: TraceSpeeds::default(),
        tasks: 0,
        start: asked.offset,
    };
    let (mut counting, mut counts, mut unstated) = (choice, NameCounts::default(), UnstatedNodes::default());
    let mut unfinished = Unfinished::default();
    let (mut names, mut queues) = (HashSet::new(), BTreeSet::new());
    let (hasher, mut last, mut odd) = (foldhash::fast::FixedState::default(), None, None);
    let header = stream.rows.header().cloned();
    let read = stream.each::<TraceError>(&path, |mut task| {
        let queue = QueueNames(header.as_ref()).of(&task);
        counts.list(&task);
        if counting.takes(&task, queue.as_deref()) {
            if list.tasks == 0 {
                list.start = asked.start(task.submit);
            }
            list.tasks += 1;
            counts.add(&task);
            unstated.add(&task, format);
            unfinished.settle(&mut task, asked.running);
            // To save memory, only a hash of each name is stored. Two names with the same hash are therefore refused as
            // well.
            let is_new = names.insert(hasher.hash_one(&task.name));
            let fault = match last {
                Some(last) if task.submit < last => Some("is submitted before the task above it"),
                _ if !is_new => Some("has the name of an earlier task"),
                _ if task.run_basis == RunBasis::NotRecorded => Some("has no duration"),
                _ => None,
            };
            last = Some(task.submit);
            odd = odd.take().or(fault.map(|fault| format!("line {}: `{}` {fault}", task.line, task.name)));
        }
        queues.extend(queue);
        Ok(())
    });
    value_or_report(read, span, report)?;
    unstated.note(format, asked, world);
    unfinished.note(stream.rows.tally(), asked, world, report);
    list.gpu_names = GpuNames::resolve(&counts, asked, world, report);
    list.speeds = TraceSpeeds::read(asked, (&counts, &list.gpu_names), world, report);
    refuse_unknown_queues(asked, &queues, report);
    if let Some(odd) = odd {
        let help = "leave `--stream` out; a streamed list needs unique names, durations, and the order of submission";
        report.error_with_help(span, odd, help);
    }
    if list.tasks == 0 && !report.has_errors() {
        let help = "choose another queue, a smaller `offset` or `skip`, or a larger `limit`";
        report.error_with_help(asked.span, "no task of this trace is selected", help);
    }
    Some((list, stream.rows.tally().clone()))
}

/// Reports queues that no task of the list has.
fn refuse_unknown_queues(asked: &TraceSettings<'_>, queues: &BTreeSet<Arc<str>>, report: &mut Report) {
    for (typed, span) in asked.queues.iter().filter(|(typed, _)| !queues.contains(*typed)) {
        let known = queues.iter().map(|queue| &**queue);
        report.unknown(*span, format!("the trace {} has no queue `{typed}`", asked.called()), typed, known);
    }
}

/// Reports a load that is not the trace's own.
fn refuse_other_load(asked: &TraceSettings<'_>, setting: &ReadContext<'_>, report: &mut Report) {
    if !setting.load.is_plain() {
        let help = "leave `load` and `growth` out, or leave `--stream` out";
        report.error_with_help(asked.span, "a streamed trace cannot get another load", help);
    }
}

/// Whether the scenario leaves tasks unchanged and in their own order. If not, this is reported as an error.
fn is_plain(asked: &TraceSettings<'_>, report: &mut Report) -> bool {
    let is_plain =
        asked.order.is_none() && asked.tune.is_none() && asked.durations.is_empty() && asked.resample.is_none();
    if !is_plain {
        let help = "leave `order`, `tune`, `durations` and `resample` out, or leave `--stream` out";
        report.error_with_help(asked.span, "a streamed trace cannot be reordered or changed", help);
    }
    is_plain
}

/// The tasks of a list, read one by one.
pub(crate) struct TaskStream {
    rows: Box<dyn Rows>,
    list: TaskList,
    shared: Shared,
    left: usize,
}

impl TaskList {
    pub fn open(&self) -> Result<TaskStream, TraceError> {
        let rows = trace::TaskStream::open(&self.path, Some(self.format))?.rows;
        let words = (self.gpu_names.clone(), self.kinds.clone());
        let shared = Shared::new(words, self.speeds.clone(), (self.as_pods, self.checkpoint));
        Ok(TaskStream { rows, list: self.clone(), shared, left: self.tasks })
    }
}

impl TaskStream {
    /// The next task, or an error if the file has changed since it was checked.
    pub fn next_arrival(&mut self) -> Result<Option<Arrival>, TraceError> {
        let TaskList { format, estimates, running, gpu_shares, start, .. } = self.list;
        while self.left > 0 {
            let Some(mut task) = self.rows.next().transpose()? else { break };
            let queue = QueueNames(self.rows.header()).of(&task);
            if self.list.choice.takes(&task, queue.as_deref()) {
                self.left -= 1;
                gpu_shares.apply(&mut task);
                Unfinished::default().settle(&mut task, running);
                let behavior = Arc::new(self.shared.behavior(task.run));
                let at = run_time(&task, start);
                return Ok(Some(arrival(&task, queue, behavior, at, (format, estimates), &mut self.shared)));
            }
        }
        Ok(None)
    }
}
