//! What an explanation shows of one node.

use std::borrow::Cow;

use super::verdict::Verdict;
use dryrack_event::Reason;
use dryrack_ids::NodeId;
use dryrack_units::{Bytes, Permille, Score};

#[derive(Clone, Debug)]
pub struct NodeFinding {
    pub node: NodeId,
    pub verdict: Verdict,
    /// Every filter that refuses the node, by its name and with its own reason. The first filter decides the verdict.
    pub refusals: Vec<(&'static str, Reason)>,
    /// The resources that are missing for one task, if any.
    pub shortages: Vec<Shortage>,
    /// The taints of a Kubernetes node that the pod does not tolerate, as texts.
    pub taints: Vec<String>,
    /// For a model: each GPU, the memory that would be taken, and the memory that is free.
    pub gpus: Vec<GpuFinding>,
    /// How many tasks would fit on the node.
    pub capacity: u32,
    /// The score of each scorer, by its name.
    pub scores: Vec<(&'static str, Score)>,
    pub total: Score,
}

/// One GPU, judged for one replica of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFinding {
    pub index: u16,
    pub total: Bytes,
    /// The memory that the replica would take if it used this GPU alone.
    pub takes: Bytes,
    /// The free memory, as the profile accounts for it.
    pub free: Bytes,
}

/// A resource that a node does not have enough of. The name of the resource implies the unit. `missing` is the share of
/// the needed amount that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub resource: Cow<'static, str>,
    pub needed: String,
    pub free: String,
    pub missing: Permille,
}

impl Shortage {
    /// A shortage with its amounts, which `texts` state: needed, then free.
    pub fn of(resource: impl Into<Cow<'static, str>>, (needed, free): (u64, u64), texts: (String, String)) -> Shortage {
        let share = u128::from(needed.saturating_sub(free)) * 1000 / u128::from(needed.max(1));
        let missing = Permille::new(u32::try_from(share).unwrap_or(1000));
        Shortage { resource: resource.into(), needed: texts.0, free: texts.1, missing }
    }
}

impl NodeFinding {
    /// A finding with only a verdict. Nothing else is known about the node.
    pub fn of(node: NodeId, verdict: Verdict) -> NodeFinding {
        NodeFinding {
            node,
            verdict,
            refusals: Vec::new(),
            shortages: Vec::new(),
            taints: Vec::new(),
            gpus: Vec::new(),
            capacity: u32::from(verdict.is_fit()),
            scores: Vec::new(),
            total: Score::ZERO,
        }
    }
}
