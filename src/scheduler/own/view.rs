//! The values that a custom stage can read. Expressions and functions read the same values.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_expression::{Type, Value, Variable};
use dryrack_fleet::{GpuState, Moment, NodeShape, NodeStatus};
use dryrack_units::{Bytes, SimDuration, SimTime};
use dryrack_workload::{Deployment, FieldValue, GpuTake, JobField, JobFields, Requirements, TaskGroup};

use super::field_values::{
    NO_TIME, cores, field_of, field_of_order, gib, number_of_field, value_among, value_of_variable,
};
use crate::entry::Entry;
use crate::node_class::NodeClass;

/// A node, or a class of nodes in equal state, as a custom stage reads it. A view has no node name, because nodes in
/// equal state are judged once.
pub struct NodeView<'a> {
    shape: &'a NodeShape,
    status: &'a NodeStatus,
    /// For expressions only. Of a registered function it is not known what it reads, so nothing would call it again
    /// later.
    moment: Moment,
}

/// The requested resources of a job, as a custom stage reads them.
pub struct RequestView<'a> {
    tasks: u32,
    cpus: f64,
    ram: f64,
    gpus: u32,
    gpu_share: f64,
    gpu_memory: f64,
    gpu_types: &'a [Arc<str>],
    labels: Option<&'a BTreeMap<Arc<str>, Arc<str>>>,
    model: &'a str,
    /// For expressions only. Of a registered function it is not known which fields it reads, so jobs that differ in them
    /// would share decisions.
    fields: Option<&'a JobFields>,
}

/// A waiting job, as a custom sort key reads it. Times are in seconds.
pub struct WaitingView {
    entry: Entry,
    now: SimTime,
    /// For expressions only.
    pending: u32,
}

impl<'a> NodeView<'a> {
    pub(crate) fn new(shape: &'a NodeShape, status: &'a NodeStatus, moment: Moment) -> NodeView<'a> {
        NodeView { shape, status, moment }
    }

    pub(crate) fn of(class: &NodeClass<'a>) -> NodeView<'a> {
        NodeView::new(class.shape, class.status, class.moment)
    }

    /// The value of a label; empty if the node has no such label.
    pub fn label(&self, name: &str) -> &'a str {
        self.shape.labels.get(name).map_or("", |value| value)
    }

    /// The name of the catalog's machine; empty if the node is not a machine of the catalog.
    pub fn machine(&self) -> &'a str {
        self.shape.machine.as_deref().unwrap_or("")
    }

    /// The operating system, as scenarios name it, such as `linux`.
    pub fn os(&self) -> &'static str {
        self.shape.os.as_str()
    }

    /// The CPU architecture, as scenarios name it, such as `x86_64`.
    pub fn arch(&self) -> &'static str {
        self.shape.arch.as_str()
    }

    /// The rack; empty if none is stated.
    pub fn rack(&self) -> &'a str {
        self.shape.rack.as_deref().unwrap_or("")
    }

    /// The switch; empty if none is stated.
    pub fn switch(&self) -> &'a str {
        self.shape.switch.as_deref().unwrap_or("")
    }

    /// Whether the node is a spot instance, which a cloud may take back.
    pub fn is_spot(&self) -> bool {
        self.shape.instance.as_ref().is_some_and(|instance| instance.spot)
    }

    /// The price per hour; `None` if none is stated.
    pub fn price_per_hour(&self) -> Option<f64> {
        self.shape.price_per_hour.map(|price| price.get() as f64 / 1e6)
    }

    /// CPU in cores, without the part that the system reserves.
    pub fn cpus(&self) -> f64 {
        cores(self.shape.cpu_capacity().get())
    }

    pub fn cpus_free(&self) -> f64 {
        cores(self.status.cpu_free(self.shape).get())
    }

    /// RAM in GiB, without the part that the system reserves.
    pub fn ram(&self) -> f64 {
        gib(self.shape.ram_capacity())
    }

    pub fn ram_free(&self) -> f64 {
        gib(self.status.ram_free(self.shape))
    }

    pub fn gpus(&self) -> u32 {
        self.shape.gpus.len() as u32
    }

    /// Number of GPUs that are ready and completely free.
    pub fn gpus_free(&self) -> u32 {
        let is_free = |index: &usize| {
            let gpu = &self.status.gpus[*index];
            gpu.state == GpuState::Ready
                && self.status.gpu_share_free(*index).get() == 1000
                && gpu.memory_taken == Bytes::ZERO
        };
        (0..self.shape.gpus.len()).filter(is_free).count() as u32
    }

    /// The sum of the free shares of all GPUs. A free GPU counts 1, and a partly used GPU counts its free share.
    pub fn gpu_share_free(&self) -> f64 {
        let milli: u64 =
            (0..self.shape.gpus.len()).map(|index| u64::from(self.status.gpu_share_free(index).get())).sum();
        milli as f64 / 1000.0
    }

    /// Number of GPUs that are not ready.
    pub fn gpus_unready(&self) -> u32 {
        self.status.gpus.iter().filter(|gpu| gpu.state != GpuState::Ready).count() as u32
    }

    /// The types of the node's GPUs in order of their indexes, without duplicates.
    pub fn gpu_types(&self) -> Vec<&'a str> {
        let mut types: Vec<&str> = Vec::new();
        for gpu in &self.shape.gpus {
            if !types.contains(&&*gpu.model) {
                types.push(&gpu.model);
            }
        }
        types
    }

    /// The memory of the node's smallest GPU in GiB, without the part that the system reserves; 0 without GPUs.
    pub fn gpu_memory(&self) -> f64 {
        let smallest = (0..self.shape.gpus.len()).map(|index| self.shape.gpu_memory_capacity(index)).min();
        smallest.map_or(0.0, gib)
    }

    /// The free memory of all GPUs of the node, in GiB.
    pub fn gpu_memory_free(&self) -> f64 {
        gib((0..self.shape.gpus.len()).map(|index| self.status.gpu_memory_free(self.shape, index)).sum())
    }
}

