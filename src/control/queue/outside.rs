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

use crate::attempts::Attempts;
use crate::clocks::PassTime;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::profile::{PassOptions, Passes, Profile, Trigger};
use crate::queue::Queue;
use dryrack_event::{Event, Histogram, Outcome, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::RunId;
use dryrack_scheduler::Candidate;
use dryrack_units::{Score, SimDuration};

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

impl Queue {
    pub(super) fn decided_outside(&mut self, core: &mut Core, run: RunId, placement: Option<&Placement>) {
        let waits = |index: &ReplicaIndex| {
            let replica = &core.replicas[*index as usize];
            replica.attempt == run.attempt && replica.wait == Wait::Queue
        };
        // Nothing is kept of a replica that is over, and it does not wait either.
        let Some(index) = core.replica_of(run).filter(waits) else {
            core.emit(Event::CommitRefused { run, because: Reason::NotWaiting, fallback: false });
            return;
        };
        // A decision from outside gives no reasons, so what the profile would have said of each node is kept.
        core.examine_if_watched(index, |_| None);
        self.leave_queue(core, index, Wait::Nothing);
        match placement {
            Some(placement) => self.place(core, index, Candidate { placement: placement.clone(), score: Score::ZERO }),
            None => self.end(core, index, Outcome::Refused, Reason::RefusedOutside),
        }
    }

    /// Tells every replica that was handed over since the last call, once, that a scheduler outside decides.
    pub(super) fn tell_who_decides(&mut self, core: &mut Core) {
        let reasons = Histogram::of(Reason::DecidedOutside, core.fleet.len() as u32);
        while let Some((_, index)) = self.fresh.pop_front() {
            core.replicas[index as usize].fresh = None;
            core.hold(index, (Refusal::Unfit, reasons.clone()));
        }
    }
}
