//! Converts the tasks of a trace to jobs of the run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::gpu_names::GpuNames;
use super::gpu_nodes::{NodeKinds, VC, is_of_whole_gpus};
use super::instances::on_instances;
use super::order::Order;
use super::resample::{Resampled, resampled};
use super::settings::{Estimates, ReadContext, RunOn, TraceSettings};
use super::slurm::{TraceSlurm, in_partition, user_of};
use super::speeds::TraceSpeeds;
use crate::job_template::Draft;
use dryrack_objects::{LabelSelector, Pod, SpreadConstraint, WhenUnsatisfiable};
use dryrack_scheduler::{Target, TaskShape};
use dryrack_trace::{Format, Oddity, SwfHeader, TaskResources, TaskTrace, TraceTask};
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime, counted};
use dryrack_workload::{
    Arrival, Checkpoint, Demand, Gang, GpuDemand, GpuTake, JobBehavior, JobSpec, Series, SlurmTerms, TaskDemand, Usage,
};
use dryrack_yaml::Report;

/// The pod of each application that limits its tasks on a node, by name and limit.
type LimitedPods = BTreeMap<(Arc<str>, u32), Arc<Pod>>;

/// Values that jobs share. The many jobs of a trace have few different demands, queues and users, so each is stored
/// once.
pub(super) struct Shared {
    /// The fields of a job that a trace does not state.
    plain: JobSpec,
    demands: HashSet<Arc<Demand>, FixedState>,
    /// Demands for whole GPUs, by their number and by the address of the virtual cluster's name in `words`.
    whole: HashMap<(u32, Option<usize>), Arc<Demand>, FixedState>,
    words: HashSet<Arc<str>, FixedState>,
    names: GpuNames,
    kinds: NodeKinds,
    speeds: TraceSpeeds,
    checkpoint: Option<Checkpoint>,
    run_on: RunOn,
    /// The pods of applications that limit their tasks on a node, by name and limit. `None` if tasks are not pods.
    limited: Option<LimitedPods>,
    slurm: Option<TraceSlurm>,
    /// Demands for nodes of a partition, by the address of the demand in `demands`.
    in_partitions: HashMap<(usize, Arc<str>), Arc<Demand>, FixedState>,
    terms: HashSet<Arc<SlurmTerms>, FixedState>,
}

impl Shared {
    pub fn new(
        (names, kinds): (GpuNames, NodeKinds),
        speeds: TraceSpeeds,
        (as_pods, checkpoint, run_on): (bool, Option<Checkpoint>, RunOn),
        slurm: Option<TraceSlurm>,
    ) -> Shared {
        let nothing = Demand::of(TaskDemand::cpu_only(MilliCpu::ZERO));
        let plain = JobSpec { checkpoints: checkpoint.is_some(), ..JobSpec::of("".into(), nothing) };
        let limited = as_pods.then(LimitedPods::new);
        Shared {
            plain,
            demands: HashSet::default(),
            whole: HashMap::default(),
            words: HashSet::default(),
            names,
            kinds,
            speeds,
            checkpoint,
            run_on,
            limited,
            slurm,
            in_partitions: HashMap::default(),
            terms: HashSet::default(),
        }
    }

    /// How long a task runs on the reference GPU of its speeds. Without speeds, its recorded duration.
    pub fn run(&self, task: &TraceTask) -> SimDuration {
        self.speeds.recorded_on(task).work(task.run)
    }

    /// The behavior of a task with this duration on the reference GPU, and this recorded duration.
    pub fn behavior(&self, run: SimDuration, recorded: SimDuration) -> JobBehavior {
        let recorded_run = (recorded != run).then_some(recorded);
        JobBehavior { run: Some(run), recorded_run, checkpoint: self.checkpoint, ..JobBehavior::default() }
    }

    fn demand_of(&mut self, task: &TraceTask, format: Format) -> Arc<Demand> {
        // Look up a demand for whole GPUs of any type without creating it first. Few such demands exist.
        if !is_of_whole_gpus(task, format) || !task.gpu_models.is_empty() || !self.speeds.are_equal() {
            return self.demand(self.speeds.add(demand_of(task, format, (&self.names, &self.kinds)), task));
        }
        let cluster = task.virtual_cluster.as_deref().map(|cluster| self.word(cluster).as_ptr().addr());
        let key = (task.gpus.unwrap_or(0), cluster);
        if let Some(known) = self.whole.get(&key) {
            return Arc::clone(known);
        }
        let new = self.demand(self.speeds.add(whole_gpus(task, (&self.names, &self.kinds)), task));
        self.whole.insert(key, Arc::clone(&new));
        new
    }

