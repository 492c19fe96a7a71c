//! The lifecycle of an attempt in all flows that do not override it: submission, facts about runs, cancellation, and
//! what follows an end.
//!
//! These functions work on the store, the ledger and the log through the [`Core`]. Where a flow may have its own rule,
//! they call the [`Flow`].

use std::sync::Arc;

use super::core::Core;
use super::core::nodes::noticed;
use super::core::store::{Replica, ReplicaIndex, Wait};
use super::core::timer::Timer;
use super::flow::{Flow, Held};
use dryrack_event::{Command, Event, Histogram, Lifecycle, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_lifecycle::is_run_edge;
use dryrack_policy::Next;
use dryrack_scheduler::Candidate;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Ending, JobSpec, PolicyMode, UtilizationPolicy};

/// How often a run that has ended and keeps a claim is asked to stop: often enough that a message gets through although
/// some are lost, but not forever.
pub(crate) const STOPS_ASKED_FOR: u8 = 20;

pub(crate) trait Attempts: Flow {
    /// Submits a job.
    fn submit(&mut self, core: &mut Core, job: JobId, spec: &Arc<JobSpec>) {
        let refused = core.refused_picks(spec);
        let line = self.line_of(core, spec.queue.as_ref());
        core.add_job(spec, line);
        self.submitted(core, job, refused);
    }

    /// Adds all replicas of a new job, each of which waits for its own place.
    fn submit_replicas(&mut self, core: &mut Core, job: JobId, refused: Option<Held>) {
        // A service without requests may have no replica, and stays alive.
        let record = &mut core.jobs[job.index()];
        record.parked = record.live == 0 && refused.is_none();
        if record.live == 0 && refused.is_some() {
            return core.end_job(job, Outcome::Refused, Reason::PickRefused);
        }
        for number in 0..core.jobs[job.index()].spec.replicas {
            let index = core.add_replica(job, number);
            match &refused {
                None => self.begin(core, index),
                Some(held) => {
                    // The reason is logged first, as for every replica that ends without having run.
                    core.hold(index, held.clone());
                    self.end(core, index, Outcome::Refused, Reason::PickRefused);
                }
            }
        }
    }

    fn begin(&mut self, core: &mut Core, index: ReplicaIndex) {
        core.set_deadline(index);
        self.queue_up(core, index);
    }

    /// Places a replica: in the ledger, in the log, and in the world.
    fn place(&mut self, core: &mut Core, index: ReplicaIndex, candidate: Candidate) {
        core.keep_examination(index);
        let run = core.replicas[index as usize].run();
        let placement = candidate.placement.clone();
        core.bind(index, candidate, None, false);
        core.command(Command::Start { run, placement });
        self.enter_silently(core, index, Phase::Scheduled);
    }

    /// Moves a replica along one edge of the lifecycle, and logs it.
    fn enter(&mut self, core: &mut Core, index: ReplicaIndex, to: Phase, because: Option<Reason>) {
        let replica = &core.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        core.emit(Event::Moved { run, from, to, because });
        self.enter_silently(core, index, to);
    }

    /// Moves a replica along one edge of the lifecycle. The caller logs it with a separate event.
    fn enter_silently(&mut self, core: &mut Core, index: ReplicaIndex, to: Phase) {
        let replica = &mut core.replicas[index as usize];
        assert!(is_run_edge(replica.phase, to), "{} cannot go from {:?} to {to:?}", replica.run(), replica.phase);
        if replica.phase == Phase::Running {
            replica.served = replica.served.saturating_add(core.now.since(replica.since));
        }
        let before = (std::mem::replace(&mut replica.phase, to), replica.since);
        replica.since = core.now;
        replica.version += 1;
        if to != Phase::Pending {
            replica.held = None;
            replica.wait = Wait::Nothing;
        }
        replica.watch = None;
        if to == Phase::Running {
            core.bind_policy(index);
        }
        self.phase_changed(core, index, before);
        core.set_deadline(index);
    }

    /// Applies a fact about a run.
    fn run_fact(&mut self, core: &mut Core, run: RunId, fact: Lifecycle) {
        if let Some(index) = core.replica_of(run) {
            self.fact(core, index, run, fact);
        }
    }

