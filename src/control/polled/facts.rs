//! How inputs reach runs and their nodes: submissions, facts, cancellations and changes of scale.

use std::sync::Arc;

use super::Polled;
use super::options::UncountedRule;
use super::rows::{Group, Member, RunRow};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use dryrack_event::{Event, Lifecycle, Outcome, Phase, Reason};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_lifecycle::{MemberState, WholeState};
use dryrack_workload::{Ending, RetryEvent};

impl Polled {
    /// The first `spec.replicas` store entries are the masters. The workers follow, with those of the first replica
    /// first.
    pub(super) fn submit_run(&mut self, core: &mut Core, job: JobId, refused: Option<Held>) {
        let spec = Arc::clone(&core.store[job].spec);
        let retry = spec.terms.retry.as_ref().filter(|retry| retry.on.contains(&RetryEvent::NoCapacity));
        let desired = match self.options.uncounted {
            UncountedRule::Fewest => spec.replicas,
            UncountedRule::One => 1,
        };
        let run = RunRow {
            job,
            state: WholeState::Submitted,
            processed: core.now,
            turn: 0,
            fresh: true,
            flagged: false,
            attempt: 0,
            ending: None,
            submitted: core.now,
            changed: true,
            startup: spec.terms.startup,
            capacity_retry: retry.map(|retry| retry.duration),
            groups: Vec::new(),
            settled: false,
            desired,
            requests: None,
            scale_at: None,
            unasked: false,
            held: core.store.waits_for_others(job),
            due: None,
            lively: false,
        };
        self.runs.push(run);
        let turn = self.next_turn();
        self.run(job).turn = turn;
        let masters: Vec<ReplicaIndex> = (0..spec.replicas).map(|number| core.add_replica(job, number)).collect();
        for (number, master) in masters.iter().enumerate() {
            if !self.run(job).held {
                core.set_deadline(*master);
            }
            self.run(job).groups.push(group_of(*master, number as u32, 0));
            self.add_member(core, job, number as u32);
        }
        for group in 0..spec.replicas {
            self.add_workers(core, job, group);
        }
        self.index_run(job);
        if let Some(held) = refused {
            masters.iter().for_each(|master| core.hold(*master, held.clone()));
            self.refuse_run(core, job, Reason::PickRefused);
        }
    }

    /// Adds a record for the node that was added to a group last.
    fn add_member(&mut self, core: &mut Core, job: JobId, group: u32) {
        let now = core.now;
        let count = self.next_count();
        let members = &self.run(job).groups[group as usize].members;
        let (index, node) = (members[members.len() - 1], members.len() as u32 - 1);
        assert_eq!(index as usize, self.members.len(), "every replica is a node of a run");
        self.members.push(Member::new(job, group, node, now, count));
        core.wait_for_others(index);
        self.index_member(index);
    }

    /// Starts processing a run that no longer waits for other jobs, as if it were submitted now.
    pub(super) fn free_run(&mut self, core: &mut Core, job: JobId, replicas: &[ReplicaIndex]) {
        let now = core.now;
        let run = self.run(job);
        (run.held, run.submitted, run.processed) = (false, now, now);
        for index in replicas {
            let member = self.member(*index);
            (member.submitted, member.processed) = (now, now);
            core.set_deadline(*index);
        }
        self.members_of(job).into_iter().for_each(|index| self.index_member(index));
        self.index_run(job);
    }

    fn add_workers(&mut self, core: &mut Core, job: JobId, group: u32) {
        for _ in 1..core.store[job].spec.demand.nodes_apart() {
            let index = add_to_job(core, job);
            self.run(job).groups[group as usize].members.push(index);
            self.add_member(core, job, group);
        }
    }

