//! Claims that are kept after their attempt has ended.

use std::collections::{BTreeMap, BTreeSet};

use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, JobId, NodeId};

#[derive(Default)]
pub struct Kept {
    pub claims: BTreeMap<AttemptId, Placement>,
    /// Attempts with kept claims whose nodes are no longer asked about them.
    given_up: BTreeSet<AttemptId>,
    /// Ended attempts that the flow still has a record of, with or without a kept claim.
    pub carried: BTreeSet<AttemptId>,
}

impl Kept {
    /// Whether an attempt of this job has kept claims.
    pub fn has_claims_of(&self, job: JobId) -> bool {
        let first = AttemptId { job, replica: 0, number: 0 };
        let last = AttemptId { job, replica: u32::MAX, number: u32::MAX };
        self.claims.range(first..=last).next().is_some()
    }

    /// Whether an attempt of this replica has kept claims.
    pub fn has_claims_of_replica(&self, job: JobId, replica: u32) -> bool {
        let attempt = |number: u32| AttemptId { job, replica, number };
        self.claims.range(attempt(0)..=attempt(u32::MAX)).next().is_some()
    }

    /// The attempts with a kept claim on a node, in order.
    pub fn on(&self, node: NodeId) -> Vec<AttemptId> {
        self.claims.iter().filter(|(_, kept)| kept.touches(node)).map(|(attempt, _)| *attempt).collect()
    }

    /// Whether the nodes of an attempt with kept claims must be asked whether it has stopped. If the flow still has a
    /// record of the attempt, the flow asks.
    pub fn is_asked_about(&self, attempt: AttemptId) -> bool {
        self.claims.contains_key(&attempt) && !self.carried.contains(&attempt)
    }

    /// Claims that become free once their nodes confirm the end.
    pub fn awaited(&self) -> impl Iterator<Item = &Placement> {
        self.claims.iter().filter(|(attempt, _)| !self.given_up.contains(attempt)).map(|(_, kept)| kept)
    }

    /// Records whether the nodes of an attempt are still asked about its kept claims. Returns whether that has changed.
    pub fn note_asking(&mut self, attempt: AttemptId, is_asked_about: bool) -> bool {
        match is_asked_about {
            true => self.given_up.remove(&attempt),
            false => self.given_up.insert(attempt),
        }
    }
}
