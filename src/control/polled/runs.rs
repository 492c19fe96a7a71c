//! Polls runs: which state a run has, given the states of its nodes, and what follows from that.

use super::Polled;
use super::options::Loops;
use super::rows::Group;
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_ids::JobId;
use dryrack_lifecycle::{MemberState, WholeState, take_member_edge};
use dryrack_planted::planted;
use dryrack_workload::{RetryEvent, StopCriteria};

/// The consequence of the state of one node for its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeMeaning {
    Done,
    Submitted,
    Provisioning,
    Running,
    Retry,
    /// `is_late` says whether only the time limit for retries prevents another attempt.
    Failed {
        outcome: Outcome,
        because: Reason,
        is_late: bool,
    },
}

impl Polled {
    pub(super) fn poll_run(&mut self, core: &mut Core, job: JobId) {
        let is_locked = self.is_locked(job);
        let run = self.run(job);
        (run.changed, run.scale_at) = (is_locked, None);
        match self.run(job).state {
            _ if is_locked => {}
            WholeState::Submitted | WholeState::Provisioning | WholeState::Running => self.poll_active(core, job),
            WholeState::Pending => self.poll_pending(core, job),
            WholeState::Terminating => self.poll_terminating_run(core, job),
            WholeState::Ended => return,
        }
        let now = core.now;
        let turn = self.next_turn();
        let run = self.run(job);
        (run.processed, run.turn, run.fresh) = (now, turn, false);
        self.index_run(job);
    }

    fn poll_active(&mut self, core: &mut Core, job: JobId) {
        if !self.run(job).settled {
            let members = self.members_of(job);
            let mut places = members.iter().filter_map(|index| core.store[*index].placement.as_ref());
            if let Some(place) = places.next() {
                let fleet = core.fleet.node(place.claims()[0].node).shape.instance.as_ref().map(|own| own.fleet);
                let run = self.run(job);
                run.settled = true;
                core.store[job].fleet = fleet;
                // Without loops, nodes that were waiting for this change are polled now.
                if self.is_ideal() {
                    for index in members {
                        if self.member(index).state == MemberState::Submitted {
                            self.flag(index);
                        }
                    }
                }
            }
        }
        let groups: Vec<(bool, Vec<ReplicaIndex>)> =
            self.run(job).groups.iter().map(|group| (group.dismissed, group.members.clone())).collect();
        let mut readings: Vec<NodeMeaning> = Vec::new();
        let mut retried: Vec<u32> = Vec::new();
        for (number, (dismissed, members)) in groups.into_iter().enumerate() {
            if dismissed {
                continue;
            }
            let mut found: Vec<NodeMeaning> = members.iter().map(|index| self.reading(core, *index)).collect();
            let is_done = found[0] == NodeMeaning::Done && core.store[job].spec.terms.stop == StopCriteria::MasterDone;
            if is_done {
                readings.push(NodeMeaning::Done);
                continue;
            }
            if found.contains(&NodeMeaning::Retry) {
                retried.push(number as u32);
                // The other nodes of this replica were stopped only because it is retried. Their ends are not failures
                // of the run.
                found.retain(|reading| !matches!(reading, NodeMeaning::Failed { because: Reason::RunOver, .. }));
            }
            readings.extend(found);
        }
        self.conclude_run(core, job, &readings, &retried);
        if matches!(&self.options.loops, Loops::Polled(loops) if !loops.runs.counts_for_nodes) {
            return;
        }
        let (now, turn) = (core.now, self.next_turn());
        for index in self.members_of(job) {
            let member = self.member(index);
            if member.state.is_live() {
                (member.processed, member.turn) = (now, turn);
                self.index_member(index);
            }
        }
    }

