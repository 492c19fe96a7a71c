//! What has ended and cannot be spoken of with effect any more is dropped, so that a long run does not grow with all it
//! has done. Every output is the same as if it were kept.

use super::Control;
use dryrack_event::Phase;
use dryrack_ids::{JobId, RunId};

#[derive(Default)]
pub(super) struct Dropping {
    /// Have ended, or have freed the last of what they kept, since the last look.
    over: Vec<JobId>,
    /// Dropped since it was last asked.
    dropped: Vec<JobId>,
}

impl Control {
    /// The same, without keeping records of jobs that are over: nothing can be asked about these any more, and the profile
    /// cannot change. Flows of scans and of looks keep all: their rows outlive their jobs.
    pub fn dropping_ended(self) -> Control {
        let is_direct = self.scan.is_none() && self.runs.is_none();
        Control { dropping: is_direct.then(Dropping::default), ..self }
    }

    /// Hands on each job that was dropped since it was last asked.
    pub fn take_dropped(&mut self, take: impl FnMut(JobId)) {
        self.dropping.iter_mut().flat_map(|dropping| dropping.dropped.drain(..)).for_each(take);
    }

    /// The place of a replica; none if its job is over and was dropped.
    pub(super) fn replica_of(&self, run: RunId) -> Option<super::store::ReplicaIndex> {
        let job = self.jobs.get(run.job.index())?;
        Some(job.replica(run.replica).expect("checked at the door"))
    }

    /// Of a job that was dropped it is noted how many replicas there were.
    pub(super) fn knows_replica(&self, run: RunId) -> bool {
        match self.jobs.get(run.job.index()) {
            Some(job) => job.replica(run.replica).is_some(),
            None => self.jobs.note(run.job.index()).is_some_and(|replicas| run.replica < replicas),
        }
    }

    /// It may be one to be dropped, once this instant is settled.
    pub(super) fn job_is_over(&mut self, job: JobId) {
        if let Some(dropping) = &mut self.dropping {
            dropping.over.push(job);
        }
    }

    pub(super) fn drop_ended(&mut self) {
        // What waits to be analysed is looked at by its place there, though it has ended since.
        let is_idle = self.dropping.as_ref().is_none_or(|dropping| dropping.over.is_empty());
        if is_idle || !self.analysis_queue.is_empty() {
            return;
        }
        let Some(Dropping { mut over, mut dropped }) = self.dropping.take() else { return };
        for job in over.drain(..) {
            let Some(record) = self.jobs.get(job.index()) else { continue };
            let of_job = RunId { job, replica: 0, attempt: 0 }..=RunId { job, replica: u32::MAX, attempt: u32::MAX };
            // Otherwise it is looked at again when that is freed.
            if record.live > 0 || record.parked || self.kept_claims.range(of_job).next().is_some() {
                continue;
            }
            let mut replicas = 0;
            for index in record.replicas() {
                let replica = self.replicas.drop_one(index as usize, 0);
                assert_eq!(replica.phase, Phase::Ended, "{} is dropped", replica.run());
                replicas += 1;
            }
            self.jobs.drop_one(job.index(), replicas);
            dropped.push(job);
        }
        self.dropping = Some(Dropping { over, dropped });
    }
}
