//! Workloads and fleets from traces: converts recorded tasks to arrivals, and recorded nodes to nodes.
//!
//! The rows of a trace are independent of this simulator. These rules convert them:
//!
//! - A task arrives at its recorded submission and runs for its recorded time, whenever it is placed. A delay therefore
//!   moves its end. Every run ends as completed and none is retried: the recorded outcome (completed, failed,
//!   cancelled) does not change how long the task held its resources.
//! - The recorded wait is kept for comparison only. The run time that the user stated becomes an estimate and is never
//!   enforced, because jobs may run longer: 1,500 jobs of Gaia did.
//! - In the Standard Workload Format a processor is one core. The format does not describe nodes, so the processors of
//!   a job may be anywhere. A job of n processors is a gang of n tasks of one core each, placed `anywhere`. The nodes
//!   are the file's own `nodes:`.
//! - In the openb lists a task is a pod, which has cores, RAM and a number of GPUs. It takes whole GPUs, or a share in
//!   thousandths if it asks for less than one. The trace has the nodes. GPU types are those of the catalog, which knows
//!   the trace's names for them. The catalog does not know the types `G2` and `G3`; their memory is 0, so no task may
//!   ask for GPU memory on them. The lists `multigpu20` to `multigpu50` have no times and need `order` or `tune`.
//! - With `order` (a file that names one task per line) or `tune` (the share of the GPUs that all tasks together ask
//!   for), tasks arrive one per second in that order and stay. Such a run shows how full a cluster gets, not how long
//!   jobs take. See [`order`].
//! - In the log that HeliosData publishes, a task states its nodes, and is treated as in Slurm's files. It stays in its
//!   virtual cluster as described next.
//! - In HeliosArtifact's cluster log, the Philly table and Tiresias' lists a task asks for whole GPUs on as few nodes as can
//!   hold them, or with `gpu_nodes: any` on any nodes: see [`gpu_nodes`]. A virtual cluster is a queue. It is also a label `vc`, which its nodes have and
//!   its tasks ask for. `from` and `to` choose a part of a trace whose times are dates; the run starts with the first
//!   chosen task.
//! - In dryrack's own lists (`csv`, `jsonl`) the fields of a task determine its kind. A task that states nodes is
//!   treated as in Slurm's files, one that states processors as in the Standard Workload Format. A task that asks for
//!   cores, RAM or parts of GPUs is a pod as in openb. Any other task asks for whole GPUs. Instances of `dlrm` are
//!   pods.
//! - Under a Kubernetes profile, a task whose application allows a number of tasks on one node is a pod with a topology
//!   spread constraint. Other profiles have no such rule.
//! - With `gpu_shares: whole`, a task that asks for a part of a GPU gets a whole one, as from a device plugin that does
//!   not share GPUs.
//! - A task of Slurm's files becomes as many tasks as it had nodes, each on a different node with an equal part of the
//!   cores, RAM and GPUs. Its partition is its queue, and the nodes are the file's own.
//! - In Gavel's traces and in the workloads of Pollux and Sia a task asks for whole GPUs. The lists of Pollux and Sia
//!   do not state how long tasks run: `durations` does, by application.
//! - A pod of GenAI 2026 is a task of one GPU with the recorded usage.
//! - A task that was still running runs for its time limit, or with `running: elapsed` for the recorded time: see
//!   [`unfinished`].
//! - With `run_on: instances`, a task is a job with `resources`: see [`instances`].
//! - With `estimates: exact`, the estimate of each task is its actual run time.
//! - With `resample: {block: 1d}`, each seed draws another list of the recorded days: see [`resample`].
//! - `ranks` (a file with lines of the form `RANK NODE`) sets the order in which the trace's nodes are declared. The
//!   order also decides ties between nodes. With `tune` and without `ranks` the nodes are shuffled.

mod gpu_names;
mod gpu_nodes;
mod instances;
mod jobs;
mod nodes;
mod order;
mod resample;
mod settings;
mod slurm;
mod speeds;
mod streamed;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::ser::SerializeMap;

