//! Jobs and their runs: submission, facts about runs, cancellation, and what follows an end.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Control;
use super::profile::Trigger;
use super::store::{DemandRecord, JobRecord, Replica, ReplicaIndex, Wait};
use super::timer::Timer;
use dryrack_event::{Command, Event, Histogram, Lifecycle, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_lifecycle::is_run_edge;
use dryrack_policy::{Next, RetryState};
use dryrack_scheduler::deployment::refused_at_submission;
use dryrack_scheduler::{Entry, Lines, QueueKey, Verdict, refused_picks};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Demand, Ending, JobSpec, Restart, Unselectable};

/// How often a run that has ended and keeps a claim is asked to stop. This is often enough that a lost message gets
/// through in the end, but it does not go on forever.
pub(super) const STOPS_ASKED_FOR: u8 = 20;

impl Control {
    pub(super) fn submit(&mut self, job: JobId, spec: &Arc<JobSpec>) {
        let demand = self.demand_number(&spec.demand);
        let refused = self.refused_picks(spec);
        self.keep_job(spec, demand);
        if self.runs.is_some() {
            return self.submit_run(job, spec, refused);
        }
        for number in 0..spec.replicas {
            let index = self.add_replica(job, number);
            match &refused {
                None => self.begin(index),
                Some(held) => {
                    // The reason comes first, as for everything that ends without having run.
                    self.hold(index, held.clone());
                    self.end(index, Outcome::Refused, Reason::PickRefused);
                }
            }
        }
    }

    /// Adds the record of a job whose replicas are added next.
    fn keep_job(&mut self, spec: &Arc<JobSpec>, demand: u32) {
        let first = self.replicas.len() as ReplicaIndex;
        let line = self.line_of(spec.queue.as_ref());
        let fair_share = &self.profile.scheduler.fair_share;
        let user = self.shares.as_mut().map_or(0, |shares| shares.number(spec.user.as_ref(), fair_share, self.now));
        self.jobs.push(JobRecord {
            spec: Arc::clone(spec),
            line,
            user,
            demand,
            first,
            added: Vec::new(),
            live: spec.replicas,
            cancelled: false,
            parked: false,
            unmet: None,
            ended: None,
        });
    }

    /// The line in which a job of this queue waits. Lines are numbered in order of appearance.
    pub(super) fn line_of(&mut self, queue: Option<&Arc<str>>) -> u32 {
        match self.profile.scheduler.lines {
            Lines::One => 0,
            Lines::EachQueue => {
                let next = self.lines.len() as u32;
                *self.lines.entry(queue.cloned()).or_insert(next)
            }
        }
    }

    /// Why a job is refused at submission; `None` if it is not. A job that does not wait for its picks is refused if
    /// they cannot be selected at that time.
    fn refused_picks(&self, spec: &JobSpec) -> Option<(Refusal, Histogram)> {
        let options = &self.profile.scheduler;
        let by_release =
            spec.demand.deployment.as_ref().and_then(|deployment| {
                refused_at_submission(&options.deployments, &spec.demand, deployment, &self.fleet)
            });
        if let Some((refusal, reason)) = by_release {
            return Some((refusal, Histogram::of(reason, self.fleet.len().max(1) as u32)));
        }
        if spec.unselectable == Unselectable::Wait {
            return None;
        }
        let refused = refused_picks(&self.profile.scheduler, &spec.demand, &self.fleet);
        let mut reasons = Histogram::default();
        refused.iter().filter_map(|verdict| verdict.reason()).for_each(|reason| reasons.add(reason, 1));
        let is_final = refused.iter().any(|verdict| matches!(verdict, Verdict::Never(_)));
        (!refused.is_empty()).then_some((if is_final { Refusal::Never } else { Refusal::Unfit }, reasons))
    }

    /// Adds a record for one more replica, which does not wait for anything yet.
    pub(super) fn add_replica(&mut self, job: JobId, number: u32) -> ReplicaIndex {
        let index = self.replicas.len() as ReplicaIndex;
        let record = &self.jobs[job.index()];
        let (spec, order) = (&record.spec, &self.profile.scheduler.order);
        let entry = record.entry(job, index, self.now, SimDuration::ZERO);
        self.replicas.push(Replica {
            job,
            number,
            attempt: 1,
            phase: Phase::Pending,
            wait: Wait::Nothing,
            version: 0,
            ran: SimDuration::ZERO,
            served: SimDuration::ZERO,
            since: self.now,
            key: QueueKey::new(order, entry),
            demand: record.demand,
            placement: None,
            held: None,
            analysed: !spec.analyse,
            retry: RetryState::default(),
            stopping: None,
            stopped_on: SmallVec::new(),
            dismissed: false,
            last_restart: None,
            watch: None,
            due: self.now,
            wanted: self.now,
            processed: 0,
            fresh: None,
        });
        index
    }

