//! Deadlines that jobs of a group share, counted from one start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_ids::JobId;
use dryrack_units::SimTime;
use dryrack_workload::SharedDeadline;

/// The index of a group, in the order of submission.
pub type GroupNumber = u32;

struct Group {
    deadline: Arc<SharedDeadline>,
    /// The jobs of the group that have not ended.
    open: BTreeSet<JobId>,
    /// When the jobs were started. `None` while they wait for admission.
    since: Option<SimTime>,
}

/// The groups of all jobs.
#[derive(Default)]
pub struct Deadlines {
    groups: Vec<Group>,
    of_name: BTreeMap<Arc<str>, GroupNumber>,
    of_job: BTreeMap<JobId, GroupNumber>,
}

impl Deadlines {
    /// Adds a job to its group.
    pub fn add(&mut self, job: JobId, deadline: &Arc<SharedDeadline>) {
        let next = self.groups.len() as GroupNumber;
        let number = *self.of_name.entry(Arc::clone(&deadline.group)).or_insert(next);
        if number == next {
            self.groups.push(Group { deadline: Arc::clone(deadline), open: BTreeSet::new(), since: None });
        }
        self.groups[number as usize].open.insert(job);
        self.of_job.insert(job, number);
    }

    /// Starts the group of a job, unless it has started. Returns the group, and when its jobs are ended.
    pub fn start(&mut self, job: JobId, now: SimTime) -> Option<(GroupNumber, SimTime)> {
        let number = *self.of_job.get(&job)?;
        let group = &mut self.groups[number as usize];
        if group.since.is_some() {
            return None;
        }
        group.since = Some(now);
        Some((number, now.saturating_add(group.deadline.after)))
    }

    /// Stops the clock of the group of a job. It counts from zero when it starts again.
    pub fn reset(&mut self, job: JobId) {
        if let Some(number) = self.of_job.get(&job) {
            self.groups[*number as usize].since = None;
        }
    }

    /// Notes that a job has ended for good.
    pub fn job_ended(&mut self, job: JobId) {
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
    pub fn open(&self, number: GroupNumber) -> Vec<JobId> {
        self.groups[number as usize].open.iter().copied().collect()
    }
}