    fn demand(&mut self, demand: Demand) -> Arc<Demand> {
        let demand = match self.run_on {
            RunOn::Nodes => demand,
            RunOn::Instances => on_instances(demand),
        };
        if let Some(known) = self.demands.get(&demand) {
            return Arc::clone(known);
        }
        let new = Arc::new(demand);
        self.demands.insert(Arc::clone(&new));
        new
    }

    /// The pod of a task whose application allows a number of tasks on a node.
    fn pod(&mut self, task: &TraceTask) -> Option<Arc<Pod>> {
        self.limited.as_ref()?;
        let (most, application) = (task.most_per_node?, self.word(task.application.as_deref()?));
        let known = self.limited.as_mut()?.entry((Arc::clone(&application), most));
        Some(Arc::clone(known.or_insert_with(|| Arc::new(limited_pod(&application, most)))))
    }

    /// The demand in the partition of these terms.
    fn in_partition(&mut self, demand: Arc<Demand>, terms: Option<&SlurmTerms>) -> Arc<Demand> {
        let Some(partition) = terms.and_then(|terms| terms.partition.as_ref()) else { return demand };
        let known = self.in_partitions.entry((Arc::as_ptr(&demand).addr(), Arc::clone(partition)));
        Arc::clone(known.or_insert_with(|| Arc::new(in_partition(&demand, partition))))
    }

    /// The terms of a task in Slurm.
    fn terms(&mut self, task: &TraceTask, queue: Option<&str>) -> Option<Arc<SlurmTerms>> {
        let terms = self.slurm.as_ref()?.terms(task, queue);
        if let Some(known) = self.terms.get(&terms) {
            return Some(Arc::clone(known));
        }
        let new = Arc::new(terms);
        self.terms.insert(Arc::clone(&new));
        Some(new)
    }

    fn word(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.words.get(word) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(word);
        self.words.insert(Arc::clone(&new));
        new
    }
}

/// The label that names the application of a pod.
const APPLICATION: &str = "app";

/// A task that was chosen, with its queue and its submission in the run.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'t> {
    pub task: &'t TraceTask,
    pub queue: &'t Option<Arc<str>>,
    pub at: SimTime,
    /// Whether it is submitted at another time than was recorded.
    pub is_moved: bool,
}

/// The rows of the tasks that the settings choose, and the queue of each task of the list.
pub(super) struct Selected {
    queues: Vec<Option<Arc<str>>>,
    rows: Rows,
}

enum Rows {
    Listed(Vec<usize>),
    /// In the order that the scenario asks for, with the names of the jobs.
    Ordered(Vec<(Arc<str>, usize)>),
}

impl Selected {
    /// Chooses tasks of the list. Reports each queue that no task has.
    pub fn of(tasks: &TaskTrace, order: Option<Order>, asked: &TraceSettings<'_>, report: &mut Report) -> Selected {
        let names = QueueNames(tasks.header.as_ref());
        let queues: Vec<Option<Arc<str>>> = tasks.tasks.iter().map(|task| names.of(task)).collect();
        for (typed, span) in &asked.queues {
            if !queues.iter().flatten().any(|queue| &**queue == *typed) {
                let known: std::collections::BTreeSet<&str> = queues.iter().flatten().map(|queue| &**queue).collect();
                let message = format!("the trace {} has no queue `{typed}`", asked.called());
                report.unknown(*span, message, typed, known.into_iter());
            }
        }
        let is_of_queue = |row: usize| {
            let queue = queues[row].as_deref();
            asked.queues.is_empty() || asked.queues.iter().any(|(typed, _)| queue == Some(*typed))
        };
        let is_within = |task: &TraceTask| {
            task.submit >= asked.offset
                && asked.from.is_none_or(|from| task.submit >= from)
                && asked.to.is_none_or(|to| task.submit <= to)
        };
        let (skip, limit) = (asked.skip as usize, asked.limit.map_or(usize::MAX, |limit| limit as usize));
        let rows = match order {
            Some(Order(order)) => {
                let of_queue = order.into_iter().filter(|(_, row)| is_of_queue(*row));
                Rows::Ordered(of_queue.skip(skip).take(limit).collect())
            }
            None => {
                let rows = (skip..tasks.tasks.len()).filter(|row| is_within(&tasks.tasks[*row]) && is_of_queue(*row));
                Rows::Listed(rows.take(limit).collect())
            }
        };
        Selected { queues, rows }
    }

