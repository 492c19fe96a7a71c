//! Groups of jobs with a limit on the number of jobs that run at a time.
//!
//! A task of an array gets a turn when its dependencies are met and the number of the array's tasks with a turn is
//! below the limit. It keeps its turn until it has ended for good, so a retried task does not lose it. Tasks get their
//! turns in order of their numbers. A singleton gets its turn once all jobs of its group that were submitted before it
//! have ended. Each input costs O(log n) for a group of n jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_ids::JobId;
use dryrack_workload::{JobSpec, RunLimit};

/// A group: the tasks of an array, or the singletons of one name and one user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupId {
    Array(Arc<str>),
    Singletons(Arc<str>, Option<Arc<str>>),
}

#[derive(Default)]
struct Group {
    most: usize,
    /// The number of jobs of the group that have not ended.
    jobs: usize,
    /// Jobs with a turn that have not ended.
    active: BTreeSet<JobId>,
    /// Jobs that are ready, but wait for a turn.
    ready: BTreeSet<JobId>,
}

impl Group {
    /// Gives turns to the first jobs that are ready.
    fn give_turns(&mut self) -> Vec<JobId> {
        let mut given = Vec::new();
        while self.active.len() < self.most
            && let Some(next) = self.ready.pop_first()
        {
            self.active.insert(next);
            given.push(next);
        }
        given
    }
}

#[derive(Default)]
pub struct RunLimits {
    groups: BTreeMap<GroupId, Group>,
    /// The group of each job that has one and has not ended.
    group_of: BTreeMap<JobId, GroupId>,
}

impl RunLimits {
    /// Whether no job that has not ended is in a group.
    pub fn is_empty(&self) -> bool {
        self.group_of.is_empty()
    }

    /// Adds a new job to its group. `is_ready` says whether its dependencies are met. Returns whether it waits for a
    /// turn.
    pub fn add(&mut self, job: JobId, spec: &JobSpec, is_ready: bool) -> bool {
        let Some(limit) = spec.run_limit.as_deref() else { return false };
        let (id, most) = match limit {
            RunLimit::ArrayTasks { array, most } => (GroupId::Array(Arc::clone(array)), *most as usize),
            RunLimit::Singleton { name } => (GroupId::Singletons(Arc::clone(name), spec.user.clone()), 1),
        };
        let is_in_order = matches!(id, GroupId::Singletons(..));
        let group = self.groups.entry(id.clone()).or_insert_with(|| Group { most, ..Group::default() });
        group.jobs += 1;
        self.group_of.insert(job, id);
        // A singleton waits for every earlier job of its group, even if that job itself waits for others.
        if is_ready || is_in_order {
            group.ready.insert(job);
        }
        !group.give_turns().contains(&job)
    }

    /// Notes that the dependencies of a job are met. Returns the jobs that now have a turn.
    pub fn is_ready(&mut self, job: JobId) -> Vec<JobId> {
        let Some(group) = self.group_of.get(&job).and_then(|id| self.groups.get_mut(id)) else { return Vec::new() };
        if !group.active.contains(&job) {
            group.ready.insert(job);
        }
        group.give_turns()
    }

    /// Removes a job that has ended. Returns the jobs that now have a turn.
    pub fn remove(&mut self, job: JobId) -> Vec<JobId> {
        let Some(id) = self.group_of.remove(&job) else { return Vec::new() };
        let group = self.groups.get_mut(&id).expect("the group of a job is known");
        group.active.remove(&job);
        group.ready.remove(&job);
        group.jobs -= 1;
        let given = group.give_turns();
        if group.jobs == 0 {
            self.groups.remove(&id);
        }
        given
    }

    /// Whether a waiting job is a task of an array.
    pub fn is_of_array(&self, job: JobId) -> bool {
        matches!(self.group_of.get(&job), Some(GroupId::Array(_)))
    }

    /// The jobs that hold the turns of the group in which this job waits for one.
    pub fn holders_of_turns(&self, job: JobId) -> Vec<JobId> {
        let group = self.group_of.get(&job).and_then(|id| self.groups.get(id));
        let group = group.filter(|group| group.ready.contains(&job));
        group.map_or_else(Vec::new, |group| group.active.iter().copied().collect())
    }

    /// Asserts that no group has more jobs with a turn than its limit, and that no ready job waits while the limit is
    /// not reached.
    pub fn check(&self) {
        for (id, group) in &self.groups {
            assert!(group.active.len() <= group.most, "{id:?} runs {} of at most {}", group.active.len(), group.most);
            assert!(group.ready.is_empty() || group.active.len() == group.most, "{id:?} could run another");
        }
    }
}
