//! What runs and their nodes are told: they are submitted, heard of, cancelled, and scaled.

use std::sync::Arc;

use super::options::UncountedRule;
use super::rows::{Group, Member, RunRow};
use crate::Control;
use crate::store::ReplicaIndex;
use dryrack_event::{Event, Histogram, Lifecycle, Outcome, Phase, Reason, Refusal};
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_lifecycle::{MemberState, WholeState};
use dryrack_workload::{Ending, JobSpec, RetryEvent};

impl Control {
    /// The first `spec.replicas` replicas are the masters. The workers follow, those of the first replica first.
    pub(crate) fn submit_run(&mut self, job: JobId, spec: &Arc<JobSpec>, refused: Option<(Refusal, Histogram)>) {
        let retry = spec.terms.retry.as_ref().filter(|retry| retry.on.contains(&RetryEvent::NoCapacity));
        let desired = match self.flow().options.uncounted {
            UncountedRule::Fewest => spec.replicas,
            UncountedRule::One => 1,
        };
        let run = RunRow {
            job,
            state: WholeState::Submitted,
            processed: self.now,
            turn: 0,
            fresh: true,
            flagged: false,
            attempt: 0,
            ending: None,
            submitted: self.now,
            changed: true,
            startup: spec.terms.startup,
            capacity_retry: retry.map(|retry| retry.duration),
            groups: Vec::new(),
            settled: false,
            fleet: None,
            desired,
            requests: None,
            scale_at: None,
            unasked: false,
            due: None,
            lively: false,
        };
        self.flow().runs.push(run);
        let turn = self.flow().next_turn();
        self.flow().run(job).turn = turn;
        let masters: Vec<ReplicaIndex> = (0..spec.replicas).map(|number| self.add_replica(job, number)).collect();
        for (number, master) in masters.iter().enumerate() {
            self.set_deadline(*master);
            self.flow().run(job).groups.push(group_of(*master, number as u32, 0));
            self.add_member(job, number as u32);
        }
        for group in 0..spec.replicas {
            self.add_workers(job, group);
        }
        self.flow().index_run(job);
        if let Some(held) = refused {
            masters.iter().for_each(|master| self.hold(*master, held.clone()));
            self.refuse_run(job, Reason::PickRefused);
        }
    }

    /// Adds a record for the last member of a group.
    fn add_member(&mut self, job: JobId, group: u32) {
        let now = self.now;
        let flow = self.flow();
        let count = flow.next_count();
        let members = &flow.run(job).groups[group as usize].members;
        let (index, node) = (members[members.len() - 1], members.len() as u32 - 1);
        assert_eq!(index as usize, flow.members.len(), "every replica is a node of a run");
        flow.members.push(Member::new(job, group, node, now, count));
        flow.index_member(index);
    }

    fn add_workers(&mut self, job: JobId, group: u32) {
        for _ in 1..self.jobs[job.index()].spec.demand.nodes_apart() {
            let index = self.add_to_job(job);
            self.flow().run(job).groups[group as usize].members.push(index);
            self.add_member(job, group);
        }
    }

    fn add_to_job(&mut self, job: JobId) -> ReplicaIndex {
        let record = &self.jobs[job.index()];
        let number = record.spec.replicas + record.added.len() as u32;
        let index = self.add_replica(job, number);
        self.jobs[job.index()].added.push(index);
        self.emit(Event::ReplicaAdded { run: RunId { job, replica: number, attempt: 1 } });
        self.set_deadline(index);
        index
    }