    /// The queue of the task in this row.
    pub fn queue(&self, row: usize) -> Option<&str> {
        self.queues[row].as_deref()
    }

    /// The rows of the chosen tasks.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        let (listed, ordered) = match &self.rows {
            Rows::Listed(rows) => (&rows[..], &[][..]),
            Rows::Ordered(rows) => (&[][..], &rows[..]),
        };
        listed.iter().copied().chain(ordered.iter().map(|(_, row)| *row))
    }
}

/// Converts the chosen tasks to jobs, in the given order or else in order of submission. Also returns how they
/// were resampled.
pub(super) fn drafts(
    tasks: &TaskTrace,
    (format, mut shared): (Format, Shared),
    (Selected { queues, rows }, usage): (Selected, Vec<(String, Series)>),
    (asked, setting): (&TraceSettings<'_>, &ReadContext<'_>),
    report: &mut Report,
) -> (Vec<Draft>, Option<Resampled>) {
    let rows = match rows {
        Rows::Listed(rows) => rows,
        Rows::Ordered(order) => {
            let stays = Arc::new(JobBehavior::default());
            let draft = |(second, (name, task)): (usize, (Arc<str>, usize))| {
                let at = SimTime::from_secs(second as u64);
                let spec = spec(&tasks.tasks[task], queues[task].clone(), format, &mut shared);
                let spec = Arc::new(JobSpec { name, ..spec });
                let arrival = Arrival { at, spec, behavior: Arc::clone(&stays), recorded_wait: None };
                Draft { arrival, cancel_at: None, after_start_of: None, span: asked.span }
            };
            return (order.into_iter().enumerate().map(draft).collect(), None);
        }
    };
    let chosen: Vec<_> = rows.into_iter().map(|row| (&tasks.tasks[row], &queues[row])).collect();
    let start = chosen.first().map_or(asked.offset, |(task, _)| asked.start(task.submit));
    let of = |(task, queue)| Chosen { task, queue, at: run_time(task, start), is_moved: false };
    let chosen: Vec<Chosen<'_>> = chosen.into_iter().map(of).collect();
    let (chosen, used) = match asked.resample.filter(|_| !chosen.is_empty()) {
        None => (chosen, None),
        Some(resampling) => resampled(&chosen, resampling, setting, report),
    };
    let chosen = if setting.load.is_plain() { chosen } else { at_load(&chosen, (asked, setting), report) };
    let mut behaviors: HashMap<[SimDuration; 2], Arc<JobBehavior>, FixedState> = HashMap::default();
    let recorded: BTreeMap<&str, &Series> = usage.iter().map(|(pod, series)| (pod.as_str(), series)).collect();
    let draft = |Chosen { task, queue, at, is_moved }: Chosen<'_>| {
        let run = shared.run(task);
        let behavior = behaviors.entry([run, task.run]).or_insert_with(|| Arc::new(shared.behavior(run, task.run)));
        let behavior = match recorded.get(task.name.as_str()) {
            None => Arc::clone(behavior),
            Some(series) => {
                Arc::new(JobBehavior { usage: Some(Arc::new(Usage::of_one(series))), ..JobBehavior::clone(behavior) })
            }
        };
        let arrival = arrival(task, queue.clone(), behavior, at, (format, asked.estimates), &mut shared);
        // The wait was recorded at another time, among other jobs.
        let recorded_wait = arrival.recorded_wait.filter(|_| !is_moved);
        Draft { arrival: Arrival { recorded_wait, ..arrival }, cancel_at: None, after_start_of: None, span: asked.span }
    };
    let mut drafts: Vec<Draft> = chosen.into_iter().map(draft).collect();
    name_apart(&mut drafts);
    (drafts, used)
}

/// The tasks at the load of the file: some are left out or submitted several times.
fn at_load<'t>(
    chosen: &[Chosen<'t>],
    (asked, setting): (&TraceSettings<'_>, &ReadContext<'_>),
    report: &mut Report,
) -> Vec<Chosen<'t>> {
    let moved = |(index, at): (usize, SimTime)| Chosen { at, is_moved: true, ..chosen[index] };
    match setting.load.spread(chosen.iter().map(|task| task.at), usize::MAX) {
        Ok(times) if times.is_empty() && !chosen.is_empty() => {
            let message = format!("at this load, none of {} of the trace is left", counted(chosen.len(), "task"));
            report.error_with_help(asked.span, message, "write a larger `load`, or choose more tasks");
            Vec::new()
        }
        Ok(times) => times.into_iter().map(moved).collect(),
        Err(fault) => {
            fault.report(asked.span, "choose an earlier part of the trace with `limit` or `to`", report);
            Vec::new()
        }
    }
}

