//! Decisions of a scheduler outside. It is handed the replicas that wait, and its decisions are inputs.
//!
//! ```text
//!  queued ──Submit──> the scheduler outside ──Decided: a place──> scheduled, as by a pass
//!    │ ^                       │
//!    │ └── the next attempt    └──────────Decided: none──────────> ended, refused
//!    └───Withdraw──> (it has ended, or waits no more)
//! ```
//!
//! Nothing that it says is trusted. A decision that breaks safety is taken, because it is done, and leads to the
//! event `SafetyBroken`. A decision about what does not wait leads to the event `CommitRefused`. The scheduler
//! outside also enforces the time limits.

use super::Control;
use super::clocks::PassTime;
use super::profile::{PassOptions, Passes, Profile, Trigger};
use super::store::{ReplicaIndex, Wait};
use dryrack_event::{Event, Histogram, Outcome, Reason, Refusal};
use dryrack_fleet::{NodeClaim, Placement};
use dryrack_ids::{GpuId, RunId};
use dryrack_scheduler::Candidate;
use dryrack_units::{GpuShare, Score, SimDuration};

/// No claim holds more of a resource than this, so that sums of claims fit their integers.
const MOST_OF_ANYTHING: u64 = 1 << 50;

impl Profile {
    /// The same profile, except that a scheduler outside decides.
    pub fn decided_outside(&self) -> Profile {
        let (batch, jitter, offset) = (None, SimDuration::ZERO, SimDuration::ZERO);
        let place = PassOptions { trigger: Trigger::Outside, batch, jitter, offset, takes: PassTime::NONE };
        let passes = Passes { place, backfill: None, ..self.passes };
        let name = format!("{}, decided outside", self.name);
        Profile { name, passes, ticks: None, ..self.clone() }
    }
}

impl Control {
    pub(super) fn is_decided_outside(&self) -> bool {
        self.profile.passes.place.trigger == Trigger::Outside
    }

    /// Checks that a decision can be entered into a ledger at all. Whether it should be is judged when it is taken.
    pub(super) fn check_decision(&self, placement: Option<&Placement>) -> Result<(), &'static str> {
        if !self.is_decided_outside() {
            return Err("a decision from outside, where the profile decides");
        }
        let Some(placement) = placement else { return Ok(()) };
        if placement.is_empty() || placement.claims().windows(2).any(|pair| pair[0].node >= pair[1].node) {
            return Err("a placement that is not one claim for each of its nodes, in their order");
        }
        placement.claims().iter().try_for_each(|claim| self.check_claim(claim))
    }

    fn check_claim(&self, claim: &NodeClaim) -> Result<(), &'static str> {
        let gpu = |index| GpuId { node: claim.node, index };
        let of_gpus = claim.gpus.iter().map(|part| part.memory.get());
        let most = of_gpus.chain([claim.cpu.get(), claim.ram.get()]).max().unwrap_or(0);
        if !self.fleet.knows(claim.node) || !claim.gpus.iter().all(|part| self.fleet.knows_gpu(gpu(part.index))) {
            return Err("a placement on a node or a GPU that was never declared");
        }
        let apart = claim.gpus.windows(2).all(|pair| pair[0].index < pair[1].index);
        if !apart || claim.gpus.iter().any(|part| part.share > GpuShare::WHOLE) || most > MOST_OF_ANYTHING {
            return Err("a placement that takes a GPU twice, or more of anything than there could be");
        }
        if claim.tasks == 0 || !claim.blocks.is_empty() {
            return Err("a placement of no task, or on blocks of an instance");
        }
        Ok(())
    }

    pub(super) fn decided(&mut self, run: RunId, placement: Option<&Placement>) {
        let waits = |index: &ReplicaIndex| {
            let replica = &self.replicas[*index as usize];
            replica.attempt == run.attempt && replica.wait == Wait::Queue
        };
        // Nothing is kept of a replica that is over, and it does not wait either.
        let Some(index) = self.replica_of(run).filter(waits) else {
            self.emit(Event::CommitRefused { run, because: Reason::NotWaiting, fallback: false });
            return;
        };
        // A decision from outside gives no reasons, so what the profile would have said of each node is kept.
        self.examine_if_watched(index, |_| None);
        self.leave_queue(index, Wait::Nothing);
        match placement {
            Some(placement) => self.place(index, Candidate { placement: placement.clone(), score: Score::ZERO }),
            None => self.end(index, Outcome::Refused, Reason::RefusedOutside),
        }
    }

    /// Tells every replica that was handed over since the last call, once, that a scheduler outside decides.
    pub(super) fn tell_who_decides(&mut self) {
        let reasons = Histogram::of(Reason::DecidedOutside, self.fleet.len() as u32);
        while let Some((_, index)) = self.fresh.pop_front() {
            self.replicas[index as usize].fresh = None;
            self.hold(index, (Refusal::Unfit, reasons.clone()));
        }
    }
}