    /// Records a fact about a node. It takes effect when a loop polls the node's record.
    pub(super) fn record_fact(&mut self, core: &mut Core, index: ReplicaIndex, fact: Lifecycle) {
        match fact {
            Lifecycle::Prepared => self.member(index).prepared = true,
            Lifecycle::Started => {
                self.member(index).started = true;
                if !self.is_awaited(index) {
                    return;
                }
            }
            Lifecycle::StartFailed => self.over(index, Outcome::Failed, Reason::StartFailed),
            Lifecycle::Exited(Ending::Completed) => self.over(index, Outcome::Completed, Reason::Completed),
            Lifecycle::Exited(Ending::Failed) => self.over(index, Outcome::Failed, Reason::Failed),
            Lifecycle::GpuFailed => self.over(index, Outcome::Lost, Reason::GpuLost),
            Lifecycle::NodeFailed => self.over(index, Outcome::Lost, Reason::NodeLost),
            Lifecycle::Preempted => self.over(index, Outcome::Lost, Reason::Preempted),
            Lifecycle::TimedOut => self.over(index, Outcome::Expired, Reason::TimeLimit),
            Lifecycle::Stopped => self.member(index).over = true,
            Lifecycle::StoppedOn { node } => {
                let replica = &mut core.store[index];
                replica.stopped_on.push(node);
                let claims = replica.placement.iter().flat_map(|placement| placement.claims());
                let over = claims.map(|claim| claim.node).all(|node| replica.stopped_on.contains(&node));
                self.member(index).over |= over;
            }
            // A loop finds these changes when it next polls the node.
            Lifecycle::Preparing | Lifecycle::Analysed | Lifecycle::AnalysisFailed => return,
        }
        self.notice(index);
    }

    fn over(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let member = self.member(index);
        member.over = true;
        member.news = member.news.or(Some((outcome, because)));
    }

    /// Makes a recorded fact take effect: at the next poll, or at once if there are no loops. This also applies to
    /// nodes that wait for this node.
    fn notice(&mut self, index: ReplicaIndex) {
        let job = self.member(index).run;
        match self.is_ideal() {
            true => self.flag(index),
            false => self.index_member(index),
        }
        self.note_member_changed(job);
    }

    /// Records that the node's host was lost.
    pub(super) fn member_lost(&mut self, index: ReplicaIndex) {
        let member = self.member(index);
        member.lost = true;
        let lost = match member.awaits {
            true => (Outcome::Failed, Reason::NoCapacity),
            false => (Outcome::Lost, Reason::NodeLost),
        };
        member.news = member.news.or(Some(lost));
        self.notice(index);
    }

    /// Makes loops poll again the nodes that wait for this instance.
    pub(super) fn wake_on(&mut self, core: &mut Core, node: NodeId) {
        let waiting: Vec<ReplicaIndex> = core.nodes[node.index()].replicas.iter().copied().collect();
        for index in waiting {
            // Polls that were skipped in the meantime count as done.
            self.index_member(index);
            self.member(index).awaits = false;
            core.set_deadline(index);
            self.notice(index);
        }
    }

    /// Ends a node because of a policy. A loop has just polled this node.
    pub(super) fn member_unwanted(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        if self.member(index).state.is_live() {
            self.terminate(core, index, outcome, because);
        }
    }

    /// Records that a node has stayed too long in one phase.
    pub(super) fn too_long(&mut self, index: ReplicaIndex, phase: Phase) {
        let news = match phase {
            Phase::Pending => (Outcome::Expired, Reason::DeadlineExpired),
            Phase::Running => (Outcome::Expired, Reason::TimeLimit),
            Phase::Analysing | Phase::Scheduled | Phase::Preparing => (Outcome::Failed, Reason::DeadlineExpired),
            Phase::Stopping | Phase::Ended => panic!("its end is not noticed but made"),
        };
        let (job, state) = (self.member(index).run, self.member(index).state);
        // No loop polls this node, because its run is in a pause or the node waits for other nodes. So the whole run
        // ends.
        if matches!(state, MemberState::Ended | MemberState::Waiting) {
            self.end_run(job, news);
            return;
        }
        let member = self.member(index);
        member.news = member.news.or(Some(news));
        self.notice(index);
    }

    pub(super) fn cancel_run(&mut self, job: JobId, because: Reason) {
        self.end_run(job, (Outcome::Cancelled, because));
    }

