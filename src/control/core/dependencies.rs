//! Jobs that wait for other jobs. Such a job is in no queue. It costs nothing until one of the other jobs starts or
//! ends.
//!
//! A job is checked when it is submitted, and again when a job that it depends on starts or ends. Once all its
//! dependencies are met, or one of them can never be met, a timer at the same instant tells the flow. If only some jobs
//! of a group may run at a time, each job of the group also waits for its turn: see [`super::run_limits`].

use std::collections::{BTreeMap, BTreeSet};

use super::Core;
use super::run_limits::RunLimits;
use super::store::{ReplicaIndex, Wait};
use super::timer::Timer;
use dryrack_event::{Dependence, Histogram, Outcome, Reason, Refusal};
use dryrack_ids::JobId;
use dryrack_workload::{Condition, JobSpec};

#[derive(Default)]
pub(super) struct Dependencies {
    /// The jobs that wait for other jobs.
    waiting: BTreeMap<JobId, Waiting>,
    /// For each job that others depend on, the jobs that wait for it, each with its condition.
    dependents: BTreeMap<JobId, Vec<(JobId, Condition)>>,
    /// Jobs that ended without completing and whose records were dropped.
    unsuccessful: BTreeSet<JobId>,
    limits: RunLimits,
}

/// The dependencies of a waiting job.
#[derive(Default)]
struct Waiting {
    /// Number of dependencies that are still open: neither met nor impossible.
    open: usize,
    /// Whether a dependency can never be met.
    never: bool,
    /// Whether the job waits for a turn in its group.
    turn: bool,
}

impl Waiting {
    fn is_free(&self) -> bool {
        !self.never && !self.turn && self.open == 0
    }

    /// Whether the job waits only for its turn in its group.
    fn waits_for_turn(&self) -> bool {
        !self.never && self.turn && self.open == 0
    }
}

/// The result of checking a job that waits for other jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyState {
    /// All dependencies are met, so the job no longer waits.
    Free,
    /// All dependencies are met, and the job waits for a turn in its group.
    Turn,
    /// A dependency can never be met, so the job can never run.
    Never,
}

impl Core {
    /// Checks the dependencies of a new job.
    pub(crate) fn note_dependencies(&mut self, job: JobId, spec: &JobSpec) {
        let mut own = Waiting::default();
        for dependency in spec.after.iter() {
            match self.dependence(dependency.job, dependency.when) {
                Dependence::Met => {}
                Dependence::Never => own.never = true,
                Dependence::Open => {
                    own.open += 1;
                    self.dependencies.dependents.entry(dependency.job).or_default().push((job, dependency.when));
                }
            }
        }
        own.turn = self.dependencies.limits.add(job, spec, own.open == 0 && !own.never);
        if own.never || own.open > 0 || own.turn {
            let is_judged = own.never;
            self.dependencies.waiting.insert(job, own);
            if is_judged {
                self.timers.set(self.now, Timer::DependencyJudged { job });
            }
        }
    }

    fn dependence(&self, on: JobId, when: Condition) -> Dependence {
        match self.jobs.get(on.index()) {
            Some(record) => Dependence::of(when, record.has_started, record.over),
            None => {
                let failed = self.dependencies.unsuccessful.contains(&on);
                Dependence::of(when, true, Some(if failed { Outcome::Failed } else { Outcome::Completed }))
            }
        }
    }

    /// Whether a job waits for other jobs.
    pub(crate) fn waits_for_others(&self, job: JobId) -> bool {
        self.dependencies.waiting.contains_key(&job)
    }

    /// The jobs that hold the turns for which a job waits: tasks of its array, or the earlier singleton.
    pub(crate) fn holders_of_turns(&self, job: JobId) -> Vec<JobId> {
        self.dependencies.limits.holders_of_turns(job)
    }

    /// Sets a replica aside if its job waits for other jobs. Returns whether the replica was set aside.
    pub(crate) fn wait_for_others(&mut self, index: ReplicaIndex) -> bool {
        let Some(waiting) = self.dependencies.waiting.get(&self.replicas[index as usize].job) else { return false };
        let is_task = self.dependencies.limits.is_of_array(self.replicas[index as usize].job);
        let (refusal, reason) = match waiting.never {
            true => (Refusal::Never, Reason::DependencyNeverSatisfied),
            false if is_task && waiting.waits_for_turn() => (Refusal::Unfit, Reason::ArrayTaskLimit),
            false => (Refusal::Unfit, Reason::Dependency),
        };
        self.replicas[index as usize].wait = Wait::Dependency;
        self.hold(index, (refusal, Histogram::of(reason, self.fleet.len().max(1) as u32)));
        true
    }

