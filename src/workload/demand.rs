//! The resources that a job needs. This is the part of a job that a scheduler reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::deployment::Deployment;
use super::job_fields::JobFields;
use super::requirements::Requirements;
use super::speeds::Speeds;
use dryrack_catalog::{CpuArch, Os};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// Everything that affects where a job may be placed. Jobs with equal demands are interchangeable, except for their
/// position in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "Written<'static>")]
pub struct Demand {
    /// The number of tasks. Several tasks form a gang, which is placed as a whole or not at all.
    pub tasks: u32,
    pub kind: DemandKind,
    pub gang: Gang,
    /// A hand pick of nodes or GPUs. It narrows the candidates and changes nothing else.
    pub pick: Option<Pick>,
    /// How fast the job's work is done on each type of GPU. If `None`, it takes as long on any GPU.
    pub speeds: Option<Arc<Speeds>>,
    /// The fields of the job that filters or scorers of the profile read. The control plane adds them when the job is
    /// submitted, so that jobs which differ in them share no decision. Logs do not store them.
    pub fields: Option<Arc<JobFields>>,
}

/// The kind of demand, with its resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DemandKind {
    /// Each task takes a part of a node.
    Tasks(TaskDemand),
    /// One replica of a model takes GPUs. How many GPUs and how much of each depends on the model.
    Model(Arc<Deployment>),
    /// Each task takes blocks of a fleet's instance.
    Requirements(Arc<Requirements>),
    /// A gang of unequal tasks, or of a number of tasks that may be smaller. There is at least one set, and one task.
    Sets(Arc<[TaskSet]>),
}

/// Equal tasks of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSet {
    pub name: Arc<str>,
    /// The number of tasks. The gang starts with fewer only if not all fit.
    pub tasks: u32,
    /// The least number of tasks with which the gang starts.
    pub min_tasks: u32,
    /// The resources of each task.
    pub task: TaskDemand,
}

/// A demand for tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskGroup<'a> {
    pub tasks: u32,
    /// The resources of each task.
    pub task: &'a TaskDemand,
    pub gang: Gang,
    pub pick: Option<&'a Pick>,
    pub speeds: Option<&'a Speeds>,
    /// The fields of the job that filters or scorers read.
    pub fields: Option<&'a JobFields>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskDemand {
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: Option<GpuDemand>,
    /// Labels that the node must have, with exactly these values.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    pub os: Option<Os>,
    pub arch: Option<CpuArch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuDemand {
    /// The number of different GPUs that each task takes on its node.
    pub count: u32,
    pub take: GpuTake,
    /// The names of acceptable GPU models. Any model is acceptable if the list is empty.
    pub models: Vec<Arc<str>>,
    /// The minimum total memory of each GPU, including memory that the system reserves.
    pub min_memory: Option<Bytes>,
}

/// How much a task takes of each of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuTake {
    /// The whole GPU, exclusively. If the GPU's memory is part of the RAM, the task gets the RAM that is left after its
    /// own RAM demand.
    Whole,
    /// A share of the GPU's time, with the same share of its memory.
    Share(GpuShare),
    /// Memory only. The task has no guaranteed share of the GPU's time, but the other tasks must not take all of it.
    Memory(Bytes),
}

/// How the tasks of a gang are distributed over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gang {
    /// Tasks may go to any node. Nodes are filled one after the other in the scheduler's order of preference.
    #[default]
    Anywhere,
    /// Each task goes to a different node.
    Spread,
    /// The tasks go to as few nodes as possible.
    Packed,
    /// All tasks go to one node. Only for [`DemandKind::Sets`].
    StrictPack,
    /// Tasks go to different nodes as far as possible. Only for [`DemandKind::Sets`].
    PreferSpread,
}

/// A manual choice of nodes or GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The tasks may use only these nodes.
    Nodes(Vec<NodeId>),
    /// The tasks may use only these GPUs.
    Gpus(Vec<GpuId>),
    /// The tasks use exactly these GPUs. Each node of these GPUs gets one task, which takes all GPUs picked on that
    /// node.
    AllGpus(Vec<GpuId>),
}