impl<'a> RequestView<'a> {
    pub(crate) fn of_tasks(demand: TaskGroup<'a>, class: &NodeClass<'_>) -> RequestView<'a> {
        let task = demand.task;
        let (gpu_share, gpu_memory) = match task.gpus.as_ref().map(|gpus| gpus.take) {
            Some(GpuTake::Whole) => (1.0, 0.0),
            Some(GpuTake::Share(share)) => (f64::from(share.get()) / 1000.0, 0.0),
            Some(GpuTake::Memory(memory)) => (0.0, gib(memory)),
            None => (0.0, 0.0),
        };
        RequestView {
            tasks: demand.tasks,
            cpus: cores(task.cpu.get()),
            ram: gib(task.ram),
            gpus: class.gpus_per_task(demand),
            gpu_share,
            gpu_memory,
            gpu_types: task.gpus.as_ref().map_or(&[], |gpus| &gpus.models),
            labels: Some(&task.labels),
            model: "",
            fields: demand.fields,
        }
    }

    /// The request of a job that states ranges. The lower limit of each range counts.
    pub(crate) fn of_requirements(
        nodes: u32,
        requirements: &'a Requirements,
        fields: Option<&'a JobFields>,
    ) -> RequestView<'a> {
        let gpu = requirements.gpu.as_ref();
        let gpus = gpu.map_or(0, |gpu| gpu.count.min.unwrap_or(0));
        RequestView {
            tasks: nodes,
            cpus: requirements.cpu.min.unwrap_or(0) as f64,
            ram: requirements.memory.min.map_or(0.0, gib),
            gpus,
            gpu_share: if gpus > 0 { 1.0 } else { 0.0 },
            gpu_memory: 0.0,
            gpu_types: gpu.map_or(&[], |gpu| &gpu.names),
            labels: None,
            model: "",
            fields,
        }
    }

    /// The request of a model. Only its selector and its name are known here, because the scheduler itself determines
    /// what a model takes.
    pub(crate) fn of_model(deployment: &'a Deployment, fields: Option<&'a JobFields>) -> RequestView<'a> {
        let (labels, model) = (deployment.selector.as_ref(), &*deployment.model.name);
        let (cpus, ram, gpu_share, gpu_memory) = (0.0, 0.0, 0.0, 0.0);
        RequestView { tasks: 1, cpus, ram, gpus: 0, gpu_share, gpu_memory, gpu_types: &[], labels, model, fields }
    }

    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    /// Number of cores for each task.
    pub fn cpus(&self) -> f64 {
        self.cpus
    }

    /// RAM for each task, in GiB.
    pub fn ram(&self) -> f64 {
        self.ram
    }

    /// Number of GPUs for each task, including shared ones. 0 for a model, because the scheduler determines its GPUs.
    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// The share that a task takes of each GPU: 1 for whole GPUs, 0 if it asks only for memory or for no GPU.
    pub fn gpu_share(&self) -> f64 {
        self.gpu_share
    }

    /// The memory that a task takes of each GPU, in GiB; 0 if it asks for no memory.
    pub fn gpu_memory(&self) -> f64 {
        self.gpu_memory
    }

    /// The accepted GPU types. If empty, any type is accepted.
    pub fn gpu_types(&self) -> Vec<&'a str> {
        self.gpu_types.iter().map(|model| &**model).collect()
    }

    /// The requested value of a label; empty if the job does not ask for this label.
    pub fn label(&self, name: &str) -> &'a str {
        self.labels.and_then(|labels| labels.get(name)).map_or("", |value| value)
    }

    /// The name of the model that the job serves; empty for other jobs.
    pub fn model(&self) -> &'a str {
        self.model
    }
}