    pub(super) fn begin(&mut self, index: ReplicaIndex) {
        self.set_deadline(index);
        self.queue_up(index);
    }

    fn demand_number(&mut self, demand: &Arc<Demand>) -> u32 {
        // For a model it matters whose replica it is, so no two deployments share an answer.
        if demand.deployment.is_none() {
            let known = self.demand_places.get(&Arc::as_ptr(demand)).or_else(|| self.demand_index.get(demand));
            if let Some(number) = known {
                return *number;
            }
        }
        let number = self.demands.len() as u32;
        self.demand_index.insert(Arc::clone(demand), number);
        // The demand is kept below, so no other demand can come to have this address.
        self.demand_places.insert(Arc::as_ptr(demand), number);
        self.demands.push(DemandRecord { demand: Arc::clone(demand), held: None, refused_at: None });
        number
    }

    /// Makes a pending replica wait for its analysis, or for its place.
    pub(super) fn queue_up(&mut self, index: ReplicaIndex) {
        if self.scan.is_some() {
            return self.want_row(index);
        }
        match self.replicas[index as usize].analysed {
            true => self.enter_queue(index),
            false => {
                let replica = &mut self.replicas[index as usize];
                replica.wait = Wait::Analysis;
                self.analysis_queue.push_back((index, replica.version));
            }
        }
    }

    pub(super) fn enter_queue(&mut self, index: ReplicaIndex) {
        self.take_turn(index);
        let replica = &mut self.replicas[index as usize];
        replica.wait = Wait::Queue;
        if !matches!(self.profile.passes.place.trigger, Trigger::EachAfter(_)) {
            replica.due = self.now;
        }
        self.queued += 1;
        replica.fresh = Some(self.queued);
        let (key, demand, entry) = (replica.key, replica.demand, self.entry(index));
        self.queue.insert_entry(key, demand, entry);
        self.shelve(index);
        self.fresh.push_back((self.queued, index));
        if self.is_decided_outside() {
            let run = self.replicas[index as usize].run();
            self.command(Command::Submit { run });
        }
    }

    /// Removes a replica from those that are to be told why they wait.
    pub(super) fn forget_fresh(&mut self, index: ReplicaIndex) {
        if let Some(queued) = self.replicas[index as usize].fresh.take()
            && let Ok(place) = self.fresh.binary_search(&(queued, index))
        {
            self.fresh.remove(place);
        }
    }

    /// What the order of the queue looks at.
    fn entry(&self, index: ReplicaIndex) -> Entry {
        let replica = &self.replicas[index as usize];
        let entry = self.jobs[replica.job.index()].entry(replica.job, index, replica.wanted, replica.ran);
        Entry { level: self.level(index), turn: self.turn(index), ..entry }
    }

    pub(super) fn key_of(&self, index: ReplicaIndex) -> QueueKey {
        QueueKey::new(&self.profile.scheduler.order, self.entry(index))
    }

    pub(super) fn leave_queue(&mut self, index: ReplicaIndex, wait: Wait) {
        let replica = &self.replicas[index as usize];
        if replica.wait == Wait::Queue {
            self.queue.remove(replica.key, replica.demand);
            self.unshelve(index);
        }
        self.replicas[index as usize].wait = wait;
        self.forget_fresh(index);
        if wait == Wait::Nothing {
            self.forget_promise(index);
        }
    }

    /// Follows one edge of the lifecycle and logs it.
    pub(super) fn enter(&mut self, index: ReplicaIndex, to: Phase, because: Option<Reason>) {
        let replica = &self.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        self.emit(Event::Moved { run, from, to, because });
        self.enter_silently(index, to);
    }

