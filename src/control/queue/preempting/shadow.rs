//! A second fleet on which placements are tried. It is kept beside the real fleet. Updating the nodes that differ makes
//! it equal to the real fleet again.

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Caching, Candidate, Decision, Rankings, decide_for};

pub struct Shadow {
    pub fleet: Fleet,
    /// How many changes of the real fleet the shadow already includes.
    read: u64,
    /// The number of the shadow's own changes at the time when it last equalled the real fleet.
    own: u64,
    rankings: Rankings,
}

impl Shadow {
    pub fn new(core: &Core) -> Shadow {
        let fleet = core.fleet.clone();
        let (read, own) = (core.fleet.node_change_count(), fleet.node_change_count());
        Shadow { fleet, read, own, rankings: Rankings::new(&core.profile.scheduler) }
    }

    /// Makes the shadow equal to the real fleet again.
    pub fn follow(&mut self, core: &Core) {
        if self.fleet.len() != core.fleet.len() || self.fleet.moment() != core.fleet.moment() {
            return *self = Shadow::new(core);
        }
        let (theirs, own) = (core.fleet.changed_nodes(self.read), self.fleet.changed_nodes(self.own));
        let mut nodes: Vec<NodeId> = theirs.chain(own).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into_iter().for_each(|node| self.fleet.stand_as_in(&core.fleet, node));
        (self.read, self.own) = (core.fleet.node_change_count(), self.fleet.node_change_count());
    }

    /// Nodes that were changed in the shadow since it last equalled the real fleet, in order. Some may be equal again.
    pub fn changed(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.fleet.changed_nodes(self.own).collect();
        nodes.sort_unstable();
        nodes
    }

    pub fn release(&mut self, placement: &Placement) {
        placement.claims().iter().for_each(|claim| self.fleet.release(claim));
    }

    /// Like [`judge_on`](crate::queue::backfill::plain::judge_on), on this fleet.
    pub fn judge(&mut self, core: &Core, index: ReplicaIndex) -> Option<Candidate> {
        match self.decide(core, index) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }

    /// The decision about a replica on this fleet, with at most one candidate.
    pub fn decide(&mut self, core: &Core, index: ReplicaIndex) -> Decision {
        let replica = &core.store[index];
        let demand = core.store.demand(replica.demand);
        let (options, context) = (&core.profile.scheduler, core.context(replica.attempt_id()));
        let plain = || decide_for(options, demand, context, &self.fleet, core.deciding.grouping, 1);
        match self.rankings.decide(options, (replica.demand, demand), &self.fleet, context.draw) {
            Some(ranked) if core.deciding.caching == Caching::Paranoid => {
                assert_eq!(ranked, plain(), "{}: what was kept is not what is computed", replica.attempt_id());
                ranked
            }
            Some(ranked) => ranked,
            None => plain(),
        }
    }
}
