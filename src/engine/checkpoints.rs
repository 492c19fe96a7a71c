//! Checkpoints: how much work of an interrupted run is kept, and what it costs to resume.

use std::collections::HashMap;

use dryrack_ids::{JobId, RunId};
use dryrack_units::SimDuration;
use dryrack_workload::JobBehavior;

/// The work of each replica that is saved in a checkpoint and need not be repeated.
#[derive(Default)]
pub struct Checkpoints {
    done: HashMap<(JobId, u32), SimDuration, foldhash::fast::FixedState>,
}

impl Checkpoints {
    /// How long this attempt runs if nothing interrupts it. `None` if the job does not end by itself.
    pub fn length(&self, run: RunId, behavior: &JobBehavior) -> Option<SimDuration> {
        let done = self.done(run);
        let cost = self.cost(done, behavior);
        behavior.run.map(|whole| whole.saturating_sub(done).saturating_add(cost))
    }

    /// Records that a run was interrupted after it ran for `ran`. `in_good_order` is true if the run still had the
    /// chance to write a checkpoint.
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

    /// Forgets the checkpoint of a run that has finished. If the replica runs again, it starts from scratch.
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
