//! For how many tasks the nodes have room, now and if some resources were unlimited.

use super::cause::{Blame, Shortages};
use super::node_account::NodeAccount;
use dryrack_event::Reason;
use dryrack_ids::NodeId;
use dryrack_workload::{Demand, Gang, GpuDemand, GpuTake, Pick, TaskDemand};

/// Sets of resources, one bit for each resource.
const CPU: usize = 1;
const RAM: usize = 2;
const GPUS: usize = 4;
const ALL: usize = CPU | RAM | GPUS;

/// Equal tasks of a demand, all of which must have room at the same time.
#[derive(Clone, Copy)]
pub(super) struct EqualTasks<'a> {
    pub task: &'a TaskDemand,
    pub tasks: u64,
    /// The most of these tasks that one node may take.
    pub most: u64,
    pub pick: Option<&'a Pick>,
}

/// The tasks of a demand: one entry for each kind. Empty for models and requirements.
pub(super) fn kinds_of_tasks(demand: &Demand) -> impl Iterator<Item = EqualTasks<'_>> {
    let of_sets = demand.sets().iter().map(|set| (set.min_tasks, &set.task));
    let kinds = demand.task().map(|task| (demand.tasks, task)).into_iter().chain(of_sets);
    kinds.filter(|(tasks, _)| *tasks > 0).map(|(tasks, task)| {
        let tasks = u64::from(tasks);
        let most = if demand.gang == Gang::Spread { 1 } else { tasks };
        EqualTasks { task, tasks, most, pick: demand.pick.as_ref() }
    })
}

impl EqualTasks<'_> {
    pub fn gpus(&self) -> Option<&GpuDemand> {
        self.task.gpus.as_ref().filter(|gpus| gpus.count > 0)
    }

    /// The reason for a shortage of GPUs. It depends on how the tasks take GPUs.
    pub fn gpu_reason(&self) -> Option<Reason> {
        self.gpus().map(|gpus| match gpus.take {
            GpuTake::Whole => Reason::InsufficientGpus,
            GpuTake::Share(_) => Reason::InsufficientGpuShare,
            GpuTake::Memory(_) => Reason::InsufficientGpuMemory,
        })
    }

    /// Whether a node of the right kind is any node without instances.
    pub fn is_plain(&self) -> bool {
        self.task.os.is_none() && self.task.arch.is_none() && self.task.labels.is_empty() && self.pick.is_none()
    }

    pub fn is_node_of_kind(&self, id: NodeId, node: &NodeAccount) -> bool {
        let (task, shape) = (self.task, &node.spec.shape);
        task.os.is_none_or(|os| os == shape.os)
            && task.arch.is_none_or(|arch| arch == shape.arch)
            && task.labels.iter().all(|(key, value)| shape.labels.get(key) == Some(value))
            && shape.instance.is_none()
            && self.pick.is_none_or(|pick| pick.allows_node(id))
    }

    /// The room of one node, in whatever state it is. None if it is not of the right kind.
    pub fn room_on(&self, id: NodeId, node: &NodeAccount) -> NodeRoom {
        if !self.is_node_of_kind(id, node) {
            return NodeRoom::default();
        }
        let gpus = self.gpus().map_or((self.most, self.most), |gpus| gpu_room_on(gpus, node, self.most));
        let free = (node.cpu_free().get(), node.ram_free().get());
        NodeRoom::of((self.task.cpu.get(), self.task.ram.get()), self.most, free, gpus)
    }
}

/// The number of tasks for which the node's GPUs have room, up to `most`: now and if none were taken.
pub(super) fn gpu_room_on(gpus: &GpuDemand, node: &NodeAccount, most: u64) -> (u64, u64) {
    (node.gpu_room(gpus, false, most), node.gpu_room(gpus, true, most))
}

/// For how many tasks each resource of a node has room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeRoom {
    most: u64,
    cpu: u64,
    ram: u64,
    gpus: u64,
    empty_gpus: u64,
}

