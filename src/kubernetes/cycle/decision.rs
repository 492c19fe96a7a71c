//! The outcome of one attempt to schedule a pod, with all of its reasons.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::verdict::{Plugin, Refusal};
use crate::cluster::PodInfo;
use crate::devices::Allocations;
use crate::plugins::default_preemption::Preemption;

/// One attempt. Nodes are indices in the cluster.
#[derive(Debug)]
pub struct Decision {
    pub pod: Arc<PodInfo>,
    /// The node that was nominated to the pod before.
    pub nominated: Option<Arc<str>>,
    /// Whether the nominated node fits. The other nodes were then not examined.
    pub via_nominated: bool,
    /// A plugin that refused the pod on all nodes.
    pub pre_filter: Option<Refusal>,
    /// The names of the examined nodes, if not all nodes were examined.
    pub only_nodes: Option<BTreeSet<Arc<str>>>,
    pub rejected: Vec<(usize, Refusal)>,
    pub feasible: Vec<usize>,
    /// Whether all nodes were examined that the pod may get. If not, enough of them were feasible.
    pub is_of_all_nodes: bool,
    /// The place at which the next attempt starts to examine nodes.
    pub next_node: usize,
    /// `None` if at most one node is feasible.
    pub scores: Option<Scores>,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    /// Each of these nodes is a correct choice. If the pod has claims, each node comes with the devices that the pod
    /// would get there.
    Fits { best: Vec<(usize, Option<Allocations>)> },
    /// The condition text of the pod, and the result of trying preemption.
    Unschedulable { message: String, post_filter: PostFilter },
    /// A plugin failed.
    Failed { message: String },
}

/// The attempts to make room for a pod that fits on no node.
#[derive(Debug, Default)]
pub struct PostFilter {
    /// A claim whose devices are released, because the pod might then fit on another node.
    pub deallocate: Option<Arc<str>>,
    /// `None` if preemption was not tried.
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
