//! Claims that are kept after their attempt has ended, because a node cannot confirm the stop or is still completing
//! the attempt.

use std::sync::Arc;

use super::Core;
use super::groups::GroupNumber;
use super::store::{Replica, ReplicaIndex, Wait};
use super::timer::Timer;
use crate::attempts::{STOPS_ASKED_FOR, STOPS_AT_THE_DEADLINE};
use dryrack_event::{Command, Event, Lifecycle, Phase};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_planted::planted;
use dryrack_units::SimTime;

impl Core {
    /// Asks attempts with kept claims on a node to stop again, once the node's heartbeats arrive again.
    pub(super) fn expect_stops_on(&mut self, node: NodeId) {
        self.kept.on(node).into_iter().for_each(|attempt| self.expect_stop(attempt, STOPS_ASKED_FOR));
    }

    /// Frees all kept claims on a node that is gone.
    pub(crate) fn forget_kept_claims(&mut self, node: NodeId) {
        for attempt in self.kept.on(node) {
            self.free_kept(attempt, |other| other == node);
        }
    }

    /// Frees the kept claims of an ended attempt on those nodes for which `is_free` holds.
    pub(crate) fn free_kept(&mut self, attempt: AttemptId, is_free: impl Fn(NodeId) -> bool) {
        let Some(kept) = self.kept.claims.remove(&attempt) else { return };
        let (free, remains) = kept.split(is_free);
        for claim in free.claims() {
            self.release_claim(attempt, claim);
            self.emit(Event::ClaimFreed { attempt, node: claim.node });
            self.instance_released(claim.node);
        }
        match remains.is_empty() {
            true => {
                self.note_asking(attempt, true);
                if let Some(index) = self.store.replica_of(attempt) {
                    self.last_attempt_is_gone(index);
                }
                self.store.job_is_over(attempt.job);
            }
            false => drop(self.kept.claims.insert(attempt, remains)),
        }
    }

    /// Whether the next attempt of a replica waits for earlier ones to be gone from all nodes: Kubernetes makes no pod of a
    /// StatefulSet while another one has its name, and no pod of a group that starts again while one of the group is left.
    pub(crate) fn waits_for_last_attempts(&self, index: ReplicaIndex) -> bool {
        let Replica { job, number, .. } = self.store[index];
        let spec = &self.store[job].spec;
        let keeps_name = spec.pod.as_ref().is_some_and(|pod| pod.is_of_stateful_set());
        keeps_name && !planted!(NameIsFreeAtOnce) && self.kept.has_claims_of_replica(job, number)
            || spec.restarts_with.as_ref().is_some_and(|group| self.are_left(self.groups.restarting_with(group)))
            || self.groups.restarting(job).is_some_and(|group| self.is_group_left(group))
    }

    /// Whether attempts of these jobs, which start again as a whole, stop or may still be on a node.
    fn are_left(&self, mut jobs: impl Iterator<Item = JobId>) -> bool {
        let is_stopping = |index: ReplicaIndex| self.store[index].phase == Phase::Stopping;
        jobs.any(|job| self.kept.has_claims_of(job) || self.store[job].replicas().any(is_stopping))
    }

    /// Whether attempts are left for which the next ones of a group wait that starts again.
    fn is_group_left(&self, number: GroupNumber) -> bool {
        let groups = self.groups.begin_after(number);
        groups.into_iter().any(|group| self.are_left(self.groups.open(group)))
    }

    /// Whether the next attempt of a replica begins together with those of other jobs.
    pub(crate) fn begins_with_others(&self, index: ReplicaIndex) -> bool {
        let job = self.store[index].job;
        self.store[job].spec.restarts_with.is_some() || self.groups.restarting(job).is_some()
    }

    /// Lets a replica begin its next attempt if it waited for its last one to be gone from all nodes.
    pub(crate) fn last_attempt_is_gone(&mut self, index: ReplicaIndex) {
        let job = self.store[index].job;
        if let Some(group) = self.store[job].spec.restarts_with.clone() {
            self.let_group_begin(&group);
        } else if let Some(group) = self.groups.restarting(job) {
            self.let_restarted_begin(group);
        } else {
            self.let_begin(index, self.store[index].due);
        }
    }

