//! Groups of jobs that share a deadline or a limit of retries, such as the pods of one Job, or that start again together,
//! such as those of a group of a LeaderWorkerSet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_ids::JobId;
use dryrack_planted::planted;
use dryrack_policy::SharedFailures;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{JobSpec, RetryPolicy};

/// The index of a group, in the order of submission.
pub type GroupNumber = u32;

#[derive(Default)]
struct Group {
    /// How long after its start the jobs of the group are ended.
    deadline: Option<SimDuration>,
    /// The jobs of the group that have not ended.
    open: BTreeSet<JobId>,
    /// When the jobs were started. `None` while they wait for admission.
    since: Option<SimTime>,
    /// Whether one of its jobs has stated the retries that they share.
    shares_retries: bool,
    failures: SharedFailures,
    /// The name of the groups that end together with this one.
    ends_with: Option<Arc<str>>,
}

/// What follows the failure of an attempt whose job shares its limit of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The next attempt begins then, unless further failures make the pause longer.
    NextAttempt(SimTime),
    /// All jobs of the group end.
    EndGroup(GroupNumber),
}

/// The groups of all jobs.
#[derive(Default)]
pub struct Groups {
    groups: Vec<Group>,
    of_name: BTreeMap<Arc<str>, GroupNumber>,
    of_job: BTreeMap<JobId, GroupNumber>,
    /// The groups that end together.
    ending_with: BTreeMap<Arc<str>, Vec<GroupNumber>>,
    /// The jobs that start again together and have not ended.
    restarting_with: BTreeMap<Arc<str>, BTreeSet<JobId>>,
}

impl Groups {
    /// Adds a job to its groups, if it has any.
    pub fn add(&mut self, job: JobId, spec: &JobSpec) {
        if let Some(name) = &spec.restarts_with {
            self.restarting_with.entry(Arc::clone(name)).or_default().insert(job);
        }
        let (deadline, retry) = (spec.shared_deadline.as_deref(), spec.shared_retry.as_deref());
        let Some(name) = retry.map(|retry| &retry.group).or(deadline.map(|deadline| &deadline.group)) else { return };
        let next = self.groups.len() as GroupNumber;
        let number = *self.of_name.entry(Arc::clone(name)).or_insert(next);
        if number == next {
            self.groups.push(Group { deadline: deadline.map(|deadline| deadline.after), ..Group::default() });
        }
        let group = &mut self.groups[number as usize];
        // The first jobs of the group may only share its deadline.
        if let Some(retry) = retry.filter(|_| !group.shares_retries) {
            group.shares_retries = true;
            group.failures = SharedFailures::after(retry.failed);
            group.ends_with.clone_from(&retry.ends_with);
            if let Some(name) = &retry.ends_with {
                self.ending_with.entry(Arc::clone(name)).or_default().push(number);
            }
        }
        group.open.insert(job);
        self.of_job.insert(job, number);
    }

    /// Starts the clock of the group of a job, unless it has started. Returns the group, and when its jobs are ended.
    pub fn start(&mut self, job: JobId, now: SimTime) -> Option<(GroupNumber, SimTime)> {
        let number = *self.of_job.get(&job)?;
        let group = &mut self.groups[number as usize];
        let deadline = group.deadline?;
        if group.since.is_some() {
            return None;
        }
        group.since = Some(now);
        Some((number, now.saturating_add(deadline)))
    }

    /// Stops the clock of the group of a job. It counts from zero when it starts again.
    pub fn reset(&mut self, job: JobId) {
        if let Some(number) = self.of_job.get(&job) {
            self.groups[*number as usize].since = None;
        }
    }

    /// Notes that a job has ended for good.
    pub fn job_ended(&mut self, job: JobId, spec: &JobSpec) {
        if let Some(jobs) = spec.restarts_with.as_ref().and_then(|name| self.restarting_with.get_mut(name)) {
            jobs.remove(&job);
        }
        if let Some(number) = self.of_job.remove(&job) {
            self.groups[number as usize].open.remove(&job);
        }
    }

    /// Whether the group has run since this time and has jobs that have not ended.
    pub fn runs_since(&self, number: GroupNumber, since: SimTime) -> bool {
        let group = &self.groups[number as usize];
        group.since == Some(since) && !group.open.is_empty()
    }

    /// The jobs of a group that have not ended, in the order of submission.
    pub fn open(&self, number: GroupNumber) -> impl DoubleEndedIterator<Item = JobId> {
        self.groups[number as usize].open.iter().copied()
    }

    /// Notes that an attempt of a job has failed, whose group has this limit and these pauses. Returns what follows.
    pub fn attempt_failed(&mut self, job: JobId, policy: &RetryPolicy, now: SimTime) -> AfterFailure {
        let number = self.of_job[&job];
        match self.groups[number as usize].failures.failed(policy, now) {
            Some(at) => AfterFailure::NextAttempt(at),
            None => AfterFailure::EndGroup(number),
        }
    }

    /// Notes that an attempt of a job has completed. Returns the group if it paused, which it does no longer.
    pub fn attempt_completed(&mut self, job: JobId, now: SimTime) -> Option<GroupNumber> {
        let number = *self.of_job.get(&job)?;
        let ends_pause = self.groups[number as usize].failures.completed(now);
        ends_pause.then_some(number)
    }

    /// When the next attempt of a job may begin, if its group pauses.
    pub fn paused_until(&self, job: JobId, now: SimTime) -> Option<SimTime> {
        let number = self.of_job.get(&job)?;
        self.groups[*number as usize].failures.paused_until(now)
    }

    /// The jobs of a group that starts again as a whole which have not ended, in the order of submission.
    pub fn restarting_with(&self, group: &Arc<str>) -> impl Iterator<Item = JobId> {
        self.restarting_with.get(group).into_iter().flatten().copied()
    }

    /// The groups that end with this one, which comes first.
    pub fn ending_with(&self, number: GroupNumber) -> Vec<GroupNumber> {
        let others = self.groups[number as usize].ends_with.as_ref().and_then(|name| self.ending_with.get(name));
        let ends = |other: &GroupNumber| *other != number && !planted!(FailedJobEndsAlone);
        let others = others.into_iter().flatten().copied().filter(ends);
        std::iter::once(number).chain(others).collect()
    }
}