impl Pick {
    pub fn allows_node(&self, node: NodeId) -> bool {
        match self {
            Pick::Nodes(nodes) => nodes.contains(&node),
            Pick::Gpus(gpus) | Pick::AllGpus(gpus) => gpus.iter().any(|gpu| gpu.node == node),
        }
    }

    pub fn is_of_gpus(&self) -> bool {
        match self {
            Pick::Nodes(_) => false,
            Pick::Gpus(_) | Pick::AllGpus(_) => true,
        }
    }

    /// The picked nodes, or the nodes of the picked GPUs, in order of ids and without duplicates.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes = match self {
            Pick::Nodes(nodes) => nodes.clone(),
            Pick::Gpus(gpus) | Pick::AllGpus(gpus) => gpus.iter().map(|gpu| gpu.node).collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The GPUs picked on `node`, in order of their indexes. `None` if the pick is of nodes.
    pub fn gpus_on(&self, node: NodeId) -> Option<Vec<u16>> {
        match self {
            Pick::Nodes(_) => None,
            Pick::Gpus(gpus) | Pick::AllGpus(gpus) => {
                let mut picked: Vec<u16> = gpus.iter().filter(|gpu| gpu.node == node).map(|gpu| gpu.index).collect();
                picked.sort_unstable();
                picked.dedup();
                Some(picked)
            }
        }
    }
}

impl Demand {
    /// A demand for one task or replica, or for all tasks of the sets, without a gang rule or a pick.
    pub fn of(kind: impl Into<DemandKind>) -> Demand {
        let kind = kind.into();
        let tasks = match &kind {
            DemandKind::Sets(sets) => sets.iter().map(|set| set.tasks).sum(),
            DemandKind::Tasks(_) | DemandKind::Model(_) | DemandKind::Requirements(_) => 1,
        };
        Demand { tasks, kind, gang: Gang::Anywhere, pick: None, speeds: None, fields: None }
    }

    /// The number of nodes of a run in a profile with multi-node runs: one for each task that needs its own node.
    pub fn nodes_apart(&self) -> u32 {
        let apart = match self.kind {
            DemandKind::Tasks(_) => self.gang == Gang::Spread,
            DemandKind::Model(_) => false,
            DemandKind::Requirements(_) => true,
            DemandKind::Sets(_) => false,
        };
        let picked_together = matches!(self.pick, Some(Pick::AllGpus(_)));
        if apart && !picked_together { self.tasks } else { 1 }
    }

    /// The tasks of this demand. `None` if the demand is of another kind.
    pub fn task_group(&self) -> Option<TaskGroup<'_>> {
        Some(TaskGroup {
            tasks: self.tasks,
            task: self.task()?,
            gang: self.gang,
            pick: self.pick.as_ref(),
            speeds: self.speeds.as_deref(),
            fields: self.fields.as_deref(),
        })
    }

    /// The resources of each task. `None` if the demand is of another kind.
    pub fn task(&self) -> Option<&TaskDemand> {
        match &self.kind {
            DemandKind::Tasks(task) => Some(task),
            DemandKind::Model(_) | DemandKind::Requirements(_) | DemandKind::Sets(_) => None,
        }
    }

    /// The sets of a gang of unequal tasks, or of a number of tasks that may be smaller. Empty for other kinds.
    pub fn sets(&self) -> &[TaskSet] {
        match &self.kind {
            DemandKind::Sets(sets) => sets,
            DemandKind::Tasks(_) | DemandKind::Model(_) | DemandKind::Requirements(_) => &[],
        }
    }

    /// Each kind of task with the number of its tasks. Empty for models and requirements.
    pub fn kinds_of_tasks(&self) -> impl Iterator<Item = (u32, &TaskDemand)> {
        let of_sets = self.sets().iter().map(|set| (set.tasks, &set.task));
        self.task().map(|task| (self.tasks, task)).into_iter().chain(of_sets)
    }

    /// The least number of tasks with which the gang starts.
    pub fn min_tasks(&self) -> u32 {
        match &self.kind {
            DemandKind::Sets(sets) => sets.iter().map(|set| set.min_tasks).sum(),
            DemandKind::Tasks(_) | DemandKind::Model(_) | DemandKind::Requirements(_) => self.tasks,
        }
    }

    /// The GPUs of each task. `None` if the tasks need no GPUs or the demand is of another kind.
    pub fn gpus(&self) -> Option<&GpuDemand> {
        self.task()?.gpus.as_ref()
    }

    pub fn model(&self) -> Option<&Arc<Deployment>> {
        match &self.kind {
            DemandKind::Model(deployment) => Some(deployment),
            DemandKind::Tasks(_) | DemandKind::Requirements(_) | DemandKind::Sets(_) => None,
        }
    }

    pub fn requirements(&self) -> Option<&Arc<Requirements>> {
        match &self.kind {
            DemandKind::Requirements(requirements) => Some(requirements),
            DemandKind::Tasks(_) | DemandKind::Model(_) | DemandKind::Sets(_) => None,
        }
    }
}