use super::job_template::Draft;
use super::jobs::checkpoint;
use super::world::World;
use dryrack_metrics::ResampledFrom;
use dryrack_scheduler::Target;
use dryrack_trace::{
    self as trace, Format, Index, NodeTrace, Outliers, RunBasis, SwfHeader, Tally, TaskTrace, TraceContent, TraceEntry,
    TraceTask,
};
use dryrack_units::{SimDuration, SimTime, counted, date};
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, text, value};
pub use gpu_names::GpuNameFindings;
use gpu_names::{GpuNames, NameCounts};
use gpu_nodes::{GPU_NODES, NodeKinds, UnstatedNodes};
use jobs::{Selected, Shared};
use nodes::add_node;
pub use resample::Resampled;
use settings::{Choice, Estimates, GpuShares, RunOn, TraceSettings, file_or_report};
pub(super) use settings::{ReadContext, value_or_report};
use slurm::TraceSlurm;
use speeds::TraceSpeeds;
pub(super) use streamed::{TaskList, TaskStream};
use unfinished::{RUNNING, Running, Unfinished};

/// The use of a trace by a scenario, with irregularities found in the trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceUse {
    pub name: String,
    /// The number of tasks that became jobs of the run, and of nodes that became its nodes.
    pub tasks: usize,
    pub nodes: usize,
    /// The number of these tasks that are submitted after the scenario stops the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_until: Option<usize>,
    /// How the list was resampled, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resampled: Option<Resampled>,
    /// When the chosen tasks were submitted, if the trace has dates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dates: Option<TraceDates>,
    /// What the names of GPUs in the trace mean for a result.
    #[serde(skip)]
    pub gpu_names: GpuNameFindings,
    /// Counts over the whole list of tasks, including tasks that were not chosen.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The dates of the tasks that a run takes from a trace, in the time zone of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceDates {
    /// The date at which the run starts, since the start of 1970.
    pub start: SimTime,
    /// The dates of the first and the last submission.
    pub first: SimTime,
    pub last: SimTime,
}

impl TraceDates {
    /// The dates of tasks that were submitted at these times. A log in the Standard Workload Format states its own start.
    fn of(
        header: Option<&SwfHeader>,
        mut submits: impl Iterator<Item = SimTime>,
        asked: &TraceSettings<'_>,
    ) -> Option<TraceDates> {
        let zero = header.and_then(|header| header.unix_start_time).unwrap_or(0);
        let one = submits.next()?;
        let (first, last) = submits.fold((one, one), |(first, last), at| (first.min(at), last.max(at)));
        // A start that no date can express is not one.
        let date =
            |at: SimTime| Some(SimTime::from_nanos(zero.checked_mul(1_000_000_000)?.checked_add(at.as_nanos())?));
        let (start, first, last) = (date(asked.start(first))?, date(first)?, date(last)?);
        (first >= trace::SINCE_1970).then_some(TraceDates { start, first, last })
    }
}

impl std::fmt::Display for TraceDates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "from {} to {}", date::text(self.first), date::text(self.last))
    }
}

impl Serialize for TraceDates {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("first", &date::text(self.first))?;
        map.serialize_entry("last", &date::text(self.last))?;
        map.end()
    }
}

impl TraceUse {
    /// The use of a list with this name, by this number of jobs and of nodes.
    fn of(
        (name, tasks, nodes): (&str, usize, usize),
        (resampled, dates): (Option<Resampled>, Option<TraceDates>),
        gpu_names: GpuNameFindings,
        tally: Tally,
    ) -> TraceUse {
        TraceUse { name: name.to_string(), tasks, nodes, after_until: None, resampled, dates, gpu_names, tally }
    }

    /// The date at which the run starts, if its jobs are submitted when they were recorded.
    pub fn starts_at(&self) -> Option<SimTime> {
        self.dates.filter(|_| self.resampled.is_none()).map(|dates| dates.start)
    }

    /// A sentence such as `the jobs of week.csv were submitted from 2026-11-01 00:00:12 to 2026-11-14 23:58:01`.
    pub fn dates_line(&self) -> Option<String> {
        self.dates.map(|dates| format!("The jobs of {} were submitted {dates}", self.name))
    }

    /// How the list was resampled from one log, if it was.
    pub fn resampled_from(&self) -> Option<ResampledFrom> {
        let list = self.resampled.as_ref()?;
        Some(ResampledFrom { blocks: list.blocks, length: list.length })
    }

