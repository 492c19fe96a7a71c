//! Tasks of a trace that are read during a run. The list is read once before the run to find every error, and again
//! during the run.
//!
//! Tasks that were still running when the list was written may be out of their order, because a later row can state their
//! end, and so may tasks that became eligible later than they were submitted. There are few of them: the first reading
//! keeps them, and the second skips their rows.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use super::gpu_names::{GpuNames, NameCounts};
use super::gpu_nodes::{NodeKinds, UnstatedNodes};
use super::jobs::{QueueNames, Shared, arrival, run_time};
use super::settings::{Estimates, GpuShares, ReadContext, RunOn, TraceSettings, file_or_report};
use super::slurm::{self, TraceSlurm};
use super::speeds::TraceSpeeds;
use super::unfinished::Unfinished;
use super::{TraceDates, warn_of_outliers};
use crate::world::World;
use dryrack_trace::{self as trace, Format, Rows, RunBasis, Tally, TraceError, TraceTask};
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, Checkpoint};
use dryrack_yaml::Report;
use foldhash::fast::FixedState;

/// A list that was read to its end without an error, and the choice of tasks.
#[derive(Clone, Debug)]
pub(crate) struct TaskList {
    path: PathBuf,
    format: Format,
    choice: Choice,
    estimates: Estimates,
    pub(super) gpu_names: GpuNames,
    kinds: NodeKinds,
    gpu_shares: GpuShares,
    checkpoint: Option<Checkpoint>,
    as_pods: bool,
    speeds: TraceSpeeds,
    slurm: Option<TraceSlurm>,
    /// The lists of several partitions that jobs name.
    pub(crate) partition_lists: BTreeSet<Arc<str>>,
    /// The chosen tasks that may be out of order, in order of submission, with the length to replay.
    apart: VecDeque<TraceTask>,
    /// The number of all chosen tasks. `start` is the start of the run in the trace's time.
    pub tasks: usize,
    start: SimTime,
    /// When the chosen tasks were submitted, if the list has dates.
    pub(super) dates: Option<TraceDates>,
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

/// What the first reading of a list finds.
struct Survey<'a> {
    choice: Choice,
    format: Format,
    asked: &'a TraceSettings<'a>,
    counts: NameCounts,
    unstated: UnstatedNodes,
    unfinished: Unfinished,
    slurm: Option<slurm::Survey<'a>>,
    /// The queues of all tasks, including tasks that are not chosen.
    queues: BTreeSet<Arc<str>>,
    /// The chosen tasks that may be out of order, in the order of the file.
    apart: Vec<TraceTask>,
    /// The submissions of the chosen tasks, in the order of the file.
    submits: Vec<SimTime>,
    /// The last submission of a chosen task that is in order.
    last: Option<SimTime>,
    /// Hashes of the names of the chosen tasks, which take less memory than the names. Two names with the same hash are
    /// therefore refused as well.
    names: HashSet<u64>,
    hasher: FixedState,
    /// Why the list cannot be streamed.
    odd: Option<String>,
}