    /// Follows one edge of the lifecycle that an event of its own logs.
    pub(super) fn enter_silently(&mut self, index: ReplicaIndex, to: Phase) {
        let before = self.phase_before(index);
        let replica = &mut self.replicas[index as usize];
        assert!(is_run_edge(replica.phase, to), "{} cannot go from {:?} to {to:?}", replica.run(), replica.phase);
        if replica.phase == Phase::Running {
            replica.served = replica.served.saturating_add(self.now.since(replica.since));
        }
        let stopped = std::mem::replace(&mut replica.phase, to) == Phase::Stopping;
        replica.since = self.now;
        replica.version += 1;
        if to != Phase::Pending {
            replica.held = None;
            replica.wait = Wait::Nothing;
        }
        replica.watch = None;
        if to == Phase::Running {
            self.bind_policy(index);
            self.await_next_level(index);
        }
        if stopped != (to == Phase::Stopping) {
            self.note_stopping(index, to);
        }
        self.note_phase(index, before);
        self.set_deadline(index);
    }

    pub(super) fn set_deadline(&mut self, index: ReplicaIndex) {
        let replica = &self.replicas[index as usize];
        let deadlines = &self.profile.deadlines;
        let longest = match replica.phase {
            Phase::Pending => deadlines.pending,
            Phase::Analysing => Some(deadlines.analysing),
            // Whether its instance comes in time is checked elsewhere.
            Phase::Scheduled if self.awaits_instance(index) => None,
            Phase::Scheduled => Some(deadlines.scheduled),
            Phase::Preparing => Some(deadlines.preparing),
            // A scheduler outside enforces time limits too.
            Phase::Running if self.is_decided_outside() => None,
            Phase::Running => self.jobs[replica.job.index()].spec.time_limit,
            Phase::Stopping => Some(deadlines.stopping),
            Phase::Ended => None,
        };
        if let Some(longest) = longest {
            let timer = Timer::Deadline { replica: index, version: replica.version };
            self.timers.set(self.now.saturating_add(longest), timer);
        }
    }

    /// Applies a fact about a run. A fact about an attempt that is over changes nothing but the claims it may have
    /// left.
    pub(super) fn run_fact(&mut self, run: RunId, fact: Lifecycle) {
        let Some(index) = self.replica_of(run) else { return };
        if self.scan.is_some() && matches!(fact, Lifecycle::Analysed | Lifecycle::AnalysisFailed) {
            return self.computed(run, fact);
        }
        self.analysing.remove(&run);
        let replica = &self.replicas[index as usize];
        if replica.attempt != run.attempt || replica.phase == Phase::Ended {
            self.late_fact(run, fact);
            return;
        }
        match (fact, replica.phase) {
            (Lifecycle::Analysed, Phase::Analysing) => {
                self.replicas[index as usize].analysed = true;
                self.enter(index, Phase::Pending, None);
                self.queue_up(index);
            }
            (Lifecycle::AnalysisFailed, Phase::Analysing) => self.end(index, Outcome::Failed, Reason::AnalysisFailed),
            _ if self.runs.is_some() => self.hear(index, fact),
            (Lifecycle::Preparing, Phase::Scheduled) => self.enter(index, Phase::Preparing, None),
            (Lifecycle::Started, Phase::Scheduled | Phase::Preparing) => self.enter(index, Phase::Running, None),
            (Lifecycle::StartFailed, Phase::Scheduled | Phase::Preparing) => {
                self.end(index, Outcome::Failed, Reason::StartFailed);
            }
            (Lifecycle::Exited(ending), Phase::Scheduled | Phase::Preparing | Phase::Running) => match ending {
                Ending::Completed => self.end_by_itself(index, Outcome::Completed, Reason::Completed),
                Ending::Failed => self.end_by_itself(index, Outcome::Failed, Reason::Failed),
            },
            (Lifecycle::GpuFailed, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(index, Outcome::Lost, Reason::GpuLost);
            }
            (Lifecycle::NodeFailed, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(index, Outcome::Lost, Reason::NodeLost);
            }
            (Lifecycle::Preempted, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(index, Outcome::Lost, Reason::Preempted);
            }
            (Lifecycle::TimedOut, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(index, Outcome::Expired, Reason::TimeLimit);
            }
            (
                Lifecycle::Stopped
                | Lifecycle::StartFailed
                | Lifecycle::Exited(_)
                | Lifecycle::GpuFailed
                | Lifecycle::NodeFailed
                | Lifecycle::Preempted
                | Lifecycle::TimedOut,
                Phase::Stopping,
            ) => {
                let (outcome, because) = self.replicas[index as usize].stopping.expect("set when it was told to stop");
                self.end(index, outcome, because);
            }
            (Lifecycle::StoppedOn { node }, Phase::Stopping) => self.replicas[index as usize].stopped_on.push(node),
            // Late or repeated.
            (
                Lifecycle::Analysed
                | Lifecycle::AnalysisFailed
                | Lifecycle::Preparing
                | Lifecycle::Prepared
                | Lifecycle::Started
                | Lifecycle::StartFailed
                | Lifecycle::Exited(_)
                | Lifecycle::GpuFailed
                | Lifecycle::NodeFailed
                | Lifecycle::Stopped
                | Lifecycle::StoppedOn { .. }
                | Lifecycle::Preempted
                | Lifecycle::TimedOut,
                _,
            ) => {}
        }
    }

