//! Polls nodes that are about to run or are running.

use super::Polled;
use super::options::BeginRule;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::Command;
use dryrack_lifecycle::{MemberState, WholeState};

impl Polled {
    pub(super) fn poll_running(&mut self, core: &mut Core, index: ReplicaIndex) {
        let member = self.member(index);
        let (state, job, news) = (member.state, member.run, member.news);
        if !matches!(state, MemberState::Provisioning | MemberState::Pulling | MemberState::Running) {
            // The node has ended since the round began.
            return;
        }
        if let Some((outcome, because)) = news {
            self.terminate(core, index, outcome, because);
            return self.processed(core, index);
        }
        match state {
            MemberState::Provisioning if self.may_prepare(index) => {
                self.advance(core, index, MemberState::Pulling, None);
                self.member(index).asked = true;
                self.flag(index);
                let replica = &core.store[index];
                let placement = replica.placement.clone().expect("what is provisioned has a place");
                core.command(Command::Prepare { attempt: replica.attempt_id(), placement });
            }
            MemberState::Pulling if self.may_begin(index) => {
                for other in self.begins_with(index) {
                    self.begin_work(core, other);
                    self.processed(core, other);
                }
                if self.run(job).state != WholeState::Running {
                    self.flag_run(job);
                }
            }
            _ => {}
        }
        self.processed(core, index);
    }

    /// The nodes that begin together with this one. If all nodes must be prepared first, these are all nodes of its
    /// replica that may begin now.
    fn begins_with(&mut self, index: ReplicaIndex) -> Vec<ReplicaIndex> {
        match self.options.begin {
            BeginRule::AllPlaced => vec![index],
            BeginRule::AllPrepared => {
                let may = |other: &ReplicaIndex| {
                    self.members[*other as usize].state == MemberState::Pulling && self.may_begin(*other)
                };
                self.siblings(index).iter().copied().filter(may).collect()
            }
        }
    }

    fn begin_work(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.member(index).began = true;
        self.advance(core, index, MemberState::Running, None);
        let attempt = core.store[index].attempt_id();
        core.command(Command::Begin { attempt });
    }
}