impl<'a> Survey<'a> {
    fn of(choice: Choice, format: Format, asked: &'a TraceSettings<'a>, slurm: Option<&'a TraceSlurm>) -> Survey<'a> {
        Survey {
            choice,
            format,
            asked,
            counts: NameCounts::default(),
            unstated: UnstatedNodes::default(),
            unfinished: Unfinished::default(),
            slurm: slurm.map(slurm::Survey::of),
            queues: BTreeSet::new(),
            apart: Vec::new(),
            submits: Vec::new(),
            last: None,
            names: HashSet::new(),
            hasher: FixedState::default(),
            odd: None,
        }
    }

    /// Adds the next task of the file.
    fn add(&mut self, mut task: TraceTask, queue: Option<Arc<str>>) {
        self.asked.gpu_shares.apply(&mut task);
        self.counts.list(&task);
        // Where the order of the file is not that of submission, the first tasks of the two differ.
        let is_cut = self.asked.skip > 0 || self.asked.limit.is_some();
        if is_cut && task.is_out_of_order() {
            let why = match task.run_basis {
                RunBasis::SoFar => "was still running, and `skip` and `limit` cannot count such a task",
                _ => "became eligible later than submitted, and `skip` and `limit` cannot count such a task",
            };
            self.refuse(&task, why);
        }
        if self.choice.takes(&task, queue.as_deref()) {
            if let Some(slurm) = &mut self.slurm {
                slurm.add(&task, queue.as_deref());
            }
            self.add_chosen(task);
        }
        self.queues.extend(queue);
    }

    fn add_chosen(&mut self, mut task: TraceTask) {
        self.submits.push(task.submit);
        self.counts.add(&task);
        self.unstated.add(&task, self.format);
        self.unfinished.settle(&mut task, self.asked.running);
        if !self.names.insert(self.hasher.hash_one(&task.name)) {
            self.refuse(&task, "has the name of an earlier task");
        }
        if task.run_basis == RunBasis::NotRecorded {
            self.refuse(&task, "has no duration");
        }
        if task.is_out_of_order() {
            return self.apart.push(task);
        }
        if self.last.is_some_and(|last| task.submit < last) {
            self.refuse(&task, "is submitted before the task above it");
        }
        self.last = Some(task.submit);
    }

    /// Notes why the list cannot be streamed, unless another task said so before.
    fn refuse(&mut self, task: &TraceTask, why: &str) {
        self.odd.get_or_insert_with(|| format!("line {}: `{}` {why}", task.line, task.name));
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
    let mut stream = file_or_report(trace::TaskStream::open(&path, Some(format)), span, report)?;
    let mut list = TaskList {
        path: path.clone(),
        format,
        choice: choice.clone(),
        estimates: asked.estimates,
        gpu_names: GpuNames::default(),
        kinds: NodeKinds::of(asked, world),
        gpu_shares: asked.gpu_shares,
        checkpoint: asked.checkpoint,
        as_pods: setting.as_pods,
        speeds: TraceSpeeds::default(),
        slurm: setting.slurm.map(TraceSlurm::of),
        partition_lists: BTreeSet::new(),
        apart: VecDeque::new(),
        tasks: 0,
        start: asked.offset,
        dates: None,
    };
    let slurm = list.slurm.clone();
    let mut survey = Survey::of(choice, format, asked, slurm.as_ref());
    let header = stream.rows.header().cloned();
    let read = stream.each::<TraceError>(&path, |task| {
        let queue = QueueNames(header.as_ref()).of(&task);
        survey.add(task, queue);
        Ok(())
    });
    file_or_report(read, span, report)?;
    let Survey { counts, unstated, unfinished, slurm, queues, mut apart, mut submits, odd, .. } = survey;
    if let Some(slurm) = slurm {
        list.partition_lists = slurm.lists.clone();
        slurm.report(asked, report);
    }
    apart.sort_by_key(|task| (task.submit, task.line));
    submits.sort_unstable();
    list.apart = apart.into();
    list.tasks = submits.len();
    list.start = submits.first().map_or(asked.offset, |first| asked.start(*first));
    list.dates = TraceDates::of(header.as_ref(), submits.iter().copied(), asked);
    unstated.note(format, asked, setting.has_partitions(), world);
    unfinished.note(stream.rows.tally(), asked, world, report);
    warn_of_outliers(&submits, asked, report);
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
    /// The next task of the file, if it was read already.
    ahead: Option<TraceTask>,
    /// The number of chosen tasks that are still to be read from the file.
    left: usize,
}

impl TaskList {
    pub fn open(&self) -> Result<TaskStream, TraceError> {
        let rows = trace::TaskStream::open(&self.path, Some(self.format))?.rows;
        let words = (self.gpu_names.clone(), self.kinds.clone());
        let of = (self.as_pods, self.checkpoint, RunOn::Nodes);
        let shared = Shared::new(words, self.speeds.clone(), of, self.slurm.clone());
        Ok(TaskStream { rows, list: self.clone(), shared, ahead: None, left: self.tasks - self.apart.len() })
    }
}

impl TaskStream {
    /// The next task, or an error if the file has changed since it was checked.
    pub fn next_arrival(&mut self) -> Result<Option<Arrival>, TraceError> {
        let TaskList { format, estimates, gpu_shares, start, .. } = self.list;
        if self.ahead.is_none() {
            self.ahead = self.next_in_file()?;
        }
        let place = |task: &TraceTask| (task.submit, task.line);
        let is_first = |apart: &TraceTask| self.ahead.as_ref().is_none_or(|ahead| place(apart) < place(ahead));
        let next = match self.list.apart.front().is_some_and(is_first) {
            true => self.list.apart.pop_front(),
            false => self.ahead.take(),
        };
        Ok(next.map(|mut task| {
            gpu_shares.apply(&mut task);
            let queue = QueueNames(self.rows.header()).of(&task);
            let behavior = Arc::new(self.shared.behavior(self.shared.run(&task), task.run));
            let at = run_time(&task, start);
            arrival(&task, queue, behavior, at, (format, estimates), &mut self.shared)
        }))
    }

    /// The next chosen task of the file that is in order.
    fn next_in_file(&mut self) -> Result<Option<TraceTask>, TraceError> {
        while self.left > 0 {
            let Some(task) = self.rows.next().transpose()? else { break };
            let queue = QueueNames(self.rows.header()).of(&task);
            if !task.is_out_of_order() && self.list.choice.takes(&task, queue.as_deref()) {
                self.left -= 1;
                return Ok(Some(task));
            }
        }
        Ok(None)
    }
}
