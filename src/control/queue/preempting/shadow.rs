//! A second fleet in which placements may be tried. It is kept beside the real one, and brought in line with it by
//! updating the nodes that differ.

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Caching, Candidate, Decision, Rankings, decide_for};

pub struct Shadow {
    pub fleet: Fleet,
    /// How many changes of the real fleet are taken into account.
    read: u64,
    /// How many changes of its own it had when it last equalled the real fleet.
    own: u64,
    rankings: Rankings,
}

impl Shadow {
    pub fn new(core: &Core) -> Shadow {
        let fleet = core.fleet.clone();
        let (read, own) = (core.fleet.node_change_count(), fleet.node_change_count());
        Shadow { fleet, read, own, rankings: Rankings::new(&core.profile.scheduler) }
    }

    /// Brings the shadow in line with the real fleet.
    pub fn follow(&mut self, core: &Core) {
        if self.fleet.len() != core.fleet.len() {
            return *self = Shadow::new(core);
        }
        let (theirs, own) = (core.fleet.changed_nodes(self.read), self.fleet.changed_nodes(self.own));
        let mut nodes: Vec<NodeId> = theirs.chain(own).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into_iter().for_each(|node| self.fleet.stand_as_in(&core.fleet, node));
        (self.read, self.own) = (core.fleet.node_change_count(), self.fleet.node_change_count());
    }

    /// Nodes that differ from the real ones, or have differed since the shadow was last brought in line, in order.
    pub fn changed(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.fleet.changed_nodes(self.own).collect();
        nodes.sort_unstable();
        nodes
    }

    pub fn release(&mut self, placement: &Placement) {
        placement.claims().iter().for_each(|claim| self.fleet.release(claim));
    }

    /// Like [`Queue::judge_on`], on this fleet.
    pub fn judge(&mut self, core: &Core, index: ReplicaIndex) -> Option<Candidate> {
        match self.decide(core, index) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }

    /// The decision for one candidate.
    pub fn decide(&mut self, core: &Core, index: ReplicaIndex) -> Decision {
        let replica = &core.replicas[index as usize];
        let demand = &core.demands[replica.demand as usize].demand;
        let (options, context) = (&core.profile.scheduler, core.context(replica.run()));
        let plain = || decide_for(options, demand, context, &self.fleet, core.grouping, 1);
        match self.rankings.decide(options, (replica.demand, demand), &self.fleet, context.draw) {
            Some(ranked) if core.caching == Caching::Paranoid => {
                assert_eq!(ranked, plain(), "{}: what was kept is not what is computed", replica.run());
                ranked
            }
            Some(ranked) => ranked,
            None => plain(),
        }
    }
}