impl WaitingView {
    pub(crate) fn new(entry: Entry, now: SimTime, pending: u32) -> WaitingView {
        WaitingView { entry, now, pending }
    }

    pub fn priority(&self) -> i32 {
        self.entry.priority
    }

    fn field(&self, field: JobField) -> &FieldValue {
        value_among(self.entry.fields.as_deref(), field)
    }

    fn text(&self, field: JobField) -> &str {
        match self.field(field) {
            FieldValue::Text(text) => text,
            other => panic!("{field:?} is not a text: {other:?}"),
        }
    }

    /// The queue of the job; empty if it has none.
    pub fn queue(&self) -> &str {
        self.text(JobField::Queue)
    }

    /// The user of the job; empty if it has none.
    pub fn user(&self) -> &str {
        self.text(JobField::User)
    }

    /// The project of the job; empty if it has none.
    pub fn project(&self) -> &str {
        self.text(JobField::Project)
    }

    /// The model that the job serves; empty for other jobs.
    pub fn model(&self) -> &str {
        self.text(JobField::Model)
    }

    /// GPUs of all tasks together. A shared GPU counts with its share, and one of which only memory is taken counts 0.
    pub fn total_gpus(&self) -> f64 {
        number_of_field(self.field(JobField::Gpus))
    }

    /// Cores of all tasks together.
    pub fn total_cpus(&self) -> f64 {
        number_of_field(self.field(JobField::Cpus))
    }

    /// RAM of all tasks together, in GiB.
    pub fn total_ram(&self) -> f64 {
        number_of_field(self.field(JobField::Ram))
    }

    /// The limit on the duration; `None` if there is none.
    pub fn time_limit(&self) -> Option<f64> {
        Some(number_of_field(self.field(JobField::TimeLimit))).filter(|limit| *limit < NO_TIME)
    }

    /// Whether the job writes checkpoints.
    pub fn checkpoints(&self) -> bool {
        *self.field(JobField::Checkpoints) == FieldValue::Flag(true)
    }

    pub fn tasks(&self) -> u32 {
        self.entry.tasks
    }

    /// The submission time of the job.
    pub fn submitted(&self) -> f64 {
        self.entry.at.as_nanos() as f64 / 1e9
    }

    /// The time that the job has waited.
    pub fn waited(&self) -> f64 {
        self.now.since(self.entry.at).as_secs_f64()
    }

    /// The estimate of the job; `None` if it has none.
    pub fn estimate(&self) -> Option<f64> {
        self.entry.estimate.map(SimDuration::as_secs_f64)
    }

    /// The time that the job has run, without lost work.
    pub fn ran(&self) -> f64 {
        self.entry.ran.as_secs_f64()
    }

    pub fn now(&self) -> f64 {
        self.now.as_nanos() as f64 / 1e9
    }
}

/// The hour of the day: 0 to below 24, with fractions. Time 0 is midnight.
fn hour(now: SimTime) -> f64 {
    (now.as_nanos() % (24 * NANOS_OF_HOUR)) as f64 / NANOS_OF_HOUR as f64
}

/// The day of the week, from 0 to 6. Time 0 is on day 0.
fn weekday(now: SimTime) -> f64 {
    (now.as_nanos() / (24 * NANOS_OF_HOUR) % 7) as f64
}

const NANOS_OF_HOUR: u64 = 3_600_000_000_000;

macro_rules! variables {
    ($($list:ident, $text:literal, [$($path:literal $is:ident $about:literal;)*])*) => {
        $(#[doc = $text] pub(super) const $list: &[Variable] =
            &[$(Variable { path: $path, is: Type::$is, about: $about },)*];)*
    };
}

