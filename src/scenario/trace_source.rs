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

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::diagnostic::{Report, Span};
use super::fields::{Fields, text};
use super::jobs::Draft;
use super::machines::from_catalog;
use super::tree::{Node, Tree};
use super::world::World;
use crate::catalog::{self, CpuArch, Os};
use crate::engine::{InitialNode, ModelFiles};
use crate::fleet::{GpuShape, NodeShape, NodeSpec, NodeState, Reserved};
use crate::report::some;
use crate::trace::{self, Format, Holds, Index, Roots, SwfHeader, Tally, TaskTrace, TraceEntry, TraceNode, TraceTask};
use crate::units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};
use crate::workload::{
    Arrival, Course, Demand, GpuDemand, GpuTake, JobSpec, Restart, RunTerms, TaskDemand, Unselectable,
    UtilizationOverrides,
};

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
        let nodes = if self.nodes == 0 { String::new() } else { format!(" and {}", some(self.nodes, "node")) };
        let (jobs, rows) = (some(self.tasks, "job"), self.tally.rows());
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

/// What is asked of a trace.
struct Asked<'t> {
    name: &'t str,
    span: Span,
    list: Option<&'t str>,
    nodes: Option<Choice>,
    nodes_span: Span,
    queues: Vec<(&'t str, Span)>,
    limit: Option<u32>,
    /// What came before this is left out, and this becomes the start.
    offset: SimTime,
}

/// Reads `trace:`. Its nodes go into the world at once, behind those of the file; its jobs are given back.
pub(super) fn read(
    file: &Fields<'_>,
    roots: &Roots,
    world: &mut World,
    report: &mut Report,
) -> Option<(TraceUse, Vec<Draft>)> {
    let index = Index::built_in();
    let asked = asked(file.get("trace")?, report)?;
    let entry = find(&index, &asked, report)?;
    let choice = asked.nodes.unwrap_or(match entry.format {
        Format::Swf | Format::Genai => Choice::None,
        Format::Openb => Choice::All,
    });
    if entry.format != Format::Openb && choice != Choice::None {
        let message = format!("trace {} says nothing of its nodes", entry.name);
        report.error_with_help(
            asked.nodes_span,
            message,
            "leave `nodes` out here, and describe them in the file's own `nodes:`",
        );
        return None;
    }
    let mut taken = 0;
    if choice != Choice::None {
        // The list that has all nodes, of which those with GPUs are chosen here: a list of them may not be there.
        let lists = entry.files.iter().filter(|file| file.holds == Holds::Nodes);
        let all = lists.map(|file| file.list.as_str()).find(|list| list.starts_with("all"));
        let nodes = trace::load_nodes(&index, roots, asked.name, all);
        let nodes = told(nodes, asked.span, report)?;
        for node in nodes.nodes.iter().filter(|node| choice == Choice::All || node.gpus > 0) {
            add_node(node, asked.span, world, report);
            taken += 1;
        }
    }
    let tasks = told(trace::load_tasks(&index, roots, asked.name, asked.list), asked.span, report)?;
    let drafts = drafts(&tasks, entry.format, &asked, report);
    if drafts.is_empty() && !report.has_errors() {
        let help = "choose another queue, a smaller `offset` or a larger `limit`";
        report.error_with_help(asked.span, "nothing of this trace is chosen", help);
    }
    let name = asked.name.to_string();
    Some((TraceUse { name, tasks: drafts.len(), nodes: taken, tally: tasks.tally }, drafts))
}

fn asked<'t>(tree: &'t Tree, report: &mut Report) -> Option<Asked<'t>> {
    if let Node::Scalar { .. } = tree.node {
        let name = text(tree, "the name of a trace", report)?;
        let (span, offset) = (tree.span, SimTime::ZERO);
        return Some(Asked {
            name,
            span,
            list: None,
            nodes: None,
            nodes_span: span,
            queues: Vec::new(),
            limit: None,
            offset,
        });
    }
    let known = ["name", "list", "nodes", "queue", "limit", "offset"];
    let fields = Fields::read(tree, "a trace", &known, report)?;
    let name = fields.require("name", "gaia", report)?;
    Some(Asked {
        span: name.span,
        list: fields.text("list", "the name of a list", report),
        nodes: fields.word("nodes", "a choice of nodes", &CHOICES, report),
        nodes_span: fields.key_span("nodes"),
        queues: fields.items("queue", "the name of a queue", report),
        limit: fields.count("limit", 1, report),
        offset: fields.value("offset", report).unwrap_or(SimTime::ZERO),
        name: text(name, "the name of a trace", report)?,
    })
}

fn find<'i>(index: &'i Index, asked: &Asked<'_>, report: &mut Report) -> Option<&'i TraceEntry> {
    let Some(entry) = index.traces.iter().find(|entry| entry.name == asked.name) else {
        let names = index.traces.iter().map(|entry| entry.name.as_str());
        report.unknown(asked.span, format!("no trace is named `{}`", asked.name), asked.name, names);
        return None;
    };
    if let Some(list) = asked.list {
        let lists = entry.files.iter().filter(|file| file.holds == Holds::Tasks).map(|file| file.list.as_str());
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
            report.error(span, error.to_string().replace('\n', "; "));
            None
        }
    }
}