    /// Moves a run to the state that follows from the readings of its nodes.
    fn conclude_run(&mut self, core: &mut Core, job: JobId, readings: &[NodeMeaning], retried: &[u32]) {
        let failures = readings.iter().filter_map(|reading| match reading {
            NodeMeaning::Failed { outcome, because, is_late } => Some((*is_late, (*outcome, *because))),
            NodeMeaning::Done
            | NodeMeaning::Submitted
            | NodeMeaning::Provisioning
            | NodeMeaning::Running
            | NodeMeaning::Retry => None,
        });
        if let Some((is_late, ending)) = failures.min_by_key(|(is_late, _)| *is_late) {
            let ending = if is_late { (Outcome::Expired, Reason::RetryTimeOver) } else { ending };
            return self.end_at_submission(job, ending);
        }
        let is = |reading| readings.contains(&reading);
        let state = self.run(job).state;
        // If other replicas of the run continue, a replica is retried separately.
        let others_go_on = retried.len() < self.live_groups(job)
            && (is(NodeMeaning::Running) || is(NodeMeaning::Provisioning) || is(NodeMeaning::Submitted));
        let scales = core.store[job].spec.scaling.is_some();
        let has_none = scales && readings.is_empty() && retried.is_empty();
        let to = if (!retried.is_empty() && !others_go_on) || has_none {
            WholeState::Pending
        } else if is(NodeMeaning::Running) {
            WholeState::Running
        } else if is(NodeMeaning::Provisioning) {
            WholeState::Provisioning
        } else if is(NodeMeaning::Submitted) || !retried.is_empty() {
            WholeState::Submitted
        } else {
            return self.end_at_submission(job, (Outcome::Completed, Reason::Completed));
        };
        if state != to {
            self.advance_run(job, to);
            let run = self.run(job);
            match to {
                WholeState::Provisioning if planted!(RunNeverForgetsItsFailures) => {}
                WholeState::Provisioning => run.attempt = 0,
                WholeState::Pending => {
                    run.attempt += 1;
                    run.settled = false;
                    core.store[job].fleet = None;
                }
                WholeState::Submitted | WholeState::Running | WholeState::Terminating | WholeState::Ended => {}
            }
        }
        match to {
            WholeState::Pending => {
                self.stop_members(core, job, |_| true, (Outcome::Cancelled, Reason::RunOver));
                self.announce_retry(core, job);
            }
            WholeState::Submitted
            | WholeState::Provisioning
            | WholeState::Running
            | WholeState::Terminating
            | WholeState::Ended => {
                retried.iter().for_each(|group| self.retry_group(core, job, *group));
                if scales && retried.is_empty() {
                    self.scale_service(core, job);
                }
            }
        }
    }

    fn live_groups(&mut self, job: JobId) -> usize {
        self.run(job).groups.iter().filter(|group| !group.dismissed).count()
    }

    fn end_at_submission(&mut self, job: JobId, ending: (Outcome, Reason)) {
        self.run(job).ending = Some(ending);
        self.advance_run(job, WholeState::Terminating);
    }

    /// Ends a run at its submission. No loop polls its nodes, so none of them looks for a place.
    pub(super) fn refuse_run(&mut self, core: &mut Core, job: JobId, because: Reason) {
        let ending = (Outcome::Refused, because);
        self.end_at_submission(job, ending);
        self.stop_members(core, job, |_| true, ending);
        self.members_of(job).into_iter().for_each(|index| self.give_back(core, index));
        self.poll_terminating_run(core, job);
    }

    /// Makes live nodes terminate. Returns whether there were any.
    fn stop_members(
        &mut self,
        core: &mut Core,
        job: JobId,
        is_meant: impl Fn(u32) -> bool,
        ending: (Outcome, Reason),
    ) -> bool {
        let mut found = false;
        for index in self.members_of(job) {
            let member = self.member(index);
            if member.state.is_live() && is_meant(member.group) {
                self.terminate(core, index, ending.0, ending.1);
                found = true;
            }
        }
        found
    }

    fn reading(&mut self, core: &mut Core, index: ReplicaIndex) -> NodeMeaning {
        let member = self.member(index);
        match member.state {
            MemberState::Waiting | MemberState::Submitted | MemberState::Assigned => NodeMeaning::Submitted,
            MemberState::Provisioning | MemberState::Pulling => NodeMeaning::Provisioning,
            MemberState::Running => NodeMeaning::Running,
            MemberState::Terminating | MemberState::Draining | MemberState::Ended => {
                let (outcome, because) = member.ending.expect("what terminates does so for a reason");
                match self.is_retry_over(core, index, because) {
                    _ if outcome == Outcome::Completed => NodeMeaning::Done,
                    Some(false) => NodeMeaning::Retry,
                    over => NodeMeaning::Failed { outcome, because, is_late: over == Some(true) },
                }
            }
        }
    }

    /// Whether the time limit for retries has expired for a node that ended for this reason. `None` if a node is never
    /// retried after such an end.
    pub(super) fn is_retry_over(&mut self, core: &mut Core, index: ReplicaIndex, because: Reason) -> Option<bool> {
        let event = event_of(because)?;
        let member = self.member(index);
        let job = member.run;
        let placed = if member.had_place { Some(member.processed) } else { member.placed_before };
        let retry = core.store[job].spec.terms.retry.as_ref()?;
        if !retry.on.contains(&event) {
            return None;
        }
        let duration = retry.duration;
        let from = placed.unwrap_or(self.run(job).submitted);
        Some(core.now.since(from) > duration)
    }

    fn poll_pending(&mut self, core: &mut Core, job: JobId) {
        let now = core.now;
        if core.store[job].spec.scaling.is_some() {
            return self.poll_pending_service(core, job);
        }
        if !self.is_over(job) || now < self.next_submission(job) {
            return;
        }
        let wanted: Vec<u32> = (0..self.run(job).groups.len() as u32)
            .filter(|group| !self.run(job).groups[*group as usize].dismissed)
            .collect();
        self.advance_run(job, WholeState::Submitted);
        wanted.into_iter().for_each(|group| self.resubmit(core, job, group));
    }

