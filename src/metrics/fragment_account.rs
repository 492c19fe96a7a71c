//! Measures how much free GPU time the expected workload could not use.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::node_account::NodeAccount;
use dryrack_engine::Rehearsal;
use dryrack_fleet::NodeShape;
use dryrack_ids::NodeId;
use dryrack_scheduler::{FragmentMemo, Free, Target, TaskShape, fragment};
use dryrack_units::SimTime;
use dryrack_workload::TaskDemand;

/// Fragmentation as Weng and others define it (*Beware of Fragmentation*, USENIX ATC 2023, section 4.2). The
/// fragmentation of a node is the free GPU time that the target workload cannot use, averaged over the workload's task
/// shapes. The fragmentation of the cluster is the sum over its nodes. Each node's value is rounded to a millionth of a
/// GPU, so the sum does not depend on the order of the nodes.
#[derive(Clone, Debug, Default)]
pub struct FragmentAccount {
    target: Target,
    memo: FragmentMemo,
    /// Known levels of nodes on which each GPU is either wholly free or wholly taken. The first index is the number of
    /// the node's shape. The second index combines the free CPU, as the number of the target's CPU amounts that fit,
    /// and the number of free GPUs. `None` for a shape with several types of GPUs.
    of_whole: Vec<Option<Vec<Option<Level>>>>,
    /// The different node shapes, each with its number.
    shapes: HashMap<Arc<NodeShape>, usize, FixedState>,
    nodes: Vec<NodeLevel>,
    now: Level,
    since: SimTime,
    /// GPU time in nanoseconds times millionths of a GPU.
    pub free_time: u128,
    pub useless_time: u128,
    /// Nodes that changed in this instant. A node may appear several times.
    touched: Vec<NodeId>,
}

/// Free GPU capacity, and the part of it that is useless. Both are in millionths of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub free: u64,
    pub useless: u64,
}

/// The current level of a node, and the number of its shape once it is known.
#[derive(Clone, Copy, Debug, Default)]
struct NodeLevel {
    shape: Option<usize>,
    level: Level,
}

impl FragmentAccount {
    /// An account that measures against the profile's target workload, or against all tasks of the run if the profile
    /// has none. Measures nothing if there are no GPUs. The measure does not cover models and jobs with `resources`, so
    /// if there are no other jobs, the account measures nothing either.
    pub fn of(rehearsal: &Rehearsal) -> FragmentAccount {
        let known = &rehearsal.profile.scheduler.target;
        if rehearsal.nodes.iter().all(|node| node.spec.shape.gpus.is_empty()) {
            return FragmentAccount::default();
        }
        if !known.is_empty() {
            return FragmentAccount::against(known.clone());
        }
        let demands = rehearsal.arrivals.iter().map(|arrival| &arrival.spec.demand);
        // Many jobs share one demand, so count the jobs of each demand first, and examine each demand once.
        let mut counts: Vec<(&TaskDemand, u64)> = Vec::new();
        let mut places: HashMap<(usize, usize), usize, FixedState> = HashMap::default();
        for demand in demands.filter(|demand| demand.tasks > 0) {
            for (kind, (tasks, task)) in demand.kinds_of_tasks().enumerate() {
                let place = *places.entry((Arc::as_ptr(demand).addr(), kind)).or_insert_with(|| {
                    counts.push((task, 0));
                    counts.len() - 1
                });
                counts[place].1 += u64::from(tasks);
            }
        }
        let shapes = counts.into_iter().map(|(task, tasks)| (TaskShape::of(task), tasks));
        FragmentAccount::against(Target::of_counted(shapes))
    }

    fn against(target: Target) -> FragmentAccount {
        FragmentAccount { memo: FragmentMemo::new(&target), target, ..FragmentAccount::default() }
    }

    pub fn is_measured(&self) -> bool {
        !self.target.is_empty()
    }

    pub fn now(&self) -> Level {
        self.now
    }

    pub(super) fn touch(&mut self, node: NodeId) {
        if self.is_measured() && self.touched.last() != Some(&node) {
            self.touched.push(node);
        }
    }

    /// Closes an instant: updates the levels of the nodes that changed in it.
    pub(super) fn settle(&mut self, nodes: &[NodeAccount]) {
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let node = &nodes[id.index()];
            if self.nodes.len() <= id.index() {
                self.nodes.resize(id.index() + 1, NodeLevel::default());
            }
            let shape = match self.nodes[id.index()].shape {
                Some(shape) => shape,
                None => self.number_of(&node.spec.shape),
            };
            let after = self.level_of(shape, node);
            let known = &mut self.nodes[id.index()];
            known.shape = Some(shape);
            let before = std::mem::replace(&mut known.level, after);
            self.now.free = self.now.free - before.free + after.free;
            self.now.useless = self.now.useless - before.useless + after.useless;
        }
        self.touched = touched;
    }

    fn number_of(&mut self, shape: &Arc<NodeShape>) -> usize {
        let next = self.shapes.len();
        let number = *self.shapes.entry(Arc::clone(shape)).or_insert(next);
        if number == self.of_whole.len() {
            let is_uniform = shape.gpus.windows(2).all(|pair| pair[0].model == pair[1].model);
            self.of_whole.push(is_uniform.then(Vec::new));
        }
        number
    }

    /// The level of this node. `number` is the number of its shape.
    fn level_of(&mut self, number: usize, node: &NodeAccount) -> Level {
        let (memo, target) = (&mut self.memo, &self.target);
        let of_shape = self.of_whole[number].as_mut().zip(node.whole_gpus_free());
        let Some((of_shape, gpus)) = of_shape else {
            return level(target, (number, &node.spec.shape), &node.free(), memo);
        };
        let state = memo.cpu_level(node.cpu_free()) * (node.gpu_count() + 1) + gpus as usize;
        if of_shape.len() <= state {
            of_shape.resize(state + 1, None);
        }
        *of_shape[state].get_or_insert_with(|| level(target, (number, &node.spec.shape), &node.free(), memo))
    }

    /// Adds the current level for the time since the last change.
    pub(super) fn pass(&mut self, at: SimTime) {
        let length = u128::from(at.since(self.since).as_nanos());
        self.since = at;
        self.free_time += length * u128::from(self.now.free);
        self.useless_time += length * u128::from(self.now.useless);
    }

    /// Resets the totals, because the warm-up has ended.
    pub(super) fn forget(&mut self) {
        (self.free_time, self.useless_time) = (0, 0);
    }
}

/// Computes the level of a node with this shape and this free capacity.
fn level(target: &Target, (number, shape): (usize, &NodeShape), free: &Free, memo: &mut FragmentMemo) -> Level {
    let all: u64 = free.gpus.iter().map(|left| u64::from(*left)).sum();
    if all == 0 {
        return Level::default();
    }
    let useless = memo.fragment(target, number, shape, free).unwrap_or_else(|| fragment(target, shape, free));
    let useless = libm::round(useless * 1000.0) as u64;
    Level { free: all * 1000, useless: useless.min(all * 1000) }
}
