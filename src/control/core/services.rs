//! Services that scale with their requests.

use super::Core;
use super::parts::services::Rescaling;
use super::store::JobRecord;
use super::timer::Timer;
use dryrack_ids::JobId;

impl Core {
    /// Records the number of requests of a service in its window. A count for a job that does not scale, or has ended,
    /// is ignored.
    pub(crate) fn count_requests(&mut self, job: JobId, requests: u64) {
        let scales = |record: &&JobRecord| {
            let is_over = (record.live == 0 && !record.parked) || record.cancelled;
            record.spec.scaling.is_some() && !is_over
        };
        if let Some(record) = self.store.jobs.get(job.index()).filter(scales) {
            self.services.count(job, record.spec.replicas, requests);
        }
    }

    /// The new number of replicas of a service. `None` if the number does not change now. If a change is due later,
    /// sets a timer for it.
    pub(crate) fn rescaled(&mut self, job: JobId) -> Option<u32> {
        let scaling = self.store.jobs.get(job.index())?.spec.scaling.as_deref()?;
        match self.services.rescale(job, scaling, self.now) {
            Rescaling::Now(desired) => Some(desired),
            Rescaling::CheckAt(at) => {
                self.timers.set(at, Timer::Rescale { job, at });
                None
            }
            Rescaling::No => None,
        }
    }
}
