//! The records of runs and of their nodes, and when the loops poll each record.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::{Clock, LoopKind};
use super::options::{BeginRule, Loops, PlacelessRule, PrepareRule, ReplicaRetryRule, RunsOptions};
use crate::core::store::ReplicaIndex;
use dryrack_event::{Outcome, Reason};
use dryrack_ids::JobId;
use dryrack_lifecycle::{MemberState, WholeState};
use dryrack_policy::Holding;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::StartupOrder;

/// The record of a run: all replicas of a job.
pub(super) struct RunRow {
    pub job: JobId,
    pub state: WholeState,
    /// When a loop last polled the run.
    pub processed: SimTime,
    /// Number of the last poll. If two records were polled in the same instant, the one with the lower number comes
    /// first again.
    pub turn: u64,
    /// Whether no loop has polled the run yet.
    pub fresh: bool,
    /// Whether a loop must poll the run in its next round.
    pub flagged: bool,
    /// Number of failed submissions since the run last reached provisioning.
    pub attempt: u32,
    /// Why the run terminates, and its outcome.
    pub ending: Option<(Outcome, Reason)>,
    pub submitted: SimTime,
    /// Whether one of its nodes has changed since the last poll of the run.
    pub changed: bool,
    pub startup: StartupOrder,
    /// How long the run is tried again when there is no capacity.
    pub capacity_retry: Option<SimDuration>,
    pub groups: Vec<Group>,
    /// Whether one of the run's nodes has a place. Only then may its workers look for places.
    pub settled: bool,
    /// For a service that scales: the wanted number of replicas, by the last poll of the run.
    pub desired: u32,
    /// For a service that scales: the last count of requests.
    pub requests: Option<u64>,
    /// For a service that scales: the time from which its number of replicas may change again; `None` if it may change
    /// now.
    pub scale_at: Option<SimTime>,
    /// Whether the run pauses and its last count of requests needs no replica.
    pub unasked: bool,
    /// Whether the run waits for other jobs. If so, no loop polls it or searches places for its nodes.
    pub held: bool,
    pub due: Option<SimTime>,
    /// Whether a poll of the run would change something, now or once it is due.
    pub lively: bool,
}

impl RunRow {
    /// Replicas that will be submitted again.
    pub fn announced(&self) -> impl Iterator<Item = u32> + '_ {
        let is_due = |group: &u32| {
            let group = &self.groups[*group as usize];
            group.announced && !group.dismissed
        };
        let groups = if self.unasked { 0 } else { self.groups.len() as u32 };
        (0..groups).filter(is_due)
    }
}

/// A replica of a run, which consists of nodes.
pub(super) struct Group {
    /// The nodes, in order. The first node is the master.
    pub members: Vec<ReplicaIndex>,
    /// Whether scaling down removed this replica.
    pub dismissed: bool,
    /// Whether the next attempt of this replica was announced but not submitted yet.
    pub announced: bool,
    /// The number of this replica in its run.
    pub number: u32,
    /// How often this replica was submitted under earlier records.
    pub before: u32,
    /// Whether another record with the same number follows, because the replica was wanted again while it was
    /// terminating.
    pub followed: bool,
}

