//! A second fleet in which placements may be tried. It is kept beside the real one, and brought in line with it by
//! updating the nodes that differ.

use super::super::Control;
use super::super::store::ReplicaIndex;
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
    pub fn new(control: &Control) -> Shadow {
        let fleet = control.fleet.clone();
        let (read, own) = (control.fleet.node_change_count(), fleet.node_change_count());
        Shadow { fleet, read, own, rankings: Rankings::new(&control.profile.scheduler) }
    }

    /// Brings the shadow in line with the real fleet.
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

    /// Nodes that differ from the real ones, or have differed since the shadow was last brought in line, in order.
    pub fn changed(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.fleet.changed_nodes(self.own).collect();
        nodes.sort_unstable();
        nodes
    }

    pub fn release(&mut self, placement: &Placement) {
        placement.claims().iter().for_each(|claim| self.fleet.release(claim));
    }

    /// Like [`Control::judge_on`], on this fleet.
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
