//! Looks at nodes that are to run or are running.

use super::options::BeginRule;
use crate::Control;
use crate::store::ReplicaIndex;
use dryrack_event::Command;
use dryrack_lifecycle::{MemberState, WholeState};

impl Control {
    pub(super) fn look_at_running(&mut self, index: ReplicaIndex) {
        let member = self.flow().member(index);
        let (state, job, news) = (member.state, member.run, member.news);
        if !matches!(state, MemberState::Provisioning | MemberState::Pulling | MemberState::Running) {
            // It was ended since it was listed.
            return;
        }
        if let Some((outcome, because)) = news {
            self.terminate(index, outcome, because);
            return self.processed(index);
        }
        match state {
            MemberState::Provisioning if self.flow().may_prepare(index) => {
                self.advance(index, MemberState::Pulling, None);
                self.flow().member(index).asked = true;
                self.flag(index);
                let replica = &self.replicas[index as usize];
                let placement = replica.placement.clone().expect("what is provisioned has a place");
                self.command(Command::Prepare { run: replica.run(), placement });
            }
            MemberState::Pulling if self.flow().may_begin(index) => {
                for other in self.begins_with(index) {
                    self.begin_work(other);
                    self.processed(other);
                }
                if self.flow().run(job).state != WholeState::Running {
                    self.flag_run(job);
                }
            }
            _ => {}
        }
        self.processed(index);
    }

    /// The nodes that begin when this one may begin. If all are to be prepared first, these are all nodes of its
    /// replica that need not wait for another one to begin first.
    fn begins_with(&mut self, index: ReplicaIndex) -> Vec<ReplicaIndex> {
        match self.flow().options.begin {
            BeginRule::AllPlaced => vec![index],
            BeginRule::AllPrepared => {
                let flow = self.flow();
                let may = |other: &ReplicaIndex| {
                    flow.members[*other as usize].state == MemberState::Pulling && flow.may_begin(*other)
                };
                flow.siblings(index).iter().copied().filter(may).collect()
            }
        }
    }

    fn begin_work(&mut self, index: ReplicaIndex) {
        self.flow().member(index).began = true;
        self.advance(index, MemberState::Running, None);
        let run = self.replicas[index as usize].run();
        self.command(Command::Begin { run });
    }
}
