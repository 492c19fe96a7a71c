//! A part of a gang that is placed: its claims, and the nodes as they would be with them.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::decision::Candidate;
use dryrack_fleet::{Fleet, GpuClaim, NodeClaim, NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_units::Score;

#[derive(Clone, Default)]
pub struct Partial {
    nodes: BTreeMap<NodeId, (NodeStatus, NodeClaim)>,
    /// The score of the first claim.
    pub score: Option<Score>,
}

impl Partial {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn status(&self, node: NodeId) -> Option<&NodeStatus> {
        self.nodes.get(&node).map(|(status, _)| status)
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied()
    }

    pub fn claims(&self) -> impl Iterator<Item = &NodeClaim> {
        self.nodes.values().map(|(_, claim)| claim)
    }

    /// Adds a claim of one of several sets. `status` is the status of the node before anything of the gang is placed.
    pub fn take(
        &mut self,
        fleet: &Fleet,
        (set, sets): (usize, usize),
        claim: &NodeClaim,
        status: impl FnOnce() -> NodeStatus,
    ) {
        let empty = || NodeClaim { sets: Some(vec![0; sets].into()), ..NodeClaim::of_nothing(claim.node) };
        let (status, all) = self.nodes.entry(claim.node).or_insert_with(|| (status(), empty()));
        fleet.with_claim(status, claim);
        all.tasks += claim.tasks;
        all.cpu = all.cpu + claim.cpu;
        all.ram = all.ram + claim.ram;
        for part in &claim.gpus {
            merge(&mut all.gpus, *part);
        }
        if let Some(sets) = &mut all.sets {
            sets[set] += claim.tasks;
        }
    }

    pub fn into_candidate(self) -> Candidate {
        let claims: SmallVec<[NodeClaim; 1]> = self.nodes.into_values().map(|(_, claim)| claim).collect();
        Candidate { placement: Placement::new(claims), score: self.score.unwrap_or(Score::ZERO) }
    }
}

/// Adds a part of a GPU, in order of the indexes. The tasks of a run share one claim on a GPU.
fn merge(gpus: &mut SmallVec<[GpuClaim; 2]>, new: GpuClaim) {
    match gpus.binary_search_by_key(&new.index, |part| part.index) {
        Ok(at) => {
            gpus[at].share = gpus[at].share + new.share;
            gpus[at].memory = gpus[at].memory + new.memory;
        }
        Err(at) => gpus.insert(at, new),
    }
}
