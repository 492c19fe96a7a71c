//! What goes wrong at random with the start, the analysis and the reports of an attempt.

use super::{Taking, World, WorldAttempt};
use dryrack_ids::AttemptId;
use dryrack_rng::{Stream, entity};
use dryrack_workload::{Acks, Analyses, Fate, JobSpec, RandomFaults, Starts};

impl World<'_> {
    pub(super) fn start_fate(&self, (spec, behavior): &Taking, attempt: AttemptId) -> Fate {
        let Some(RandomFaults { starts, .. }) = behavior.random_faults.as_deref() else { return Fate::Well };
        let who = (self.rehearsal.seed, &**spec, attempt);
        fate(who, 0, "starts", *starts != Starts::default(), |stream| starts.draw(stream))
    }

    pub(super) fn analysis_fate(&self, (spec, behavior): &Taking, attempt: AttemptId) -> Fate {
        let Some(RandomFaults { analyses, .. }) = behavior.random_faults.as_deref() else { return Fate::Well };
        let who = (self.rehearsal.seed, &**spec, attempt);
        fate(who, 0, "analyses", *analyses != Analyses::default(), |stream| analyses.draw(stream))
    }
}

impl WorldAttempt {
    /// Draws what happens to the next report of the attempt.
    pub(super) fn ack_fate(&mut self, seed: u64, attempt: AttemptId) -> Fate {
        self.said += 1;
        let Some(RandomFaults { acks, .. }) = self.behavior.random_faults.as_deref() else { return Fate::Well };
        let who = (seed, &*self.spec, attempt);
        fate(who, self.said, "acknowledgements", *acks != Acks::default(), |stream| acks.draw(stream))
    }
}

/// Draws the result of the n-th fault check of an attempt, for one purpose. The draw does not depend on other attempts.
/// If no fault is possible, draws nothing.
fn fate(
    (seed, spec, attempt): (u64, &JobSpec, AttemptId),
    number: u32,
    purpose: &'static str,
    is_at_risk: bool,
    draw: impl FnOnce(&mut Stream) -> Fate,
) -> Fate {
    if !is_at_risk {
        return Fate::Well;
    }
    let parts = [attempt.replica, attempt.number, number].map(|part| part.to_string());
    let entity = entity(&[&spec.name, &parts[0], &parts[1], &parts[2]]);
    draw(&mut Stream::new(seed, purpose, entity))
}