    /// Lines for people: first what was used, then the irregularities.
    pub fn lines(&self) -> Vec<String> {
        let nodes = if self.nodes == 0 { String::new() } else { format!(" and {}", counted(self.nodes, "node")) };
        let here = self.tasks - self.after_until.unwrap_or_default();
        let (jobs, rows) = (counted(here, "job"), self.tally.rows());
        let are = if here + self.nodes == 1 { "is" } else { "are" };
        let mut lines = vec![format!("{}: {jobs}{nodes} of it {are} in this run; {rows} rows", self.name)];
        lines.extend(self.dates.map(|dates| format!("submitted {dates}")));
        lines.extend(self.resampled.as_ref().map(|resampled| resampled.line.clone()));
        lines.extend(self.tally.lines());
        lines
    }
}

const CHOICES: [(&str, Choice); 3] = [("all", Choice::All), ("gpu", Choice::Gpu), ("none", Choice::None)];

/// The formats of files that are not public archives. A file that is not a known trace must name one of them.
pub(super) fn formats() -> Vec<(&'static str, Format)> {
    Format::ALL.into_iter().filter(|format| !format.is_archive()).map(|format| (format.name(), format)).collect()
}

const GPU_SHARES: [(&str, GpuShares); 2] = [("recorded", GpuShares::AsRecorded), ("whole", GpuShares::Whole)];

const RUN_ON: [(&str, RunOn); 2] = [("nodes", RunOn::Nodes), ("instances", RunOn::Instances)];

const ESTIMATES: [(&str, Estimates); 2] = [("recorded", Estimates::AsRecorded), ("exact", Estimates::Exact)];

const FIELDS: [&str; 26] = [
    "name",
    "format",
    "list",
    "file",
    "nodes",
    "node_list",
    "node_file",
    "queue",
    "limit",
    "offset",
    "skip",
    "order",
    "ranks",
    "tune",
    "from",
    "to",
    "estimates",
    "running",
    "durations",
    "gpu_names",
    "gpu_nodes",
    "gpu_shares",
    "run_on",
    "checkpoint",
    "speed",
    "resample",
];

/// The result of reading a trace.
pub(super) struct Traced {
    pub used: TraceUse,
    pub drafts: Vec<Draft>,
    /// The workload of the whole list, including tasks that were not chosen, if the profile needs it.
    pub target: Option<Target>,
    /// The list of tasks, if tasks are read during the run. There are then no drafts.
    pub list: Option<TaskList>,
}

/// How a trace is used, its jobs as drafts or as a list, and the workload of its whole list.
pub(super) type TracedParts = (Option<TraceUse>, (Vec<Draft>, Option<TaskList>), Option<Target>);

impl Traced {
    /// Counts the jobs that are submitted after the run is stopped.
    pub fn cut_at(mut self, until: Option<SimTime>) -> Traced {
        let is_late = |draft: &&Draft| until.is_some_and(|until| draft.arrival.at > until);
        let late = self.drafts.iter().filter(is_late).count();
        self.used.after_until = (late > 0).then_some(late);
        self
    }

    /// How the trace is used, its jobs, and the workload of the whole list.
    pub fn parts(self) -> TracedParts {
        (Some(self.used), (self.drafts, self.list), self.target)
    }
}

