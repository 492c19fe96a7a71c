//! Which model replicas are on which nodes, and how much they leave free on each GPU. The placement of deployments
//! reads this.
//!
//! Every change updates the nodes that it affects. The free memory of each GPU and the number of its instances are
//! stored in columns over all GPUs, so a decision reads numbers and computes no sums. [`Serving::rebuilt`] computes the
//! same from scratch, for tests to compare with.

mod instance;

pub use instance::{GpuKind, ModelKey, Part, ServedInstance};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::node::{GpuState, NodeShape, NodeState, Reliance};

/// The labels of a node. Nodes with equal labels share them.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// What counts as taken on a GPU. The free memory by each of these rules is kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accounting {
    /// Counts what instances hold on their main node.
    MainParts,
    /// Counts what instances hold on any node.
    AllParts,
    /// Counts what an instance holds on any node, if the instance states the same kind as this GPU. If an instance
    /// states no kind, only its main part counts.
    PartsByKind,
    /// Counts everything in the ledger, including foreign use. A GPU in an unusable state has no free memory.
    Ledger,
}

const ACCOUNTINGS: [Accounting; 4] =
    [Accounting::MainParts, Accounting::AllParts, Accounting::PartsByKind, Accounting::Ledger];

/// A GPU as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingGpu {
    pub index: u32,
    pub kind: GpuKind,
    /// Total memory in bytes.
    pub total: u64,
}

/// The state of a GPU, without what model instances hold. Amounts are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuStanding {
    /// Memory held by jobs other than models.
    pub other: u64,
    /// Memory used by programs outside this scheduler.
    pub foreign: u64,
    pub state: GpuState,
}

impl GpuStanding {
    /// A healthy and unused GPU.
    pub const IDLE: GpuStanding = GpuStanding { other: 0, foreign: 0, state: GpuState::Ready };
}

/// A node as declared. Amounts are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ServingNode {
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub state: NodeState,
    pub ram: u64,
    /// Whether the memory of the node's GPUs is part of its RAM.
    pub unified: bool,
    pub reserved_ram: u64,
    /// Memory reserved on each GPU.
    pub reserved_memory: u64,
    pub gpus: Vec<ServingGpu>,
    /// The node's shape, if more than the other fields is known about the node.
    pub shape: Option<Arc<NodeShape>>,
}

/// A node, with the instances that are placed on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    pub name: Arc<str>,
    pub state: NodeState,
    pub reliance: Reliance,
    pub unified: bool,
    /// The number of the node's label set, an index into [`Serving::label_sets`].
    pub label_set: u32,
    /// The number of the node's shape, an index into [`Serving::shapes`].
    pub shape: Option<u32>,
    /// The range of the node's GPUs in the columns. The GPUs are in order of declaration.
    pub gpus: Range<usize>,
    /// The kinds of the node's GPUs, each once, in order of first declaration.
    pub kinds: SmallVec<[GpuKind; 2]>,
    /// The numbers of the instances with a part on this node, in ascending order.
    pub instances: SmallVec<[usize; 8]>,
    /// The number of GPUs that main parts hold here. A GPU that several parts hold counts once for each. A part without
    /// GPUs counts as one.
    pub main_count: u32,
    /// The number of GPUs that subordinate parts hold here. A GPU that several parts hold counts once for each.
    pub subordinate_count: u32,
    /// Free RAM in bytes by the rule [`Accounting::Ledger`]. GPU memory that is part of the RAM is not free if it is
    /// taken.
    pub ram_free: u64,
    ram: u64,
    reserved_ram: u64,
    reserved_memory: u64,
    other_ram: u64,
}

/// The free memory of each GPU by one rule of [`Accounting`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Left {
    /// Free memory in bytes.
    pub free: Vec<u64>,
    /// Free memory divided by total memory.
    pub ratio: Vec<f64>,
}

/// All GPUs of all nodes, node by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    pub index: Vec<u32>,
    pub kind: Vec<GpuKind>,
    /// Total memory in bytes.
    pub total: Vec<u64>,
    /// The number of main parts that hold the GPU.
    pub main_count: Vec<u32>,
    /// The number of subordinate parts that hold the GPU.
    pub subordinate_count: Vec<u32>,
    left: [Left; 4],
    /// Memory held by jobs other than models, in bytes.
    other: Vec<u64>,
    /// Memory used by programs outside this scheduler, in bytes.
    foreign: Vec<u64>,
    usable: Vec<bool>,
    /// Whether the GPU is ready. A degraded GPU is usable but not `sound`.
    pub sound: Vec<bool>,
}

