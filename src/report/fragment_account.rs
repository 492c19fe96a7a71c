//! How much of the free GPU time was of no use to what is expected to come.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::account::RunAccount;
use super::node_account::NodeAccount;
use crate::engine::Rehearsal;
use crate::fleet::NodeShape;
use crate::ids::NodeId;
use crate::scheduler::{FragmentMemo, Free, Target, TaskShape, fragment};
use crate::units::SimTime;

/// Fragmentation as Weng and others define it (*Beware of Fragmentation*, USENIX ATC 2023, section 4.2): of each node the
/// free GPU time that the target workload cannot use, in the mean over its shapes; of the cluster, their sum. Of each node
/// it is rounded to a millionth of a GPU, so that the sum is the same in whatever order it is taken.
#[derive(Clone, Debug, Default)]
pub struct FragmentAccount {
    target: Target,
    memo: FragmentMemo,
    /// Shapes of nodes, each once, by the number under which the memo knows them.
    shapes: HashMap<Arc<NodeShape>, usize, FixedState>,
    nodes: Vec<NodeLevel>,
    now: Level,
    since: SimTime,
    /// Nanoseconds times millionths of a GPU.
    pub free_time: u128,
    pub useless_time: u128,
    /// Nodes that were touched since the last instant was over; some more than once.
    touched: Vec<NodeId>,
}

/// In millionths of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub free: u64,
    pub useless: u64,
}

/// What was last found of a node, and the number of its shape once it was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct NodeLevel {
    shape: Option<usize>,
    level: Level,
}

impl FragmentAccount {
    /// The target of the profile, or else all tasks of the run; nothing is measured where there are no GPUs, or where
    /// every job is a model or asks for `resources`, which the measure knows nothing of.
    pub fn of(rehearsal: &Rehearsal) -> FragmentAccount {
        let known = &rehearsal.profile.scheduler.target;
        if rehearsal.nodes.iter().all(|node| node.spec.shape.gpus.is_empty()) {
            return FragmentAccount::default();
        }
        if !known.is_empty() {
            return FragmentAccount::against(known.clone());
        }
        let demands = rehearsal.arrivals.iter().map(|arrival| &arrival.spec.demand);
        let measured = demands.filter(|demand| demand.deployment.is_none() && demand.requirements.is_none());
        let shapes = measured.flat_map(|demand| std::iter::repeat_n(TaskShape::of(demand), demand.tasks as usize));
        FragmentAccount::against(Target::of(shapes))
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

    /// An instant is over.
    pub(super) fn settle(&mut self, nodes: &[NodeAccount]) {
        for id in std::mem::take(&mut self.touched) {
            let node = &nodes[id.index()];
            if self.nodes.len() <= id.index() {
                self.nodes.resize(id.index() + 1, NodeLevel::default());
            }
            let known = &mut self.nodes[id.index()];
            let shape = *known.shape.get_or_insert_with(|| {
                let next = self.shapes.len();
                *self.shapes.entry(Arc::clone(&node.spec.shape)).or_insert(next)
            });
            let after = level(&self.target, (shape, &node.spec.shape), &node.free(), &mut self.memo);
            let before = std::mem::replace(&mut known.level, after);
            self.now.free = self.now.free - before.free + after.free;
            self.now.useless = self.now.useless - before.useless + after.useless;
        }
    }

    /// Adds up what held since the last instant.
    pub(super) fn pass(&mut self, at: SimTime) {
        let length = u128::from(at.since(self.since).as_nanos());
        self.since = at;
        self.free_time += length * u128::from(self.now.free);
        self.useless_time += length * u128::from(self.now.useless);
    }

    /// What was before is of no account.
    pub(super) fn forget(&mut self) {
        (self.free_time, self.useless_time) = (0, 0);
    }
}

/// Of a node of the shape with this number.
fn level(target: &Target, (number, shape): (usize, &NodeShape), free: &Free, memo: &mut FragmentMemo) -> Level {
    let all: u64 = free.gpus.iter().map(|left| u64::from(*left)).sum();
    if all == 0 {
        return Level::default();
    }
    let useless = memo.fragment(target, number, shape, free).unwrap_or_else(|| fragment(target, shape, free));
    let useless = libm::round(useless * 1000.0) as u64;
    Level { free: all * 1000, useless: useless.min(all * 1000) }
}

impl RunAccount {
    /// The mean over time of GPUs that were free and of no use, and the part of all free GPU time; `None` where nothing
    /// was measured.
    pub(super) fn fragmentation(&self) -> Option<(u128, u128)> {
        let account = &self.fragments;
        account.is_measured().then_some((account.useless_time, account.free_time))
    }
}