/// Reads `trace:`. Adds its nodes to the world after those of the file. Returns its jobs.
pub(super) fn read(
    file: &Fields<'_>,
    setting: &ReadContext<'_>,
    world: &mut World,
    report: &mut Report,
) -> Option<Traced> {
    let index = Index::built_in();
    let asked = asked(file.get("trace")?, report)?;
    let entry = match asked.name {
        Some((name, span)) => Some(find(&index, name, span, &asked, report)?),
        None => None,
    };
    let format = asked.format.or(entry.map(|entry| entry.format)).expect("a trace has a name or a format");
    let nodes = read_nodes(&index, entry, format, &asked, setting, report)?;
    let ranked = order::nodes(nodes, &asked, setting, report)?;
    let mut gpus = 0;
    for node in &ranked {
        gpus += u64::from(node.gpus);
        add_node(node, asked.span, world, report);
    }
    if setting.only_nodes {
        return None;
    }
    if asked.run_on.0 == RunOn::Instances {
        instances::check(file, &asked, setting, world, report)?;
    }
    if setting.streamed {
        let (list, tally) = streamed::checked(format, &asked, setting, world, report)?;
        let (names, of) = (list.gpu_names.findings.clone(), (asked.called(), list.tasks, ranked.len()));
        let used = TraceUse::of(of, (None, list.dates), names, tally);
        return Some(Traced { used, drafts: Vec::new(), target: None, list: Some(list) });
    }
    let mut tasks = match asked.file {
        Some((typed, span)) => {
            let path = setting.find(typed, span, report)?;
            file_or_report(trace::read_tasks(format, &path), span, report)?
        }
        None => {
            let name = asked.name.expect("without a file it has a name").0;
            value_or_report(trace::load_tasks(&index, setting.roots, name, asked.list), asked.span, report)?
        }
    };
    // With `order` or `tune`, tasks never end, so they need no duration.
    let stays = asked.order.is_some() || asked.tune.is_some();
    if !stays || !asked.durations.is_empty() {
        with_durations(&mut tasks, &asked, report)?;
    }
    let usage = match asked.name {
        Some((name, span)) if format.is_archive() => {
            value_or_report(trace::load_usage(&index, setting.roots, name), span, report)?
        }
        _ => Vec::new(),
    };
    tasks.tasks.iter_mut().for_each(|task| asked.gpu_shares.apply(task));
    warn_of_limits(&tasks, &asked, setting, report);
    let ordered = order::tasks(&tasks, gpus, &asked, setting, report)?;
    let selected = Selected::of(&tasks, ordered, &asked, report);
    let counts = surveyed(&mut tasks, &selected, (format, &asked, setting), world, report);
    let names = GpuNames::resolve(&counts, &asked, world, report);
    let kinds = NodeKinds::of(&asked, world);
    let target = setting.needs_target.then(|| jobs::target(&tasks, format, (&names, &kinds)));
    let speeds = TraceSpeeds::read(&asked, (&counts, &names), world, report);
    let gpu_names = names.findings.clone();
    let submits = selected.rows().filter(|_| asked.order.is_none()).map(|row| tasks.tasks[row].submit);
    let dates = TraceDates::of(tasks.header.as_ref(), submits, &asked);
    let slurm = slurm_of((&tasks, &selected), (&asked, setting), report);
    let of = (setting.as_pods, asked.checkpoint, asked.run_on.0);
    let shared = Shared::new((names, kinds), speeds, of, slurm.clone());
    let (drafts, resampled) = jobs::drafts(&tasks, (format, shared), (selected, usage), (&asked, setting), report);
    instances::note_wanted(&drafts, asked.run_on.1, world);
    slurm::warn_of_limits(&drafts, slurm.as_ref(), &asked, report);
    if drafts.is_empty() && !report.has_errors() {
        let help = "choose another queue, a smaller `offset` or `skip`, or a larger `limit`";
        report.error_with_help(asked.span, "no task of this trace is selected", help);
    }
    let of = (asked.called(), drafts.len(), ranked.len());
    let used = TraceUse::of(of, (resampled, dates), gpu_names, tasks.tally);
    Some(Traced { used, drafts, target, list: None })
}

/// The cluster of Slurm, if the file has one. It must have what the chosen tasks state.
fn slurm_of(
    (tasks, selected): (&TaskTrace, &Selected),
    (asked, setting): (&TraceSettings<'_>, &ReadContext<'_>),
    report: &mut Report,
) -> Option<TraceSlurm> {
    let slurm = setting.slurm.map(TraceSlurm::of)?;
    let mut survey = slurm::Survey::of(&slurm);
    selected.rows().for_each(|row| survey.add(&tasks.tasks[row], selected.queue(row)));
    survey.report(asked, report);
    Some(slurm)
}

