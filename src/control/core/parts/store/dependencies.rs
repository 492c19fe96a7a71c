//! Which jobs wait for other jobs, and for which. The records of all jobs are given to the methods that read them.

use std::collections::{BTreeMap, BTreeSet};

use super::records::JobRecord;
use super::run_limits::RunLimits;
use dryrack_event::{Dependence, Outcome, Reason, Refusal};
use dryrack_ids::{JobId, Records};
use dryrack_workload::{Condition, JobSpec};

#[derive(Default)]
pub struct Dependencies {
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
pub enum DependencyState {
    /// All dependencies are met, so the job no longer waits.
    Free,
    /// All dependencies are met, and the job waits for a turn in its group.
    Turn,
    /// A dependency can never be met, so the job can never run.
    Never,
}

impl Dependencies {
    /// Adds a new job. Returns whether one of its dependencies can never be met.
    pub fn add(&mut self, jobs: &Records<JobRecord>, job: JobId, spec: &JobSpec) -> bool {
        let mut own = Waiting::default();
        for dependency in spec.after.iter() {
            match self.dependence(jobs, dependency.job, dependency.when) {
                Dependence::Met => {}
                Dependence::Never => own.never = true,
                Dependence::Open => {
                    own.open += 1;
                    self.dependents.entry(dependency.job).or_default().push((job, dependency.when));
                }
            }
        }
        own.turn = self.limits.add(job, spec, own.open == 0 && !own.never);
        let is_never = own.never;
        if own.never || own.open > 0 || own.turn {
            self.waiting.insert(job, own);
        }
        is_never
    }

    fn dependence(&self, jobs: &Records<JobRecord>, on: JobId, when: Condition) -> Dependence {
        match jobs.get(on.index()) {
            Some(record) => Dependence::of(when, record.has_started, record.over),
            None => {
                let failed = self.unsuccessful.contains(&on);
                Dependence::of(when, true, Some(if failed { Outcome::Failed } else { Outcome::Completed }))
            }
        }
    }

    /// Whether a job waits for other jobs.
    pub fn waits(&self, job: JobId) -> bool {
        self.waiting.contains_key(&job)
    }

    /// The jobs that can never run.
    pub fn never(&self) -> Vec<JobId> {
        self.waiting.iter().filter(|(_, own)| own.never).map(|(job, _)| *job).collect()
    }

    /// Why a waiting job is not placed. `None` if the job does not wait.
    pub fn refusal(&self, job: JobId) -> Option<(Refusal, Reason)> {
        let waiting = self.waiting.get(&job)?;
        Some(match waiting.never {
            true => (Refusal::Never, Reason::DependencyNeverSatisfied),
            false if self.limits.is_of_array(job) && waiting.waits_for_turn() => {
                (Refusal::Unfit, Reason::ArrayTaskLimit)
            }
            false => (Refusal::Unfit, Reason::Dependency),
        })
    }

    /// The jobs that hold the turns for which a job waits: tasks of its array, or the earlier singleton.
    pub fn holders_of_turns(&self, job: JobId) -> Vec<JobId> {
        self.limits.holders_of_turns(job)
    }

    /// The result of checking a waiting job. `None` if the job does not wait, or if it has only open or met
    /// dependencies.
    pub fn judged(&self, job: JobId) -> Option<DependencyState> {
        match self.waiting.get(&job)? {
            Waiting { never: true, .. } => Some(DependencyState::Never),
            Waiting { open: 0, turn: false, .. } => Some(DependencyState::Free),
            Waiting { open: 0, turn: true, .. } => Some(DependencyState::Turn),
            Waiting { .. } => None,
        }
    }

    /// Ends the waiting of a job.
    pub fn stop_waiting(&mut self, job: JobId) {
        self.waiting.remove(&job);
    }

    /// Follows the end of a job. Returns the jobs whose checks now have a result.
    pub fn ended(&mut self, jobs: &Records<JobRecord>, job: JobId) -> Vec<JobId> {
        if self.waiting.is_empty() && self.dependents.is_empty() && self.limits.is_empty() {
            return Vec::new();
        }
        self.waiting.remove(&job);
        let next = self.limits.remove(job);
        let mut judged = self.have_turns(next);
        judged.extend(self.judge_dependents(jobs, job));
        judged
    }

    /// Notes that these jobs have a turn in their group. Returns those that no longer wait for anything.
    fn have_turns(&mut self, given: Vec<JobId>) -> Vec<JobId> {
        let mut free = Vec::new();
        for job in given {
            let Some(waiting) = self.waiting.get_mut(&job) else { continue };
            waiting.turn = false;
            if waiting.is_free() {
                free.push(job);
            }
        }
        free
    }

    /// Checks the jobs that depend on a job that has started or ended. Returns those whose checks now have a result.
    pub fn judge_dependents(&mut self, jobs: &Records<JobRecord>, on: JobId) -> Vec<JobId> {
        if self.dependents.is_empty() {
            return Vec::new();
        }
        let Some(dependents) = self.dependents.remove(&on) else { return Vec::new() };
        let (mut open, mut ready, mut judged) = (Vec::new(), Vec::new(), Vec::new());
        for (job, when) in dependents {
            let dependence = self.dependence(jobs, on, when);
            // A dependent job that was cancelled no longer waits.
            let Some(waiting) = self.waiting.get_mut(&job) else { continue };
            match dependence {
                Dependence::Open => {
                    open.push((job, when));
                    continue;
                }
                Dependence::Met => waiting.open -= 1,
                Dependence::Never => (waiting.open, waiting.never) = (waiting.open - 1, true),
            }
            if waiting.never || waiting.open == 0 {
                judged.push(job);
            }
            if waiting.waits_for_turn() {
                ready.push(job);
            }
        }
        for job in ready {
            let given = self.limits.is_ready(job);
            judged.extend(self.have_turns(given));
        }
        if !open.is_empty() {
            self.dependents.insert(on, open);
        }
        judged
    }

    /// Keeps the outcome of a job whose record is dropped.
    pub fn remember_end(&mut self, job: JobId, over: Option<Outcome>) {
        if over.is_some_and(|outcome| outcome != Outcome::Completed) {
            self.unsuccessful.insert(job);
        }
    }

    /// Asserts that no job is recorded as a dependency after it has ended.
    pub fn check(&self, jobs: &Records<JobRecord>) {
        self.limits.check();
        for (on, dependents) in &self.dependents {
            let is_over = jobs.get(on.index()).is_none_or(|record| record.over.is_some());
            assert!(!is_over, "{on:?} is over, and {} wait for it", dependents.len());
        }
    }
}
