//! Changes to the world at the time of a branch.

use super::{Due, World};
use crate::rehearsal::NodeTurn;
use dryrack_event::{FleetFact, Input};
use dryrack_fleet::NodeState;
use dryrack_ids::NodeId;
use dryrack_units::SimTime;

impl World<'_> {
    /// Applies the branch: changes the profile, adds the joining nodes and drains the leaving nodes.
    pub(super) fn branch(&mut self, now: SimTime, inputs: &mut Vec<Input>) {
        let rehearsal = self.rehearsal;
        let branch = rehearsal.branch.as_ref().expect("it was asked for");
        if let Some(profile) = &branch.profile {
            self.heartbeat = profile.heartbeat.every;
            let profile = profile.to_data().to_string();
            inputs.push(Input::Fleet(FleetFact::Reconfigure { profile: profile.into() }));
        }
        (branch.joining.index()..self.nodes.len()).for_each(|index| rehearsal.declare(NodeId::new(index), inputs));
        for node in &branch.leaving {
            if self.nodes[node.index()].reported != NodeState::Gone {
                self.turn(now, *node, NodeTurn::Maintenance, inputs);
                self.leaving.insert(*node);
            }
        }
    }

    /// Schedules the removal of leaving nodes on which nothing runs any more. By now, the end of the last attempt on
    /// such a node has been reported.
    pub(super) fn let_go(&mut self, now: SimTime) {
        let done: Vec<NodeId> =
            self.leaving.iter().copied().filter(|node| self.attempts_on(*node).is_empty()).collect();
        for node in done {
            self.leaving.remove(&node);
            self.queue.push(now, Due::Leave(node));
        }
    }
}