/// Counts the kinds of chosen tasks, gives those that were still running a length, and says what is assumed of them.
fn surveyed(
    tasks: &mut TaskTrace,
    selected: &Selected,
    (format, asked, setting): (Format, &TraceSettings<'_>, &ReadContext<'_>),
    world: &mut World,
    report: &mut Report,
) -> NameCounts {
    let mut counts = NameCounts::default();
    tasks.tasks.iter().for_each(|task| counts.list(task));
    let (mut unstated, mut unfinished) = (UnstatedNodes::default(), Unfinished::default());
    for row in selected.rows() {
        let task = &mut tasks.tasks[row];
        unfinished.settle(task, asked.running);
        counts.add(task);
        unstated.add(task, format);
    }
    unstated.note(format, asked, setting.has_partitions(), world);
    unfinished.note(&tasks.tally, asked, world, report);
    // With an order of its own, tasks are not submitted when they were.
    let is_plain = asked.order.is_none() && asked.tune.is_none();
    let submits: Vec<SimTime> = selected.rows().filter(|_| is_plain).map(|row| tasks.tasks[row].submit).collect();
    warn_of_outliers(&submits, asked, report);
    counts
}

/// Warns of few tasks that were submitted long before or after all others, and refuses an offset from 1970. The submissions
/// must be in order.
fn warn_of_outliers(submits: &[SimTime], asked: &TraceSettings<'_>, report: &mut Report) {
    let is_dated = submits.first().is_some_and(|first| *first >= trace::SINCE_1970);
    if is_dated && asked.from.is_none() && asked.offset > SimTime::ZERO && asked.offset < trace::SINCE_1970 {
        let message = format!("the times of the trace {} are dates, which `offset` counts from 1970", asked.called());
        let help = format!("write `from: {}` in `trace:` instead of `offset`", date::text(submits[0]));
        report.error_with_help(asked.span, message, help);
    }
    if let Some(outliers) = Outliers::among(submits) {
        let message = format!("of the trace {}, {}", asked.called(), outliers.sentence());
        let help = format!(
            "write `{}` in `trace:`; most of the run, and of its resampled days, would be empty",
            outliers.keys()
        );
        report.warning(asked.span, message, help);
    }
}

/// Reads the nodes to use, in the trace's order.
fn read_nodes(
    index: &Index,
    entry: Option<&TraceEntry>,
    format: Format,
    asked: &TraceSettings<'_>,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<NodeTrace> {
    let says_so = asked.node_file.is_some() || (entry.is_some() && format == Format::Openb);
    let choice = asked.nodes.unwrap_or(if says_so { Choice::All } else { Choice::None });
    if !says_so && choice != Choice::None {
        let help = "leave `nodes` out here, and describe the nodes in `nodes:` of the file";
        let message = format!("the trace {} has no nodes", asked.called());
        report.error_with_help(asked.nodes_span, message, help);
        return None;
    }
    if choice == Choice::None {
        return Some(NodeTrace { nodes: Vec::new() });
    }
    let read = match (asked.node_file, entry) {
        (Some((typed, span)), _) => {
            let path = setting.find(typed, span, report)?;
            file_or_report(trace::read_nodes(format, &path), span, report)?
        }
        (None, entry) => {
            let entry = entry.expect("what says something of its nodes has a name or a file of them");
            // Read the list of all nodes and keep those with GPUs. A separate list of nodes with GPUs may not exist.
            let lists = entry.files.iter().filter(|file| file.holds == TraceContent::Nodes);
            let all = lists.map(|file| file.list.as_str()).find(|list| list.starts_with("all"));
            let nodes = trace::load_nodes(index, setting.roots, &entry.name, asked.node_list.or(all));
            value_or_report(nodes, asked.span, report)?
        }
    };
    let nodes = read.nodes.into_iter().filter(|node| choice == Choice::All || node.gpus > 0).collect();
    Some(NodeTrace { nodes })
}