/// The submission of a task in the run. `start` is the time in the trace at which the run starts.
pub(super) fn run_time(task: &TraceTask, start: SimTime) -> SimTime {
    SimTime::ZERO.saturating_add(task.submit.since(start))
}

/// Makes names unique. A list has a requeued job, or a job with several parts, more than once; the second occurrence
/// gets a name such as `7-2`.
fn name_apart(drafts: &mut [Draft]) {
    let mut taken: HashSet<Arc<str>, FixedState> =
        HashSet::with_capacity_and_hasher(drafts.len(), FixedState::default());
    let is_new = |draft: &Draft| taken.insert(Arc::clone(&draft.arrival.spec.name));
    let repeated: Vec<bool> = drafts.iter().map(is_new).map(|is_new| !is_new).collect();
    let mut last: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for (draft, _) in drafts.iter_mut().zip(repeated).filter(|(_, repeated)| *repeated) {
        let spec = &mut draft.arrival.spec;
        let number = last.entry(Arc::clone(&spec.name)).or_insert(1);
        let apart = loop {
            *number += 1;
            let apart: Arc<str> = Arc::from(format!("{}-{number}", spec.name));
            if taken.insert(Arc::clone(&apart)) {
                break apart;
            }
        };
        *spec = Arc::new(JobSpec { name: apart, ..JobSpec::clone(spec) });
    }
}

/// The arrival of a task at this time with this behavior.
pub(super) fn arrival(
    task: &TraceTask,
    queue: Option<Arc<str>>,
    behavior: Arc<JobBehavior>,
    at: SimTime,
    (format, estimates): (Format, Estimates),
    shared: &mut Shared,
) -> Arrival {
    let spec = spec(task, queue, format, shared);
    let estimate = if estimates == Estimates::Exact { Some(task.run) } else { spec.estimate };
    Arrival { at, spec: Arc::new(JobSpec { estimate, ..spec }), behavior, recorded_wait: task.recorded_wait }
}

/// The expected workload, computed from the whole list. GPU types that tie are ordered by the trace's own names.
pub(super) fn target(tasks: &TaskTrace, format: Format, on: (&GpuNames, &NodeKinds)) -> Target {
    let shape = |task: &TraceTask| {
        let demand = demand_of(task, format, on);
        let each = demand.task().expect("a job of a trace asks for tasks");
        TaskShape { models_written: task.gpu_models.join("|"), ..TaskShape::of(each) }
    };
    Target::of(tasks.tasks.iter().map(shape))
}

/// The names of queues. If an SWF header describes a queue, its name is the first word of the description, such as
/// `interactive`. Otherwise its name is its number.
pub(super) struct QueueNames<'h>(pub Option<&'h SwfHeader>);

impl QueueNames<'_> {
    pub fn of(&self, task: &TraceTask) -> Option<Arc<str>> {
        if let Some(cluster) = &task.virtual_cluster {
            return Some(Arc::from(cluster.as_str()));
        }
        let number = task.queue?;
        let described = self.0.and_then(|header| header.queues.get(&number));
        // One queue may have several descriptions, joined by `; `. The shortest description gives the name.
        let described = described.into_iter().flat_map(|text| text.split("; "));
        let name = described.min_by_key(|text| text.len()).and_then(|text| text.split_whitespace().next());
        Some(name.map_or_else(|| Arc::from(number.to_string()), Arc::from))
    }
}

fn spec(task: &TraceTask, queue: Option<Arc<str>>, format: Format, shared: &mut Shared) -> JobSpec {
    let slurm = shared.terms(task, queue.as_deref());
    let demand = shared.demand_of(task, format);
    let cluster = shared.slurm.as_ref().zip(slurm.as_ref());
    let limit = cluster.and_then(|(cluster, terms)| cluster.default_limit(terms));
    let limit = limit.filter(|_| !task.odd.has(Oddity::NoTimeLimit));
    JobSpec {
        queue: queue.map(|queue| shared.word(&queue)),
        user: user_of(task).map(|user| shared.word(&user)),
        estimate: task.estimate.or(limit),
        name: Arc::from(task.name.as_str()),
        demand: shared.in_partition(demand, slurm.as_deref()),
        slurm,
        pod: shared.pod(task),
        ..shared.plain.clone()
    }
}