    /// Lets the replicas of a group begin their next attempts together, if nothing is left of the last ones.
    pub(crate) fn let_group_begin(&mut self, group: &Arc<str>) {
        if !self.are_left(self.groups.restarting_with(group)) {
            let jobs = self.groups.restarting_with(group).collect();
            self.let_jobs_begin(jobs);
        }
    }

    /// Lets the jobs of a group that starts again begin their next attempts together, and those of the groups that wait for
    /// the same attempts, if nothing is left of these. Their deadline counts from now.
    pub(crate) fn let_restarted_begin(&mut self, number: GroupNumber) {
        if self.is_group_left(number) {
            return;
        }
        for group in self.groups.begin_after(number) {
            self.groups.restarted(group);
            let jobs: Vec<JobId> = self.groups.open(group).collect();
            for job in &jobs {
                let mut replicas = self.store[*job].replicas();
                if !replicas.any(|index| self.waits_for_admission(index)) {
                    self.start_deadline(*job);
                }
            }
            self.let_jobs_begin(jobs);
        }
    }

    /// Lets the replicas of these jobs begin their next attempts together that wait for the last ones to be gone.
    fn let_jobs_begin(&mut self, jobs: Vec<JobId>) {
        let replicas = jobs.into_iter().flat_map(|job| self.store[job].replicas());
        let waiting: Vec<ReplicaIndex> =
            replicas.filter(|index| self.store[*index].wait == Wait::LastAttempt).collect();
        let Some(due) = waiting.iter().map(|index| self.store[*index].due).max() else { return };
        waiting.into_iter().for_each(|index| self.let_begin(index, due));
    }

    fn let_begin(&mut self, index: ReplicaIndex, due: SimTime) {
        let Replica { wait, version, .. } = self.store[index];
        if wait == Wait::LastAttempt {
            self.timers.set(due.max(self.now), Timer::RetryDue { replica: index, version });
        }
    }

    pub(crate) fn late_fact(&mut self, attempt: AttemptId, fact: Lifecycle) {
        if self.kept.carried.contains(&attempt) {
            return;
        }
        if fact.is_end() {
            self.free_kept(attempt, |_| true);
        } else if let Lifecycle::StoppedOn { node } = fact {
            self.free_kept(attempt, |other| other == node);
        }
    }

    /// Sets a timer to ask an attempt to stop again, because the message that it has stopped may have been lost.
    pub(crate) fn expect_stop(&mut self, attempt: AttemptId, left: u8) {
        let doublings = (STOPS_ASKED_FOR - left).saturating_sub(STOPS_AT_THE_DEADLINE - 1);
        let wait = self.profile.deadlines.stopping.saturating_mul(1 << doublings);
        self.timers.set(self.now.saturating_add(wait), Timer::StopAgain { attempt, left });
        self.note_asking(attempt, true);
    }

    /// Asks an attempt to stop again, if one of its nodes is ready to answer. A silent node is asked when it returns.
    pub(crate) fn stop_again(&mut self, attempt: AttemptId, left: u8) {
        let is_ready = |node: NodeId| self.fleet.node(node).status.state == NodeState::Ready;
        if !self.kept.claims[&attempt].claims().iter().any(|claim| is_ready(claim.node)) {
            return;
        }
        self.command(Command::Stop { attempt });
        match left > 1 {
            true => self.expect_stop(attempt, left - 1),
            false => self.note_asking(attempt, false),
        }
    }

    /// Kept claims of ended attempts that become free once their nodes confirm the end.
    pub(crate) fn awaited_claims(&self) -> impl Iterator<Item = &Placement> {
        self.kept.awaited()
    }

    /// Records whether the control plane still asks the nodes of an ended attempt about its kept claims.
    fn note_asking(&mut self, attempt: AttemptId, is_asked_about: bool) {
        if self.kept.note_asking(attempt, is_asked_about) {
            self.fleet.ask_again();
        }
    }

    /// Asserts that no claim is kept on a ready node. Such a node has had enough time to confirm that the attempt has
    /// stopped.
    pub(crate) fn check_kept_claims(&self) {
        for (attempt, kept) in self.kept.claims.iter().filter(|(attempt, _)| !self.kept.carried.contains(attempt)) {
            for claim in kept.claims() {
                let state = self.fleet.node(claim.node).status.state;
                assert_ne!(state, NodeState::Ready, "{attempt} has ended, and its node could long have said so");
            }
        }
    }
}
