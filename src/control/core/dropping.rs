//! Drops the records of ended jobs that can no longer affect anything. So the memory of a long simulation does not grow
//! with every job. The outputs are the same as if all records were kept.

use super::Core;
use super::parts::dropping::Dropping;
use super::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_ids::{AttemptId, JobId};

impl Core {
    /// From now on, drops the records of ended jobs.
    pub(crate) fn drop_from_now_on(&mut self) {
        self.dropping = Some(Dropping::default());
    }

    /// Calls `take` with each job that was dropped since the last call.
    pub(crate) fn take_dropped(&mut self, take: impl FnMut(JobId)) {
        self.dropping.iter_mut().flat_map(|dropping| dropping.dropped.drain(..)).for_each(take);
    }

    /// The index of a replica. `None` if its job has ended and was dropped.
    pub(crate) fn replica_of(&self, attempt: AttemptId) -> Option<ReplicaIndex> {
        let job = self.jobs.get(attempt.job.index())?;
        Some(job.replica(attempt.replica).expect("checked at the door"))
    }

    /// Whether this replica exists or existed. For a dropped job, only the number of its replicas is still known.
    pub(crate) fn knows_replica(&self, attempt: AttemptId) -> bool {
        match self.jobs.get(attempt.job.index()) {
            Some(job) => job.replica(attempt.replica).is_some(),
            None => self.jobs.note(attempt.job.index()).is_some_and(|replicas| attempt.replica < replicas),
        }
    }

    /// Marks a job that may be dropped once this instant is settled.
    pub(crate) fn job_is_over(&mut self, job: JobId) {
        if let Some(dropping) = &mut self.dropping {
            dropping.over.push(job);
        }
    }

    /// Drops the records of ended jobs. No other state may refer to these records any more.
    pub(crate) fn drop_ended(&mut self) {
        if self.dropping.as_ref().is_none_or(|dropping| dropping.over.is_empty()) {
            return;
        }
        let Some(Dropping { mut over, mut dropped }) = self.dropping.take() else { return };
        for job in over.drain(..) {
            let Some(record) = self.jobs.get(job.index()) else { continue };
            let of_job =
                AttemptId { job, replica: 0, number: 0 }..=AttemptId { job, replica: u32::MAX, number: u32::MAX };
            // Skip a job that has not ended. Also skip a job with kept claims: it is marked again when they are freed.
            if record.live > 0 || record.parked || self.kept.claims.range(of_job).next().is_some() {
                continue;
            }
            let (over, mut replicas) = (record.over, 0);
            for index in record.replicas() {
                let replica = self.replicas.drop_one(index as usize, 0);
                assert_eq!(replica.phase, Phase::Ended, "{} is dropped", replica.attempt_id());
                replicas += 1;
            }
            self.jobs.drop_one(job.index(), replicas);
            self.dependencies.remember_end(job, over);
            dropped.push(job);
        }
        self.dropping = Some(Dropping { over, dropped });
    }
}
