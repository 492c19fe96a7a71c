//! The common lifecycle of an attempt: submission, facts about attempts, cancellation, and what follows an end. A flow
//! uses these functions unless it overrides them.
//!
//! The functions work on the store, the ledger and the log through the [`Core`]. If a flow may have its own rule for a
//! step, they call a method of [`Flow`].

use std::sync::Arc;

use super::admission::wait_for_admission;
use super::core::Core;
use super::core::nodes::noticed;
use super::core::store::{DependencyState, Replica, ReplicaIndex, Wait};
use super::core::timer::Timer;
use super::flow::{Flow, RefusedJob};
use super::together;
use dryrack_event::{Command, Event, Lifecycle, Outcome, Phase, Reason};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_lifecycle::is_attempt_edge;
use dryrack_planted::planted;
use dryrack_policy::Next;
use dryrack_scheduler::{Candidate, GangPart};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Ending, JobSpec, PolicyMode, UtilizationPolicy};

/// How often the control plane repeats its stop command to an attempt that has ended but still holds a claim. Messages
/// can be lost, so one request is not enough. The limit keeps the control plane from repeating it forever.
pub(crate) const STOPS_ASKED_FOR: u8 = 20;

/// So many of these requests are one deadline apart. Then each wait is twice as long as the one before, because an attempt
/// may take far longer to stop than its deadline allows.
pub(crate) const STOPS_AT_THE_DEADLINE: u8 = 10;

pub(crate) trait Attempts: Flow {
    /// Submits a job.
    fn submit(&mut self, core: &mut Core, job: JobId, spec: &Arc<JobSpec>) {
        let refused = core.refused_picks(spec).map(RefusedJob::for_its_picks).or_else(|| self.refuses(core, spec));
        let line = self.line_of(core, spec.queue.as_ref());
        core.add_job(spec, line);
        if refused.is_none() {
            core.note_dependencies(job, spec);
            core.join_group(job);
        }
        self.submitted(core, job, refused);
    }

    /// Adds all replicas of a new job, each of which waits for its own place.
    fn submit_replicas(&mut self, core: &mut Core, job: JobId, refused: Option<RefusedJob>) {
        // A service that has no requests may have no replica. It still stays alive.
        let record = &mut core.store[job];
        record.parked = record.live == 0 && refused.is_none();
        if let (0, Some(RefusedJob { outcome, because, .. })) = (record.live, &refused) {
            return core.end_job(job, *outcome, *because);
        }
        for number in 0..core.store[job].spec.replicas {
            let index = core.add_replica(job, number);
            match &refused {
                None => self.begin(core, index),
                Some(RefusedJob { held, outcome, because, demand }) => {
                    if let Some(demand) = demand {
                        core.examine_part_if_watched(index, demand, GangPart::Whole);
                    }
                    // The reason is logged first, as for every replica that ends without having run.
                    core.hold(index, held.clone());
                    self.end(core, index, *outcome, *because);
                }
            }
        }
    }

    fn begin(&mut self, core: &mut Core, index: ReplicaIndex) {
        if core.wait_for_others(index) || wait_for_admission(core, index) {
            return;
        }
        core.set_deadline(index);
        self.queue_up(core, index);
    }

    /// Places a replica: takes its resources in the ledger, logs the placement, and tells the world to start the
    /// attempt.
    fn place(&mut self, core: &mut Core, index: ReplicaIndex, candidate: Candidate) {
        core.keep_examination(index);
        let attempt = core.store[index].attempt_id();
        let placement = candidate.placement.clone();
        core.bind(index, candidate, None, false);
        core.command(Command::Start { attempt, placement });
        self.enter_silently(core, index, Phase::Scheduled);
    }

    /// Moves a replica along one edge of the lifecycle, and logs it.
    fn enter(&mut self, core: &mut Core, index: ReplicaIndex, to: Phase, because: Option<Reason>) {
        let replica = &core.store[index];
        let (attempt, from) = (replica.attempt_id(), replica.phase);
        core.emit(Event::Moved { attempt, from, to, because });
        self.enter_silently(core, index, to);
    }

