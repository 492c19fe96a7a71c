//! Jobs that wait for other jobs. Such a job is in no queue. It costs nothing until one of the other jobs starts or
//! ends.
//!
//! A job is checked when it is submitted, and again when a job that it depends on starts or ends. Once all its
//! dependencies are met, or one of them can never be met, a timer at the same instant tells the flow. If only some jobs
//! of a group may run at a time, each job of the group also waits for its turn: see [`super::parts::run_limits`].

use super::Core;
use super::parts::dependencies::DependencyState;
use super::store::{ReplicaIndex, Wait};
use super::timer::Timer;
use dryrack_event::{Histogram, Outcome};
use dryrack_ids::JobId;
use dryrack_workload::JobSpec;

impl Core {
    /// Checks the dependencies of a new job.
    pub(crate) fn note_dependencies(&mut self, job: JobId, spec: &JobSpec) {
        if self.dependencies.add(&self.jobs, job, spec) {
            self.tell_of_dependencies(vec![job]);
        }
    }

    /// Tells the flow at this instant that the checks of these jobs have a result.
    fn tell_of_dependencies(&mut self, judged: Vec<JobId>) {
        judged.into_iter().for_each(|job| self.timers.set(self.now, Timer::DependencyJudged { job }));
    }

    /// Whether a job waits for other jobs.
    pub(crate) fn waits_for_others(&self, job: JobId) -> bool {
        self.dependencies.waits(job)
    }

    /// The jobs that hold the turns for which a job waits: tasks of its array, or the earlier singleton.
    pub(crate) fn holders_of_turns(&self, job: JobId) -> Vec<JobId> {
        self.dependencies.holders_of_turns(job)
    }

    /// Sets a replica aside if its job waits for other jobs. Returns whether the replica was set aside.
    pub(crate) fn wait_for_others(&mut self, index: ReplicaIndex) -> bool {
        let job = self.replicas[index as usize].job;
        let Some((refusal, reason)) = self.dependencies.refusal(job) else { return false };
        self.replicas[index as usize].wait = Wait::Dependency;
        self.hold(index, (refusal, Histogram::of(reason, self.fleet.len().max(1) as u32)));
        true
    }

    /// Notes that a replica of the job has started.
    pub(crate) fn job_has_started(&mut self, job: JobId) {
        if !std::mem::replace(&mut self.jobs[job.index()].has_started, true) {
            let judged = self.dependencies.judge_dependents(&self.jobs, job);
            self.tell_of_dependencies(judged);
        }
    }

    /// Notes that the job has ended, and checks the jobs that depend on it.
    pub(crate) fn job_has_ended(&mut self, job: JobId, outcome: Outcome) {
        self.jobs[job.index()].over = Some(outcome);
        let judged = self.dependencies.ended(&self.jobs, job);
        self.tell_of_dependencies(judged);
    }

    /// The result of checking a waiting job. `None` if the job does not wait, or if it has only open or met
    /// dependencies.
    pub(crate) fn judged(&self, job: JobId) -> Option<DependencyState> {
        self.dependencies.judged(job)
    }

    /// Removes a job whose dependencies are met from the waiting jobs. Returns its replicas that were set aside.
    pub(crate) fn stop_waiting_for_others(&mut self, job: JobId) -> Vec<ReplicaIndex> {
        self.dependencies.stop_waiting(job);
        let record = &self.jobs[job.index()];
        let mut replicas: Vec<ReplicaIndex> = record.replicas().collect();
        replicas.retain(|index| self.replicas[*index as usize].wait == Wait::Dependency);
        for index in &replicas {
            self.replicas[*index as usize].wait = Wait::Nothing;
        }
        replicas
    }

    /// The replicas of a job that are set aside because the job waits for other jobs.
    pub(crate) fn waiting_for_others(&self, job: JobId) -> Vec<ReplicaIndex> {
        let replicas = self.jobs[job.index()].replicas();
        replicas.filter(|index| self.replicas[*index as usize].wait == Wait::Dependency).collect()
    }

    /// After a change of profile, tells the flow again about the jobs that can never run.
    pub(super) fn judge_never_satisfied_again(&mut self) {
        let never = self.dependencies.never();
        self.tell_of_dependencies(never);
    }

    /// Asserts that a replica is set aside for dependencies only if its job waits.
    pub(super) fn assert_dependencies(&self) {
        self.dependencies.check(&self.jobs);
        for replica in self.replicas.values().filter(|replica| replica.wait == Wait::Dependency) {
            assert!(
                self.waits_for_others(replica.job),
                "{} waits for jobs that its job does not",
                replica.attempt_id()
            );
        }
    }
}
