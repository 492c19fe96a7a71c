//! Polls terminating nodes: the loop stops them, waits for their final reports, and releases their claims.

use super::Polled;
use super::options::{Loops, ReleaseRule};
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::Command;
use dryrack_fleet::Placement;
use dryrack_ids::NodeId;
use dryrack_lifecycle::MemberState;

impl Polled {
    pub(super) fn poll_terminating(&mut self, core: &mut Core, index: ReplicaIndex) {
        let member = self.member(index);
        let (state, began, asked) = (member.state, member.began, member.asked);
        let (over, lost) = (member.over, member.lost);
        match state {
            MemberState::Terminating => {
                if asked && !over {
                    let attempt = core.store[index].attempt_id();
                    core.command(Command::Stop { attempt });
                }
                // If a node never began, its job has not run on the host, so the claim can be released at once.
                if !began || (over && !self.drains()) {
                    self.give_back(core, index);
                } else {
                    self.advance(core, index, MemberState::Draining, None);
                }
            }
            MemberState::Draining if over || lost => self.give_back(core, index),
            MemberState::Draining => {}
            MemberState::Waiting
            | MemberState::Submitted
            | MemberState::Assigned
            | MemberState::Provisioning
            | MemberState::Pulling
            | MemberState::Running
            | MemberState::Ended => return,
        }
        self.processed(core, index);
    }

    fn drains(&mut self) -> bool {
        match &self.options.loops {
            Loops::Ideal => false,
            Loops::Polled(loops) => loops.terminating.drains,
        }
    }

    /// Ends a node. If its host is lost, the claim stays taken until the job there is known to have stopped.
    pub(crate) fn give_back(&mut self, core: &mut Core, index: ReplicaIndex) {
        let member = self.member(index);
        let (outcome, because) = member.ending.expect("what terminates does so for a reason");
        let keeps = member.asked && !member.over && member.lost;
        let replica = &core.store[index];
        let Some(placement) = replica.placement.clone() else {
            return self.end(core, index, outcome, because);
        };
        let stopped = replica.stopped_on.clone();
        let leaks = self.options.release == ReleaseRule::LastOfRound;
        let kept = match keeps {
            true => placement.split(|node| !stopped.contains(&node)).0,
            false if leaks => placement.split(|node| self.is_overwritten(core, node)).0,
            false => Placement::default(),
        };
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Whether another node releases a claim on this host later in this round.
    fn is_overwritten(&self, core: &Core, node: NodeId) -> bool {
        self.rest.iter().any(|index| {
            let member = &self.members[*index as usize];
            let gives_back = match member.state {
                MemberState::Terminating => !member.began,
                MemberState::Draining => member.over || member.lost,
                MemberState::Waiting
                | MemberState::Submitted
                | MemberState::Assigned
                | MemberState::Provisioning
                | MemberState::Pulling
                | MemberState::Running
                | MemberState::Ended => false,
            };
            let placement = core.store[*index].placement.as_ref();
            gives_back && placement.is_some_and(|placement| placement.touches(node))
        })
    }
}