    /// Retries a replica separately while other replicas of its run continue. Its next attempt begins once all its
    /// nodes have ended and the first pause is over.
    fn retry_group(&mut self, core: &mut Core, job: JobId, group: u32) {
        self.stop_members(core, job, |other| other == group, (Outcome::Cancelled, Reason::RunOver));
        let members = self.run(job).groups[group as usize].members.clone();
        if self.retries_at_once() {
            for index in &members {
                let holds = core.store[*index].placement.is_some();
                if self.member(*index).state == MemberState::Terminating && !holds {
                    self.give_back(core, *index);
                }
            }
        }
        if members.iter().all(|index| self.member(*index).state == MemberState::Ended) {
            self.announce(core, job, group);
            if self.next_of_group(job, group) <= core.now {
                self.resubmit(core, job, group);
            }
            self.index_run(job);
        }
    }

    /// Announces another attempt for the nodes of a run that pauses, once all of them have ended.
    pub(super) fn announce_retry(&mut self, core: &mut Core, job: JobId) {
        if self.run(job).state != WholeState::Pending || !self.is_over(job) {
            return;
        }
        for group in 0..self.run(job).groups.len() as u32 {
            self.announce(core, job, group);
        }
        // A loop polls the run when its pause is over.
        self.index_run(job);
    }

    fn announce(&mut self, core: &mut Core, job: JobId, group: u32) {
        let run = self.run(job);
        let Group { members, dismissed, announced, .. } = &mut run.groups[group as usize];
        if *dismissed || std::mem::replace(announced, true) {
            return;
        }
        let (members, pauses) = (members.clone(), run.state == WholeState::Pending);
        let at = if pauses { self.next_submission(job) } else { self.next_of_group(job, group) };
        let because = self.cause_of(&members);
        for index in members {
            core.begin_next_attempt(index, at, because);
            core.hold(index, (Refusal::Unfit, Histogram::of(Reason::BackingOff, core.fleet.len() as u32)));
        }
    }

    /// The first cause of failure among the nodes of a replica.
    fn cause_of(&mut self, members: &[ReplicaIndex]) -> Reason {
        let reasons = members.iter().filter_map(|index| self.members[*index as usize].ending);
        let mut reasons = reasons.map(|(_, because)| because);
        reasons.clone().find(|because| event_of(*because).is_some()).or(reasons.next()).unwrap_or(Reason::RunOver)
    }

    /// Submits a replica whose next attempt was announced.
    pub(super) fn resubmit(&mut self, core: &mut Core, job: JobId, group: u32) {
        let now = core.now;
        let members = self.run(job).groups[group as usize].members.clone();
        self.run(job).groups[group as usize].announced = false;
        for index in members {
            let count = self.next_count();
            let member = self.member(index);
            let next = member.again(now, count);
            take_member_edge(member.state, next.state);
            *member = next;
            self.index_member(index);
        }
        for index in self.run(job).groups[group as usize].members.clone() {
            // The pause is over, so the reasons for waiting are emitted again.
            core.store[index].held = None;
        }
    }

    fn poll_terminating_run(&mut self, core: &mut Core, job: JobId) {
        let (outcome, because) = self.run(job).ending.expect("what terminates does so for a reason");
        // If the end was requested from outside, each node ends with that outcome.
        let of_nodes = match outcome {
            Outcome::Cancelled | Outcome::Refused => (outcome, because),
            Outcome::Completed | Outcome::Failed | Outcome::Lost | Outcome::NeverFits | Outcome::Expired => {
                (Outcome::Cancelled, Reason::RunOver)
            }
        };
        if self.stop_members(core, job, |_| true, of_nodes) {
            for index in self.members_of(job) {
                if self.member(index).state == MemberState::Terminating {
                    self.flag(index);
                }
            }
            return;
        }
        if !self.is_over(job) {
            return;
        }
        // The announced attempts of these nodes are given up.
        for index in self.members_of(job) {
            if core.store[index].phase != Phase::Ended {
                self.end(core, index, outcome, because);
            }
        }
        self.advance_run(job, WholeState::Ended);
        let record = &mut core.store[job];
        record.live = 0;
        record.ended = Some((outcome, because));
        core.emit(Event::JobEnded { job, outcome, because });
        core.job_has_ended(job, outcome);
    }
}

/// The kind of retry event that matches the reason of an end. `None` for an end that was requested.
fn event_of(because: Reason) -> Option<RetryEvent> {
    match because {
        Reason::NoCapacity => Some(RetryEvent::NoCapacity),
        Reason::NodeLost | Reason::GpuLost => Some(RetryEvent::Interruption),
        Reason::Failed | Reason::StartFailed | Reason::DeadlineExpired => Some(RetryEvent::Error),
        _ => None,
    }
}