fn asked<'t>(tree: &'t Tree, report: &mut Report) -> Option<TraceSettings<'t>> {
    let span = tree.span;
    let mut asked = TraceSettings {
        span,
        name: None,
        format: None,
        list: None,
        file: None,
        nodes: None,
        nodes_span: span,
        node_list: None,
        node_file: None,
        queues: Vec::new(),
        limit: None,
        offset: SimTime::ZERO,
        skip: 0,
        order: None,
        ranks: None,
        tune: None,
        from: None,
        to: None,
        estimates: Estimates::AsRecorded,
        running: Running::Limit,
        durations: BTreeMap::new(),
        durations_span: span,
        gpu_names: Vec::new(),
        gpu_nodes: None,
        gpu_shares: GpuShares::AsRecorded,
        run_on: (RunOn::Nodes, span),
        checkpoint: None,
        speed: None,
        resample: None,
    };
    if let Node::Scalar { .. } = tree.node {
        asked.name = Some((text(tree, "the name of a trace", report)?, span));
        return Some(asked);
    }
    let fields = Fields::read(tree, "a trace", &FIELDS, report)?;
    let path = |key: &str, expected: &str, report: &mut Report| {
        fields.get(key).and_then(|tree| Some((text(tree, expected, report)?, tree.span)))
    };
    asked.name = path("name", "the name of a trace", report);
    asked.file = path("file", "the path of a list of tasks", report);
    asked.node_file = path("node_file", "the path of a list of nodes", report);
    asked.order = path("order", "the path of a file that names tasks", report);
    asked.ranks = path("ranks", "the path of a file of ranks and nodes", report);
    asked.span = asked.name.or(asked.file).map_or(span, |(_, span)| span);
    asked.format = fields.word("format", "a format of traces", &formats(), report);
    asked.list = fields.text("list", "the name of a list", report);
    asked.nodes = fields.word("nodes", "a value of `nodes`", &CHOICES, report);
    asked.nodes_span = if fields.has("nodes") { fields.key_span("nodes") } else { asked.span };
    asked.node_list = fields.text("node_list", "the name of a list of nodes", report);
    asked.queues = fields.items("queue", "the name of a queue", report);
    asked.limit = fields.count("limit", 1, report);
    asked.offset = fields.value("offset", report).unwrap_or(SimTime::ZERO);
    asked.skip = fields.count("skip", 0, report).unwrap_or(0);
    asked.tune = fields.value("tune", report);
    asked.from = date(&fields, "from", "00:00:00", report);
    asked.to = date(&fields, "to", "23:59:59", report);
    asked.estimates = fields.word("estimates", "a value of `estimates`", &ESTIMATES, report).unwrap_or(asked.estimates);
    asked.running = fields.word("running", "a value of `running`", &RUNNING, report).unwrap_or(asked.running);
    asked.durations = durations(&fields, report);
    if let Some(run_on) = fields.word("run_on", "a value of `run_on`", &RUN_ON, report) {
        asked.run_on = (run_on, fields.key_span("run_on"));
    }
    asked.gpu_shares =
        fields.word("gpu_shares", "a value of `gpu_shares`", &GPU_SHARES, report).unwrap_or(asked.gpu_shares);
    asked.checkpoint = fields.get("checkpoint").and_then(|tree| checkpoint(tree, report));
    asked.durations_span = if fields.has("durations") { fields.key_span("durations") } else { asked.span };
    asked.gpu_names = gpu_names::read(&fields, report);
    asked.gpu_nodes = fields.word("gpu_nodes", "a value of `gpu_nodes`", &GPU_NODES, report);
    asked.speed = fields.get("speed");
    asked.resample = fields.get("resample").and_then(|tree| resample::read(tree, report));
    resample::refuse_contradictions(&asked, &fields, report);
    fields.exclusive(&["offset", "from"], "both set the start of the run", report);
    fields.exclusive(&["order", "tune"], "both set the order of the tasks", report);
    fields.exclusive(&["list", "file"], "both select the tasks", report);
    fields.exclusive(&["node_list", "node_file"], "both select the nodes", report);
    is_found(&asked, &fields, report).then_some(asked)
}

/// Whether the settings say where the tasks are. If not, this is reported as an error.
fn is_found(asked: &TraceSettings<'_>, fields: &Fields<'_>, report: &mut Report) -> bool {
    match (asked.name, asked.file, asked.format) {
        (Some(_), ..) | (None, Some(_), Some(_)) => true,
        (None, Some((_, span)), None) => {
            let formats: Vec<&str> = formats().iter().map(|(name, _)| *name).collect();
            let help = format!("add `format:`, one of {}", formats.join(", "));
            report.error_with_help(span, "a file that is not a known trace needs its format", help);
            false
        }
        (None, None, _) => {
            fields.require("name", "gaia", report);
            false
        }
    }
}