impl From<Arc<[TaskSet]>> for DemandKind {
    fn from(sets: Arc<[TaskSet]>) -> DemandKind {
        DemandKind::Sets(sets)
    }
}

impl From<TaskDemand> for DemandKind {
    fn from(task: TaskDemand) -> DemandKind {
        DemandKind::Tasks(task)
    }
}

impl From<Arc<Deployment>> for DemandKind {
    fn from(deployment: Arc<Deployment>) -> DemandKind {
        DemandKind::Model(deployment)
    }
}

impl From<Arc<Requirements>> for DemandKind {
    fn from(requirements: Arc<Requirements>) -> DemandKind {
        DemandKind::Requirements(requirements)
    }
}

/// The form in which logs store a demand. The field `task` is always present. For other kinds of demands, it is
/// [`NO_TASK`].
#[derive(Serialize, Deserialize)]
#[serde(rename = "Demand", deny_unknown_fields)]
struct Written<'a> {
    tasks: u32,
    task: Cow<'a, TaskDemand>,
    gang: WrittenGang,
    #[serde(default)]
    pick: Cow<'a, Option<Pick>>,
    deployment: Option<Arc<Deployment>>,
    #[serde(default)]
    requirements: Option<Arc<Requirements>>,
}

/// The form in which logs store how tasks are distributed over nodes. Sets of tasks and speeds are stored here, so that
/// demands without them keep their form.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Gang", rename_all = "snake_case", deny_unknown_fields)]
enum WrittenGang {
    Anywhere,
    Spread,
    Packed,
    Sets { gang: Gang, sets: Arc<[TaskSet]> },
    WithSpeeds { gang: Box<WrittenGang>, speeds: Arc<Speeds> },
}

static NO_TASK: TaskDemand = TaskDemand::cpu_only(MilliCpu::ZERO);

impl Serialize for Demand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let gang = match (&self.kind, self.gang) {
            (DemandKind::Sets(sets), gang) => WrittenGang::Sets { gang, sets: Arc::clone(sets) },
            (_, Gang::Anywhere) => WrittenGang::Anywhere,
            (_, Gang::Spread) => WrittenGang::Spread,
            (_, Gang::Packed) => WrittenGang::Packed,
            (_, gang @ (Gang::StrictPack | Gang::PreferSpread)) => {
                return Err(serde::ser::Error::custom(format!("{gang:?} is a gang of sets")));
            }
        };
        let gang = match &self.speeds {
            None => gang,
            Some(speeds) => WrittenGang::WithSpeeds { gang: Box::new(gang), speeds: Arc::clone(speeds) },
        };
        let written = Written {
            tasks: self.tasks,
            task: Cow::Borrowed(self.task().unwrap_or(&NO_TASK)),
            gang,
            pick: Cow::Borrowed(&self.pick),
            deployment: self.model().cloned(),
            requirements: self.requirements().cloned(),
        };
        written.serialize(serializer)
    }
}

