//! What there is at the beginning, and what changes of it where a run leaves another.

use super::{Due, World};
use crate::engine::rehearsal::NodeTurn;
use crate::event::Input;
use crate::fleet::{GpuState, NodeState};
use crate::ids::{FleetId, GpuId, NodeId};
use crate::units::SimTime;
use std::sync::Arc;

impl World<'_> {
    /// What the control plane is told before anything happens.
    pub fn declarations(&self) -> Vec<Input> {
        let mut inputs = Vec::with_capacity(self.rehearsal.nodes.len());
        for (index, spec) in self.rehearsal.fleets.iter().enumerate() {
            inputs.push(Input::FleetDeclared { fleet: FleetId::new(index), spec: Arc::clone(spec) });
        }
        let later = self.rehearsal.branch.as_ref().map_or(self.rehearsal.nodes.len(), |branch| branch.joining.index());
        (0..later).for_each(|index| self.declare(NodeId::new(index), &mut inputs));
        inputs
    }

    fn declare(&self, node: NodeId, inputs: &mut Vec<Input>) {
        let initial = &self.rehearsal.nodes[node.index()];
        inputs.push(Input::NodeDeclared { node, state: initial.state, spec: initial.spec.clone() });
        for (index, state, foreign) in &initial.gpus {
            let gpu = GpuId { node, index: *index };
            if *state != GpuState::Ready {
                inputs.push(Input::GpuReported { gpu, state: *state });
            }
            if !foreign.is_none() {
                inputs.push(Input::ForeignUse { gpu, foreign: *foreign });
            }
        }
    }

    /// The profile changes, nodes join, others are drained.
    pub(super) fn branch(&mut self, now: SimTime, inputs: &mut Vec<Input>) {
        let rehearsal = self.rehearsal;
        let branch = rehearsal.branch.as_ref().expect("it was asked for");
        if let Some(profile) = &branch.profile {
            self.heartbeat = profile.heartbeat.every;
            let profile = serde_json::to_string(&**profile).expect("a profile has a JSON form");
            inputs.push(Input::Reconfigure { profile: profile.into() });
        }
        (branch.joining.index()..self.nodes.len()).for_each(|index| self.declare(NodeId::new(index), inputs));
        for node in &branch.leaving {
            if self.nodes[node.index()].reported != NodeState::Gone {
                self.turn(now, *node, NodeTurn::Maintenance, inputs);
                self.leaving.insert(*node);
            }
        }
    }

    /// What leaves and has nothing left to run goes: once what ended there last has been heard of.
    pub(super) fn let_go(&mut self, now: SimTime) {
        let done: Vec<NodeId> = self.leaving.iter().copied().filter(|node| self.runs_on(*node).is_empty()).collect();
        for node in done {
            self.leaving.remove(&node);
            self.queue.push(now, Due::Leave(node));
        }
    }
}