    /// Applies a fact about an attempt. A fact about an attempt that is over can only free the claims that it kept.
    fn attempt_fact(&mut self, core: &mut Core, index: ReplicaIndex, run: RunId, fact: Lifecycle) {
        let replica = &core.replicas[index as usize];
        if !replica.is_at(run) {
            core.late_fact(run, fact);
            return;
        }
        match (fact, replica.phase) {
            (Lifecycle::Preparing, Phase::Scheduled) => self.enter(core, index, Phase::Preparing, None),
            (Lifecycle::Started, Phase::Scheduled | Phase::Preparing) => self.enter(core, index, Phase::Running, None),
            (Lifecycle::StartFailed, Phase::Scheduled | Phase::Preparing) => {
                self.end(core, index, Outcome::Failed, Reason::StartFailed);
            }
            (Lifecycle::Exited(ending), Phase::Scheduled | Phase::Preparing | Phase::Running) => match ending {
                Ending::Completed => self.end_by_itself(core, index, Outcome::Completed, Reason::Completed),
                Ending::Failed => self.end_by_itself(core, index, Outcome::Failed, Reason::Failed),
            },
            (Lifecycle::GpuFailed, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(core, index, Outcome::Lost, Reason::GpuLost);
            }
            (Lifecycle::NodeFailed, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(core, index, Outcome::Lost, Reason::NodeLost);
            }
            (Lifecycle::Preempted, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(core, index, Outcome::Lost, Reason::Preempted);
            }
            (Lifecycle::TimedOut, Phase::Scheduled | Phase::Preparing | Phase::Running) => {
                self.end(core, index, Outcome::Expired, Reason::TimeLimit);
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
                let (outcome, because) = core.replicas[index as usize].stopping.expect("set when it was told to stop");
                self.end(core, index, outcome, because);
            }
            (Lifecycle::StoppedOn { node }, Phase::Stopping) => core.replicas[index as usize].stopped_on.push(node),
            // The fact is late or repeated.
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

    fn cancel(&mut self, core: &mut Core, job: JobId) {
        let Some(record) = core.jobs.get_mut(job.index()) else { return };
        record.cancelled = true;
        let was_parked = std::mem::take(&mut record.parked);
        let has_none = record.live == 0;
        self.cancelled(core, job);
        // The job has no replica whose end would end the job.
        if was_parked && has_none {
            core.end_job(job, Outcome::Cancelled, Reason::Cancelled);
        }
    }

    fn stop_replicas(&mut self, core: &mut Core, job: JobId) {
        for index in core.jobs[job.index()].replicas() {
            self.stop(core, index, Outcome::Cancelled, Reason::Cancelled);
        }
    }

    /// Ends a replica from whatever phase it is in. A replica that holds something is told to stop first.
    fn stop_attempt(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        match core.replicas[index as usize].phase {
            Phase::Pending | Phase::Analysing => self.end(core, index, outcome, because),
            Phase::Scheduled | Phase::Preparing | Phase::Running => {
                core.replicas[index as usize].stopping = Some((outcome, because));
                if !core.is_tried_again(index, outcome, because) {
                    self.give_up(core, index);
                }
                self.enter(core, index, Phase::Stopping, Some(because));
                let run = core.replicas[index as usize].run();
                core.command(Command::Stop { run });
            }
            Phase::Stopping => {
                core.replicas[index as usize].stopping = Some((outcome, because));
                self.give_up(core, index);
            }
            Phase::Ended => {}
        }
    }

    fn deadline_expired(&mut self, core: &mut Core, index: ReplicaIndex) {
        let replica = &core.replicas[index as usize];
        let (run, phase, stopping) = (replica.run(), replica.phase, replica.stopping);
        if phase == Phase::Stopping && self.has_stopped(index) {
            return;
        }
        core.emit(Event::DeadlineExpired { run, phase });
        if phase != Phase::Stopping {
            return self.stayed_too_long(core, index, phase);
        }
        // The run has not confirmed that it stopped, so its claims cannot be treated as free.
        let (outcome, because) = stopping.expect("set when it was told to stop");
        let replica = &core.replicas[index as usize];
        let placement = replica.placement.as_ref().expect("what stops has a placement");
        let (_, kept) = placement.split(|node| replica.stopped_on.contains(&node));
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Ends an attempt that has stayed too long in this phase.
    fn end_overdue(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        match phase {
            Phase::Pending => self.end(core, index, Outcome::Expired, Reason::DeadlineExpired),
            Phase::Analysing => self.end(core, index, Outcome::Failed, Reason::DeadlineExpired),
            Phase::Scheduled | Phase::Preparing => self.stop(core, index, Outcome::Failed, Reason::DeadlineExpired),
            Phase::Running => self.stop(core, index, Outcome::Expired, Reason::TimeLimit),
            Phase::Stopping | Phase::Ended => panic!("what stops is given up, and what has ended has no deadline"),
        }
    }

    /// Ends a run and frees all it holds.
    fn end(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.end_keeping(core, index, outcome, because, Placement::default());
    }

    /// Ends a run that has ended by itself. What it held stays taken while its nodes are completing.
    fn end_by_itself(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let completing = core.profile.completing;
        if completing.is_zero() {
            return self.end(core, index, outcome, because);
        }
        let replica = &core.replicas[index as usize];
        let (run, kept) = (replica.run(), replica.placement.clone().unwrap_or_default());
        core.timers.set(core.now.saturating_add(completing), Timer::Completed { run });
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Ends a run and frees all its claims except `kept`, which stays taken until the run is known to have stopped
    /// there. On a node that is gone, it counts as stopped.
    fn end_keeping(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        outcome: Outcome,
        because: Reason,
        kept: Placement,
    ) {
        let replica = &core.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        let ran = if from == Phase::Running { core.now.since(replica.since) } else { SimDuration::ZERO };
        let again = core.is_tried_again(index, outcome, because);
        let stays = again && outcome == Outcome::Failed && self.restarts_in_place(core, index);
        if stays {
            let placement = core.replicas[index as usize].placement.clone().expect("it restarts where it is");
            self.close_attempt(core, index, outcome, because, placement.clone());
            self.keep_place(core, index, run, placement);
        } else {
            self.give_up(core, index);
            let kept = self.close_attempt(core, index, outcome, because, kept);
            // A leaked claim is forgotten, so its nodes are not asked about it.
            if !kept.is_empty() && !self.leaks_claims() {
                core.expect_stop(run, STOPS_ASKED_FOR);
            }
        }
        self.attempt_ended(core, index, (outcome, because), ran, again);
    }

    /// Ends an attempt, whether or not another one follows. Returns the part of its claims that is kept.
    fn close_attempt(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        outcome: Outcome,
        because: Reason,
        kept: Placement,
    ) -> Placement {
        self.withdraw(core, index);
        let kept = core.release(index, (outcome, because), kept);
        self.enter_silently(core, index, Phase::Ended);
        kept
    }

    /// Begins another attempt, or ends the replica for good.
    fn follow(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        (outcome, because): (Outcome, Reason),
        ran: SimDuration,
        again: bool,
    ) {
        if !again {
            self.finish(core, index, outcome, because);
            return;
        }
        // A lost attempt (node, GPU or preemption) did not fail by itself, so it counts against no limit and causes no
        // pause.
        let next = match outcome {
            Outcome::Lost => {
                self.forget_failures(core, index);
                Next::After(SimDuration::ZERO)
            }
            Outcome::Completed
            | Outcome::Failed
            | Outcome::Cancelled
            | Outcome::NeverFits
            | Outcome::Expired
            | Outcome::Refused => {
                let replica = &mut core.replicas[index as usize];
                let policy = core.profile.retry_of(&core.jobs[replica.job.index()].spec);
                replica.retry.failed(&policy, ran)
            }
        };
        match next {
            Next::GiveUp => {
                self.give_up(core, index);
                self.finish(core, index, outcome, Reason::RetryLimit);
            }
            Next::After(pause) => {
                let at = if outcome == Outcome::Lost { core.now } else { self.restart_due(core, index, pause) };
                self.begin_again(core, index, at, because);
            }
        }
    }

    fn begin_again(&mut self, core: &mut Core, index: ReplicaIndex, at: SimTime, because: Reason) {
        core.begin_next_attempt(index, at, because);
        if at == core.now {
            self.restart(core, index);
            return;
        }
        let replica = &mut core.replicas[index as usize];
        replica.wait = Wait::BackOff;
        let version = replica.version;
        core.timers.set(at, Timer::RetryDue { replica: index, version });
        core.hold(index, (Refusal::Unfit, Histogram::of(Reason::BackingOff, core.fleet.len() as u32)));
    }

    /// Ends a replica for good. The end of the last replica ends the job, with the gravest outcome of its replicas.
    fn finish(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let Replica { job, dismissed, .. } = core.replicas[index as usize];
        self.finished(index);
        let record = &mut core.jobs[job.index()];
        record.live -= 1;
        // The end of a replica that was scaled away does not count for the outcome of its job.
        if !dismissed || record.cancelled {
            record.ended = record.ended.max(Some((outcome, because)));
        }
        if record.live == 0 && !record.parked {
            let (outcome, because) = record.ended.unwrap_or((outcome, because));
            core.end_job(job, outcome, because);
        }
    }

    fn fire_timer(&mut self, core: &mut Core, timer: Timer) {
        match timer {
            Timer::SilenceExpired { node, .. } => core.silence_expired(node),
            Timer::Evict { node, .. } => self.evict(core, node),
            Timer::Deadline { replica, .. } => self.deadline_expired(core, replica),
            Timer::RetryDue { replica, .. } => self.restart(core, replica),
            Timer::StopAgain { run, left } => core.stop_again(run, left),
            Timer::Completed { run } => core.free_kept(run, |_| true),
            Timer::PolicyLook { replica, .. } => self.look_at_usage(core, replica),
            Timer::OfferAgain { .. } => core.hope_again(),
            Timer::Rescale { job, .. } => self.rescale(core, job),
            Timer::IdleTooLong { node, .. } => core.idle_too_long(node),
            Timer::NotProvisioned { node, .. } => self.not_provisioned(core, node),
            Timer::SilentForLong { node, .. } => core.silent_for_long(node),
            Timer::LookForMissing { fleet, .. } => core.look_for_missing(fleet),
            Timer::ComputationExpired { .. } | Timer::CommitDue { .. } | Timer::NextLevel { .. } => {
                self.fire(core, timer);
            }
        }
    }

    fn node_reported(&mut self, core: &mut Core, node: NodeId, state: NodeState) {
        if core.is_moot(node, state) {
            return;
        }
        let record = &mut core.nodes[node.index()];
        record.reported = state;
        if record.silent_since.is_none() {
            record.epoch += 1;
            if state == NodeState::NotReady {
                let (epoch, options) = (record.epoch, core.profile.heartbeat);
                let evict = noticed(core.now.saturating_add(options.evict_after), options.evicted_every);
                core.timers.set(evict, Timer::Evict { node, epoch });
            }
        }
        core.update_node(node, Reason::Reported);
        if state == NodeState::Gone {
            self.evict(core, node);
            core.forget_kept_claims(node);
        }
        if core.instance_reported(node, state) {
            self.instance_is_up(core, node);
        }
    }

    /// Gives up everything that runs on the node.
    fn evict(&mut self, core: &mut Core, node: NodeId) {
        for replica in self.on_node(core, node) {
            if core.is_one_too_many(replica) {
                core.replicas[replica as usize].dismissed = true;
            }
            match core.nodes[node.index()].runs.contains(&replica) {
                true => self.node_lost(core, replica, node),
                false => self.end(core, replica, Outcome::Lost, Reason::NodeLost),
            }
        }
        self.scale_unmet(core);
        // This timer has fired; a later silence sets a new one.
        core.nodes[node.index()].epoch += 1;
        let record = &core.nodes[node.index()];
        if let (Some(last), false) = (record.silent_since, record.presumed_lost) {
            let options = core.profile.heartbeat;
            let at = noticed(last.saturating_add(options.grace), options.checked_every).max(core.now);
            core.timers.set(at, Timer::SilenceExpired { node, epoch: record.epoch });
        }
    }

    /// Ends the attempt of a replica whose node is lost. What it holds on nodes that may still run it stays taken
    /// until they confirm that it has stopped.
    fn lose_attempt(&mut self, core: &mut Core, index: ReplicaIndex, lost: NodeId) {
        let replica = &core.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        let (outcome, because) = replica.stopping.unwrap_or(match replica.dismissed {
            true => (Outcome::Cancelled, Reason::ScaledDown),
            false => (Outcome::Lost, Reason::NodeLost),
        });
        let gone = core.fleet.node(lost).status.state == NodeState::Gone;
        let placement = replica.placement.clone().expect("a replica on a node has a placement");
        let stopped = replica.stopped_on.clone();
        let (kept, _) = placement.split(|node| !(stopped.contains(&node) || gone && node == lost));
        if from != Phase::Stopping && !kept.is_empty() {
            core.command(Command::Stop { run });
        }
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Gives back an instance that did not come up in time.
    fn not_provisioned(&mut self, core: &mut Core, node: NodeId) {
        core.give_back_instance(node, Reason::DeadlineExpired);
        core.offer_failed(node);
        self.evict(core, node);
    }

    /// Scales a job to this many replicas. A job that has ended or is cancelled stays as it is.
    fn scale_job(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        let Some(record) = core.jobs.get(job.index()) else { return };
        if (record.live > 0 || record.parked) && !record.cancelled {
            self.scale(core, job, wanted);
        }
    }

    /// Gives a service as many replicas as its requests ask for.
    fn rescale(&mut self, core: &mut Core, job: JobId) {
        if let Some(desired) = core.rescaled(job) {
            self.scale_job(core, job, desired);
        }
    }

    /// Adds or stops replicas until this many are wanted. A replica counts if it has not ended for good and is still
    /// wanted.
    fn scale_replicas(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        let record = &mut core.jobs[job.index()];
        (record.parked, record.unmet) = (wanted == 0, None);
        let counted = core.counted(job);
        let has = counted.len() as u32;
        if has < wanted {
            (has..wanted).for_each(|_| self.scale_up(core, job));
        } else if has > wanted && self.scale_down_fails(core, &counted) {
            core.jobs[job.index()].unmet = Some(wanted);
        } else {
            self.scale_down(core, counted, (has - wanted) as usize);
        }
    }

    /// Scales down the jobs that could not be scaled down before. The lost replicas may have been the obstacle.
    fn scale_unmet(&mut self, core: &mut Core) {
        for job in core.jobs.numbers() {
            if let Some(wanted) = core.jobs[job].unmet {
                self.scale_job(core, JobId::new(job), wanted);
            }
        }
    }

    fn scale_up(&mut self, core: &mut Core, job: JobId) {
        let record = &core.jobs[job.index()];
        let number = record.spec.replicas + record.added.len() as u32;
        let index = core.add_replica(job, number);
        let record = &mut core.jobs[job.index()];
        record.added.push(index);
        record.live += 1;
        core.emit(Event::ReplicaAdded { run: RunId { job, replica: number, attempt: 1 } });
        self.begin(core, index);
    }

    /// Stops this many replicas.
    fn scale_down(&mut self, core: &mut Core, mut counted: Vec<ReplicaIndex>, surplus: usize) {
        self.sort_for_scale_down(core, &mut counted);
        for index in counted.into_iter().take(surplus) {
            core.replicas[index as usize].dismissed = true;
            self.stop(core, index, Outcome::Cancelled, Reason::ScaledDown);
        }
    }

    /// Judges every run that was sampled, once all inputs of this instant are applied.
    fn judge_sampled(&mut self, core: &mut Core) {
        while let Some(index) = core.to_judge.pop_first() {
            self.judge_usage(core, index);
        }
    }

    /// Lets a monitor fire if its policy holds, and sets the time of its next look.
    fn judge_usage(&mut self, core: &mut Core, index: ReplicaIndex) {
        let (now, run) = (core.now, core.replicas[index as usize].run());
        while let Some(watch) = &mut core.replicas[index as usize].watch {
            let policy = *watch.monitor.policy();
            let UtilizationPolicy { min_gpu_utilization, time_window, mode, .. } = policy;
            let Some(covered) = watch.monitor.fire(now) else {
                let next = watch.monitor.next(now);
                if next != watch.look_at {
                    watch.look_at = next;
                    let version = core.replicas[index as usize].version;
                    if let Some(at) = next {
                        core.timers.set(at, Timer::PolicyLook { replica: index, version, at });
                    }
                }
                return;
            };
            match mode {
                PolicyMode::Warn => core.emit(Event::PolicyWarned { run, min_gpu_utilization, time_window, covered }),
                PolicyMode::Observe | PolicyMode::Enforce => {
                    core.emit(Event::PolicyFired { run, mode, min_gpu_utilization, time_window, covered });
                }
            }
            if mode == PolicyMode::Enforce {
                self.stop(core, index, Outcome::Expired, Reason::UtilizationPolicy);
            }
        }
    }

    /// Looks at a monitor whose time has come. The next look is set if one is needed.
    fn look_at_usage(&mut self, core: &mut Core, index: ReplicaIndex) {
        if let Some(watch) = &mut core.replicas[index as usize].watch {
            watch.look_at = None;
        }
        self.judge_usage(core, index);
    }
}

impl<F: Flow + ?Sized> Attempts for F {}
