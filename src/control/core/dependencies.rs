//! Jobs that wait for other jobs. Such a job is in no queue. It costs nothing until one of the other jobs starts or
//! ends.
//!
//! A job is checked when it is submitted, and again when a job that it depends on starts or ends. Once all its
//! dependencies are met, or one of them can never be met, a timer at the same instant tells the flow. If only some jobs
//! of a group may run at a time, each job of the group also waits for its turn. The store has the dependencies.

use super::Core;
use super::store::{ReplicaIndex, Wait};
use super::timer::Timer;
use dryrack_event::{Histogram, Outcome};
use dryrack_ids::JobId;
use dryrack_workload::JobSpec;

impl Core {
    /// Checks the dependencies of a new job.
    pub(crate) fn note_dependencies(&mut self, job: JobId, spec: &JobSpec) {
        if self.store.add_dependencies(job, spec) {
            self.tell_of_dependencies(vec![job]);
        }
    }

    /// Tells the flow at this instant that the checks of these jobs have a result.
    pub(super) fn tell_of_dependencies(&mut self, judged: Vec<JobId>) {
        judged.into_iter().for_each(|job| self.timers.set(self.now, Timer::DependencyJudged { job }));
    }

    /// Sets a replica aside if its job waits for other jobs. Returns whether the replica was set aside.
    pub(crate) fn wait_for_others(&mut self, index: ReplicaIndex) -> bool {
        let Some((refusal, reason)) = self.store.refused_for_others(self.store[index].job) else { return false };
        self.store[index].wait = Wait::Dependency;
        self.hold(index, (refusal, Histogram::of(reason, self.fleet.len().max(1) as u32)));
        true
    }

    /// Notes that a replica of the job has started.
    pub(crate) fn job_has_started(&mut self, job: JobId) {
        let judged = self.store.job_has_started(job);
        self.tell_of_dependencies(judged);
    }

    /// Notes that the job has ended, and checks the jobs that depend on it.
    pub(crate) fn job_has_ended(&mut self, job: JobId, outcome: Outcome) {
        let judged = self.store.job_has_ended(job, outcome);
        self.tell_of_dependencies(judged);
    }
}