/// The record of a node of a run.
pub(super) struct Member {
    pub run: JobId,
    pub group: u32,
    /// The number of this node in its group. Node 0 is the master.
    pub node: u32,
    pub state: MemberState,
    /// When this submission was made.
    pub submitted: SimTime,
    /// When a loop last polled this node or its run.
    pub processed: SimTime,
    /// Number of the last poll. If two records were polled in the same instant, the one with the lower number comes
    /// first again.
    pub turn: u64,
    /// Whether no loop has polled this node since it was submitted.
    pub fresh: bool,
    pub flagged: bool,
    /// Number of this submission among the submissions of all nodes. If two nodes were polled together, the one with
    /// the lower number comes first.
    pub created: u64,
    /// The end that was recorded for this node but has not taken effect yet.
    pub news: Option<(Outcome, Reason)>,
    pub prepared: bool,
    /// Whether the node's instance was requested and is not up yet.
    pub awaits: bool,
    /// Whether the node was told to prepare.
    pub asked: bool,
    /// Whether the node was told to begin.
    pub began: bool,
    /// Whether the node has reported that it began.
    pub started: bool,
    /// Whether no process of the node is alive.
    pub over: bool,
    /// Whether the node's host was lost, so that nothing is known about its processes.
    pub lost: bool,
    /// The outcome of the node, and the reason.
    pub ending: Option<(Outcome, Reason)>,
    /// Whether the node had a place at some time in this submission.
    pub had_place: bool,
    /// When the latest earlier submission of this node with a place was last polled.
    pub placed_before: Option<SimTime>,
    /// The fleet's growth when the node was refused. Present while the node is parked: it waits for capacity and keeps
    /// its turn.
    pub parked: Option<u64>,
    pub due: Option<(LoopKind, SimTime)>,
    /// Whether a poll of the node would change something, now or once it is due.
    pub lively: bool,
}

impl Member {
    pub fn new(run: JobId, group: u32, node: u32, now: SimTime, (turn, created): (u64, u64)) -> Member {
        Member {
            run,
            group,
            node,
            state: if node == 0 { MemberState::Submitted } else { MemberState::Waiting },
            submitted: now,
            processed: now,
            turn,
            fresh: true,
            flagged: false,
            created,
            news: None,
            prepared: false,
            awaits: false,
            asked: false,
            began: false,
            started: false,
            over: false,
            lost: false,
            ending: None,
            had_place: false,
            placed_before: None,
            parked: None,
            due: None,
            lively: false,
        }
    }

    /// The record of the next submission of the same node.
    pub fn again(&self, now: SimTime, count: (u64, u64)) -> Member {
        let placed_before = if self.had_place { Some(self.processed) } else { self.placed_before };
        let (due, lively) = (self.due, self.lively);
        Member { placed_before, due, lively, ..Member::new(self.run, self.group, self.node, now, count) }
    }
}

/// All runs, and the clocks of the loops that poll them.
pub(crate) struct Polled {
    pub(super) options: RunsOptions,
    /// The runs, by the number of their job.
    pub(super) runs: Vec<RunRow>,
    /// The nodes, by the number of their replica.
    pub(super) members: Vec<Member>,
    pub(super) clocks: [Clock; 4],
    pub(super) created: u64,
    pub(super) turns: u64,
    /// Nodes that were refused and are parked: they wait for capacity and keep their turn.
    pub(super) parked: BTreeSet<ReplicaIndex>,
    /// Parked nodes whose projects lack quota, each with the resources that it wants.
    pub(super) over_quota: BTreeMap<ReplicaIndex, Holding>,
    /// The fleet's growth when the due times of the parked nodes were last computed.
    pub(super) growth: u64,
    /// The time of the last input or settle.
    pub(super) now: SimTime,
    /// Whether the caller steps through every poll. If not, polls that would change nothing are skipped. After skipped
    /// polls, a record counts as polled when the last skipped poll was due.
    pub(super) in_rounds: bool,
    /// Records of the current round that no loop has polled yet. The next one is last in the list.
    pub(super) rest: Vec<u32>,
}

impl Polled {
    pub(crate) fn new(options: &RunsOptions, seed: u64) -> Polled {
        Polled {
            options: options.clone(),
            runs: Vec::new(),
            members: Vec::new(),
            clocks: LoopKind::ALL.map(|kind| Clock::new(options, kind, seed)),
            created: 0,
            turns: 0,
            parked: BTreeSet::new(),
            over_quota: BTreeMap::new(),
            growth: 0,
            now: SimTime::ZERO,
            in_rounds: false,
            rest: Vec::new(),
        }
    }