fn add_node(node: &TraceNode, span: Span, world: &mut World, report: &mut Report) {
    let model = node.gpu_model.as_deref().unwrap_or("unknown");
    let known = from_catalog(model, node.gpus, None);
    let unknown = GpuShape::of(model, Bytes::ZERO);
    let gpus = if known.is_empty() { vec![unknown; node.gpus as usize] } else { known };
    let shape = NodeShape {
        machine: None,
        os: Os::Linux,
        arch: CpuArch::X86_64,
        driver: None,
        labels: BTreeMap::new(),
        cpu: node.cpu,
        ram: node.ram,
        reserved: Reserved::default(),
        gpus,
        price_per_hour: None,
        rack: None,
        switch: None,
        instance: None,
    };
    let name: Arc<str> = Arc::from(node.name.as_str());
    if world.node_names.add(Arc::clone(&name)).is_err() {
        let message = format!("a node of the file has the name of a node of the trace, `{name}`");
        return report.error_with_help(span, message, "name it otherwise in the file");
    }
    world.gpu_types.extend(shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
    let spec = NodeSpec { name, shape: world.shared_shape(shape) };
    let files = ModelFiles::default();
    world.nodes.push(InitialNode { spec, state: NodeState::Ready, gpus: Vec::new(), files });
}

fn drafts(tasks: &TaskTrace, format: Format, asked: &Asked<'_>, report: &mut Report) -> Vec<Draft> {
    let names = QueueNames(tasks.header.as_ref());
    let queues: Vec<Option<Arc<str>>> = tasks.tasks.iter().map(|task| names.of(task)).collect();
    for (typed, span) in &asked.queues {
        if !queues.iter().flatten().any(|queue| &**queue == *typed) {
            let known: std::collections::BTreeSet<&str> = queues.iter().flatten().map(|queue| &**queue).collect();
            report.unknown(*span, format!("trace {} has no queue `{typed}`", asked.name), typed, known.into_iter());
        }
    }
    let is_chosen = |queue: &Option<Arc<str>>| {
        asked.queues.is_empty() || asked.queues.iter().any(|(typed, _)| queue.as_deref() == Some(*typed))
    };
    let chosen = tasks.tasks.iter().zip(queues).filter(|(task, queue)| task.submit >= asked.offset && is_chosen(queue));
    let limit = asked.limit.map_or(usize::MAX, |limit| limit as usize);
    let mut courses: BTreeMap<SimDuration, Arc<Course>> = BTreeMap::new();
    let draft = |(task, queue): (&TraceTask, Option<Arc<str>>)| {
        let at = SimTime::ZERO.saturating_add(task.submit.since(asked.offset));
        let course =
            courses.entry(task.run).or_insert_with(|| Arc::new(Course { run: Some(task.run), ..Course::default() }));
        let spec = Arc::new(spec(task, queue, format));
        let arrival = Arrival { at, spec, course: Arc::clone(course), recorded_wait: task.recorded_wait };
        Draft { arrival, cancel_at: None, span: asked.span }
    };
    chosen.take(limit).map(draft).collect()
}

/// Queues by the names that an SWF header gives them: the first word, as in `interactive`; else their numbers.
struct QueueNames<'h>(Option<&'h SwfHeader>);

impl QueueNames<'_> {
    fn of(&self, task: &TraceTask) -> Option<Arc<str>> {
        let number = task.queue?;
        let described = self.0.and_then(|header| header.queues.get(&number));
        // Several descriptions of one queue are joined by `; `; the shortest is the name.
        let described = described.into_iter().flat_map(|text| text.split("; "));
        let name = described.min_by_key(|text| text.len()).and_then(|text| text.split_whitespace().next());
        Some(name.map_or_else(|| Arc::from(number.to_string()), Arc::from))
    }
}

fn spec(task: &TraceTask, queue: Option<Arc<str>>, format: Format) -> JobSpec {
    let demand = match format {
        Format::Swf | Format::Genai => processors(task),
        Format::Openb => pod(task),
    };
    JobSpec {
        name: Arc::from(task.name.as_str()),
        demand,
        replicas: 1,
        priority: 0,
        queue,
        user: task.user.map(|user| Arc::from(user.to_string())),
        estimate: task.estimate,
        time_limit: None,
        analyse: false,
        restart: Restart::Never,
        retry: None,
        utilization: UtilizationOverrides::default(),
        unselectable: Unselectable::Wait,
        terms: RunTerms::default(),
    }
}

fn processors(task: &TraceTask) -> Demand {
    let tasks = task.processors.unwrap_or(1).max(1);
    Demand { tasks, ..Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))) }
}

fn pod(task: &TraceTask) -> Demand {
    let gpus = task.gpus.filter(|count| *count > 0).map(|count| {
        let take = match task.gpu_share {
            Some(share) if share < GpuShare::WHOLE => GpuTake::Share(share),
            _ => GpuTake::Whole,
        };
        let name =
            |model: &String| catalog::gpu(model).map_or_else(|| Arc::from(model.as_str()), |gpu| Arc::from(gpu.name));
        GpuDemand { count, take, models: task.gpu_models.iter().map(name).collect(), min_memory: None }
    });
    let need = TaskDemand {
        ram: task.ram.unwrap_or(Bytes::ZERO),
        gpus,
        ..TaskDemand::cpu_only(task.cpu.unwrap_or(MilliCpu::ZERO))
    };
    Demand::of(need)
}
