//! A view of runs and their nodes with the states of dstack's tables. It can be compared with the tables of a dstack
//! server.

use super::Polled;
use super::clock::LoopKind;
use crate::core::Core;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_ids::JobId;
use dryrack_lifecycle::{MemberState, WholeState};
use dryrack_scheduler::{Decision, Grouping, decide_for};

/// The state of a run, as shown to queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStanding {
    pub job: JobId,
    pub state: WholeState,
    /// The wanted number of replicas. Present for a service that scales.
    pub desired: Option<u32>,
    /// Why the run ends. Present once the run terminates.
    pub ending: Option<(Outcome, Reason)>,
}

/// One node of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStanding {
    pub job: JobId,
    /// The number of the node's replica in its run.
    pub group: u32,
    pub node: u32,
    pub replica: u32,
    pub attempt: u32,
    /// How often this replica was submitted under earlier records.
    pub before: u32,
    pub state: MemberState,
    /// Number of this submission among the submissions of all nodes.
    pub created: u64,
}

impl Polled {
    /// Every run, in order of submission.
    pub(crate) fn standings(&self, core: &Core) -> Vec<RunStanding> {
        let runs = self.runs.iter();
        let standing = |run: &super::rows::RunRow| {
            let scales = core.store[run.job].spec.scaling.is_some();
            RunStanding { job: run.job, state: run.state, desired: scales.then_some(run.desired), ending: run.ending }
        };
        runs.map(standing).collect()
    }

    /// Every node of every run, in order of declaration.
    pub(crate) fn member_standings(&self, core: &Core) -> Vec<MemberStanding> {
        let standing = |(member, replica): (&super::rows::Member, &crate::core::store::Replica)| {
            let group = &self.runs[member.run.index()].groups[member.group as usize];
            MemberStanding {
                job: member.run,
                group: group.number,
                node: member.node,
                replica: replica.number,
                attempt: replica.attempt,
                before: group.before,
                state: member.state,
                created: member.created,
            }
        };
        self.members.iter().zip(core.store.replicas.values()).map(standing).collect()
    }

    /// Asserts that no parked node waits although the fleet has room for it.
    pub(super) fn assert_no_run_waits_in_vain(&self, core: &Core) {
        for index in &self.parked {
            let replica = &core.store[*index];
            let demand = core.store.demand(replica.demand);
            let context = core.context(replica.attempt_id());
            let decision = decide_for(&core.profile.scheduler, demand, context, &core.fleet, Grouping::EachNode, 1);
            let wanted = self.over_quota.get(index);
            let is_over_quota = wanted.is_some_and(|wanted| !core.is_within_quota(*index, *wanted));
            let waits = is_over_quota || matches!(decision, Decision::Refuse { .. });
            assert!(waits, "{} waits, but would fit", replica.attempt_id());
        }
    }

    /// Asserts that data stored in two places agrees, and that a loop can find every waiting record.
    pub(super) fn assert_runs(&self, core: &Core) {
        assert_eq!(self.members.len(), core.store.replicas.len(), "every replica is a node of a run");
        let mut listed = [0; 4];
        for (index, (member, replica)) in self.members.iter().zip(core.store.replicas.values()).enumerate() {
            let group = &self.runs[member.run.index()].groups[member.group as usize];
            assert_eq!(group.members[member.node as usize] as usize, index, "a node is not where its run has it");
            let phase = member.state.phase(replica.placement.is_some());
            let is_announced = group.announced && replica.phase == Phase::Pending;
            assert!(replica.phase == phase || is_announced, "{} is not in its phase", replica.attempt_id());
            if let Some((kind, at)) = member.due {
                listed[kind as usize] += 1;
                assert!(self.clocks[kind as usize].due.contains(&(at, index as u32)), "a node is not where it is due");
            }
        }
        for run in &self.runs {
            listed[LoopKind::Runs as usize] += usize::from(run.due.is_some());
        }
        for kind in LoopKind::ALL {
            assert_eq!(self.clocks[kind as usize].due.len(), listed[kind as usize], "a loop lists what is not due");
        }
    }
}
