//! Groups of jobs that share a deadline or a limit of retries, such as the pods of one Job, or that start again together,
//! such as those of a group of a LeaderWorkerSet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::store::ReplicaIndex;
use dryrack_ids::JobId;
use dryrack_planted::planted;
use dryrack_policy::SharedFailures;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{JobSpec, Restarts, RetryPolicy};

/// The index of a group, in the order of submission.
pub type GroupNumber = u32;

#[derive(Default)]
struct Group {
    /// How long after its start the jobs of the group are ended.
    deadline: Option<SimDuration>,
    /// How long after it starts again they are ended, if this is another time.
    deadline_again: Option<SimDuration>,
    /// The jobs of the group that have not ended.
    open: BTreeSet<JobId>,
    /// When the jobs were started. `None` while they wait for admission.
    since: Option<SimTime>,
    /// Whether one of its jobs has stated the retries that they share.
    shares_retries: bool,
    failures: SharedFailures,
    /// The name of the groups that end together with this one.
    ends_with: Option<Arc<str>>,
    /// Whether the group starts again and attempts from before that may still be on nodes.
    is_restarting: bool,
    /// The replicas whose attempts are from before the group started again.
    leaving: BTreeSet<ReplicaIndex>,
}

impl Group {
    /// Stops the clock. It counts the whole time when it starts again.
    fn reset(&mut self) {
        if self.since.take().is_some() && self.deadline_again.is_some() {
            self.deadline = self.deadline_again;
        }
    }
}

/// Groups that end together.
struct Union {
    groups: Vec<GroupNumber>,
    /// How they start again instead, and how many times they still may.
    restarts: Option<Restarts>,
}

/// What follows the failure of an attempt whose job shares its limit of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The next attempt begins then, unless further failures make the pause longer.
    NextAttempt(SimTime),
    /// The group has failed as a whole.
    GroupFailed(GroupNumber),
}

/// The groups of all jobs.
#[derive(Default)]
pub struct Groups {
    groups: Vec<Group>,
    of_name: BTreeMap<Arc<str>, GroupNumber>,
    of_job: BTreeMap<JobId, GroupNumber>,
    /// The groups that end together.
    unions: BTreeMap<Arc<str>, Union>,
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
            self.groups.push(Group {
                deadline: deadline.map(|deadline| deadline.after),
                deadline_again: deadline.and_then(|deadline| deadline.again),
                ..Group::default()
            });
        }
        let group = &mut self.groups[number as usize];
        // The first jobs of the group may only share its deadline.
        if let Some(retry) = retry.filter(|_| !group.shares_retries) {
            group.shares_retries = true;
            group.failures = SharedFailures::after(retry.failed);
            group.ends_with.clone_from(&retry.ends_with);
            if let Some(name) = &retry.ends_with {
                let new = || Union { groups: Vec::new(), restarts: retry.restarts };
                self.unions.entry(Arc::clone(name)).or_insert_with(new).groups.push(number);
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
            self.groups[*number as usize].reset();
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
            None => AfterFailure::GroupFailed(number),
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
        let others = self.union_of(number).map(|union| union.groups.as_slice()).unwrap_or_default();
        let ends = |other: &GroupNumber| *other != number && !planted!(FailedJobEndsAlone);
        std::iter::once(number).chain(others.iter().copied().filter(ends)).collect()
    }

    /// Lets the groups that end with this one start again instead, if they still may. Returns whether they do.
    pub fn restart(&mut self, number: GroupNumber) -> bool {
        let union = self.groups[number as usize].ends_with.as_ref().and_then(|name| self.unions.get_mut(name));
        let may_restart = |restarts: &&mut Restarts| restarts.most > 0 && !planted!(SetNeverRestarts);
        let Some(restarts) = union.and_then(|union| union.restarts.as_mut()).filter(may_restart) else {
            return false;
        };
        restarts.most -= 1;
        for number in self.ending_with(number) {
            let group = &mut self.groups[number as usize];
            group.reset();
            group.is_restarting = !planted!(RestartWaitsForNothing);
            if !planted!(RestartKeepsFailures) {
                group.failures = SharedFailures::default();
            }
        }
        true
    }

    /// The group of a job, if it starts again and attempts from before that may still be on nodes.
    pub fn restarting(&self, job: JobId) -> Option<GroupNumber> {
        self.of_job.get(&job).copied().filter(|number| self.groups[*number as usize].is_restarting)
    }

    /// Notes that the attempt of a replica is from before its group started again, so that its end is no failure.
    pub fn leave(&mut self, number: GroupNumber, index: ReplicaIndex) {
        self.groups[number as usize].leaving.insert(index);
    }

    /// Notes that an attempt of a job has ended. Returns whether it was from before its group started again.
    pub fn has_left(&mut self, job: JobId, index: ReplicaIndex) -> bool {
        self.of_job.get(&job).is_some_and(|number| self.groups[*number as usize].leaving.remove(&index))
    }

    /// The groups whose last attempts must be gone before this one, which starts again, begins its next ones.
    pub fn begin_after(&self, number: GroupNumber) -> Vec<GroupNumber> {
        let restarts = self.union_of(number).and_then(|union| union.restarts);
        if restarts.is_some_and(|restarts| restarts.wait_for_all) { self.ending_with(number) } else { vec![number] }
    }

    /// Notes that no attempt is left from before a group started again.
    pub fn restarted(&mut self, number: GroupNumber) {
        self.groups[number as usize].is_restarting = false;
    }

    fn union_of(&self, number: GroupNumber) -> Option<&Union> {
        self.unions.get(self.groups[number as usize].ends_with.as_ref()?)
    }
}
