//! Claims on nodes, and placements, which are sets of claims.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use dryrack_ids::{Names, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// The part of one GPU that a placement holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuClaim {
    pub index: u16,
    pub share: GpuShare,
    pub memory: Bytes,
}

/// The resources of one node that a placement holds, for all of its tasks there together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeClaim {
    pub node: NodeId,
    pub tasks: u32,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: SmallVec<[GpuClaim; 2]>,
    /// The blocks that are held, lowest number first, if the node is an instance. Then `cpu`, `ram` and `gpus` are the
    /// resources of these blocks.
    #[serde(default)]
    pub blocks: SmallVec<[u16; 4]>,
    /// How many of the tasks are of each set, if the demand has sets of tasks. This field must stay last, and is left
    /// out if there are no sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<Box<[u32]>>,
}

impl NodeClaim {
    /// A claim on a node that takes nothing.
    pub fn of_nothing(node: NodeId) -> NodeClaim {
        NodeClaim {
            node,
            tasks: 0,
            cpu: MilliCpu::ZERO,
            ram: Bytes::ZERO,
            gpus: SmallVec::new(),
            blocks: SmallVec::new(),
            sets: None,
        }
    }
}

/// A placement of one attempt: one claim for each node, in order of node ids. The claims are shared between messages,
/// the ledger and the records of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(Arc<[NodeClaim]>);

impl Placement {
    /// Builds a placement from claims in any order. The caller must not pass two claims on the same node.
    pub fn new(claims: SmallVec<[NodeClaim; 1]>) -> Placement {
        let mut claims = match claims.into_inner() {
            Ok(one) => return Placement(Arc::new(one)),
            Err(others) => others,
        };
        claims.sort_by_key(|claim| claim.node);
        assert!(claims.windows(2).all(|pair| pair[0].node < pair[1].node), "one claim for each node");
        Placement(claims.into_iter().collect())
    }

    pub fn claims(&self) -> &[NodeClaim] {
        &self.0
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.claims().iter().map(|claim| claim.node)
    }

    pub fn tasks(&self) -> u32 {
        self.0.iter().map(|claim| claim.tasks).sum()
    }

    /// Splits the claims into those on nodes for which `is_wanted` is true, and the rest.
    pub fn split(&self, is_wanted: impl Fn(NodeId) -> bool) -> (Placement, Placement) {
        let (wanted, rest) = self.0.iter().cloned().partition::<Vec<_>, _>(|claim| is_wanted(claim.node));
        (Placement(wanted.into()), Placement(rest.into()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The GPUs, such as `alpha/0, alpha/1`, and the names of nodes of which no GPU is taken. At most eight are listed.
    pub fn text(&self, names: &Names) -> String {
        const SHOWN: usize = 8;
        let mut parts = Vec::new();
        for claim in self.claims() {
            let node = names.node(claim.node);
            match claim.gpus.is_empty() {
                true => parts.push(node.to_string()),
                false => parts.extend(claim.gpus.iter().map(|gpu| format!("{node}/{}", gpu.index))),
            }
        }
        let more = parts.len().saturating_sub(SHOWN);
        parts.truncate(SHOWN);
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        parts.join(", ")
    }

    pub fn touches(&self, node: NodeId) -> bool {
        self.0.iter().any(|claim| claim.node == node)
    }
}