/// All nodes, and all model instances on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Serving {
    hosts: Vec<Host>,
    columns: Columns,
    label_sets: Vec<Arc<Labels>>,
    shapes: Vec<Arc<NodeShape>>,
    instances: Vec<Option<ServedInstance>>,
    vacant: Vec<usize>,
    by_model: BTreeMap<ModelKey, BTreeSet<usize>>,
    /// Nodes that have been unreliable, or that have a GPU that is not `sound`.
    doubtful: BTreeSet<usize>,
}

impl Columns {
    pub fn left(&self, accounting: Accounting) -> &Left {
        &self.left[accounting as usize]
    }
}

impl Serving {
    pub fn add(&mut self, node: ServingNode) -> usize {
        let label_set = match self.label_sets.iter().position(|known| *known == node.labels) {
            Some(known) => known,
            None => {
                self.label_sets.push(node.labels);
                self.label_sets.len() - 1
            }
        };
        let shape = node.shape.map(|shape| self.shape_number(shape));
        let begin = self.columns.index.len();
        let mut kinds = SmallVec::new();
        for gpu in &node.gpus {
            if !kinds.contains(&gpu.kind) {
                kinds.push(gpu.kind);
            }
            self.columns.push(*gpu);
        }
        self.hosts.push(Host {
            name: node.name,
            state: node.state,
            reliance: Reliance::default(),
            unified: node.unified,
            label_set: label_set as u32,
            shape,
            gpus: begin..self.columns.index.len(),
            kinds,
            instances: SmallVec::new(),
            main_count: 0,
            subordinate_count: 0,
            ram_free: 0,
            ram: node.ram,
            reserved_ram: node.reserved_ram,
            reserved_memory: node.reserved_memory,
            other_ram: 0,
        });
        let number = self.hosts.len() - 1;
        self.recompute(number);
        number
    }

