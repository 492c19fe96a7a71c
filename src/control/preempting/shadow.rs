//! A second fleet, in which things may be tried: kept beside the real one, and brought back to it by the nodes that differ.

use super::super::Control;
use super::super::store::ReplicaIndex;
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Caching, Candidate, Decision, Rankings, decide_for};

pub struct Shadow {
    pub fleet: Fleet,
    /// Changes of the real fleet that are taken in.
    read: u64,
    /// Changes of its own up to which it was as the real one.
    own: u64,
    rankings: Rankings,
}

impl Shadow {
    pub fn new(control: &Control) -> Shadow {
        let fleet = control.fleet.clone();
        let (read, own) = (control.fleet.node_change_count(), fleet.node_change_count());
        Shadow { fleet, read, own, rankings: Rankings::new(&control.profile.scheduler) }
    }

    /// As the real fleet is now.
    pub fn follow(&mut self, control: &Control) {
        if self.fleet.len() != control.fleet.len() {
            return *self = Shadow::new(control);
        }
        let (theirs, own) = (control.fleet.changed_nodes(self.read), self.fleet.changed_nodes(self.own));
        let mut nodes: Vec<NodeId> = theirs.chain(own).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into_iter().for_each(|node| self.fleet.stand_as_in(&control.fleet, node));
        (self.read, self.own) = (control.fleet.node_change_count(), self.fleet.node_change_count());
    }

    /// Nodes that differ from the real ones, or have since it last followed, in order.
    pub fn changed(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.fleet.changed_nodes(self.own).collect();
        nodes.sort_unstable();
        nodes
    }

    pub fn release(&mut self, placement: &Placement) {
        placement.claims().iter().for_each(|claim| self.fleet.release(claim));
    }

    /// As [`Control::judge_on`] of this fleet.
    pub fn judge(&mut self, control: &Control, index: ReplicaIndex) -> Option<Candidate> {
        match self.decide(control, index) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }

    /// The decision for one candidate.
    pub fn decide(&mut self, control: &Control, index: ReplicaIndex) -> Decision {
        let replica = &control.replicas[index as usize];
        let demand = &control.demands[replica.demand as usize].demand;
        let (options, context) = (&control.profile.scheduler, control.context(replica.run()));
        let plain = || decide_for(options, demand, context, &self.fleet, control.grouping, 1);
        match self.rankings.decide(options, (replica.demand, demand), &self.fleet, context.draw) {
            Some(ranked) if control.caching == Caching::Paranoid => {
                assert_eq!(ranked, plain(), "{}: what was kept is not what is computed", replica.run());
                ranked
            }
            Some(ranked) => ranked,
            None => plain(),
        }
    }
}