    pub(super) fn is_ideal(&self) -> bool {
        self.options.loops == Loops::Ideal
    }

    pub(super) fn run(&mut self, job: JobId) -> &mut RunRow {
        &mut self.runs[job.index()]
    }

    pub(super) fn member(&mut self, index: ReplicaIndex) -> &mut Member {
        &mut self.members[index as usize]
    }

    /// Removes a node from the parked nodes.
    pub(super) fn unlist(&mut self, index: ReplicaIndex) {
        self.parked.remove(&index);
        self.over_quota.remove(&index);
    }

    /// The turn and the submission number for the next submission.
    pub(super) fn next_count(&mut self) -> (u64, u64) {
        self.created += 1;
        (self.next_turn(), self.created)
    }

    /// The turn of the next poll.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// The nodes of the same replica, including this node.
    pub(super) fn siblings(&self, index: ReplicaIndex) -> &[ReplicaIndex] {
        let member = &self.members[index as usize];
        &self.runs[member.run.index()].groups[member.group as usize].members
    }

    pub(super) fn members_of(&self, job: JobId) -> Vec<ReplicaIndex> {
        self.runs[job.index()].groups.iter().flat_map(|group| group.members.iter().copied()).collect()
    }

    /// Whether every node of the run has ended.
    pub(super) fn is_over(&self, job: JobId) -> bool {
        self.members_of(job).iter().all(|index| self.members[*index as usize].state == MemberState::Ended)
    }

    /// Updates the position of a node in its loop. Call this after any change of the node.
    pub(super) fn index_member(&mut self, index: ReplicaIndex) {
        self.resume_member(index);
        let due = self.member_due(index);
        let lively = due.is_some() && !self.is_quiet(index);
        let member = &mut self.members[index as usize];
        let (before, was_lively) = (std::mem::replace(&mut member.due, due), member.lively);
        member.lively = lively;
        if (before, was_lively) == (due, lively) {
            return;
        }
        if let Some((kind, at)) = before {
            self.clocks[kind as usize].leave((at, index), was_lively);
        }
        if let Some((kind, at)) = due {
            self.clocks[kind as usize].enter((at, index), lively);
        }
    }

    pub(super) fn index_run(&mut self, job: JobId) {
        self.resume_run(job);
        let due = self.run_due(job);
        let lively = due.is_some() && !self.is_run_quiet(job);
        let run = &mut self.runs[job.index()];
        let row = job.index() as u32;
        let (before, was_lively) = (std::mem::replace(&mut run.due, due), run.lively);
        run.lively = lively;
        if (before, was_lively) == (due, lively) {
            return;
        }
        let clock = &mut self.clocks[LoopKind::Runs as usize];
        if let Some(at) = before {
            clock.leave((at, row), was_lively);
        }
        if let Some(at) = due {
            clock.enter((at, row), lively);
        }
    }

    /// Whether the loop must also poll records that a poll would not change. This is so with a limited batch,
    /// because such a record takes the turn of another record.
    fn polls_all(&self, kind: LoopKind) -> bool {
        self.in_rounds || self.clocks[kind as usize].batch() < usize::MAX
    }

    /// Whether a poll of the node would change nothing.
    fn is_quiet(&self, index: ReplicaIndex) -> bool {
        let member = &self.members[index as usize];
        if member.flagged || member.news.is_some() {
            return false;
        }
        match member.state {
            MemberState::Submitted => member.node > 0 && !self.members[self.siblings(index)[0] as usize].had_place,
            MemberState::Pulling => !self.may_begin(index) && !self.is_locked(member.run),
            MemberState::Running => true,
            MemberState::Draining => !member.over && !member.lost,
            MemberState::Provisioning => !self.may_prepare(index),
            MemberState::Waiting | MemberState::Assigned | MemberState::Terminating | MemberState::Ended => false,
        }
    }

