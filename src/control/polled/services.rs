//! Services whose number of replicas follows the number of requests.

use std::cmp::Reverse;

use super::Polled;
use crate::core::Core;
use dryrack_event::{Event, Phase, Reason};
use dryrack_ids::JobId;
use dryrack_lifecycle::{MemberState, WholeState};
use dryrack_policy::{ScalingDecision, autoscale};
use dryrack_units::SimTime;
use dryrack_workload::Scaling;

/// How useful a replica is. A replica that has begun to terminate counts as inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Usefulness {
    Inactive,
    Submitted,
    Starting,
    Serving,
}

impl Polled {
    /// Records a count of requests. The next poll of the run uses it.
    pub(super) fn count_requests(&mut self, core: &mut Core, job: JobId, requests: u64) {
        if core.store[job].spec.scaling.is_none() {
            return;
        }
        let ideal = self.is_ideal();
        let run = self.run(job);
        run.requests = Some(requests);
        run.unasked = false;
        run.changed = true;
        run.flagged |= ideal && (run.state.is_active() || run.state == WholeState::Pending);
        self.index_run(job);
    }

    /// Polls an active service. None of its replicas is waiting for a retry.
    pub(super) fn scale_service(&mut self, core: &mut Core, job: JobId) {
        let scaling = scaling(core, job);
        let last = self.last_scaled(job);
        let since = last.map(|last| core.now.since(last));
        let run = self.run(job);
        match autoscale(&scaling, run.desired, run.requests, since) {
            ScalingDecision::To(desired) => run.desired = desired,
            ScalingDecision::NotBefore(delay) => run.scale_at = last.map(|last| last.saturating_add(delay)),
        }
        let desired = run.desired as usize;
        let mut active = self.groups_that(job, |worth| worth > Usefulness::Inactive);
        active.sort_by_key(|group| (Reverse(self.worth(job, *group)), self.number_of(job, *group)));
        if active.len() < desired {
            self.bring_up(core, job, desired - active.len());
        }
        let mut surplus = active.split_off(desired.min(active.len()));
        surplus.reverse();
        for group in surplus {
            self.dismiss(core, job, group);
        }
    }

    /// Polls a service that pauses or has no replicas. Its requests take effect without delay.
    pub(super) fn poll_pending_service(&mut self, core: &mut Core, job: JobId) {
        let scaling = scaling(core, job);
        let now = core.now;
        let at = self.next_submission(job);
        if !self.is_over(job) || now < at {
            // A service whose nodes have not all ended waits for them.
            self.run(job).scale_at = Some(at).filter(|at| *at > now);
            return;
        }
        let run = self.run(job);
        let ScalingDecision::To(desired) = autoscale(&scaling, run.desired, run.requests, None) else {
            panic!("without a last change there is no delay");
        };
        run.unasked = desired == 0;
        if run.unasked {
            return;
        }
        run.desired = desired;
        self.advance_run(job, WholeState::Submitted);
        self.bring_up(core, job, desired as usize);
    }

    /// Adds this many replicas. Replicas that have ended or are about to end come first, in order of their numbers. New
    /// replicas follow.
    fn bring_up(&mut self, core: &mut Core, job: JobId, more: usize) {
        let mut inactive = self.groups_that(job, |worth| worth == Usefulness::Inactive);
        inactive.retain(|group| self.states_of(job, *group).all(|state| !state.is_live()));
        inactive.sort_by_key(|group| self.number_of(job, *group));
        inactive.truncate(more);
        let new = more - inactive.len();
        for group in inactive {
            let has_ended = self.states_of(job, group).all(|state| state == MemberState::Ended);
            match has_ended {
                true => self.revive(core, job, group),
                // This replica is still terminating, but the new submission does not wait for that.
                false => self.add_group(core, job, Some(group)),
            }
        }
        (0..new).for_each(|_| self.add_group(core, job, None));
        self.note_member_changed(job);
    }

    /// Submits a replica again that has ended and is wanted again.
    fn revive(&mut self, core: &mut Core, job: JobId, group: u32) {
        let now = core.now;
        let run = self.run(job);
        let is_announced = run.groups[group as usize].announced;
        run.groups[group as usize].dismissed = false;
        for index in run.groups[group as usize].members.clone() {
            let replica = &mut core.store[index];
            replica.dismissed = false;
            if is_announced {
                continue;
            }
            replica.attempt += 1;
            replica.since = now;
            replica.version += 1;
            let attempt = replica.attempt_id();
            core.store.set_phase(index, Phase::Pending);
            core.emit(Event::Retry { attempt, at: now, because: Reason::ScaledUp });
            core.set_deadline(index);
        }
        self.resubmit(core, job, group);
    }

    fn groups_that(&self, job: JobId, is_meant: impl Fn(Usefulness) -> bool) -> Vec<u32> {
        let groups = (0..).zip(&self.runs[job.index()].groups);
        let groups = groups.filter(|(_, group)| !group.followed).map(|(number, _)| number);
        groups.filter(|group| is_meant(self.worth(job, *group))).collect()
    }

    fn number_of(&self, job: JobId, group: u32) -> u32 {
        self.runs[job.index()].groups[group as usize].number
    }

    fn states_of(&self, job: JobId, group: u32) -> impl Iterator<Item = MemberState> + '_ {
        let members = &self.runs[job.index()].groups[group as usize].members;
        members.iter().map(|index| self.members[*index as usize].state)
    }

    /// The usefulness of a replica is that of its node with the least progress.
    fn worth(&self, job: JobId, group: u32) -> Usefulness {
        let worth_of = |state| match state {
            MemberState::Terminating | MemberState::Draining | MemberState::Ended => Usefulness::Inactive,
            MemberState::Waiting | MemberState::Submitted | MemberState::Assigned => Usefulness::Submitted,
            MemberState::Provisioning | MemberState::Pulling => Usefulness::Starting,
            MemberState::Running => Usefulness::Serving,
        };
        self.states_of(job, group).map(worth_of).min().unwrap_or(Usefulness::Inactive)
    }

    /// When the number of replicas of a service last changed. The records of the replicas show this only in part: an
    /// active replica by its submission, an inactive one by its last poll.
    ///
    /// Source: dstack 0.22.5, where a retry of a replica counts as a change too.
    fn last_scaled(&self, job: JobId) -> Option<SimTime> {
        let run = &self.runs[job.index()];
        let changed = |group: u32| {
            let members = run.groups[group as usize].members.iter().map(|index| &self.members[*index as usize]);
            match self.worth(job, group) {
                Usefulness::Inactive => members.map(|member| member.processed).max(),
                Usefulness::Submitted | Usefulness::Starting | Usefulness::Serving => {
                    members.map(|member| member.submitted).min()
                }
            }
        };
        self.groups_that(job, |_| true).into_iter().filter_map(changed).max()
    }
}

fn scaling(core: &Core, job: JobId) -> Scaling {
    core.store[job].spec.scaling.as_deref().copied().expect("only what scales comes here")
}