    /// Moves a replica along one edge of the lifecycle. The caller logs the change with a separate event.
    fn enter_silently(&mut self, core: &mut Core, index: ReplicaIndex, to: Phase) {
        let replica = &mut core.store[index];
        assert!(
            is_attempt_edge(replica.phase, to),
            "{} cannot go from {:?} to {to:?}",
            replica.attempt_id(),
            replica.phase
        );
        if replica.phase == Phase::Running {
            replica.served = replica.served.saturating_add(core.now.since(replica.since));
        }
        let since = replica.since;
        let before = (core.store.set_phase(index, to), since);
        let replica = &mut core.store[index];
        replica.since = core.now;
        replica.version += 1;
        if to != Phase::Pending {
            replica.held = None;
            replica.wait = Wait::Nothing;
        }
        replica.watch = None;
        if to == Phase::Running {
            core.job_has_started(core.store[index].job);
            core.bind_policy(index);
        }
        self.phase_changed(core, index, before);
        core.set_deadline(index);
    }

    /// Applies a fact about an attempt.
    fn apply_fact(&mut self, core: &mut Core, attempt: AttemptId, fact: Lifecycle) {
        if let Some(index) = core.store.replica_of(attempt) {
            self.fact(core, index, attempt, fact);
        }
    }

    /// Applies a fact about an attempt. If the attempt is already over, the fact can only free claims that the attempt
    /// kept.
    fn attempt_fact(&mut self, core: &mut Core, index: ReplicaIndex, attempt: AttemptId, fact: Lifecycle) {
        let replica = &core.store[index];
        if !replica.is_at(attempt) {
            core.late_fact(attempt, fact);
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
            (Lifecycle::GpuFailed, phase @ (Phase::Scheduled | Phase::Preparing | Phase::Running))
                if phase == Phase::Running || !planted!(EarlyGpuFailureIsIgnored) =>
            {
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
            (fact, Phase::Stopping) if fact.is_end() => {
                let (outcome, because) = core.store[index].stopping.expect("set when it was told to stop");
                self.end(core, index, outcome, because);
            }
            (Lifecycle::StoppedOn { node }, Phase::Stopping) => core.store[index].stopped_on.push(node),
            // In these cases the fact is late or repeated, so it changes nothing.
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

    /// Cancels a job. The request comes from outside, or the job can never run.
    fn cancel(&mut self, core: &mut Core, job: JobId, because: Reason) {
        let Some(record) = core.store.jobs.get_mut(job.index()) else { return };
        record.cancelled = true;
        let was_parked = std::mem::take(&mut record.parked);
        let has_none = record.live == 0;
        self.cancelled(core, job, because);
        // No replica is left whose end would end the job, so the job ends here.
        if was_parked && has_none {
            core.end_job(job, Outcome::Cancelled, because);
        }
    }

    fn stop_replicas(&mut self, core: &mut Core, job: JobId, because: Reason) {
        let most = if planted!(CancelStopsOneReplica) { 1 } else { usize::MAX };
        for index in core.store[job].replicas().take(most) {
            self.stop(core, index, Outcome::Cancelled, because);
        }
    }

    /// Releases a job whose dependencies are met. If the job then waits for a turn in its group, logs this. If the
    /// dependencies can never be met, the job keeps waiting with that reason, or is cancelled if the profile cancels
    /// such jobs.
    fn dependency_judged(&mut self, core: &mut Core, job: JobId) {
        match core.store.judged(job) {
            Some(DependencyState::Free) => {
                let replicas = core.store.stop_waiting_for_others(job);
                self.freed(core, job, replicas);
            }
            Some(DependencyState::Turn) => {
                for index in core.store.waiting_for_others(job) {
                    core.wait_for_others(index);
                }
            }
            Some(DependencyState::Never) => {
                for index in core.store.waiting_for_others(job) {
                    core.wait_for_others(index);
                }
                if core.profile.kill_invalid_depend {
                    self.cancel(core, job, Reason::DependencyNeverSatisfied);
                }
            }
            None => {}
        }
    }

    /// Ends a replica that is in any phase. A replica that holds resources is told to stop first.
    fn stop_attempt(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        match core.store[index].phase {
            Phase::Pending | Phase::Analysing => self.end(core, index, outcome, because),
            Phase::Scheduled | Phase::Preparing | Phase::Running => {
                core.store[index].stopping = Some((outcome, because));
                if !core.store.is_tried_again(index, outcome, because) {
                    self.give_up(core, index);
                }
                self.enter(core, index, Phase::Stopping, Some(because));
                let attempt = core.store[index].attempt_id();
                core.command(Command::Stop { attempt });
                together::restart_others(self, core, index, because);
            }
            Phase::Stopping => {
                core.store[index].stopping = Some((outcome, because));
                self.give_up(core, index);
            }
            Phase::Ended => {}
        }
    }

    fn deadline_expired(&mut self, core: &mut Core, index: ReplicaIndex) {
        let replica = &core.store[index];
        let (attempt, phase, stopping) = (replica.attempt_id(), replica.phase, replica.stopping);
        if phase == Phase::Stopping && self.has_stopped(index) {
            return;
        }
        core.emit(Event::DeadlineExpired { attempt, phase });
        if phase != Phase::Stopping {
            return self.phase_timed_out(core, index, phase);
        }
        // The attempt has not confirmed that it stopped, so its claims cannot be treated as free.
        let (outcome, because) = stopping.expect("set when it was told to stop");
        let replica = &core.store[index];
        let placement = replica.placement.as_ref().expect("what stops has a placement");
        let confirmed = |node: NodeId| replica.stopped_on.contains(&node) && !planted!(ConfirmedNodesAreKept);
        let (_, kept) = placement.split(confirmed);
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Ends an attempt that has stayed in this phase for too long.
    fn end_overdue(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        match phase {
            Phase::Pending => self.end(core, index, Outcome::Expired, Reason::DeadlineExpired),
            Phase::Analysing => self.end(core, index, Outcome::Failed, Reason::DeadlineExpired),
            Phase::Scheduled | Phase::Preparing => self.stop(core, index, Outcome::Failed, Reason::DeadlineExpired),
            Phase::Running => self.stop(core, index, Outcome::Expired, Reason::TimeLimit),
            Phase::Stopping | Phase::Ended => panic!("a stopping or ended attempt has no deadline"),
        }
    }

    /// Ends an attempt and frees all its claims.
    fn end(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.end_keeping(core, index, outcome, because, Placement::default());
    }

    /// Ends an attempt that has exited. Its claims stay taken while its nodes are completing.
    fn end_by_itself(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let completing = core.profile.completing;
        if completing.is_zero() {
            return self.end(core, index, outcome, because);
        }
        let replica = &core.store[index];
        let (attempt, kept) = (replica.attempt_id(), replica.placement.clone().unwrap_or_default());
        core.timers.set(core.now.saturating_add(completing), Timer::Completed { attempt });
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Ends an attempt and frees all its claims except `kept`. The kept claims stay taken until the attempt is known to
    /// have stopped on their nodes. An attempt on a node that is gone counts as stopped there.
    fn end_keeping(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        outcome: Outcome,
        because: Reason,
        kept: Placement,
    ) {
        let replica = &core.store[index];
        let (attempt, from) = (replica.attempt_id(), replica.phase);
        let ran = if from == Phase::Running { core.now.since(replica.since) } else { SimDuration::ZERO };
        let again = core.store.is_tried_again(index, outcome, because);
        let stays = again && outcome == Outcome::Failed && self.restarts_in_place(core, index);
        if stays {
            let placement = core.store[index].placement.clone().expect("it restarts where it is");
            self.close_attempt(core, index, outcome, because, placement.clone());
            self.keep_place(core, index, attempt, placement);
        } else {
            self.give_up(core, index);
            let kept = self.close_attempt(core, index, outcome, because, kept);
            // A flow that leaks claims forgets this one, so the nodes are not asked whether the attempt has stopped.
            if !kept.is_empty() && !self.leaks_claims() {
                core.expect_stop(attempt, STOPS_ASKED_FOR);
            }
        }
        if from != Phase::Stopping && again {
            together::restart_others(self, core, index, because);
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
        let job = core.store[index].job;
        if outcome == Outcome::Completed
            && let Some(group) = core.groups.attempt_completed(job, core.now)
        {
            core.end_pauses(group);
        }
        let restarting = core.groups.restarting(job);
        if !again {
            let group = core.store[job].spec.restarts_with.clone();
            self.finish(core, index, outcome, because);
            group.iter().for_each(|group| core.let_group_begin(group));
            restarting.into_iter().for_each(|group| core.let_restarted_begin(group));
            return;
        }
        // What happens to an attempt from before its group started again counts no longer.
        if core.groups.has_left(job, index) {
            return self.begin_again(core, index, core.now, because);
        }
        // An attempt that was lost (with its node, with its GPU, or to preemption) did not fail by itself. It counts
        // against no limit, and is retried without a pause, unless the flow has another rule.
        let is_lost = outcome == Outcome::Lost;
        let shares_retries = core.store[job].spec.shared_retry.is_some();
        let next = if is_lost && !self.counts_as_failure(because) && !(shares_retries && because == Reason::GpuLost) {
            self.forget_failures(core, index);
            Next::After(self.requeue_pause(core, because))
        } else if shares_retries {
            return together::shared_failure(self, core, index, (outcome, because));
        } else {
            let policy = core.profile.retry_of(&core.store.job_of(index).spec);
            core.store[index].retry.failed(&policy, ran)
        };
        match next {
            Next::GiveUp => {
                self.give_up(core, index);
                self.finish(core, index, outcome, Reason::RetryLimit);
            }
            Next::After(pause) => {
                let at = match is_lost {
                    true => core.now.saturating_add(pause),
                    false => self.restart_due(core, index, pause),
                };
                self.begin_again(core, index, at, because);
            }
        }
    }

    fn begin_again(&mut self, core: &mut Core, index: ReplicaIndex, at: SimTime, because: Reason) {
        let waits_for_last = self.is_of_pods() && core.waits_for_last_attempts(index);
        core.begin_next_attempt(index, at, because);
        if waits_for_last {
            core.store[index].wait = Wait::LastAttempt;
            return core.hold_everywhere(index, Reason::PodTerminating);
        }
        if core.begins_with_others(index) {
            core.store[index].wait = Wait::LastAttempt;
            core.hold_everywhere(index, Reason::BackingOff);
            return core.last_attempt_is_gone(index);
        }
        if at == core.now {
            self.begin_attempt(core, index);
            return;
        }
        core.pause(index, at);
    }

    /// Starts the next attempt once its pause is over. The pause of a group may be longer or shorter by now than when it
    /// began.
    fn retry_due(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Replica { job, version, wait, .. } = core.store[index];
        let has_begun = !matches!(wait, Wait::BackOff | Wait::LastAttempt);
        if self.is_of_pods() && (has_begun || wait == Wait::LastAttempt && core.waits_for_last_attempts(index)) {
            return;
        }
        match core.groups.paused_until(job, core.now) {
            Some(at) => core.timers.set(at, Timer::RetryDue { replica: index, version }),
            None => self.begin_attempt(core, index),
        }
    }

    /// Starts the next attempt, unless its workload has lost its quota in the meantime.
    fn begin_attempt(&mut self, core: &mut Core, index: ReplicaIndex) {
        if !wait_for_admission(core, index) {
            self.restart(core, index);
        }
    }

    /// Ends a replica for good. The job ends with its last replica, and its outcome is the gravest outcome of its
    /// replicas.
    fn finish(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        let Replica { job, dismissed, .. } = core.store[index];
        self.finished(index);
        let record = &mut core.store[job];
        record.live -= 1;
        // The outcome of a replica that scaling down removed does not affect the outcome of its job.
        if !dismissed || record.cancelled {
            let ending = Some((outcome, because));
            record.ended = match planted!(JobEndsAsItsFirstReplica) {
                true => record.ended.or(ending),
                false => record.ended.max(ending),
            };
        }
        if record.live == 0 && !record.parked {
            let (outcome, because) = record.ended.unwrap_or((outcome, because));
            core.end_job(job, outcome, because);
        }
    }

    fn fire_timer(&mut self, core: &mut Core, timer: Timer) {
        match timer {
            Timer::SilenceExpired { node, .. } => core.silence_expired(node),
            Timer::Evict { node, .. } if self.evicts_from_silent_nodes() => self.evict(core, node),
            Timer::Evict { .. } => {}
            Timer::Deadline { replica, .. } => self.deadline_expired(core, replica),
            Timer::RetryDue { replica, .. } => self.retry_due(core, replica),
            Timer::StopAgain { attempt, left } => core.stop_again(attempt, left),
            Timer::Completed { attempt } => core.free_kept(attempt, |_| true),
            Timer::PolicyCheck { replica, .. } => self.check_usage(core, replica),
            Timer::BackoffOver { .. } => core.clouds.scale_up.search_again(),
            Timer::Rescale { job, .. } => self.rescale(core, job),
            Timer::IdleTooLong { node, .. } => core.idle_too_long(node),
            Timer::NotProvisioned { node, .. } => self.not_provisioned(core, node),
            Timer::SilentForLong { node, .. } => core.silent_for_long(node),
            Timer::CheckMinimum { fleet, .. } => core.check_minimum(fleet),
            Timer::DependencyJudged { job } => self.dependency_judged(core, job),
            Timer::QuotaReleased { workload, .. } => core.admission.release_due(workload),
            Timer::SharedDeadline { group, .. } => {
                together::group_failed(self, core, group, Outcome::Expired, Reason::DeadlineExceeded);
            }
            Timer::ComputationExpired { .. }
            | Timer::CommitDue { .. }
            | Timer::NextLevel { .. }
            | Timer::GraceOver { .. } => self.fire(core, timer),
        }
    }

    fn node_reported(&mut self, core: &mut Core, node: NodeId, state: NodeState) {
        if core.clouds.instances.ignores_report(node, state) {
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
        if state == NodeState::Ready {
            core.fleet.set_ready_again(node);
        }
        if state == NodeState::Gone {
            self.evict(core, node);
            core.forget_kept_claims(node);
        }
        if core.instance_reported(node, state) {
            self.instance_is_up(core, node);
        }
    }

    /// Ends the attempt of every replica that runs on the node.
    fn evict(&mut self, core: &mut Core, node: NodeId) {
        for replica in self.on_node(core, node) {
            if core.store.is_surplus(replica) {
                core.store[replica].dismissed = true;
            }
            match core.nodes[node.index()].replicas.contains(&replica) {
                true => self.node_lost(core, replica, node),
                false => self.end(core, replica, Outcome::Lost, Reason::NodeLost),
            }
        }
        self.scale_unmet(core);
        // The timer of the last silence has fired. A later silence sets a new timer.
        core.nodes[node.index()].epoch += 1;
        let record = &core.nodes[node.index()];
        if let (Some(last), false) = (record.silent_since, record.presumed_lost) {
            let options = core.profile.heartbeat;
            let at = noticed(last.saturating_add(options.grace), options.checked_every).max(core.now);
            core.timers.set(at, Timer::SilenceExpired { node, epoch: record.epoch });
        }
    }

    /// Ends the attempt of a replica whose node is lost. Nodes that may still run the replica keep its claims until
    /// they confirm that it has stopped.
    fn lose_attempt(&mut self, core: &mut Core, index: ReplicaIndex, lost: NodeId) {
        let replica = &core.store[index];
        let (attempt, from) = (replica.attempt_id(), replica.phase);
        let (outcome, because) = replica.stopping.unwrap_or(match replica.dismissed {
            true => (Outcome::Cancelled, Reason::ScaledDown),
            false => (Outcome::Lost, Reason::NodeLost),
        });
        let gone = core.fleet.node(lost).status.state == NodeState::Gone;
        let placement = replica.placement.clone().expect("a replica on a node has a placement");
        let stopped = replica.stopped_on.clone();
        let (kept, _) = placement.split(|node| !(stopped.contains(&node) || gone && node == lost));
        if from != Phase::Stopping && !kept.is_empty() && !planted!(LostGangIsNotStopped) {
            core.command(Command::Stop { attempt });
        }
        self.end_keeping(core, index, outcome, because, kept);
    }

    /// Terminates an instance that did not come up in time.
    fn not_provisioned(&mut self, core: &mut Core, node: NodeId) {
        core.give_back_instance(node, Reason::DeadlineExpired);
        core.offer_failed(node);
        self.evict(core, node);
    }

    /// Scales a job to this many replicas. A job that has ended or is cancelled stays as it is.
    fn scale_job(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        let Some(record) = core.store.jobs.get(job.index()) else { return };
        if (record.live > 0 || record.parked) && !record.cancelled {
            self.scale(core, job, wanted);
        }
    }

    /// Scales a service to the number of replicas that its requests need.
    fn rescale(&mut self, core: &mut Core, job: JobId) {
        if let Some(desired) = core.rescaled(job) {
            self.scale_job(core, job, desired);
        }
    }

    /// Adds or stops replicas until the job has `wanted` of them. Two kinds of replicas do not count: those that have
    /// ended for good, and those that are being scaled down.
    fn scale_replicas(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        let record = &mut core.store[job];
        (record.parked, record.unmet) = (wanted == 0, None);
        let counted = core.store.counted(job);
        let has = counted.len() as u32;
        if has < wanted {
            (has..wanted).for_each(|_| self.scale_up(core, job));
        } else if has > wanted && self.scale_down_fails(core, &counted) {
            core.store[job].unmet = Some(wanted);
        } else {
            self.scale_down(core, counted, (has - wanted) as usize);
        }
    }

    /// Tries again to scale down jobs for which scaling down failed. A replica that caused the failure may now be lost.
    fn scale_unmet(&mut self, core: &mut Core) {
        for job in core.store.jobs.numbers() {
            if let Some(wanted) = core.store.jobs[job].unmet {
                self.scale_job(core, JobId::new(job), wanted);
            }
        }
    }

    fn scale_up(&mut self, core: &mut Core, job: JobId) {
        let record = &core.store[job];
        let number = record.spec.replicas + record.added.len() as u32;
        let index = core.add_replica(job, number);
        let record = &mut core.store[job];
        record.added.push(index);
        record.live += 1;
        core.emit(Event::ReplicaAdded { attempt: AttemptId { job, replica: number, number: 1 } });
        self.begin(core, index);
    }

    /// Stops this many replicas.
    fn scale_down(&mut self, core: &mut Core, mut counted: Vec<ReplicaIndex>, surplus: usize) {
        self.sort_for_scale_down(core, &mut counted);
        for index in counted.into_iter().take(surplus) {
            core.store[index].dismissed = true;
            self.stop(core, index, Outcome::Cancelled, Reason::ScaledDown);
        }
    }

    /// Judges every attempt that was sampled, once all inputs of this instant are applied.
    fn judge_sampled(&mut self, core: &mut Core) {
        while let Some(index) = core.usage.next_sampled() {
            self.judge_usage(core, index);
        }
    }

    /// Fires the monitor if the condition of its policy holds. Otherwise sets the time of the monitor's next check.
    fn judge_usage(&mut self, core: &mut Core, index: ReplicaIndex) {
        let (now, attempt) = (core.now, core.store[index].attempt_id());
        while let Some(watch) = &mut core.store[index].watch {
            let policy = *watch.monitor.policy();
            let UtilizationPolicy { min_gpu_utilization, time_window, mode, .. } = policy;
            let Some(covered) = watch.monitor.fire(now) else {
                let next = watch.monitor.next(now);
                if next != watch.check_at {
                    watch.check_at = next;
                    let version = core.store[index].version;
                    if let Some(at) = next {
                        core.timers.set(at, Timer::PolicyCheck { replica: index, version, at });
                    }
                }
                return;
            };
            match mode {
                PolicyMode::Warn => {
                    core.emit(Event::PolicyWarned { attempt, min_gpu_utilization, time_window, covered })
                }
                PolicyMode::Observe | PolicyMode::Enforce => {
                    core.emit(Event::PolicyFired { attempt, mode, min_gpu_utilization, time_window, covered });
                }
            }
            if mode == PolicyMode::Enforce {
                self.stop(core, index, Outcome::Expired, Reason::UtilizationPolicy);
            }
        }
    }

    /// Checks a monitor at the time that was set for it. Sets the time of the next check if one is needed.
    fn check_usage(&mut self, core: &mut Core, index: ReplicaIndex) {
        if let Some(watch) = &mut core.store[index].watch {
            watch.check_at = None;
        }
        self.judge_usage(core, index);
    }
}

impl<F: Flow + ?Sized> Attempts for F {}
