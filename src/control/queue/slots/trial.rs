//! The copy of the fleet on which demands are judged about which single nodes do not decide.

use super::ahead::{AttemptEndTime, FutureEnds};
use super::bits::contains;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::backfill::plain::judge_on;
use dryrack_fleet::{Fleet, NodeState};
use dryrack_ids::NodeId;
use dryrack_scheduler::Candidate;

/// What a node of the copy is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeIs {
    AsCopied,
    Closed,
    /// As in this generation of its future, after this many of its attempts have ended.
    After(u64, usize),
}

/// A copy of the fleet. Between two judgements, only the nodes change that differ.
pub struct Trial {
    fleet: Fleet,
    nodes: Vec<NodeIs>,
}

impl Trial {
    pub fn new(core: &Core) -> Trial {
        Trial { fleet: core.fleet.clone(), nodes: vec![NodeIs::AsCopied; core.fleet.len()] }
    }

    /// The place of a replica on these nodes, once all attempts that end by this moment have ended. `None` if it does not
    /// fit.
    pub fn judge(
        &mut self,
        core: &Core,
        index: ReplicaIndex,
        ahead: &FutureEnds,
        (free, by): (&[u64], Option<AttemptEndTime>),
    ) -> Option<Candidate> {
        for (node, is) in self.nodes.iter_mut().enumerate() {
            let node = NodeId::new(node);
            let (generation, ended) = ahead.state(node, by);
            let wanted = if contains(free, node) { NodeIs::After(generation, ended) } else { NodeIs::Closed };
            if *is == wanted {
                continue;
            }
            *is = wanted;
            match wanted {
                NodeIs::After(_, ended) => self.fleet.set_status(node, ahead.status_after(core, node, ended)),
                NodeIs::Closed | NodeIs::AsCopied => self.fleet.set_node_state(node, NodeState::NotReady),
            }
        }
        judge_on(core, index, &self.fleet)
    }
}
