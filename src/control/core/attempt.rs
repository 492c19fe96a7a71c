//! What every flow does to an attempt in the store: sets its deadline, ends it, and begins the next attempt.

use super::Core;
use super::groups::GroupNumber;
use super::store::{Replica, ReplicaIndex, Wait};
use super::timer::Timer;
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::{JobId, NodeId};
use dryrack_units::{SimDuration, SimTime};

impl Core {
    pub(crate) fn set_deadline(&mut self, index: ReplicaIndex) {
        let replica = &self.store[index];
        let deadlines = &self.profile.deadlines;
        let longest = match replica.phase {
            Phase::Pending => deadlines.pending,
            Phase::Analysing => Some(deadlines.analysing),
            // While an instance is on its way, the timer `NotProvisioned` limits the wait.
            Phase::Scheduled if self.awaits_instance(index) => None,
            Phase::Scheduled => Some(deadlines.scheduled),
            Phase::Preparing => Some(deadlines.preparing),
            // A real scheduler enforces time limits itself. An outside program in a simulated run has no clock to do
            // so.
            Phase::Running if self.is_decided_outside() && self.profile.program.is_none() => None,
            Phase::Running => self.store[replica.job].spec.time_limit,
            Phase::Stopping => Some(self.time_to_stop(index)),
            Phase::Ended => None,
        };
        if let Some(longest) = longest {
            let timer = Timer::Deadline { replica: index, version: replica.version };
            self.timers.set(self.now.saturating_add(longest), timer);
        }
    }

    /// Whether the workload of a replica is not admitted, or the replica is beyond the admitted number of pods.
    pub(crate) fn waits_for_admission(&self, index: ReplicaIndex) -> bool {
        let is_queued = self.store.job_of(index).spec.queued.is_some() && self.admission.is_used();
        is_queued && !self.admission.has_let_go(index)
    }

    /// Adds a new job to the group with which it shares a deadline or retries, if it has one. The clock of the group
    /// starts now, unless the job waits for admission.
    pub(crate) fn join_group(&mut self, job: JobId) {
        let spec = &self.store[job].spec;
        let waits = spec.queued.is_some() && self.admission.is_used();
        self.groups.add(job, spec);
        if !waits {
            self.start_deadline(job);
        }
    }

    /// Starts the clock of the deadline that the job shares with others, unless it runs.
    pub(crate) fn start_deadline(&mut self, job: JobId) {
        if let Some((group, at)) = self.groups.start(job, self.now) {
            self.timers.set(at, Timer::SharedDeadline { group, since: self.now });
        }
    }

    /// Lets a replica pause until its next attempt is due.
    pub(crate) fn pause(&mut self, index: ReplicaIndex, at: SimTime) {
        let replica = &mut self.store[index];
        replica.wait = Wait::BackOff;
        let version = replica.version;
        self.timers.set(at, Timer::RetryDue { replica: index, version });
        self.hold_everywhere(index, Reason::BackingOff);
    }

    /// Logs that a replica waits for a reason that has nothing to do with a node.
    pub(crate) fn hold_everywhere(&mut self, index: ReplicaIndex, because: Reason) {
        self.hold(index, (Refusal::Unfit, Histogram::of(because, self.fleet.len() as u32)));
    }

    /// Lets a replica whose next attempt pauses begin it with the others of its group, once the last ones are gone.
    pub(crate) fn await_group(&mut self, index: ReplicaIndex) {
        let Replica { phase, wait, .. } = self.store[index];
        if phase == Phase::Pending && wait == Wait::BackOff {
            let now = self.now;
            let replica = &mut self.store[index];
            (replica.wait, replica.due) = (Wait::LastAttempt, now);
            self.hold_everywhere(index, Reason::PodTerminating);
        }
    }

    /// Lets the next attempts of a group begin that pause.
    pub(crate) fn end_pauses(&mut self, group: GroupNumber) {
        for job in self.groups.open(group) {
            for replica in self.store[job].replicas() {
                if self.store[replica].wait == Wait::BackOff {
                    let version = self.store[replica].version;
                    self.timers.set(self.now, Timer::RetryDue { replica, version });
                }
            }
        }
    }

    /// How long an attempt may take to stop: as long as the pod of its job or the profile says, whichever is longer.
    fn time_to_stop(&self, index: ReplicaIndex) -> SimDuration {
        let job = self.store.job_of(index);
        job.spec.grace_period().unwrap_or_default().max(self.profile.deadlines.stopping)
    }

    /// Whether a replica is placed on an instance that was requested and is not up yet.
    fn awaits_instance(&self, index: ReplicaIndex) -> bool {
        let placement = self.store[index].placement.iter();
        placement.flat_map(|placement| placement.claims()).any(|claim| self.clouds.instances.is_coming(claim.node))
    }

    /// Frees the claims of an attempt that ends, except `kept`. Claims on a node that is gone are always freed. Returns
    /// the claims that are kept.
    pub(crate) fn release(
        &mut self,
        index: ReplicaIndex,
        (outcome, because): (Outcome, Reason),
        kept: Placement,
    ) -> Placement {
        let is_gone = |node: NodeId| self.fleet.node(node).status.state == NodeState::Gone;
        let kept = if kept.is_empty() { kept } else { kept.split(is_gone).1 };
        let user = self.store.job_of(index).user;
        let replica = &mut self.store[index];
        let (attempt, from) = (replica.attempt_id(), replica.phase);
        let placement = replica.placement.take().unwrap_or_default();
        self.accounts.give_back_share(user, self.now, &placement);
        replica.stopping = None;
        replica.stopped_on.clear();
        for claim in placement.claims() {
            let replicas = &mut self.nodes[claim.node.index()].replicas;
            if let Ok(place) = replicas.binary_search(&index) {
                replicas.remove(place);
            }
            // A kept claim stays taken, but its expected end is no longer known.
            self.fleet.note_change(claim.node);
            if !kept.touches(claim.node) {
                self.release_claim(attempt, claim);
            }
        }
        let kept_on = kept.claims().iter().map(|claim| claim.node).collect();
        if !kept.is_empty() {
            self.kept.claims.insert(attempt, kept.clone());
        }
        self.emit(Event::Ended { attempt, from, outcome, because, kept: kept_on });
        self.admission.attempt_ended(attempt.job);
        placement.claims().iter().for_each(|claim| self.instance_released(claim.node));
        kept
    }

    /// Begins the next attempt. It is pending, and is due at `at`.
    pub(crate) fn begin_next_attempt(&mut self, index: ReplicaIndex, at: SimTime, because: Reason) {
        let replica = &mut self.store[index];
        replica.attempt += 1;
        replica.since = self.now;
        replica.version += 1;
        replica.held = None;
        replica.due = at;
        let attempt = replica.attempt_id();
        self.store.set_phase(index, Phase::Pending);
        self.emit(Event::Retry { attempt, at, because });
        self.set_deadline(index);
    }
}