    fn shape_number(&mut self, shape: Arc<NodeShape>) -> u32 {
        let is_it = |known: &Arc<NodeShape>| Arc::ptr_eq(known, &shape) || *known == shape;
        let known = self.shapes.iter().position(is_it);
        known.unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        }) as u32
    }

    /// The different shapes of nodes. A shape's number is its index.
    pub fn shapes(&self) -> &[Arc<NodeShape>] {
        &self.shapes
    }

    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The different label sets of nodes. A label set's number is its index.
    pub fn label_sets(&self) -> &[Arc<Labels>] {
        &self.label_sets
    }

    pub fn labels(&self, node: usize) -> &Labels {
        &self.label_sets[self.hosts[node].label_set as usize]
    }

    pub fn instance(&self, number: usize) -> &ServedInstance {
        self.instances[number].as_ref().expect("an instance that is listed is there")
    }

    /// The instances that have a part on this node.
    pub fn instances_on(&self, node: usize) -> impl Iterator<Item = &ServedInstance> {
        self.hosts[node].instances.iter().map(|number| self.instance(*number))
    }

    /// The instances of one model.
    pub fn instances_of(&self, model: ModelKey) -> impl Iterator<Item = &ServedInstance> {
        self.by_model.get(&model).into_iter().flatten().map(|number| self.instance(*number))
    }

    pub fn set_state(&mut self, node: usize, state: NodeState) {
        self.hosts[node].state = state;
    }

    /// Sets a node's reliance, and the RAM and GPU memory that is held or used by anything other than instances.
    pub fn set_others(&mut self, node: usize, reliance: Reliance, ram: u64, gpus: impl Iterator<Item = GpuStanding>) {
        let host = &mut self.hosts[node];
        let begin = host.gpus.start;
        (host.other_ram, host.reliance) = (ram, reliance);
        for (offset, gpu) in gpus.enumerate() {
            let at = begin + offset;
            self.columns.other[at] = gpu.other;
            self.columns.foreign[at] = gpu.foreign;
            self.columns.usable[at] = gpu.state.is_usable();
            self.columns.sound[at] = gpu.state == GpuState::Ready;
        }
        match reliance == Reliance::default() && host.gpus.clone().all(|at| self.columns.sound[at]) {
            true => self.doubtful.remove(&node),
            false => self.doubtful.insert(node),
        };
        self.recompute(node);
    }

    /// Whether any node has been unreliable or has a GPU that is not `sound`.
    pub fn is_any_doubtful(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// Adds an instance and returns its number.
    pub fn host(&mut self, instance: ServedInstance) -> usize {
        let nodes = instance.nodes();
        let model = instance.model;
        let number = match self.vacant.pop() {
            Some(number) => {
                self.instances[number] = Some(instance);
                number
            }
            None => {
                self.instances.push(Some(instance));
                self.instances.len() - 1
            }
        };
        self.by_model.entry(model).or_default().insert(number);
        for node in nodes {
            let list = &mut self.hosts[node].instances;
            let at = list.partition_point(|other| *other < number);
            list.insert(at, number);
            self.recompute(node);
        }
        number
    }

    /// Removes what an instance holds on one node. If this was its last part, removes the instance.
    pub fn leave(&mut self, number: usize, node: usize) {
        let Some(instance) = &mut self.instances[number] else { return };
        instance.leave(node);
        let is_gone = instance.nodes().is_empty();
        let model = instance.model;
        self.hosts[node].instances.retain(|other| *other != number);
        if is_gone {
            self.instances[number] = None;
            self.vacant.push(number);
            let of_model = self.by_model.get_mut(&model).expect("entered with its first instance");
            of_model.remove(&number);
            if of_model.is_empty() {
                self.by_model.remove(&model);
            }
        }
        self.recompute(node);
    }

    /// The same state, computed from scratch.
    pub fn rebuilt(&self) -> Serving {
        let mut anew = self.clone();
        for (node, host) in anew.hosts.iter_mut().enumerate() {
            host.instances = (self.instances.iter().enumerate())
                .filter(|(_, instance)| instance.as_ref().is_some_and(|known| known.nodes().contains(&node)))
                .map(|(number, _)| number)
                .collect();
            (host.main_count, host.subordinate_count, host.ram_free) = (0, 0, 0);
        }
        anew.by_model.clear();
        for (number, instance) in self.instances.iter().enumerate() {
            if let Some(instance) = instance {
                anew.by_model.entry(instance.model).or_default().insert(number);
            }
        }
        let count = anew.columns.index.len();
        (anew.columns.main_count, anew.columns.subordinate_count) = (vec![0; count], vec![0; count]);
        for left in &mut anew.columns.left {
            *left = Left { free: vec![0; count], ratio: vec![0.0; count] };
        }
        (0..anew.hosts.len()).for_each(|node| anew.recompute(node));
        anew
    }

    /// The same nodes, but all of them ready, healthy and empty.
    pub fn idle(&self) -> Serving {
        let mut idle = self.clone();
        (idle.instances, idle.vacant) = (Vec::new(), Vec::new());
        idle.by_model.clear();
        for node in 0..idle.hosts.len() {
            idle.hosts[node].instances.clear();
            idle.hosts[node].state = NodeState::Ready;
            let count = idle.hosts[node].gpus.len();
            idle.set_others(node, Reliance::default(), 0, std::iter::repeat_n(GpuStanding::IDLE, count));
        }
        idle
    }

    /// Whether the node has a part of an instance with this backend that spans several nodes.
    pub fn is_part_of_distributed(&self, node: usize, backend: &str) -> bool {
        self.instances_on(node).any(|instance| instance.is_distributed && &*instance.backend == backend)
    }

    fn recompute(&mut self, node: usize) {
        let host = &self.hosts[node];
        let range = host.gpus.clone();
        let mut sums: SmallVec<[Taken; 8]> = range.clone().map(|at| Taken::new(self.columns.kind[at])).collect();
        let mut whole = Taken::new(self.columns.kind.get(range.start).copied().unwrap_or(GpuKind::Unknown));
        let (mut ram, mut typed_ram) = (0u64, 0u64);
        let (mut main_count, mut subordinate_count) = (0, 0);
        for number in &host.instances {
            let instance = self.instances[*number].as_ref().expect("an instance that is listed is there");
            for (part, is_main) in instance.parts_on(node) {
                if is_main {
                    ram = ram.saturating_add(part.ram);
                    if instance.kind.is_none_or(|kind| kind == whole.kind) {
                        typed_ram = typed_ram.saturating_add(part.ram);
                    }
                    main_count += part.indexes.len().max(1) as u32;
                } else {
                    subordinate_count += part.indexes.len() as u32;
                }
                for index in &part.indexes {
                    for (sum, at) in sums.iter_mut().zip(range.clone()) {
                        if self.columns.index[at] == *index {
                            sum.count(is_main);
                        }
                    }
                }
                // A main part that lists no GPU holds memory on none.
                if is_main && part.indexes.is_empty() {
                    continue;
                }
                for (index, bytes) in &part.claims {
                    whole.add(*bytes, is_main, instance.kind);
                    for (sum, at) in sums.iter_mut().zip(range.clone()) {
                        if self.columns.index[at] == *index {
                            sum.add(*bytes, is_main, instance.kind);
                        }
                    }
                }
            }
        }
        let host = &mut self.hosts[node];
        (host.main_count, host.subordinate_count) = (main_count, subordinate_count);
        for (sum, at) in sums.iter().zip(range) {
            self.columns.main_count[at] = sum.main_holders;
            self.columns.subordinate_count[at] = sum.subordinate_holders;
        }
        self.leave_over(node, &sums, &whole, [ram, ram, typed_ram, ram]);
    }

    /// Computes the free memory of each GPU of a node by each rule of [`Accounting`].
    fn leave_over(&mut self, node: usize, sums: &[Taken], whole: &Taken, ram: [u64; 4]) {
        let host = &mut self.hosts[node];
        let columns = &mut self.columns;
        for accounting in ACCOUNTINGS {
            let mode = accounting as usize;
            let ledger = accounting == Accounting::Ledger;
            let mut pool = host.ram.saturating_sub(ram[mode]).saturating_sub(host.other_ram);
            pool = pool.saturating_sub(host.reserved_ram);
            if host.unified {
                let others: u64 = host.gpus.clone().map(|at| columns.others(at, ledger)).sum();
                // The rule `Ledger` subtracts the reserve from each GPU below, and does not subtract it from the RAM.
                let reserve = if ledger { 0 } else { host.reserved_memory };
                pool = pool.saturating_sub(reserve).saturating_sub(whole.by(accounting)).saturating_sub(others);
            }
            if ledger {
                host.ram_free = pool;
            }
            for (sum, at) in sums.iter().zip(host.gpus.clone()) {
                let taken = sum.by(accounting).saturating_add(columns.others(at, ledger));
                let mut free = columns.total[at].saturating_sub(taken).saturating_sub(host.reserved_memory);
                if host.unified && (ledger || columns.index[at] == 0) {
                    free = free.min(pool);
                }
                if ledger && !columns.usable[at] {
                    free = 0;
                }
                let total = columns.total[at];
                columns.left[mode].free[at] = free;
                columns.left[mode].ratio[at] = if total == 0 { 0.0 } else { free as f64 / total as f64 };
            }
        }
    }
}