variables! {
    OF_PLACEMENT, "The variables of filters and scorers.", [
        "node.labels" Labels "labels of the node; a missing label reads as \"\"";
        "node.machine" Text "machine of the catalog, or \"\"";
        "node.os" Text "operating system of the node";
        "node.arch" Text "CPU architecture of the node";
        "node.rack" Text "rack of the node, or \"\"";
        "node.switch" Text "switch of the node, or \"\"";
        "node.spot" Bool "whether a cloud may take the node away";
        "node.priced" Bool "whether the node has a price";
        "node.price" Number "price of the node per hour; 0 without a price";
        "node.cpus" Number "cores of the node, without reserved ones";
        "node.cpus_free" Number "free cores of the node";
        "node.ram" Number "RAM of the node in GiB, without the reserved part";
        "node.ram_free" Number "free RAM of the node in GiB";
        "gpus.total" Number "number of GPUs";
        "gpus.free" Number "number of GPUs that are ready and free";
        "gpus.share_free" Number "sum of the free shares of all GPUs; a free GPU counts 1";
        "gpus.unready" Number "number of GPUs that are not ready";
        "gpus.types" Texts "their types";
        "gpus.memory" Number "memory of the smallest GPU in GiB";
        "gpus.memory_free" Number "free memory of all GPUs together in GiB";
        "job.tasks" Number "number of tasks";
        "job.cpus" Number "cores of each task";
        "job.ram" Number "RAM of each task in GiB";
        "job.gpus" Number "GPUs of each task";
        "job.gpu_share" Number "share that a task takes of each GPU; 1 for whole GPUs";
        "job.gpu_memory" Number "memory that a task takes of each GPU in GiB; 0 if it asks for none";
        "job.gpu_types" Texts "accepted GPU types; empty if all are accepted";
        "job.labels" Labels "labels that the node must have";
        "job.model" Text "model that the job serves, or \"\"";
        "job.priority" Number "priority of the job";
        "job.queue" Text "queue of the job, or \"\"";
        "job.user" Text "user of the job, or \"\"";
        "job.project" Text "project of the job, or \"\"";
        "job.estimated" Bool "whether the job has an estimate";
        "job.estimate" Number "estimated duration in seconds; 1e15 without an estimate";
        "job.time_limit" Number "limit on the duration in seconds; 1e15 without a limit";
        "job.checkpoints" Bool "whether the job writes checkpoints";
        "time.hour" Number "hour of the day from 0 to below 24, in steps of a minute; a scenario begins at 0";
        "time.weekday" Number "day of the week from 0 to 6; a scenario begins on day 0";
        "queue.pending" Number "number of pending replicas when the scheduler begins to decide";
    ]
    OF_ORDER, "The variables of a key of the queue's order. Times are in seconds.", [
        "job.priority" Number "priority of the job";
        "job.queue" Text "queue of the job, or \"\"";
        "job.user" Text "user of the job, or \"\"";
        "job.project" Text "project of the job, or \"\"";
        "job.model" Text "model that the job serves, or \"\"";
        "job.tasks" Number "number of tasks";
        "job.total_gpus" Number "GPUs of all tasks together; a shared GPU counts with its share";
        "job.total_cpus" Number "cores of all tasks together";
        "job.total_ram" Number "RAM of all tasks together in GiB";
        "job.checkpoints" Bool "whether the job writes checkpoints";
        "job.submitted" Number "submission time";
        "job.waited" Number "waiting time so far";
        "job.estimated" Bool "whether the job has an estimate";
        "job.estimate" Number "estimated duration; 1e15 without an estimate";
        "job.time_limit" Number "limit on the duration; 1e15 without a limit";
        "job.ran" Number "time run so far, without lost work";
        "now" Number "the time";
        "time.hour" Number "hour of the day from 0 to below 24; a scenario begins at 0";
        "time.weekday" Number "day of the week from 0 to 6; a scenario begins on day 0";
        "queue.pending" Number "number of pending replicas when the scheduler begins to decide";
    ]
}

/// The variables of [`OF_PLACEMENT`] that never change while a node keeps its shape.
const OF_SHAPE: [&str; 9] = [
    "node.labels",
    "node.machine",
    "node.os",
    "node.arch",
    "node.rack",
    "node.switch",
    "node.spot",
    "node.priced",
    "node.price",
];

