//! The number of nodes of a task that states whole GPUs, but no nodes.
//!
//! With `fewest`, the default, such a task is treated as if it stated the fewest nodes that could hold its GPUs: one node
//! if it fits on one. With `any`, each of its GPUs may be on any node. The programs of Helios and Tiresias place single
//! GPUs, so their results need `any`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::settings::{GpuNodes, RunOn, TraceSettings};
use crate::world::World;
use dryrack_trace::{Format, TaskResources, TraceTask};
use dryrack_units::counted;

/// The label that names the virtual cluster of a node.
pub(super) const VC: &str = "vc";

pub(super) const GPU_NODES: [(&str, GpuNodes); 2] = [("fewest", GpuNodes::Fewest), ("any", GpuNodes::Any)];

/// The different nodes of a scenario, as far as they decide how many nodes a task takes.
#[derive(Clone, Debug)]
pub(super) struct NodeKinds {
    rule: GpuNodes,
    kinds: BTreeSet<NodeKind>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeKind {
    virtual_cluster: Option<Arc<str>>,
    /// The model of each GPU.
    gpus: Vec<Arc<str>>,
}

impl NodeKinds {
    pub fn of(asked: &TraceSettings<'_>, world: &World) -> NodeKinds {
        // Only jobs with `resources` use instances.
        let nodes = world.nodes.iter().map(|node| &node.spec.shape).filter(|shape| shape.instance.is_none());
        let shapes: Vec<_> = match asked.run_on.0 {
            RunOn::Nodes => nodes.collect(),
            RunOn::Instances => world.hosts.iter().map(|(shape, _)| shape).collect(),
        };
        let kinds = shapes.into_iter().map(|shape| NodeKind {
            virtual_cluster: shape.labels.get(VC).cloned(),
            gpus: shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)).collect(),
        });
        NodeKinds { rule: asked.gpu_nodes.unwrap_or(GpuNodes::Fewest), kinds: kinds.collect() }
    }

    /// The virtual cluster in which a task must stay. None if no node has one: the nodes are then one cluster.
    pub fn cluster<'t>(&self, task: &'t TraceTask) -> Option<&'t str> {
        let is_divided = self.kinds.iter().any(|kind| kind.virtual_cluster.is_some());
        task.virtual_cluster.as_deref().filter(|_| is_divided)
    }

    /// The number of tasks of a task with this many GPUs of any of these models: one for each of the fewest nodes that
    /// could hold them, or one for each GPU. If no node has such a GPU, it is one, and the task can never run.
    pub fn tasks(&self, task: &TraceTask, models: &[Arc<str>]) -> u32 {
        let gpus = task.gpus.unwrap_or(0).max(1);
        if self.rule == GpuNodes::Any {
            return gpus;
        }
        let cluster = self.cluster(task);
        let reachable =
            self.kinds.iter().filter(|kind| cluster.is_none() || kind.virtual_cluster.as_deref() == cluster);
        let usable = |kind: &NodeKind| kind.gpus.iter().filter(|gpu| models.is_empty() || models.contains(gpu)).count();
        match reachable.map(usable).max().and_then(|most| u32::try_from(most).ok()) {
            None | Some(0) => 1,
            Some(most) => gpus.div_ceil(most),
        }
    }
}

/// Whether a task asks only for whole GPUs, and its format does not state their nodes.
pub(super) fn is_of_whole_gpus(task: &TraceTask, format: Format) -> bool {
    match format.asks() {
        TaskResources::WholeGpus => task.nodes.is_none(),
        TaskResources::AsStated => task.nodes.is_none() && task.processors.is_none() && !task.is_of_one_node(),
        TaskResources::Processors | TaskResources::Pod | TaskResources::Nodes => false,
    }
}

/// Counts the tasks on several nodes whose GPUs are not the same number on each. The trace does not state how they were
/// shared out, so each node gets the next larger equal number.
#[derive(Default)]
struct UnevenGpus {
    tasks: usize,
    /// The GPUs that the tasks had, and those that they take in the run.
    gpus: [u64; 2],
}

impl UnevenGpus {
    /// Adds a chosen task.
    fn add(&mut self, task: &TraceTask, format: Format) {
        let is_apart = match format.asks() {
            TaskResources::Nodes => true,
            TaskResources::AsStated | TaskResources::WholeGpus => task.nodes.is_some(),
            TaskResources::Processors | TaskResources::Pod => false,
        };
        let (nodes, gpus) = (task.nodes.unwrap_or(1).max(1), task.gpus.unwrap_or(0));
        if is_apart && !gpus.is_multiple_of(nodes) {
            self.tasks += 1;
            self.gpus[0] += u64::from(gpus);
            self.gpus[1] += u64::from(gpus.div_ceil(nodes)) * u64::from(nodes);
        }
    }

    fn note(&self, asked: &TraceSettings<'_>, world: &mut World) {
        let [had, take] = self.gpus;
        if self.tasks > 0 {
            world.assumed.insert(format!(
                "{} of {} had {had} GPUs on several nodes, not the same number on each, and {} {take} in the run: each node \
                 gets the same number, rounded up",
                counted(self.tasks, "job"),
                asked.called(),
                if self.tasks == 1 { "takes" } else { "take" },
            ));
        }
    }
}

/// Notes how tasks of several GPUs are placed, unless the scenario states it, whether virtual clusters share nodes, and which
/// tasks get more GPUs than they had.
#[derive(Default)]
pub(super) struct UnstatedNodes(usize, BTreeSet<String>, UnevenGpus);

impl UnstatedNodes {
    /// Adds a chosen task.
    pub fn add(&mut self, task: &TraceTask, format: Format) {
        self.2.add(task, format);
        let is_of_whole_gpus = is_of_whole_gpus(task, format);
        self.0 += usize::from(is_of_whole_gpus && task.gpus.is_some_and(|gpus| gpus > 1));
        let may_be_apart = is_of_whole_gpus || format.is_of_slurm();
        if let Some(cluster) = task.virtual_cluster.as_ref().filter(|name| may_be_apart && !self.1.contains(*name)) {
            self.1.insert(cluster.clone());
        }
    }

    /// With partitions of Slurm, virtual clusters are those.
    pub fn note(&self, format: Format, asked: &TraceSettings<'_>, has_partitions: bool, world: &mut World) {
        self.2.note(asked, world);
        let has_vc = world.nodes.iter().any(|node| node.spec.shape.labels.contains_key(VC));
        let (least, what, why) = match format.is_of_slurm() {
            true => (2, "partition", "the file has no `slurm.partitions`".to_string()),
            false => (1, "virtual cluster", format!("no node has the label `{VC}`")),
        };
        if self.1.len() >= least && !has_vc && !has_partitions {
            let clusters = counted(self.1.len(), what);
            world.assumed.insert(format!("jobs of {clusters} of {} share all nodes, because {why}", asked.called()));
        }
        if self.0 == 0 || asked.gpu_nodes.is_some() {
            return;
        }
        let jobs = counted(self.0, "job");
        let stated = match format.asks() {
            TaskResources::AsStated => "the column `nodes` states another number, and ",
            _ => "",
        };
        world.assumed.insert(format!(
            "{jobs} of several GPUs {} as few nodes as can hold the GPUs, because {} does not state nodes; {stated}\
             `gpu_nodes: any` in `trace:` spreads the GPUs over any nodes",
            if self.0 == 1 { "takes" } else { "take" },
            asked.called()
        ));
    }
}
