//! Workloads and fleets that come from a trace: from what was recorded to what arrives when.
//!
//! A trace room's row says what was recorded and nothing of this simulator; what is made of it is decided here, and by
//! these rules:
//!
//! - A task arrives at its recorded submission and runs for as long as it ran, whenever it is placed: a delay moves its
//!   end. How the recorded run ended (completed, failed, cancelled) does not change how long it held what it held, so
//!   every run ends as completed and none is tried again.
//! - The recorded wait is kept beside it, for comparison alone. What the user said it would take is an estimate and is
//!   never enforced: Gaia has 1,500 jobs that ran longer.
//! - In the Standard Workload Format a processor is one core, and the job's processors may lie anywhere: the format says
//!   nothing of nodes. So a job of n processors is a gang of n tasks of one core each, placed `anywhere`, and the nodes
//!   are the file's own `nodes:`.
//! - In the openb lists a task is a pod: cores, RAM and so many GPUs, each whole, or a thousandth share of it where less
//!   than the whole is asked for. Its nodes are in the trace. GPU types are those of the catalog under the trace's names
//!   for them; of a type that the catalog does not know (openb's `G2` and `G3`), nothing is known but its name, so its
//!   memory is 0 and nothing may ask for any.
//!   The lists `multigpu20` to `multigpu50` have no times, and are taken with `order` or `tune` alone.
//! - With `order` (a file that names tasks, one to a line) or `tune` (a part of the GPUs that all tasks together ask for)
//!   tasks come one a second in that order and stay: how full a cluster gets is asked then, and not for how long. See
//!   [`order`].
//! - In Helios' cluster log, the Philly table and Tiresias' lists a task asks for whole GPUs: a task of n GPUs is a gang
//!   of n tasks of one GPU each. A virtual cluster is a queue, and a label `vc` that its nodes carry and its tasks ask
//!   for. `from` and `to` choose a part of a trace whose times are dates; the run starts with the first task that is taken.
//! - In dryrack's own lists (`csv`, `jsonl`) a task is what it asks for: processors as in the Standard Workload Format, a
//!   pod as in openb where it asks for cores, RAM or parts of GPUs, or else whole GPUs. Instances of `dlrm` are pods.
//! - A task of Slurm's files is as many tasks as it had nodes, each on one of its own with an equal part of its cores, RAM
//!   and GPUs. Its partition is its queue; nodes are the file's own.
//! - In Gavel's traces and in the workloads of Pollux and Sia a task asks for whole GPUs. How long those of Pollux and Sia
//!   run their lists do not say: `durations` does, by application.
//! - A pod of GenAI 2026 is a task of one GPU, whose use is what was recorded.
//! - `estimates: exact` says of each task that it runs as long as it does.
//! - `ranks` (a file of `RANK NODE`) is the order in which the trace's nodes are declared, and so the one in which ties
//!   between them are broken. With `tune` and without `ranks` they are shuffled.

mod jobs;
mod nodes;
mod order;
mod streamed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::diagnostic::{Report, Span};
use super::fields::{Fields, text, value};
use super::jobs::Draft;
use super::tree::{Entry, Node, Tree};
use super::world::World;
use dryrack_rng::Stream;
use dryrack_scheduler::Target;
use dryrack_trace::{
    self as trace, Format, Holds, Index, NodeTrace, Roots, RunBasis, Tally, TaskTrace, TraceEntry, TraceTask,
};
use dryrack_units::{Permille, SimDuration, SimTime, counted};
use nodes::add_node;
pub(super) use streamed::{TaskList, TaskStream};

/// The trace that a scenario uses, and what was odd in it.
#[derive(Clone, Debug, Serialize)]
pub struct TraceUse {
    pub name: String,
    /// Tasks and nodes that became jobs and nodes of the run.
    pub tasks: usize,
    pub nodes: usize,
    /// Of the whole list of tasks, chosen or not.
    #[serde(flatten)]
    pub tally: Tally,
}

impl TraceUse {
    /// For people: what was taken, then what was odd.
    pub fn lines(&self) -> Vec<String> {
        let nodes = if self.nodes == 0 { String::new() } else { format!(" and {}", counted(self.nodes, "node")) };
        let (jobs, rows) = (counted(self.tasks, "job"), self.tally.rows());
        let are = if self.tasks + self.nodes == 1 { "is" } else { "are" };
        let mut lines = vec![format!("{}: {jobs}{nodes} of it {are} in this run; {rows} rows", self.name)];
        lines.extend(self.tally.lines());
        lines
    }
}