    /// Takes in a fact about a node. It is noticed when the node's record is looked at.
    pub(crate) fn hear(&mut self, index: ReplicaIndex, fact: Lifecycle) {
        match fact {
            Lifecycle::Prepared => self.flow().member(index).prepared = true,
            Lifecycle::Started => {
                self.flow().member(index).started = true;
                if !self.flow().is_awaited(index) {
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
            Lifecycle::Stopped => self.flow().member(index).over = true,
            Lifecycle::StoppedOn { node } => {
                let replica = &mut self.replicas[index as usize];
                replica.stopped_on.push(node);
                let claims = replica.placement.iter().flat_map(|placement| placement.claims());
                let over = claims.map(|claim| claim.node).all(|node| replica.stopped_on.contains(&node));
                self.flow().member(index).over |= over;
            }
            // What it does in between is seen when it is looked at.
            Lifecycle::Preparing | Lifecycle::Analysed | Lifecycle::AnalysisFailed => return,
        }
        self.notice(index);
    }

    fn over(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let member = self.flow().member(index);
        member.over = true;
        member.news = member.news.or(Some((outcome, because)));
    }

    /// Makes what was heard noticed: by the next look, and by those who wait for it; without loops, at once.
    fn notice(&mut self, index: ReplicaIndex) {
        let job = self.flow().member(index).run;
        match self.flow().is_ideal() {
            true => self.flag(index),
            false => self.flow().index_member(index),
        }
        self.stir(job);
    }

    /// Whether it is known to have stopped while the look that ends it is still to come.
    pub(crate) fn has_stopped(&self, index: ReplicaIndex) -> bool {
        self.runs.as_ref().is_some_and(|flow| flow.members[index as usize].over)
    }

    /// Takes in that what it runs on is given up.
    pub(crate) fn member_lost(&mut self, index: ReplicaIndex) {
        let member = self.flow().member(index);
        member.lost = true;
        let lost = match member.awaits {
            true => (Outcome::Failed, Reason::NoCapacity),
            false => (Outcome::Lost, Reason::NodeLost),
        };
        member.news = member.news.or(Some(lost));
        self.notice(index);
    }

    pub(crate) fn awaits_instance(&self, index: ReplicaIndex) -> bool {
        self.runs.as_ref().is_some_and(|flow| flow.members.get(index as usize).is_some_and(|member| member.awaits))
    }

    /// Makes the nodes that wait for an instance be looked at again.
    pub(crate) fn instance_is_up(&mut self, node: NodeId) {
        if self.runs.is_none() {
            return;
        }
        let waiting: Vec<ReplicaIndex> = self.nodes[node.index()].runs.iter().copied().collect();
        for index in waiting {
            // Looks that were left out meanwhile count as taken.
            self.flow().index_member(index);
            self.flow().member(index).awaits = false;
            self.set_deadline(index);
            self.notice(index);
        }
    }

    /// Ends a node because of a policy, which has just looked at it.
    pub(crate) fn member_unwanted(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        if self.flow().member(index).state.is_live() {
            self.terminate(index, outcome, because);
        }
    }

    /// Takes in that it has stayed too long in one phase.
    pub(crate) fn too_long(&mut self, index: ReplicaIndex, phase: Phase) {
        let news = match phase {
            Phase::Pending => (Outcome::Expired, Reason::DeadlineExpired),
            Phase::Running => (Outcome::Expired, Reason::TimeLimit),
            Phase::Analysing | Phase::Scheduled | Phase::Preparing => (Outcome::Failed, Reason::DeadlineExpired),
            Phase::Stopping | Phase::Ended => panic!("its end is not noticed but made"),
        };
        let (job, state) = (self.flow().member(index).run, self.flow().member(index).state);
        // Nobody looks at it, because its run pauses or it waits for others.
        if matches!(state, MemberState::Ended | MemberState::Waiting) {
            self.end_run(job, news);
            return;
        }
        let member = self.flow().member(index);
        member.news = member.news.or(Some(news));
        self.notice(index);
    }

    pub(crate) fn cancel_run(&mut self, job: JobId) {
        self.end_run(job, (Outcome::Cancelled, Reason::Cancelled));
    }

    /// Ends a run because of a wish from outside. The run is looked at in the next round.
    fn end_run(&mut self, job: JobId, ending: (Outcome, Reason)) {
        let run = self.flow().run(job);
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

    /// Scales a run. Replicas beyond those wanted go, the last ones first; missing ones come as new ones.
    pub(crate) fn scale_run(&mut self, job: JobId, wanted: u32) {
        if !self.flow().run(job).state.is_active() {
            return;
        }
        let groups = &self.flow().run(job).groups;
        let counted: Vec<u32> = (0..groups.len() as u32).filter(|group| !groups[*group as usize].dismissed).collect();
        for group in counted.iter().skip(wanted as usize) {
            for index in self.dismiss(job, *group) {
                self.flag(index);
            }
        }
        self.stir(job);
        (counted.len()..wanted as usize).for_each(|_| self.add_group(job, None));
    }

    /// Notes that a replica is no longer wanted. Returns those of its nodes that begin to terminate.
    pub(super) fn dismiss(&mut self, job: JobId, group: u32) -> Vec<ReplicaIndex> {
        self.flow().run(job).groups[group as usize].dismissed = true;
        let mut stopped = self.flow().run(job).groups[group as usize].members.clone();
        for index in &stopped {
            self.replicas[*index as usize].dismissed = true;
        }
        stopped.retain(|index| self.flow().member(*index).state.is_live());
        stopped.iter().for_each(|index| self.terminate(*index, Outcome::Cancelled, Reason::ScaledDown));
        stopped
    }

    /// Adds a new replica, or the next submission of one that still terminates.
    pub(super) fn add_group(&mut self, job: JobId, follows: Option<u32>) {
        let (number, before) = match follows {
            None => (self.flow().run(job).groups.iter().filter(|group| !group.followed).count() as u32, 0),
            Some(earlier) => {
                let earlier = &mut self.flow().run(job).groups[earlier as usize];
                (earlier.dismissed, earlier.followed) = (true, true);
                let (number, before, members) = (earlier.number, earlier.before, earlier.members.clone());
                for index in &members {
                    self.replicas[*index as usize].dismissed = true;
                }
                (number, before + self.replicas[members[0] as usize].attempt)
            }
        };
        let master = self.add_to_job(job);
        let run = self.flow().run(job);
        run.groups.push(group_of(master, number, before));
        let group = run.groups.len() as u32 - 1;
        self.add_member(job, group);
        self.add_workers(job, group);
    }

    /// Takes the last edge of a node.
    pub(crate) fn member_ended(&mut self, index: ReplicaIndex) {
        let job = self.flow().member(index).run;
        let state = self.flow().member(index).state;
        // An announced attempt that does not come ends without having been a state of its own.
        if state == MemberState::Ended {
            return;
        }
        let now = self.now;
        self.flow().member(index).processed = now;
        if state == MemberState::Terminating || state == MemberState::Draining {
            self.advance(index, MemberState::Ended, None);
        }
        self.announce_retry(job);
    }
}

fn group_of(master: ReplicaIndex, number: u32, before: u32) -> Group {
    Group { members: vec![master], dismissed: false, announced: false, number, before, followed: false }
}