/// Whether the value of a variable never changes for a node.
pub(super) fn is_of_shape(path: &str) -> bool {
    let whole = ["node.cpus", "node.ram", "gpus.total", "gpus.types", "gpus.memory"];
    path.starts_with("job.") || OF_SHAPE.contains(&path) || whole.contains(&path)
}

/// Whether a variable tells how much a job asks for.
pub(super) fn is_of_amount(path: &str) -> bool {
    matches!(path, "job.tasks" | "job.cpus" | "job.ram" | "job.gpus" | "job.gpu_share" | "job.gpu_memory")
}

/// Whether a variable counts what waits in the queue.
pub(super) fn is_of_queue(path: &str) -> bool {
    path == "queue.pending"
}

/// Whether the value of a variable changes with time alone.
pub(super) fn is_of_time(path: &str) -> bool {
    matches!(path, "now" | "job.waited" | "time.hour" | "time.weekday")
}

/// The value of a variable of [`OF_PLACEMENT`].
pub(super) fn value<'a>(
    node: &NodeView<'a>,
    job: &RequestView<'a>,
    path: &'static str,
    label: Option<&str>,
) -> Value<'a> {
    let number = Value::Number;
    match (path, label) {
        ("node.labels", Some(name)) => Value::Text(node.label(name)),
        ("node.machine", _) => Value::Text(node.machine()),
        ("node.os", _) => Value::Text(node.os()),
        ("node.arch", _) => Value::Text(node.arch()),
        ("node.rack", _) => Value::Text(node.rack()),
        ("node.switch", _) => Value::Text(node.switch()),
        ("node.spot", _) => Value::Bool(node.is_spot()),
        ("node.priced", _) => Value::Bool(node.price_per_hour().is_some()),
        ("node.price", _) => number(node.price_per_hour().unwrap_or(0.0)),
        ("node.cpus", _) => number(node.cpus()),
        ("node.cpus_free", _) => number(node.cpus_free()),
        ("node.ram", _) => number(node.ram()),
        ("node.ram_free", _) => number(node.ram_free()),
        ("gpus.total", _) => number(f64::from(node.gpus())),
        ("gpus.free", _) => number(f64::from(node.gpus_free())),
        ("gpus.share_free", _) => number(node.gpu_share_free()),
        ("gpus.unready", _) => number(f64::from(node.gpus_unready())),
        ("gpus.types", _) => Value::Texts(node.gpu_types()),
        ("gpus.memory", _) => number(node.gpu_memory()),
        ("gpus.memory_free", _) => number(node.gpu_memory_free()),
        ("job.tasks", _) => number(f64::from(job.tasks())),
        ("job.cpus", _) => number(job.cpus()),
        ("job.ram", _) => number(job.ram()),
        ("job.gpus", _) => number(f64::from(job.gpus())),
        ("job.gpu_share", _) => number(job.gpu_share()),
        ("job.gpu_memory", _) => number(job.gpu_memory()),
        ("job.gpu_types", _) => Value::Texts(job.gpu_types()),
        ("job.labels", Some(name)) => Value::Text(job.label(name)),
        ("job.model", _) => Value::Text(job.model()),
        ("time.hour", _) => number(hour(node.moment.time)),
        ("time.weekday", _) => number(weekday(node.moment.time)),
        ("queue.pending", _) => number(f64::from(node.moment.pending)),
        _ => {
            let field = field_of(path).expect("a variable of filters and scorers");
            value_of_variable(path, value_among(job.fields, field))
        }
    }
}

/// The value of a variable of [`OF_ORDER`].
pub(super) fn value_of_waiting<'a>(job: &'a WaitingView, path: &'static str) -> Value<'a> {
    match path {
        "job.priority" => Value::Number(f64::from(job.priority())),
        "job.tasks" => Value::Number(f64::from(job.tasks())),
        "job.submitted" => Value::Number(job.submitted()),
        "job.waited" => Value::Number(job.waited()),
        "job.estimated" => Value::Bool(job.estimate().is_some()),
        "job.estimate" => Value::Number(job.estimate().unwrap_or(NO_TIME)),
        "job.ran" => Value::Number(job.ran()),
        "now" => Value::Number(job.now()),
        "time.hour" => Value::Number(hour(job.now)),
        "time.weekday" => Value::Number(weekday(job.now)),
        "queue.pending" => Value::Number(f64::from(job.pending)),
        _ => {
            let field = field_of_order(path).expect("a variable of an order");
            value_of_variable(path, job.field(field))
        }
    }
}