    /// Ends a run because of a request from outside. A loop polls the run in the next round.
    fn end_run(&mut self, job: JobId, ending: (Outcome, Reason)) {
        let run = self.run(job);
        run.held = false;
        match run.state {
            WholeState::Ended => return,
            WholeState::Terminating => run.ending = run.ending.max(Some(ending)),
            WholeState::Submitted | WholeState::Provisioning | WholeState::Running | WholeState::Pending => {
                run.ending = Some(ending);
                self.advance_run(job, WholeState::Terminating);
            }
        }
        self.flag_run(job);
    }

    /// Scales a run. Surplus replicas are removed, the last ones first. Missing replicas are added as new ones.
    pub(super) fn scale_run(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        if !self.run(job).state.is_active() {
            return;
        }
        let groups = &self.run(job).groups;
        let counted: Vec<u32> = (0..groups.len() as u32).filter(|group| !groups[*group as usize].dismissed).collect();
        for group in counted.iter().skip(wanted as usize) {
            for index in self.dismiss(core, job, *group) {
                self.flag(index);
            }
        }
        self.note_member_changed(job);
        (counted.len()..wanted as usize).for_each(|_| self.add_group(core, job, None));
    }

    /// Notes that a replica is no longer wanted. Returns those of its nodes that begin to terminate.
    pub(super) fn dismiss(&mut self, core: &mut Core, job: JobId, group: u32) -> Vec<ReplicaIndex> {
        self.run(job).groups[group as usize].dismissed = true;
        let mut stopped = self.run(job).groups[group as usize].members.clone();
        for index in &stopped {
            core.store[*index].dismissed = true;
        }
        stopped.retain(|index| self.member(*index).state.is_live());
        stopped.iter().for_each(|index| self.terminate(core, *index, Outcome::Cancelled, Reason::ScaledDown));
        stopped
    }

    /// Adds a new replica. If `follows` names a replica that is still terminating, the new replica is its next
    /// submission.
    pub(super) fn add_group(&mut self, core: &mut Core, job: JobId, follows: Option<u32>) {
        let (number, before) = match follows {
            None => (self.run(job).groups.iter().filter(|group| !group.followed).count() as u32, 0),
            Some(earlier) => {
                let earlier = &mut self.run(job).groups[earlier as usize];
                (earlier.dismissed, earlier.followed) = (true, true);
                let (number, before, members) = (earlier.number, earlier.before, earlier.members.clone());
                for index in &members {
                    core.store[*index].dismissed = true;
                }
                (number, before + core.store[members[0]].attempt)
            }
        };
        let master = add_to_job(core, job);
        let run = self.run(job);
        run.groups.push(group_of(master, number, before));
        let group = run.groups.len() as u32 - 1;
        self.add_member(core, job, group);
        self.add_workers(core, job, group);
    }

    /// Ends a node of a run: moves its record to the last state.
    pub(super) fn member_ended(&mut self, core: &mut Core, index: ReplicaIndex) {
        let job = self.member(index).run;
        let state = self.member(index).state;
        // An announced attempt that is given up ends without entering a state.
        if state == MemberState::Ended {
            return;
        }
        let now = core.now;
        self.member(index).processed = now;
        if state == MemberState::Terminating || state == MemberState::Draining {
            self.advance(core, index, MemberState::Ended, None);
        }
        self.announce_retry(core, job);
    }
}

fn group_of(master: ReplicaIndex, number: u32, before: u32) -> Group {
    Group { members: vec![master], dismissed: false, announced: false, number, before, followed: false }
}

fn add_to_job(core: &mut Core, job: JobId) -> ReplicaIndex {
    let record = &core.store[job];
    let number = record.spec.replicas + record.added.len() as u32;
    let index = core.add_replica(job, number);
    core.store[job].added.push(index);
    core.emit(Event::ReplicaAdded { attempt: AttemptId { job, replica: number, number: 1 } });
    if !core.store.waits_for_others(job) {
        core.set_deadline(index);
    }
    index
}