    fn late_fact(&mut self, run: RunId, fact: Lifecycle) {
        if self.is_carried(run) {
            return;
        }
        let is_over = match fact {
            Lifecycle::Stopped
            | Lifecycle::StartFailed
            | Lifecycle::Exited(_)
            | Lifecycle::GpuFailed
            | Lifecycle::NodeFailed
            | Lifecycle::Preempted
            | Lifecycle::TimedOut => true,
            Lifecycle::Analysed
            | Lifecycle::AnalysisFailed
            | Lifecycle::Preparing
            | Lifecycle::Prepared
            | Lifecycle::Started
            | Lifecycle::StoppedOn { .. } => false,
        };
        if is_over {
            self.free_kept(run, |_| true);
        } else if let Lifecycle::StoppedOn { node } = fact {
            self.free_kept(run, |other| other == node);
        }
    }

    pub(super) fn cancel(&mut self, job: JobId) {
        let Some(record) = self.jobs.get_mut(job.index()) else { return };
        record.cancelled = true;
        if self.runs.is_some() {
            return self.cancel_run(job);
        }
        let record = &self.jobs[job.index()];
        for index in record.replicas() {
            self.stop(index, Outcome::Cancelled, Reason::Cancelled);
        }
    }

    /// Ends a replica from whatever phase it is in. One that holds something is told to stop first.
    pub(super) fn stop(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        if self.runs.is_some() {
            return self.member_unwanted(index, outcome, because);
        }
        match self.replicas[index as usize].phase {
            Phase::Pending | Phase::Analysing => self.end(index, outcome, because),
            Phase::Scheduled | Phase::Preparing | Phase::Running => {
                self.replicas[index as usize].stopping = Some((outcome, because));
                if !self.is_tried_again(index, outcome, because) {
                    self.delete_row(index);
                }
                self.enter(index, Phase::Stopping, Some(because));
                let run = self.replicas[index as usize].run();
                self.command(Command::Stop { run });
            }
            Phase::Stopping => {
                self.replicas[index as usize].stopping = Some((outcome, because));
                self.delete_row(index);
            }
            Phase::Ended => {}
        }
    }

    pub(super) fn deadline_expired(&mut self, index: ReplicaIndex) {
        let replica = &self.replicas[index as usize];
        let (run, phase, stopping) = (replica.run(), replica.phase, replica.stopping);
        if phase == Phase::Stopping && self.has_stopped(index) {
            return;
        }
        self.emit(Event::DeadlineExpired { run, phase });
        if self.runs.is_some() && phase != Phase::Stopping {
            return self.too_long(index, phase);
        }
        match phase {
            Phase::Pending => self.end(index, Outcome::Expired, Reason::DeadlineExpired),
            Phase::Analysing => self.end(index, Outcome::Failed, Reason::DeadlineExpired),
            Phase::Scheduled | Phase::Preparing => self.stop(index, Outcome::Failed, Reason::DeadlineExpired),
            Phase::Running => self.stop(index, Outcome::Expired, Reason::TimeLimit),
            // It does not confirm that it has stopped, so nobody can know that what it holds is free.
            Phase::Stopping => {
                let (outcome, because) = stopping.expect("set when it was told to stop");
                let replica = &self.replicas[index as usize];
                let placement = replica.placement.as_ref().expect("what stops has a placement");
                let (_, kept) = placement.split(|node| replica.stopped_on.contains(&node));
                self.end_keeping(index, outcome, because, kept);
            }
            Phase::Ended => panic!("{run} has ended and has no deadline"),
        }
    }