impl TryFrom<Written<'_>> for Demand {
    type Error = &'static str;

    fn try_from(written: Written<'_>) -> Result<Demand, &'static str> {
        let Written { tasks, task, gang, pick, deployment, requirements } = written;
        let (gang, speeds) = match gang {
            WrittenGang::WithSpeeds { gang, speeds } => (*gang, Some(speeds)),
            gang => (gang, None),
        };
        let gang = match gang {
            WrittenGang::Anywhere => Gang::Anywhere,
            WrittenGang::Spread => Gang::Spread,
            WrittenGang::Packed => Gang::Packed,
            WrittenGang::WithSpeeds { .. } => return Err("a demand has speeds once"),
            WrittenGang::Sets { .. } if deployment.is_some() || requirements.is_some() || *task != NO_TASK => {
                return Err("a demand with sets of tasks asks for nothing else");
            }
            WrittenGang::Sets { sets, .. } if sets.is_empty() || sets.iter().any(|set| set.min_tasks > set.tasks) => {
                return Err("a demand without sets, or with a set that has fewer tasks than its least number");
            }
            WrittenGang::Sets { gang, sets } => {
                let demand = Demand { gang, pick: pick.into_owned(), speeds, ..Demand::of(sets) };
                return if demand.tasks == tasks { Ok(demand) } else { Err("`tasks` is not the sum of the sets") };
            }
        };
        let kind = match (deployment, requirements) {
            (None, None) => task.into_owned().into(),
            (Some(_), None) | (None, Some(_)) if *task != NO_TASK => {
                return Err("a demand with a `deployment` or with `requirements` asks for nothing in `task`");
            }
            (Some(deployment), None) => deployment.into(),
            (None, Some(requirements)) => requirements.into(),
            (Some(_), Some(_)) => return Err("a demand has either a `deployment` or `requirements`"),
        };
        Ok(Demand { tasks, kind, gang, pick: pick.into_owned(), speeds, fields: None })
    }
}

impl TaskDemand {
    /// A demand for CPUs alone, as in a trace of an HPC machine.
    pub const fn cpu_only(cpu: MilliCpu) -> TaskDemand {
        TaskDemand { cpu, ram: Bytes::ZERO, gpus: None, labels: BTreeMap::new(), os: None, arch: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a demand with two tasks and these additional fields.
    fn read(fields: &str) -> Result<Demand, String> {
        let task = r#"{"cpu":0,"ram":0,"gpus":null,"labels":{},"os":null,"arch":null}"#;
        let text = format!(r#"{{"tasks":2,"task":{task},"gang":"anywhere","pick":null,{fields}}}"#);
        let demand: Demand = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        assert_eq!(serde_json::to_string(&demand).expect("it is plain data"), text);
        Ok(demand)
    }

    #[test]
    fn a_demand_is_written_as_it_was_when_it_had_a_field_for_each_kind() {
        let requirements = serde_json::to_string(&Requirements::default()).expect("it is plain data");
        let tasks = read(r#""deployment":null,"requirements":null"#).expect("no kind but tasks");
        assert_eq!(tasks.kind, TaskDemand::cpu_only(MilliCpu::ZERO).into());
        let blocks = read(&format!(r#""deployment":null,"requirements":{requirements}"#)).expect("one kind");
        assert_eq!(blocks.kind, Arc::new(Requirements::default()).into());
    }

    #[test]
    fn a_demand_of_two_kinds_is_refused() {
        let requirements = serde_json::to_string(&Requirements::default()).expect("it is plain data");
        let fields = r#""tasks":1,"gang":"anywhere","pick":null,"deployment":null"#;
        let task = r#"{"cpu":1000,"ram":0,"gpus":null,"labels":{},"os":null,"arch":null}"#;
        let text = format!(r#"{{{fields},"task":{task},"requirements":{requirements}}}"#);
        let error = serde_json::from_str::<Demand>(&text).expect_err("it asks for a core and for blocks");
        assert!(error.to_string().contains("asks for nothing in `task`"), "{error}");
    }
}
