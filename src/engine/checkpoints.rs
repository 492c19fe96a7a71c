//! Checkpoints: the work that survives a run, and the cost of resuming from it.

use std::collections::HashMap;

use dryrack_ids::{JobId, RunId};
use dryrack_units::SimDuration;
use dryrack_workload::JobBehavior;

/// Checkpointed work that need not be repeated, by job and replica.
#[derive(Default)]
pub struct Checkpoints {
    done: HashMap<(JobId, u32), SimDuration, foldhash::fast::FixedState>,
}

impl Checkpoints {
    /// The length of the run from its start; `None` if it does not end by itself.
    pub fn length(&self, run: RunId, behavior: &JobBehavior) -> Option<SimDuration> {
        let done = self.done(run);
        let cost = self.cost(done, behavior);
        behavior.run.map(|whole| whole.saturating_sub(done).saturating_add(cost))
    }

    /// Records that a run was interrupted after `ran`; in good order if it could still write a checkpoint.
    pub fn interrupt(&mut self, run: RunId, behavior: &JobBehavior, ran: SimDuration, in_good_order: bool) {
        let Some(checkpoint) = behavior.checkpoint else { return };
        let done = self.done(run);
        let now = done.saturating_add(ran.saturating_sub(self.cost(done, behavior)));
        let every = checkpoint.every.as_nanos();
        let written = match (every, in_good_order) {
            (0, true) => now,
            (0, false) => done,
            (every, _) => done.max(SimDuration::from_nanos(now.as_nanos() / every * every)),
        };
        self.done.insert((run.job, run.replica), written);
    }

    /// Forgets a finished run: another one starts from scratch.
    pub fn forget(&mut self, run: RunId) {
        if !self.done.is_empty() {
            self.done.remove(&(run.job, run.replica));
        }
    }

    fn done(&self, run: RunId) -> SimDuration {
        self.done.get(&(run.job, run.replica)).copied().unwrap_or_default()
    }

    fn cost(&self, done: SimDuration, behavior: &JobBehavior) -> SimDuration {
        match behavior.checkpoint {
            Some(checkpoint) if !done.is_zero() => checkpoint.restart,
            _ => SimDuration::ZERO,
        }
    }
}