    /// Ends a run and frees all it holds.
    pub(super) fn end(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.end_keeping(index, outcome, because, Placement::default());
    }

    /// Ends a run that has ended by itself. What it held stays taken while its nodes are completing.
    fn end_by_itself(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let completing = self.profile.completing;
        if completing.is_zero() {
            return self.end(index, outcome, because);
        }
        let replica = &self.replicas[index as usize];
        let (run, kept) = (replica.run(), replica.placement.clone().unwrap_or_default());
        self.timers.set(self.now.saturating_add(completing), Timer::Completed { run });
        self.end_keeping(index, outcome, because, kept);
    }

    /// Ends a run and frees all it holds except `kept`, which stays taken until it is known to be over. On a node
    /// that is gone, it is over.
    pub(super) fn end_keeping(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason, kept: Placement) {
        let replica = &self.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        let ran = if from == Phase::Running { self.now.since(replica.since) } else { SimDuration::ZERO };
        let again = self.is_tried_again(index, outcome, because);
        let stays = again && outcome == Outcome::Failed && self.restarts_in_place(index);
        if stays {
            let placement = self.replicas[index as usize].placement.clone().expect("it restarts where it is");
            self.close_attempt(index, outcome, because, placement.clone());
            self.keep_row(index, run, placement);
        } else {
            self.delete_row(index);
            let kept = self.close_attempt(index, outcome, because, kept);
            // Nobody asks about a leaked claim, because nobody knows of it any more.
            if !kept.is_empty() && !self.leaks() {
                self.expect_stop(run, STOPS_ASKED_FOR);
            }
        }
        self.follow(index, outcome, because, ran, again);
    }

    /// Ends an attempt, whatever follows. Returns what is kept of its claim.
    pub(super) fn close_attempt(
        &mut self,
        index: ReplicaIndex,
        outcome: Outcome,
        because: Reason,
        kept: Placement,
    ) -> Placement {
        let is_gone = |node: NodeId| self.fleet.node(node).status.state == NodeState::Gone;
        let kept = if kept.is_empty() { kept } else { kept.split(is_gone).1 };
        self.withdraw(index);
        let replica = &mut self.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        let placement = replica.placement.take().unwrap_or_default();
        if let Some(shares) = self.shares.as_mut().filter(|_| !placement.is_empty()) {
            shares.give_back(self.jobs[replica.job.index()].user, self.now, &placement);
        }
        replica.stopping = None;
        replica.stopped_on.clear();
        for claim in placement.claims() {
            let runs = &mut self.nodes[claim.node.index()].runs;
            if let Ok(place) = runs.binary_search(&index) {
                runs.remove(place);
            }
            // What is kept of it stays taken, but no longer has an expected end.
            self.fleet.note_change(claim.node);
            if !kept.touches(claim.node) {
                self.release_claim(run, claim);
            }
        }
        let kept_on = kept.claims().iter().map(|claim| claim.node).collect();
        if !kept.is_empty() {
            self.kept_claims.insert(run, kept.clone());
        }
        self.emit(Event::Ended { run, from, outcome, because, kept: kept_on });
        placement.claims().iter().for_each(|claim| self.instance_released(claim.node));
        self.enter_silently(index, Phase::Ended);
        kept
    }

    /// Sets a timer to ask a run again to stop. It may have stopped, and its message may have been lost.
    pub(super) fn expect_stop(&mut self, run: RunId, left: u8) {
        let at = self.now.saturating_add(self.profile.deadlines.stopping);
        self.timers.set(at, Timer::StopAgain { run, left });
        self.note_asking(run, true);
    }

    /// Asks a run again to stop. A node that cannot be heard cannot answer; its return is another reason to ask.
    pub(super) fn stop_again(&mut self, run: RunId, left: u8) {
        let is_ready = |node: NodeId| self.fleet.node(node).status.state == NodeState::Ready;
        if !self.kept_claims[&run].claims().iter().any(|claim| is_ready(claim.node)) {
            return;
        }
        self.command(Command::Stop { run });
        match left > 1 {
            true => self.expect_stop(run, left - 1),
            false => self.note_asking(run, false),
        }
    }