    fn is_run_quiet(&self, job: JobId) -> bool {
        let run = &self.runs[job.index()];
        let awaits_time = run.scale_at.is_some() || self.retried(job).next().is_some();
        !run.flagged && !run.fresh && !run.changed && !awaits_time
    }

    /// Restores the turn of a record. Its polls were skipped because they would have changed nothing, so it counts as
    /// polled when the last skipped poll was due.
    fn resume_member(&mut self, index: ReplicaIndex) {
        let member = &self.members[index as usize];
        let Some(kind) = loop_of(member.state) else { return };
        if member.due.is_none() && !self.polls_all(kind) {
            let interval = self.interval(member.state, kind);
            let now = self.now;
            let member = &mut self.members[index as usize];
            member.processed = last_of(member.processed, interval, now);
        }
    }

    fn resume_run(&mut self, job: JobId) {
        let run = &self.runs[job.index()];
        if run.due.is_none() && !self.polls_all(LoopKind::Runs) && run.state != WholeState::Ended {
            let interval = self.run_interval(run.state);
            let now = self.now;
            let run = &mut self.runs[job.index()];
            run.processed = last_of(run.processed, interval, now);
        }
    }

    /// The time between two polls of a node in this state; `None` without loops.
    fn interval(&self, state: MemberState, kind: LoopKind) -> Option<SimDuration> {
        match &self.options.loops {
            Loops::Ideal => None,
            Loops::Polled(loops) => Some(match (kind, state) {
                (LoopKind::Submitted, _) => loops.submitted.interval,
                (_, MemberState::Running) => loops.running.running,
                (LoopKind::Running, _) => loops.running.starting,
                (LoopKind::Terminating | LoopKind::Runs, _) => loops.terminating.interval,
            }),
        }
    }

    fn run_interval(&self, state: WholeState) -> Option<SimDuration> {
        match &self.options.loops {
            Loops::Ideal => None,
            Loops::Polled(loops) => Some(match state {
                WholeState::Submitted | WholeState::Terminating => loops.runs.hasty,
                WholeState::Provisioning | WholeState::Running | WholeState::Pending | WholeState::Ended => {
                    loops.runs.interval
                }
            }),
        }
    }

    /// Whether the node is prepared and need not wait for other nodes any more.
    pub(super) fn may_begin(&self, index: ReplicaIndex) -> bool {
        self.members[index as usize].prepared && self.is_its_turn(index) && self.are_ready(self.siblings(index))
    }

    /// Whether all nodes of the replica that must begin earlier have begun.
    fn is_its_turn(&self, index: ReplicaIndex) -> bool {
        let siblings = self.siblings(index);
        let has_started = |other: &ReplicaIndex| self.members[*other as usize].started;
        match self.runs[self.members[index as usize].run.index()].startup {
            StartupOrder::Any => true,
            StartupOrder::MasterFirst => index == siblings[0] || has_started(&siblings[0]),
            StartupOrder::WorkersFirst => index != siblings[0] || siblings[1..].iter().all(has_started),
        }
    }

    /// Whether other nodes of the replica may begin only after this node has started.
    pub(super) fn is_awaited(&self, index: ReplicaIndex) -> bool {
        let siblings = self.siblings(index);
        match self.runs[self.members[index as usize].run.index()].startup {
            StartupOrder::Any => false,
            StartupOrder::MasterFirst => index == siblings[0],
            StartupOrder::WorkersFirst => self.is_its_turn(siblings[0]),
        }
    }

    /// Whether a node that has a place may prepare now. Its instance must be up.
    pub(super) fn may_prepare(&self, index: ReplicaIndex) -> bool {
        let in_turn = match self.options.prepare {
            PrepareRule::AtOnce => true,
            PrepareRule::InTurn => self.is_its_turn(index),
            PrepareRule::AllPlaced => self.siblings(index).iter().all(|other| self.members[*other as usize].had_place),
        };
        in_turn && !self.members[index as usize].awaits
    }