/// A pod of which at most `most` are on one node. If fewer nodes exist than `minDomains`, a node is compared with an empty
/// one, so `maxSkew` is the limit.
fn limited_pod(application: &Arc<str>, most: u32) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.labels.insert(Arc::from(APPLICATION), Arc::clone(application));
    let label_selector = LabelSelector { match_labels: pod.metadata.labels.clone(), ..LabelSelector::default() };
    pod.spec.topology_spread_constraints = vec![SpreadConstraint {
        max_skew: i32::try_from(most).unwrap_or(i32::MAX),
        topology_key: Arc::from("kubernetes.io/hostname"),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        label_selector: Some(label_selector),
        min_domains: Some(i32::MAX),
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    }];
    pod
}

fn demand_of(task: &TraceTask, format: Format, (names, kinds): (&GpuNames, &NodeKinds)) -> Demand {
    match format.asks() {
        _ if is_of_whole_gpus(task, format) => whole_gpus(task, (names, kinds)),
        TaskResources::Processors => processors(task),
        TaskResources::Nodes => apart(task, names),
        TaskResources::AsStated if task.nodes.is_some() => apart(task, names),
        TaskResources::WholeGpus => apart_in_cluster(task, (names, kinds)),
        TaskResources::AsStated if task.processors.is_some() => processors(task),
        TaskResources::AsStated | TaskResources::Pod => pod(task, names),
    }
}

fn processors(task: &TraceTask) -> Demand {
    let tasks = task.processors.unwrap_or(1).max(1);
    Demand { tasks, ..Demand::of(TaskDemand::cpu_only(MilliCpu::from_cores(1))) }
}

/// A gang with one task for each node that `gpu_nodes` gives to it, or for each GPU if they may be anywhere. Each task
/// gets an equal part of the GPUs, rounded up. A single task if there are no GPUs. If the task has a virtual cluster, the
/// gang runs on its nodes, if any node has one.
fn whole_gpus(task: &TraceTask, (names, kinds): (&GpuNames, &NodeKinds)) -> Demand {
    let (gpus, models) = (task.gpus.unwrap_or(0), names.of(task));
    let tasks = kinds.tasks(task, &models);
    let count = gpus.div_ceil(tasks);
    let each = GpuDemand { count, take: GpuTake::Whole, models, min_memory: None };
    let labels = kinds.cluster(task).into_iter().map(|cluster| (Arc::from(VC), Arc::from(cluster))).collect();
    let need = TaskDemand { gpus: (gpus > 0).then_some(each), labels, ..TaskDemand::cpu_only(MilliCpu::ZERO) };
    Demand { tasks, gang: if count > 1 && tasks > 1 { Gang::Spread } else { Gang::Anywhere }, ..Demand::of(need) }
}

/// A gang with one task on each of the recorded number of nodes. Each task gets an equal part of the resources, rounded
/// up.
fn apart(task: &TraceTask, names: &GpuNames) -> Demand {
    let nodes = task.nodes.unwrap_or(1).max(1);
    let each = TraceTask {
        cpu: task.cpu.map(|cpu| MilliCpu::new(cpu.get().div_ceil(u64::from(nodes)))),
        ram: task.ram.map(|ram| Bytes::new(ram.get().div_ceil(u64::from(nodes)))),
        gpus: task.gpus.map(|gpus| gpus.div_ceil(nodes)),
        ..task.clone()
    };
    let gang = if nodes > 1 { Gang::Spread } else { Gang::Anywhere };
    Demand { tasks: nodes, gang, ..pod(&each, names) }
}

/// As [`apart`], on the nodes of the task's virtual cluster, if any node has one.
fn apart_in_cluster(task: &TraceTask, (names, kinds): (&GpuNames, &NodeKinds)) -> Demand {
    let demand = apart(task, names);
    let (Some(cluster), Some(each)) = (kinds.cluster(task), demand.task()) else { return demand };
    let labels = [(Arc::from(VC), Arc::from(cluster))].into_iter().collect();
    let (tasks, gang) = (demand.tasks, demand.gang);
    Demand { tasks, gang, ..Demand::of(TaskDemand { labels, ..each.clone() }) }
}

fn pod(task: &TraceTask, names: &GpuNames) -> Demand {
    let gpus = task.gpus.filter(|count| *count > 0).map(|count| {
        let take = match task.gpu_share {
            Some(share) if share < GpuShare::WHOLE => GpuTake::Share(share),
            _ => GpuTake::Whole,
        };
        GpuDemand { count, take, models: names.of(task), min_memory: None }
    });
    let need = TaskDemand {
        ram: task.ram.unwrap_or(Bytes::ZERO),
        gpus,
        ..TaskDemand::cpu_only(task.cpu.unwrap_or(MilliCpu::ZERO))
    };
    Demand::of(need)
}
