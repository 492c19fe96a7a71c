//! The outcome of one attempt to schedule a pod, with all of its reasons.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::verdict::{Plugin, Refusal};
use crate::cluster::PodInfo;
use crate::devices::Allocations;
use crate::plugins::default_preemption::Preemption;

/// One attempt. Nodes are numbers in the cluster.
#[derive(Debug)]
pub struct Decision {
    pub pod: Arc<PodInfo>,
    /// The node that was nominated to the pod before.
    pub nominated: Option<Arc<str>>,
    /// Whether the nominated node fits and was the only one that was looked at.
    pub via_nominated: bool,
    /// A plugin that refused the pod on all nodes.
    pub pre_filter: Option<Refusal>,
    /// The only nodes that were looked at, by name.
    pub only_nodes: Option<BTreeSet<Arc<str>>>,
    pub rejected: Vec<(usize, Refusal)>,
    pub feasible: Vec<usize>,
    /// None if at most one node is feasible.
    pub scores: Option<Scores>,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    /// Every one of these nodes is a right choice. Each has the devices that the pod would get there, if it has claims.
    Fits { best: Vec<(usize, Option<Allocations>)> },
    /// The condition text of the pod, and what preemption can do.
    Unschedulable { message: String, post_filter: PostFilter },
    /// A plugin failed.
    Failed { message: String },
}

/// What was tried for a pod that fits nowhere.
#[derive(Debug, Default)]
pub struct PostFilter {
    /// A claim whose devices are given back, because another node might do then.
    pub deallocate: Option<Arc<str>>,
    /// None if preemption was not tried.
    pub preemption: Option<Preemption>,
    /// Whether an earlier nomination of the pod is withdrawn.
    pub clears_nomination: bool,
}

/// The scores of the feasible nodes, weighted.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    pub plugins: Vec<Plugin>,
    /// For each feasible node, a score for each plugin.
    pub rows: Vec<Vec<i64>>,
    pub totals: Vec<i64>,
}