    /// Whether these nodes of a replica are ready, so that any of them may begin. A node that has already begun counts
    /// as ready, even if it has ended since.
    pub(super) fn are_ready(&self, siblings: &[ReplicaIndex]) -> bool {
        let is_ready = |index: &ReplicaIndex| {
            let member = &self.members[*index as usize];
            match self.options.begin {
                _ if member.began => true,
                BeginRule::AllPlaced => member.had_place && member.state.is_live(),
                BeginRule::AllPrepared => member.prepared && member.state.is_live(),
            }
        };
        siblings.iter().all(is_ready)
    }

    /// Whether polls of a node of this run fail, because another node of its replica ended without ever having a place.
    /// While this lasts, no loop can poll the run.
    pub(super) fn is_locked(&self, job: JobId) -> bool {
        let run = &self.runs[job.index()];
        self.options.placeless == PlacelessRule::Raises
            && run.state.is_active()
            && run.groups.iter().any(|group| {
                let mut members = group.members.iter().map(|index| &self.members[*index as usize]);
                members.clone().any(|member| member.state == MemberState::Pulling && member.news.is_none())
                    && members.any(|member| !member.state.is_live() && !member.had_place)
            })
    }

    fn member_due(&self, index: ReplicaIndex) -> Option<(LoopKind, SimTime)> {
        let member = &self.members[index as usize];
        let run = &self.runs[member.run.index()];
        if run.held && member.state == MemberState::Submitted {
            return None;
        }
        if self.is_quiet(index) && !loop_of(member.state).is_some_and(|kind| self.polls_all(kind)) {
            return None;
        }
        let kind = match member.state {
            // A worker looks for a place only after a node of its run has a place.
            MemberState::Submitted => (member.node == 0 || run.settled).then_some(LoopKind::Submitted)?,
            MemberState::Assigned => LoopKind::Submitted,
            MemberState::Provisioning | MemberState::Pulling | MemberState::Running => {
                (run.state != WholeState::Terminating).then_some(LoopKind::Running)?
            }
            MemberState::Terminating | MemberState::Draining => LoopKind::Terminating,
            MemberState::Waiting | MemberState::Ended => return None,
        };
        if member.flagged || (member.fresh && kind == LoopKind::Submitted) {
            return Some((kind, SimTime::ZERO));
        }
        let interval = self.interval(member.state, kind);
        match (member.parked.filter(|_| member.news.is_none()), interval) {
            // Here the time limit for retries does not expire, because the node lacks quota and not capacity.
            (Some(growth), _) if growth == self.growth && self.over_quota.contains_key(&index) => None,
            (Some(growth), interval) if growth == self.growth => {
                let over = self.retry_over_at(index)?;
                Some((kind, over.max(member.processed.saturating_add(interval.unwrap_or_default()))))
            }
            (Some(_), None) => Some((kind, SimTime::ZERO)),
            (_, Some(interval)) => Some((kind, member.processed.saturating_add(interval))),
            (None, None) => None,
        }
    }

    fn run_due(&self, job: JobId) -> Option<SimTime> {
        let run = &self.runs[job.index()];
        if run.state == WholeState::Ended || run.held || (self.is_run_quiet(job) && !self.polls_all(LoopKind::Runs)) {
            return None;
        }
        if run.flagged || run.fresh {
            return Some(SimTime::ZERO);
        }
        match &self.options.loops {
            // A locked run is not polled until one of its nodes changes.
            Loops::Ideal if self.is_locked(job) => None,
            Loops::Ideal => match run.state {
                // A run in a pause waits until all its nodes have ended.
                WholeState::Pending if !self.is_over(job) => None,
                WholeState::Pending => {
                    let announced = run.announced().next().map(|_| self.next_submission(job));
                    announced.into_iter().chain(run.scale_at).min()
                }
                WholeState::Submitted | WholeState::Provisioning | WholeState::Running => {
                    self.retried(job).map(|group| self.next_of_group(job, group)).chain(run.scale_at).min()
                }
                // Announced attempts are given up here.
                WholeState::Terminating | WholeState::Ended => None,
            },
            Loops::Polled(_) => Some(run.processed.saturating_add(self.run_interval(run.state).unwrap_or_default())),
        }
    }

