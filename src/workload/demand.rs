//! What a job needs from a fleet: the part that a scheduler reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::deployment::Deployment;
use super::requirements::Requirements;
use dryrack_catalog::{CpuArch, Os};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// Everything that decides where a job may be placed. Jobs of equal demand are interchangeable except for their place
/// in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// The number of tasks; more than one make a gang, which is placed as a whole or not at all.
    pub tasks: u32,
    /// What each task needs.
    pub task: TaskDemand,
    pub gang: Gang,
    /// A manual pick, which narrows the candidates and changes nothing else.
    pub pick: Option<Pick>,
    /// A model to be served. The model determines what it takes, and `task` is not used.
    pub deployment: Option<Arc<Deployment>>,
    /// What each task requires of an instance of a fleet. It takes blocks, and `task` is not used.
    #[serde(default)]
    pub requirements: Option<Arc<Requirements>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskDemand {
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: Option<GpuDemand>,
    /// Labels that the node must carry with exactly these values.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    pub os: Option<Os>,
    pub arch: Option<CpuArch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuDemand {
    /// The number of distinct GPUs of one node, for each task.
    pub count: u32,
    pub take: GpuTake,
    /// Acceptable models, by name; any if empty.
    pub models: Vec<Arc<str>>,
    /// Minimum total memory of each GPU, including what the system reserves.
    pub min_memory: Option<Bytes>,
}

/// How much is taken of each GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuTake {
    /// The whole GPU, exclusively. If its memory is part of RAM, it gets as much as the task's own RAM leaves.
    Whole,
    /// A share of its time, with the same share of its memory.
    Share(GpuShare),
    /// Memory only. No share of its time is guaranteed, but others must leave some.
    Memory(Bytes),
}

/// How the tasks of a gang are distributed over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gang {
    /// Anywhere: nodes in the scheduler's order of preference, each filled before the next one.
    #[default]
    Anywhere,
    /// Each task on a separate node.
    Spread,
    /// On as few nodes as possible.
    Packed,
}

/// A manual choice of nodes or GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// Only these nodes.
    Nodes(Vec<NodeId>),
    /// Only these GPUs.
    Gpus(Vec<GpuId>),
    /// Exactly these GPUs, all of them: one task on each of their nodes, which takes the GPUs picked there.
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

    /// The picked nodes, in order of ids, without duplicates.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes = match self {
            Pick::Nodes(nodes) => nodes.clone(),
            Pick::Gpus(gpus) | Pick::AllGpus(gpus) => gpus.iter().map(|gpu| gpu.node).collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The GPUs picked on `node`, in order of their index; `None` if the pick is not of GPUs.
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
    /// The number of nodes of a run, where jobs are runs of nodes: one for each task that needs a separate node.
    pub fn nodes_apart(&self) -> u32 {
        let apart = self.requirements.is_some() || self.gang == Gang::Spread;
        let picked_together = matches!(self.pick, Some(Pick::AllGpus(_))) || self.deployment.is_some();
        if apart && !picked_together { self.tasks } else { 1 }
    }

    /// A demand for one such task, anywhere.
    pub fn of(task: TaskDemand) -> Demand {
        Demand { tasks: 1, task, gang: Gang::Anywhere, pick: None, deployment: None, requirements: None }
    }
}

impl TaskDemand {
    /// Only CPUs, anywhere: what a trace of an HPC machine asks for.
    pub fn cpu_only(cpu: MilliCpu) -> TaskDemand {
        TaskDemand { cpu, ram: Bytes::ZERO, gpus: None, labels: BTreeMap::new(), os: None, arch: None }
    }
}
