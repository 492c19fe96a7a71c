//! What the audit knows of jobs that share their limit of retries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_event::Reason;
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{JobSpec, SharedRetry};

#[derive(Default)]
pub(super) struct Retries {
    /// How many attempts of each group have failed, before the run and since its last restart.
    failed: BTreeMap<Arc<str>, u32>,
    /// The groups that end together with others, with the name that they share.
    of_set: BTreeMap<Arc<str>, Arc<str>>,
    /// Sets that may also start again because of a deadline, of which no event tells.
    with_deadline: BTreeSet<Arc<str>>,
    /// For groups that start again together: how many times they did, and the number of placements before the last time.
    restarted: BTreeMap<Arc<str>, (u32, u64)>,
    placements: u64,
    /// The number of placements before the last one of each replica.
    placed: BTreeMap<(JobId, u32), u64>,
}

impl Retries {
    /// Notes that a job was submitted.
    pub fn submitted(&mut self, spec: &JobSpec) {
        let Some(shared) = &spec.shared_retry else { return };
        self.failed.entry(Arc::clone(&shared.group)).or_insert(shared.failed);
        let Some(set) = &shared.ends_with else { return };
        self.of_set.insert(Arc::clone(&shared.group), Arc::clone(set));
        if spec.shared_deadline.is_some() {
            self.with_deadline.insert(Arc::clone(set));
        }
    }

    /// Notes that an attempt was placed.
    pub fn placed(&mut self, attempt: AttemptId) {
        self.placements += 1;
        self.placed.insert((attempt.job, attempt.replica), self.placements);
    }

    /// Notes that this attempt follows another one. Asserts that the group may have so many failures, and that the shortest
    /// pause comes first.
    pub fn follows(&mut self, attempt: AttemptId, spec: &JobSpec, because: Reason, (now, due): (SimTime, SimTime)) {
        let (Some(shared), Some(policy)) = (&spec.shared_retry, &spec.retry) else { return };
        let is_failure = matches!(
            because,
            Reason::Failed
                | Reason::StartFailed
                | Reason::DeadlineExpired
                | Reason::NodeLost
                | Reason::GpuLost
                | Reason::Preempted
                | Reason::TimeLimit
        );
        let restarts_unseen = shared.ends_with.as_ref().is_some_and(|set| self.with_deadline.contains(set));
        if !is_failure || restarts_unseen || self.is_from_before_a_restart(attempt, shared) {
            return;
        }
        let failed = self.failed[&shared.group] + 1;
        if policy.limit.is_some_and(|limit| failed > limit) {
            return self.restart(attempt, shared, failed, due.since(now));
        }
        self.failed.insert(Arc::clone(&shared.group), failed);
        let first = now.saturating_add(policy.backoff.first.min(policy.backoff.max));
        assert!(due >= first, "the next attempt of {} is due at {due}, before {first}", shared.group);
    }

    /// Another attempt after one failure too many: all groups that end together start again, at once.
    fn restart(&mut self, attempt: AttemptId, shared: &SharedRetry, failed: u32, pause: SimDuration) {
        let Some((set, restarts)) = shared.ends_with.as_ref().zip(shared.restarts) else {
            panic!("{failed} attempts of {} failed, and {attempt} follows", shared.group);
        };
        let (times, since) = self.restarted.entry(Arc::clone(set)).or_default();
        (*times, *since) = (*times + 1, self.placements);
        assert!(*times <= restarts.most, "{set} starts again for the {times}th time");
        assert!(pause.is_zero(), "{attempt} waits for {pause}, although {set} starts again");
        // No failure of any of its groups counts any longer.
        let of_set = &self.of_set;
        let groups = self.failed.iter_mut().filter(|(group, _)| of_set.get(*group) == Some(set));
        groups.for_each(|(_, failed)| *failed = 0);
    }

    fn is_from_before_a_restart(&self, attempt: AttemptId, shared: &SharedRetry) -> bool {
        let set = shared.ends_with.as_ref().and_then(|set| self.restarted.get(set));
        let placed = self.placed.get(&(attempt.job, attempt.replica));
        set.is_some_and(|(_, since)| placed.is_some_and(|placed| placed <= since))
    }
}