impl NodeRoom {
    /// `asked` and `free` are CPU and RAM. `gpus` is how many tasks the GPUs have room for, now and if none were taken.
    pub fn of(asked: (u64, u64), most: u64, free: (u64, u64), gpus: (u64, u64)) -> NodeRoom {
        let parts = |free: u64, asked: u64| match most {
            1 => u64::from(free >= asked),
            most => free.checked_div(asked).unwrap_or(most).min(most),
        };
        NodeRoom {
            most,
            cpu: parts(free.0, asked.0),
            ram: parts(free.1, asked.1),
            gpus: gpus.0.min(most),
            empty_gpus: gpus.1.min(most),
        }
    }

    /// The same for one task.
    pub fn of_one(self) -> NodeRoom {
        let NodeRoom { most, cpu, ram, gpus, empty_gpus } = self;
        let [most, cpu, ram, gpus, empty_gpus] = [most, cpu, ram, gpus, empty_gpus].map(|tasks| tasks.min(1));
        NodeRoom { most, cpu, ram, gpus, empty_gpus }
    }

    fn with_endless(&self, set: usize) -> u64 {
        let cpu = if set & CPU > 0 { self.most } else { self.cpu };
        let ram = if set & RAM > 0 { self.most } else { self.ram };
        let gpus = if set & GPUS > 0 { self.empty_gpus } else { self.gpus };
        cpu.min(ram).min(gpus)
    }
}

/// For how many equal tasks all nodes together have room, for each set of resources that may be unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room([u64; ALL + 1]);

impl Room {
    /// The room of those nodes for which `counts` is true.
    pub fn of(tasks: EqualTasks<'_>, nodes: &[NodeAccount], counts: impl Fn(&NodeAccount) -> bool) -> Room {
        let mut room = Room::default();
        for (id, node) in nodes.iter().enumerate().filter(|(_, node)| counts(node)) {
            room.replace(NodeRoom::default(), tasks.room_on(NodeId::new(id), node));
        }
        room
    }

    /// Counts a node again whose room has changed.
    pub fn replace(&mut self, before: NodeRoom, after: NodeRoom) {
        for (set, sum) in self.0.iter_mut().enumerate() {
            *sum = *sum + after.with_endless(set) - before.with_endless(set);
        }
    }

    /// The number of tasks for which there is room.
    pub fn tasks(&self) -> u64 {
        self.0[0]
    }

    pub fn is_enough(&self, tasks: u64) -> bool {
        self.tasks() >= tasks
    }

    /// The smallest set of resources that would make room if they were unlimited. `None` if no set would.
    pub fn lacks(&self, tasks: EqualTasks<'_>) -> Option<Blame> {
        let gpus = tasks.gpu_reason();
        let sets = [CPU, RAM, GPUS, CPU | GPUS, RAM | GPUS, CPU | RAM, ALL];
        let is_of_gpus = |set: usize| set & GPUS > 0;
        let enough = sets
            .into_iter()
            .filter(|set| gpus.is_some() || !is_of_gpus(*set))
            .find(|set| self.0[*set] >= tasks.tasks)?;
        Some(match (enough, gpus) {
            (CPU, _) => Blame::One(Reason::InsufficientCpu),
            (RAM, _) => Blame::One(Reason::InsufficientRam),
            (GPUS, Some(gpus)) => Blame::One(gpus),
            (set, gpus) => Blame::Together(Shortages {
                cpu: set & CPU > 0,
                ram: set & RAM > 0,
                gpus: gpus.filter(|_| is_of_gpus(set)),
            }),
        })
    }

    /// The reason that most nodes without room would give for one task, where each node gives the first resource that is
    /// short: CPU, RAM, then GPUs. Also says how many nodes give it. `None` if no node would have room with all of them
    /// unlimited.
    pub fn leading_reason(&self, tasks: EqualTasks<'_>) -> Option<(Reason, u64)> {
        let of = |set: usize, less: usize| self.0[set] - self.0[less];
        let first = [
            (of(ALL, RAM | GPUS), Some(Reason::InsufficientCpu)),
            (of(RAM | GPUS, GPUS), Some(Reason::InsufficientRam)),
            (of(GPUS, 0), tasks.gpu_reason()),
        ];
        let given = first.into_iter().filter(|(nodes, _)| *nodes > 0);
        given
            .filter_map(|(nodes, reason)| Some((nodes, reason?)))
            .min_by_key(|(nodes, reason)| (std::cmp::Reverse(*nodes), *reason))
            .map(|(nodes, reason)| (reason, nodes))
    }
}