    /// When a run in a pause may be submitted again: one pause after the last poll of any of its nodes.
    pub(super) fn next_submission(&self, job: JobId) -> SimTime {
        let run = &self.runs[job.index()];
        let is_wanted = |group: &&Group| !group.dismissed;
        // A service without wanted replicas either had some before or is new. In this case, all its replicas count.
        let any = run.groups.iter().any(|group| is_wanted(&group));
        let members = run.groups.iter().filter(|group| !any || is_wanted(group)).flat_map(|group| &group.members);
        let last = members.map(|index| self.members[*index as usize].processed).max();
        last.map_or(SimTime::ZERO, |last| last.saturating_add(self.options.pause(run.attempt)))
    }

    /// Replicas whose announced attempt needs no further request. A replica that had completed when its service paused
    /// is not one of them: it starts only when it is wanted again.
    fn retried(&self, job: JobId) -> impl Iterator<Item = u32> + '_ {
        let run = &self.runs[job.index()];
        let is_done = |index: &ReplicaIndex| {
            let ending = self.members[*index as usize].ending;
            ending.is_some_and(|(outcome, _)| outcome == Outcome::Completed)
        };
        let comes = move |group: &u32| {
            run.state == WholeState::Pending || !run.groups[*group as usize].members.iter().all(is_done)
        };
        run.announced().filter(comes)
    }

    /// Whether a replica that is retried separately skips the pause. In a flow without loops it never does, because it
    /// would then be retried forever in one instant.
    pub(super) fn retries_at_once(&self) -> bool {
        self.options.replica_retry == ReplicaRetryRule::AtOnce && !self.is_ideal()
    }

    /// When a replica that is retried separately may be submitted again.
    pub(super) fn next_of_group(&self, job: JobId, group: u32) -> SimTime {
        let members = &self.runs[job.index()].groups[group as usize].members;
        let last = members.iter().map(|index| self.members[*index as usize].processed).max().unwrap_or(self.now);
        match self.retries_at_once() {
            true => last,
            false => last.saturating_add(self.options.pause(1)),
        }
    }

    /// The first instant after which a node that waits for capacity has waited for too long. `None` if it is not
    /// retried at all.
    fn retry_over_at(&self, index: ReplicaIndex) -> Option<SimTime> {
        let member = &self.members[index as usize];
        let from = member.placed_before.unwrap_or(self.runs[member.run.index()].submitted);
        let duration = self.runs[member.run.index()].capacity_retry?;
        Some(from.saturating_add(duration).saturating_add(SimDuration::from_nanos(1)))
    }
}

/// The loop for a node in this state, if polls in this state may change nothing.
fn loop_of(state: MemberState) -> Option<LoopKind> {
    match state {
        MemberState::Submitted => Some(LoopKind::Submitted),
        MemberState::Provisioning | MemberState::Pulling | MemberState::Running => Some(LoopKind::Running),
        MemberState::Draining => Some(LoopKind::Terminating),
        MemberState::Waiting | MemberState::Assigned | MemberState::Terminating | MemberState::Ended => None,
    }
}

/// The latest time that is `from` plus a multiple of the interval, and not after `now`.
fn last_of(from: SimTime, interval: Option<SimDuration>, now: SimTime) -> SimTime {
    match interval {
        Some(interval) if !interval.is_zero() && now > from => {
            let times = now.since(from).as_nanos() / interval.as_nanos();
            from.saturating_add(interval.saturating_mul(times))
        }
        _ => from,
    }
}