/// Which of the trace's nodes are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    All,
    Gpu,
    None,
}

const CHOICES: [(&str, Choice); 3] = [("all", Choice::All), ("gpu", Choice::Gpu), ("none", Choice::None)];

pub(super) const FORMATS: [(&str, Format); 12] = [
    ("csv", Format::Csv),
    ("dlrm", Format::Dlrm),
    ("gavel", Format::Gavel),
    ("helios", Format::Helios),
    ("jobcomp", Format::Jobcomp),
    ("jsonl", Format::Jsonl),
    ("openb", Format::Openb),
    ("philly", Format::Philly),
    ("pollux", Format::Pollux),
    ("sacct", Format::Sacct),
    ("swf", Format::Swf),
    ("tiresias", Format::Tiresias),
];

/// How long each task is said to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Estimates {
    AsRecorded,
    /// As long as it will run.
    Exact,
}

const ESTIMATES: [(&str, Estimates); 2] = [("recorded", Estimates::AsRecorded), ("exact", Estimates::Exact)];

const FIELDS: [&str; 18] = [
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
    "durations",
];

/// What is asked of a trace.
struct Asked<'t> {
    span: Span,
    name: Option<(&'t str, Span)>,
    format: Option<Format>,
    list: Option<&'t str>,
    file: Option<(&'t str, Span)>,
    nodes: Option<Choice>,
    nodes_span: Span,
    node_list: Option<&'t str>,
    node_file: Option<(&'t str, Span)>,
    queues: Vec<(&'t str, Span)>,
    limit: Option<u32>,
    /// What came before this is left out, and this becomes the start.
    offset: SimTime,
    /// So many of the first tasks are left out; the start stays.
    skip: u32,
    order: Option<(&'t str, Span)>,
    ranks: Option<(&'t str, Span)>,
    tune: Option<Permille>,
    /// Dates, both included. The first task from then on is the start.
    from: Option<SimTime>,
    to: Option<SimTime>,
    estimates: Estimates,
    /// Of what the trace says it does not, by application.
    durations: BTreeMap<String, SimDuration>,
    durations_span: Span,
}

impl Asked<'_> {
    /// What messages call it.
    fn called(&self) -> &str {
        self.name.or(self.file).map_or("the trace", |(name, _)| name)
    }

    /// When the run starts, in the time of the trace, whose first task that is taken comes then. Where times are dates that
    /// is when it does: nobody means the years since 1970.
    fn start(&self, first: SimTime) -> SimTime {
        let has_dates = self.offset == SimTime::ZERO && first >= trace::SINCE_1970;
        if self.from.is_some() || has_dates { first } else { self.offset }
    }
}

/// What a trace is read against.
pub(super) struct Setting<'s> {
    pub roots: &'s Roots,
    /// Of the scenario file.
    pub folder: &'s Path,
    pub seed: u64,
    /// Whether the profile asks for what is expected to come.
    pub needs_target: bool,
    /// Its tasks are read while the run goes on.
    pub streamed: bool,
}

/// What became of a trace.
pub(super) struct Traced {
    pub used: TraceUse,
    pub drafts: Vec<Draft>,
    /// Of the whole list, chosen or not, if it was asked for.
    pub target: Option<Target>,
    /// In place of drafts, where its tasks are read while the run goes on.
    pub list: Option<TaskList>,
}

/// Reads `trace:`. Its nodes go into the world at once, behind those of the file; its jobs are given back.
pub(super) fn read(file: &Fields<'_>, setting: &Setting<'_>, world: &mut World, report: &mut Report) -> Option<Traced> {
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
    if setting.streamed {
        let (list, tally) = streamed::checked(format, &asked, setting, report)?;
        let used = TraceUse { name: asked.called().to_string(), tasks: list.tasks, nodes: ranked.len(), tally };
        return Some(Traced { used, drafts: Vec::new(), target: None, list: Some(list) });
    }
    let mut tasks = match asked.file {
        Some((typed, span)) => {
            let path = setting.find(typed, span, report)?;
            told(trace::read_tasks(format, &path), span, report)?
        }
        None => {
            let name = asked.name.expect("without a file it has a name").0;
            told(trace::load_tasks(&index, setting.roots, name, asked.list), asked.span, report)?
        }
    };
    // What comes in an order of the file's own stays.
    let stays = asked.order.is_some() || asked.tune.is_some();
    if !stays || !asked.durations.is_empty() {
        with_durations(&mut tasks, &asked, report)?;
    }
    let usage = match (format, asked.name) {
        (Format::Genai, Some((name, span))) => told(trace::load_usage(&index, setting.roots, name), span, report)?,
        _ => Vec::new(),
    };
    let target = setting.needs_target.then(|| jobs::target(&tasks, format));
    let ordered = order::tasks(&tasks, gpus, &asked, setting, report)?;
    let drafts = jobs::drafts(&tasks, format, (ordered, usage), &asked, report);
    if drafts.is_empty() && !report.has_errors() {
        let help = "choose another queue, a smaller `offset` or `skip`, or a larger `limit`";
        report.error_with_help(asked.span, "nothing of this trace is chosen", help);
    }
    let name = asked.called().to_string();
    let used = TraceUse { name, tasks: drafts.len(), nodes: ranked.len(), tally: tasks.tally };
    Some(Traced { used, drafts, target, list: None })
}

impl Setting<'_> {
    /// The file of that name beside the scenario, or else in the folder of data; plain or with `.gz` added.
    fn find(&self, typed: &str, span: Span, report: &mut Report) -> Option<PathBuf> {
        let folders = [Some(self.folder), self.roots.data.as_deref()];
        let places = folders.into_iter().flatten().flat_map(|folder| {
            let path = folder.join(typed);
            let packed = PathBuf::from(format!("{}.gz", path.display()));
            [path, packed]
        });
        let found = places.into_iter().find(|path| path.is_file());
        if found.is_none() {
            let help = "set DRYRACK_DATA to the folder that holds it, or put it beside the scenario";
            report.trace_missing(span, format!("{typed} is not here"), help.to_string());
        }
        found
    }

    fn stream(&self, purpose: &'static str) -> Stream {
        Stream::new(self.seed, purpose, 0)
    }
}

/// The nodes to take, in the trace's order.
fn read_nodes(
    index: &Index,
    entry: Option<&TraceEntry>,
    format: Format,
    asked: &Asked<'_>,
    setting: &Setting<'_>,
    report: &mut Report,
) -> Option<NodeTrace> {
    let says_so = asked.node_file.is_some() || (entry.is_some() && format == Format::Openb);
    let choice = asked.nodes.unwrap_or(if says_so { Choice::All } else { Choice::None });
    if !says_so && choice != Choice::None {
        let help = "leave `nodes` out here, and describe them in the file's own `nodes:`";
        let message = format!("trace {} says nothing of its nodes", asked.called());
        report.error_with_help(asked.nodes_span, message, help);
        return None;
    }
    if choice == Choice::None {
        return Some(NodeTrace { nodes: Vec::new() });
    }
    let read = match (asked.node_file, entry) {
        (Some((typed, span)), _) => {
            let path = setting.find(typed, span, report)?;
            told(trace::read_nodes(format, &path), span, report)?
        }
        (None, entry) => {
            let entry = entry.expect("what says something of its nodes has a name or a file of them");
            // The list that has all nodes, of which those with GPUs are chosen here: a list of them may not be there.
            let lists = entry.files.iter().filter(|file| file.holds == Holds::Nodes);
            let all = lists.map(|file| file.list.as_str()).find(|list| list.starts_with("all"));
            let nodes = trace::load_nodes(index, setting.roots, &entry.name, asked.node_list.or(all));
            told(nodes, asked.span, report)?
        }
    };
    let nodes = read.nodes.into_iter().filter(|node| choice == Choice::All || node.gpus > 0).collect();
    Some(NodeTrace { nodes })
}

fn asked<'t>(tree: &'t Tree, report: &mut Report) -> Option<Asked<'t>> {
    let span = tree.span;
    let mut asked = Asked {
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
        durations: BTreeMap::new(),
        durations_span: span,
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
    asked.format = fields.word("format", "a format of traces", &FORMATS, report);
    asked.list = fields.text("list", "the name of a list", report);
    asked.nodes = fields.word("nodes", "a choice of nodes", &CHOICES, report);
    asked.nodes_span = if fields.has("nodes") { fields.key_span("nodes") } else { asked.span };
    asked.node_list = fields.text("node_list", "the name of a list of nodes", report);
    asked.queues = fields.items("queue", "the name of a queue", report);
    asked.limit = fields.count("limit", 1, report);
    asked.offset = fields.value("offset", report).unwrap_or(SimTime::ZERO);
    asked.skip = fields.count("skip", 0, report).unwrap_or(0);
    asked.tune = fields.value("tune", report);
    asked.from = date(&fields, "from", report);
    asked.to = date(&fields, "to", report);
    asked.estimates =
        fields.word("estimates", "what is taken as an estimate", &ESTIMATES, report).unwrap_or(asked.estimates);
    asked.durations = durations(&fields, report);
    asked.durations_span = if fields.has("durations") { fields.key_span("durations") } else { asked.span };
    fields.exclusive(&["offset", "from"], "each says where the run starts", report);
    fields.exclusive(&["order", "tune"], "each says which tasks come in which order", report);
    fields.exclusive(&["list", "file"], "each says which tasks there are", report);
    fields.exclusive(&["node_list", "node_file"], "each says which nodes there are", report);
    match (asked.name, asked.file, asked.format) {
        (Some(_), ..) | (None, Some(_), Some(_)) => Some(asked),
        (None, Some((_, span)), None) => {
            let formats: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
            let help = format!("add `format:`, one of {}", formats.join(", "));
            report.error_with_help(span, "a file without a name among the known traces needs its format", help);
            None
        }
        (None, None, _) => {
            fields.require("name", "gaia", report);
            None
        }
    }
}

/// `{bert: 2h, cifar10: 40m}`
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

/// Gives a duration to what has none. What is not said of an application of the trace is a fault.
fn with_durations(tasks: &mut TaskTrace, asked: &Asked<'_>, report: &mut Report) -> Option<()> {
    let unsaid = |task: &&mut TraceTask| task.run_basis == RunBasis::NotRecorded;
    if tasks.tasks.iter_mut().filter(unsaid).any(|task| task.application.is_none()) {
        let message = format!("trace {} does not say how long its tasks run", asked.called());
        let help = "add `tune: 130%` or `order: FILE`: then they come one a second in that order, and stay";
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
        let message = format!("trace {} has no application `{unknown}`", asked.called());
        report.unknown(asked.durations_span, message, unknown, known.iter().copied());
    }
    if missing.is_empty() {
        return Some(());
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let message = format!("trace {} does not say how long {} run", asked.called(), missing.join(", "));
    let help = format!("say it: `durations: {{{}: 1h}}`", missing.join(": 1h, "));
    report.error_with_help(asked.durations_span, message, help);
    None
}

fn date(fields: &Fields<'_>, key: &str, report: &mut Report) -> Option<SimTime> {
    let tree = fields.get(key)?;
    let expected = "a date such as 2017-10-09 07:01:55";
    let typed = text(tree, expected, report)?;
    let date = trace::parse_date(typed);
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
    asked: &Asked<'_>,
    report: &mut Report,
) -> Option<&'i TraceEntry> {
    let Some(entry) = index.traces.iter().find(|entry| entry.name == name) else {
        let names = index.traces.iter().map(|entry| entry.name.as_str());
        report.unknown(span, format!("no trace is named `{name}`"), name, names);
        return None;
    };
    for (list, holds) in [(asked.list, Holds::Tasks), (asked.node_list, Holds::Nodes)] {
        let Some(list) = list else { continue };
        let lists = entry.files.iter().filter(|file| file.holds == holds).map(|file| file.list.as_str());
        if !lists.clone().any(|known| known == list) {
            report.unknown(asked.span, format!("trace {} has no list `{list}`", entry.name), list, lists);
            return None;
        }
    }
    Some(entry)
}

/// What was read, or `None` after saying why not.
pub(super) fn told<T>(read: Result<T, trace::TraceError>, span: Span, report: &mut Report) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(trace::TraceError::NotHere { trace, file, .. }) => {
            let help = format!("get it with `dryrack trace get {trace}`, or set DRYRACK_DATA to a folder that has it");
            report.trace_missing(span, format!("trace {trace} is not here: no {file}"), help);
            None
        }
        Err(error) => {
            let help = "the trace must be as it was published; `dryrack trace list` says which version that is";
            report.error_with_help(span, error.to_string().replace('\n', "; "), help);
            None
        }
    }
}
