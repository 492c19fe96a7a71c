//! The facts about a replica that metrics use, and a compact form of the jobs that have ended.

use std::collections::HashMap;
use std::sync::Arc;

use super::job_account::{JobAccount, ReplicaAccount};
use dryrack_engine::Standing;
use dryrack_event::Outcome;
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// One replica. Its job may or may not have ended.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub job: JobId,
    pub replica: u32,
    pub user: Option<&'a Arc<str>>,
    pub queue: Option<&'a Arc<str>>,
    /// The CPU that all tasks of the replica demand, in thousandths of a core.
    pub cpu: u128,
    pub submitted: SimTime,
    /// The time from which the replica should run: the submission of its job, or the time of the scale-up that added
    /// it.
    pub wanted: SimTime,
    pub attempt: u32,
    /// When the replica was first placed, in any attempt.
    pub placed: Option<SimTime>,
    /// When the replica first ran, in any attempt.
    pub started: Option<SimTime>,
    /// When the last attempt started.
    pub last_started: Option<SimTime>,
    /// When the last attempt ended.
    pub ended: Option<SimTime>,
    pub outcome: Option<Outcome>,
    /// Whether the replica could not be placed even if every node were ready and empty.
    pub is_unplaceable: bool,
    /// Whether the replica ended without ever being placed because there was no capacity.
    pub is_turned_away: bool,
    /// Whether the replica waited for its first place until its job failed.
    pub is_cut_off: bool,
}

/// One job with all its replicas.
#[derive(Clone, Copy, Debug)]
pub struct JobFigures {
    pub submitted: SimTime,
    pub standing: Standing,
    /// The number of attempts that failed or were lost after the warm-up, over all replicas.
    pub failures: u64,
}

/// Jobs that have ended, in 72 bytes for each replica.
#[derive(Default)]
pub struct FinishedReplicas {
    rows: Vec<FinishedReplica>,
    kinds: Vec<Kind>,
    numbers: HashMap<Kind, u32, foldhash::fast::FixedState>,
}

/// A replica in compact form. A missing time is stored as `SimTime::MAX`.
struct FinishedReplica {
    job: JobId,
    replica: u32,
    kind: u32,
    attempt: u32,
    submitted: SimTime,
    wanted: SimTime,
    placed: SimTime,
    started: SimTime,
    last_started: SimTime,
    ended: SimTime,
    failures: u32,
    outcome: Option<Outcome>,
    of_job: Outcome,
    is_unplaceable: bool,
    is_turned_away: bool,
    is_cut_off: bool,
}

/// Facts that many jobs share.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    user: Option<Arc<str>>,
    queue: Option<Arc<str>>,
    cpu: u128,
}

fn cpu_of(spec: &JobSpec) -> u128 {
    spec.demand.kinds_of_tasks().map(|(tasks, task)| u128::from(task.cpu.get()) * u128::from(tasks)).sum()
}

impl<'a> Row<'a> {
    /// When the replica completed. `None` if it has not ended, or in another way.
    pub fn completed(&self) -> Option<SimTime> {
        self.ended.filter(|_| self.outcome == Some(Outcome::Completed))
    }

    pub(super) fn of((attempt, job, replica): (AttemptId, &'a JobAccount, &'a ReplicaAccount)) -> Row<'a> {
        Row {
            job: attempt.job,
            replica: attempt.replica,
            user: job.spec.user.as_ref(),
            queue: job.spec.queue.as_ref(),
            cpu: cpu_of(&job.spec),
            submitted: job.submitted,
            wanted: replica.wanted,
            attempt: replica.attempt,
            placed: replica.placed,
            started: replica.started,
            last_started: replica.last_started,
            ended: replica.ended,
            outcome: replica.outcome,
            is_unplaceable: replica.unplaceable().is_some(),
            is_turned_away: replica.is_turned_away(),
            is_cut_off: replica.is_cut_off(),
        }
    }
}

impl FinishedReplicas {
    /// Adds a job that has ended; a job without replicas adds no row.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn add(&mut self, id: JobId, job: &JobAccount, of_job: Outcome) {
        let kind = Kind { user: job.spec.user.clone(), queue: job.spec.queue.clone(), cpu: cpu_of(&job.spec) };
        let known = self.numbers.get(&kind).copied();
        let kind = known.unwrap_or_else(|| {
            let number = self.kinds.len() as u32;
            self.kinds.push(kind.clone());
            self.numbers.insert(kind, number);
            number
        });
        let at = |time: Option<SimTime>| time.unwrap_or(SimTime::MAX);
        for (number, replica) in job.replicas.iter().enumerate() {
            self.rows.push(FinishedReplica {
                job: id,
                replica: number as u32,
                kind,
                attempt: replica.attempt,
                submitted: job.submitted,
                wanted: replica.wanted,
                placed: at(replica.placed),
                started: at(replica.started),
                last_started: at(replica.last_started),
                ended: at(replica.ended),
                failures: u32::try_from(job.failures).unwrap_or(u32::MAX),
                outcome: replica.outcome,
                of_job,
                is_unplaceable: replica.unplaceable().is_some(),
                is_turned_away: replica.is_turned_away(),
                is_cut_off: replica.is_cut_off(),
            });
        }
    }

    /// Sorts the rows by id, because metrics sum floats in that order.
    pub(super) fn sort(&mut self) {
        self.rows.sort_unstable_by_key(|row| (row.job, row.replica));
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let time = |at: SimTime| (at < SimTime::MAX).then_some(at);
        self.rows.iter().map(move |row| {
            let kind = &self.kinds[row.kind as usize];
            Row {
                job: row.job,
                replica: row.replica,
                user: kind.user.as_ref(),
                queue: kind.queue.as_ref(),
                cpu: kind.cpu,
                submitted: row.submitted,
                wanted: row.wanted,
                attempt: row.attempt,
                placed: time(row.placed),
                started: time(row.started),
                last_started: time(row.last_started),
                ended: time(row.ended),
                outcome: row.outcome,
                is_unplaceable: row.is_unplaceable,
                is_turned_away: row.is_turned_away,
                is_cut_off: row.is_cut_off,
            }
        })
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = JobFigures> {
        self.rows.iter().filter(|row| row.replica == 0).map(|row| JobFigures {
            submitted: row.submitted,
            standing: Standing::Ended(row.of_job),
            failures: row.failures.into(),
        })
    }
}