    /// Takes a replica out of everything that works on it. What is cancelled causes no more work.
    fn withdraw(&mut self, index: ReplicaIndex) {
        let replica = &self.replicas[index as usize];
        let (run, phase, wait) = (replica.run(), replica.phase, replica.wait);
        match wait {
            Wait::Queue => {
                self.leave_queue(index, Wait::Nothing);
                if self.is_decided_outside() {
                    self.command(Command::Withdraw { run });
                }
            }
            // The next version makes its commit void.
            Wait::Decision => {
                self.deciding = None;
                self.forget_promise(index);
            }
            Wait::Nothing | Wait::Analysis | Wait::Scan | Wait::BackOff => {}
        }
        self.drop_entries(index);
        if phase == Phase::Analysing && self.analysing.remove(&run) {
            self.command(Command::AbandonAnalysis { run });
        }
    }

    /// Whether another attempt follows, if the limit of attempts allows it.
    fn is_tried_again(&self, index: ReplicaIndex, outcome: Outcome, because: Reason) -> bool {
        let replica = &self.replicas[index as usize];
        let job = &self.jobs[replica.job.index()];
        let by_itself = matches!(because, Reason::Completed | Reason::Failed);
        let again = match outcome {
            Outcome::Completed => job.spec.restart == Restart::Always,
            Outcome::Failed => !by_itself || job.spec.restart != Restart::Never,
            Outcome::Lost => true,
            Outcome::Cancelled | Outcome::NeverFits | Outcome::Expired | Outcome::Refused => false,
        };
        again && !job.cancelled && !replica.dismissed
    }

    /// Begins another attempt, or ends the replica for good.
    fn follow(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason, ran: SimDuration, again: bool) {
        if self.runs.is_some() {
            return self.member_ended(index);
        }
        if !again {
            self.finish(index, outcome, because);
            return;
        }
        // Losing a node or a GPU is nobody's failure, so it costs no attempt and no pause.
        let next = match outcome {
            Outcome::Lost => {
                self.forget_failures(index);
                Next::After(SimDuration::ZERO)
            }
            Outcome::Completed
            | Outcome::Failed
            | Outcome::Cancelled
            | Outcome::NeverFits
            | Outcome::Expired
            | Outcome::Refused => {
                let replica = &mut self.replicas[index as usize];
                let policy = self.profile.retry_of(&self.jobs[replica.job.index()].spec);
                replica.retry.failed(&policy, ran)
            }
        };
        match next {
            Next::GiveUp => {
                self.delete_row(index);
                self.finish(index, outcome, Reason::RetryLimit);
            }
            Next::After(pause) => {
                let at = if outcome == Outcome::Lost { self.now } else { self.restart_due(index, pause) };
                self.begin_again(index, at, because);
            }
        }
    }

    fn begin_again(&mut self, index: ReplicaIndex, at: SimTime, because: Reason) {
        self.begin_next_attempt(index, at, because);
        if at == self.now {
            self.restart(index);
            return;
        }
        let replica = &mut self.replicas[index as usize];
        replica.wait = Wait::BackOff;
        let version = replica.version;
        self.timers.set(at, Timer::RetryDue { replica: index, version });
        self.hold(index, (Refusal::Unfit, Histogram::of(Reason::BackingOff, self.fleet.len() as u32)));
    }

    /// Begins the next attempt, which is pending and is to be tried at `at`.
    pub(super) fn begin_next_attempt(&mut self, index: ReplicaIndex, at: SimTime, because: Reason) {
        let replica = &mut self.replicas[index as usize];
        replica.attempt += 1;
        replica.phase = Phase::Pending;
        replica.since = self.now;
        replica.version += 1;
        replica.held = None;
        replica.due = at;
        let run = replica.run();
        self.emit(Event::Retry { run, at, because });
        self.set_deadline(index);
    }

    /// Ends a replica for good. The last one ends its job, with the gravest outcome of its replicas.
    fn finish(&mut self, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let Replica { job, dismissed, .. } = self.replicas[index as usize];
        self.turns.forget(index);
        let record = &mut self.jobs[job.index()];
        record.live -= 1;
        // How a replica ended that was no longer wanted says nothing about its job.
        if !dismissed || record.cancelled {
            record.ended = record.ended.max(Some((outcome, because)));
        }
        if record.live == 0 && !record.parked {
            let (outcome, because) = record.ended.unwrap_or((outcome, because));
            self.emit(Event::JobEnded { job, outcome, because });
            self.job_is_over(job);
        }
    }
}