    /// Notes that a replica of the job has started.
    pub(crate) fn job_has_started(&mut self, job: JobId) {
        if !std::mem::replace(&mut self.jobs[job.index()].has_started, true) {
            self.judge_dependents(job);
        }
    }

    /// Notes that the job has ended, and checks the jobs that depend on it.
    pub(crate) fn job_has_ended(&mut self, job: JobId, outcome: Outcome) {
        self.jobs[job.index()].over = Some(outcome);
        self.dependencies.waiting.remove(&job);
        let next = self.dependencies.limits.remove(job);
        self.have_turns(next);
        self.judge_dependents(job);
    }

    /// Notes that these jobs have a turn in their group.
    fn have_turns(&mut self, jobs: Vec<JobId>) {
        for job in jobs {
            let Some(waiting) = self.dependencies.waiting.get_mut(&job) else { continue };
            waiting.turn = false;
            if waiting.is_free() {
                self.timers.set(self.now, Timer::DependencyJudged { job });
            }
        }
    }

    fn judge_dependents(&mut self, on: JobId) {
        let Some(dependents) = self.dependencies.dependents.remove(&on) else { return };
        let (mut open, mut ready) = (Vec::new(), Vec::new());
        for (job, when) in dependents {
            let dependence = self.dependence(on, when);
            // A dependent job that was cancelled no longer waits.
            let Some(waiting) = self.dependencies.waiting.get_mut(&job) else { continue };
            match dependence {
                Dependence::Open => {
                    open.push((job, when));
                    continue;
                }
                Dependence::Met => waiting.open -= 1,
                Dependence::Never => (waiting.open, waiting.never) = (waiting.open - 1, true),
            }
            if waiting.never || waiting.open == 0 {
                self.timers.set(self.now, Timer::DependencyJudged { job });
            }
            if waiting.waits_for_turn() {
                ready.push(job);
            }
        }
        for job in ready {
            let given = self.dependencies.limits.is_ready(job);
            self.have_turns(given);
        }
        if !open.is_empty() {
            self.dependencies.dependents.insert(on, open);
        }
    }

    /// The result of checking a waiting job. `None` if the job does not wait, or if it has only open or met
    /// dependencies.
    pub(crate) fn judged(&self, job: JobId) -> Option<DependencyState> {
        match self.dependencies.waiting.get(&job)? {
            Waiting { never: true, .. } => Some(DependencyState::Never),
            Waiting { open: 0, turn: false, .. } => Some(DependencyState::Free),
            Waiting { open: 0, turn: true, .. } => Some(DependencyState::Turn),
            Waiting { .. } => None,
        }
    }

    /// Removes a job whose dependencies are met from the waiting jobs. Returns its replicas that were set aside.
    pub(crate) fn stop_waiting_for_others(&mut self, job: JobId) -> Vec<ReplicaIndex> {
        self.dependencies.waiting.remove(&job);
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
        let waiting = &self.dependencies.waiting;
        let never: Vec<JobId> = waiting.iter().filter(|(_, own)| own.never).map(|(job, _)| *job).collect();
        never.into_iter().for_each(|job| self.timers.set(self.now, Timer::DependencyJudged { job }));
    }

    /// Keeps the outcome of a job whose record is dropped.
    pub(super) fn remember_end(&mut self, job: JobId, over: Option<Outcome>) {
        if over.is_some_and(|outcome| outcome != Outcome::Completed) {
            self.dependencies.unsuccessful.insert(job);
        }
    }

    /// Asserts two things. A replica is set aside for dependencies only if its job waits. No job is recorded as a
    /// dependency after it has ended.
    pub(super) fn assert_dependencies(&self) {
        self.dependencies.limits.check();
        for replica in self.replicas.values().filter(|replica| replica.wait == Wait::Dependency) {
            assert!(
                self.waits_for_others(replica.job),
                "{} waits for jobs that its job does not",
                replica.attempt_id()
            );
        }
        for (on, dependents) in &self.dependencies.dependents {
            let is_over = self.jobs.get(on.index()).is_none_or(|record| record.over.is_some());
            assert!(!is_over, "{on:?} is over, and {} wait for it", dependents.len());
        }
    }
}