/// Warns if tasks may be on one node in a limited number only, and the profile has no such rule.
fn warn_of_limits(tasks: &TaskTrace, asked: &TraceSettings<'_>, setting: &ReadContext<'_>, report: &mut Report) {
    let limited = tasks.tasks.iter().filter(|task| task.most_per_node.is_some()).count();
    if limited > 0 && !setting.as_pods {
        let (limited, trace) = (counted(limited, "task"), asked.called());
        let message = format!("the profile places {limited} of {trace} without their limit for each node");
        let help = "use a Kubernetes profile, which keeps the most tasks of an application on one node";
        report.warning(asked.span, message, help);
    }
}

/// Reads `{bert: 2h, cifar10: 40m}`.
fn durations(fields: &Fields<'_>, report: &mut Report) -> BTreeMap<String, SimDuration> {
    let Some(tree) = fields.get("durations") else { return BTreeMap::new() };
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected durations by application, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{bert: 2h, cifar10: 40m}`");
        return BTreeMap::new();
    };
    let read = |entry: &Entry, report: &mut Report| Some((entry.key.clone(), value(&entry.value, report)?));
    entries.iter().filter_map(|entry| read(entry, report)).collect()
}

/// Sets the duration of tasks without one. If an application of the trace has no duration, this is an error.
fn with_durations(tasks: &mut TaskTrace, asked: &TraceSettings<'_>, report: &mut Report) -> Option<()> {
    let unsaid = |task: &&mut TraceTask| task.run_basis == RunBasis::NotRecorded;
    if tasks.tasks.iter_mut().filter(unsaid).any(|task| task.application.is_none()) {
        let message = format!("the trace {} has no durations", asked.called());
        let help =
            "add `tune: 130%` or `order: FILE`: the tasks then arrive one per second in that order and never end";
        report.error_with_help(asked.span, message, help);
        return None;
    }
    let mut missing = BTreeSet::new();
    for task in tasks.tasks.iter_mut().filter(unsaid) {
        let application = task.application.clone().unwrap_or_default();
        match asked.durations.get(&application) {
            Some(duration) => task.run = *duration,
            None => {
                missing.insert(application);
            }
        }
    }
    let known: BTreeSet<&str> = tasks.tasks.iter().filter_map(|task| task.application.as_deref()).collect();
    for unknown in asked.durations.keys().filter(|application| !known.contains(application.as_str())) {
        let message = format!("the trace {} has no application `{unknown}`", asked.called());
        report.unknown(asked.durations_span, message, unknown, known.iter().copied());
    }
    if missing.is_empty() {
        return Some(());
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let message = format!("the trace {} has no durations for {}", asked.called(), missing.join(", "));
    let help = format!("add them: `durations: {{{}: 1h}}`", missing.join(": 1h, "));
    report.error_with_help(asked.durations_span, message, help);
    None
}

/// Reads a date. A day without a time means this time of it.
fn date(fields: &Fields<'_>, key: &str, time: &str, report: &mut Report) -> Option<SimTime> {
    let tree = fields.get(key)?;
    let expected = "a date such as 2017-10-09 or 2017-10-09 07:01:55";
    let typed = text(tree, expected, report)?;
    let date = date::parse(typed).or_else(|| date::parse(&format!("{typed} {time}")));
    if date.is_none() {
        let message = format!("`{typed}` is not a date");
        report.error_with_help(tree.span, message, format!("write {expected}"));
    }
    date
}

fn find<'i>(
    index: &'i Index,
    name: &str,
    span: Span,
    asked: &TraceSettings<'_>,
    report: &mut Report,
) -> Option<&'i TraceEntry> {
    let Some(entry) = index.traces.iter().find(|entry| entry.name == name) else {
        let names = index.traces.iter().map(|entry| entry.name.as_str());
        report.unknown(span, format!("no trace is named `{name}`"), name, names);
        return None;
    };
    for (list, holds) in [(asked.list, TraceContent::Tasks), (asked.node_list, TraceContent::Nodes)] {
        let Some(list) = list else { continue };
        let lists = entry.files.iter().filter(|file| file.holds == holds).map(|file| file.list.as_str());
        if !lists.clone().any(|known| known == list) {
            report.unknown(asked.span, format!("the trace {} has no list `{list}`", entry.name), list, lists);
            return None;
        }
    }
    Some(entry)
}