impl Columns {
    fn push(&mut self, gpu: ServingGpu) {
        self.index.push(gpu.index);
        self.kind.push(gpu.kind);
        self.total.push(gpu.total);
        self.main_count.push(0);
        self.subordinate_count.push(0);
        self.other.push(0);
        self.foreign.push(0);
        self.usable.push(true);
        self.sound.push(true);
        for left in &mut self.left {
            left.free.push(0);
            left.ratio.push(0.0);
        }
    }

    fn others(&self, at: usize, with_foreign: bool) -> u64 {
        if with_foreign { self.other[at].saturating_add(self.foreign[at]) } else { self.other[at] }
    }
}

/// What instances hold on one GPU, or on all GPUs of a node. Amounts are in bytes.
struct Taken {
    kind: GpuKind,
    main: u64,
    subordinate: u64,
    by_kind: u64,
    main_holders: u32,
    subordinate_holders: u32,
}

impl Taken {
    fn new(kind: GpuKind) -> Taken {
        Taken { kind, main: 0, subordinate: 0, by_kind: 0, main_holders: 0, subordinate_holders: 0 }
    }

    fn count(&mut self, is_main: bool) {
        *(if is_main { &mut self.main_holders } else { &mut self.subordinate_holders }) += 1;
    }

    fn add(&mut self, bytes: u64, is_main: bool, stated: Option<GpuKind>) {
        let sum = if is_main { &mut self.main } else { &mut self.subordinate };
        *sum = sum.saturating_add(bytes);
        if stated.map_or(is_main, |stated| stated == self.kind) {
            self.by_kind = self.by_kind.saturating_add(bytes);
        }
    }

    fn by(&self, accounting: Accounting) -> u64 {
        match accounting {
            Accounting::MainParts => self.main,
            Accounting::AllParts | Accounting::Ledger => self.main.saturating_add(self.subordinate),
            Accounting::PartsByKind => self.by_kind,
        }
    }
}

#[cfg(test)]
mod tests;
