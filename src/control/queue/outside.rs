//! Decisions of an outside scheduler. The scheduler receives the waiting replicas, and its decisions are inputs.
//!
//! ```text
//!  queued ──Submit──> outside scheduler ──Decided: a place──> scheduled, as after a pass
//!    │ ^                     │
//!    │ └── next attempt      └───────────Decided: none──────> ended, refused
//!    └───Withdraw──> (ended, or no longer waiting)
//! ```
//!
//! Every decision is checked. A real scheduler (Slurm) may make a decision that breaks safety. Such a decision has
//! already been carried out, so it is accepted and logged with the event `SafetyBroken`. A decision about a replica
//! that does not wait leads to the event `CommitRefused`. The real scheduler also enforces the time limits.
//!
//! If a placement of an outside program in a simulated run breaks safety, it is carried out and leads to
//! `SafetyBroken`, unless the run refuses such placements (`CommitRefused`).

use std::sync::Arc;

use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::flow::Flow;
use crate::outside::{DecidedOutside, not_possible, refused};
use crate::queue::Queue;
use dryrack_event::{Command, Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_scheduler::Candidate;
use dryrack_units::Score;

impl Queue {
    pub(super) fn decided_outside(&mut self, core: &mut Core, attempt: AttemptId, placement: Option<&Placement>) {
        let waits = |index: &ReplicaIndex| {
            let replica = &core.store[*index];
            replica.attempt == attempt.number && replica.wait == Wait::Queue
        };
        // The store may have dropped the record of a replica that has ended. Such a replica does not wait either.
        let Some(index) = core.store.replica_of(attempt).filter(waits) else {
            core.emit(Event::CommitRefused { attempt, because: Reason::NotWaiting, fallback: false });
            return;
        };
        // A decision from outside gives no reasons. So the reasons are those that the profile's own stages give for
        // each node.
        core.examine_if_watched(index, |_| None);
        let placement = match (placement, core.profile.program) {
            (Some(placement), Some(program)) => match refused(core, index, placement, program) {
                Some(because) => return core.emit(not_possible(attempt, because)),
                // The price is known only once the place is known, so the quota is checked here.
                None if self.is_over_quota(core, index, placement) => {
                    return core.emit(not_possible(attempt, Reason::QuotaExceeded));
                }
                None => Some(placement),
            },
            (placement, _) => placement,
        };
        self.leave_queue(core, index, Wait::Nothing);
        match placement {
            Some(placement) => self.place_outside(core, index, placement.clone()),
            None => self.end(core, index, Outcome::Refused, Reason::RefusedOutside),
        }
    }

    /// Places a replica and requests those of its instances that do not exist yet. The replica starts only when all of
    /// them are up.
    fn place_outside(&mut self, core: &mut Core, index: ReplicaIndex, placement: Placement) {
        let idle = core.store.job_of(index).spec.terms.idle;
        core.make_for(&placement, idle);
        let candidate = Candidate { placement, score: Score::ZERO };
        if !candidate.placement.claims().iter().any(|claim| core.clouds.instances.is_coming(claim.node)) {
            return self.place(core, index, candidate);
        }
        core.keep_examination(index);
        core.bind(index, candidate, None, false);
        self.enter_silently(core, index, Phase::Scheduled);
        self.awaiting.insert(index);
    }

    /// Starts the replicas that waited for this instance and do not wait for another instance.
    pub(super) fn start_on_new(&mut self, core: &mut Core, node: NodeId) {
        let waiting = self.awaiting.iter().copied().filter(|index| core.store.placement_of(*index).touches(node));
        for index in waiting.collect::<Vec<ReplicaIndex>>() {
            let placement = core.store.placement_of(index).clone();
            if !placement.claims().iter().any(|claim| core.clouds.instances.is_coming(claim.node)) {
                self.awaiting.remove(&index);
                let attempt = core.store[index].attempt_id();
                core.command(Command::Start { attempt, placement });
                core.set_deadline(index);
            }
        }
    }

    /// Logs once for each newly queued replica that it waits for the decision of an outside scheduler.
    pub(super) fn log_outside_decider(&mut self, core: &mut Core) {
        let reasons = Histogram::of(Reason::DecidedOutside, core.fleet.len() as u32);
        while let Some((_, index)) = self.fresh.pop_front() {
            core.store[index].fresh = None;
            core.hold(index, (Refusal::Unfit, reasons.clone()));
        }
    }
}

impl DecidedOutside for Queue {
    fn waits(&mut self, core: &mut Core, index: ReplicaIndex, _: Option<&Arc<str>>) {
        self.forget_fresh(core, index);
    }

    fn preempt_outside(&mut self, core: &mut Core, index: ReplicaIndex) {
        core.store.keep_checkpointed_work(index, core.now);
        self.stop(core, index, Outcome::Lost, Reason::Preempted);
    }
}
