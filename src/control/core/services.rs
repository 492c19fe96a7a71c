//! Services that scale with their requests: the number of replicas that each needs, and when this number last changed.

use std::collections::BTreeMap;

use super::Core;
use super::store::JobRecord;
use super::timer::Timer;
use dryrack_ids::JobId;
use dryrack_policy::{ScalingDecision, autoscale};
use dryrack_units::SimTime;

/// The services whose requests were counted at least once.
pub(super) type Services = BTreeMap<JobId, Service>;

pub(super) struct Service {
    /// Number of requests in the window at the last count.
    requests: u64,
    desired: u32,
    /// When the number of replicas last changed because of the requests.
    changed: Option<SimTime>,
    /// When the next check is due; `None` if no check is due.
    check_at: Option<SimTime>,
}

impl Core {
    /// Records the number of requests of a service in its window. A count for a job that does not scale, or has ended,
    /// is ignored.
    pub(crate) fn count_requests(&mut self, job: JobId, requests: u64) {
        let scales = |record: &&JobRecord| {
            let is_over = (record.live == 0 && !record.parked) || record.cancelled;
            record.spec.scaling.is_some() && !is_over
        };
        let Some(record) = self.jobs.get(job.index()).filter(scales) else { return };
        let new = Service { requests, desired: record.spec.replicas, changed: None, check_at: None };
        self.services.entry(job).or_insert(new).requests = requests;
    }

    /// The new number of replicas of a service. `None` if the number does not change now. If a change is due later,
    /// sets a timer for it.
    pub(crate) fn rescaled(&mut self, job: JobId) -> Option<u32> {
        let (now, scaling) = (self.now, self.jobs.get(job.index())?.spec.scaling.as_deref().copied()?);
        let service = self.services.get_mut(&job)?;
        service.check_at = None;
        let since = service.changed.map(|changed| now.since(changed));
        match autoscale(&scaling, service.desired, Some(service.requests), since) {
            ScalingDecision::To(desired) if desired != service.desired => {
                (service.desired, service.changed) = (desired, Some(now));
                Some(desired)
            }
            ScalingDecision::To(_) => None,
            ScalingDecision::NotBefore(delay) => {
                let at = service.changed.expect("a delay is since a change").saturating_add(delay);
                service.check_at = Some(at);
                self.timers.set(at, Timer::Rescale { job, at });
                None
            }
        }
    }

    pub(super) fn is_rescaled_at(&self, job: JobId, at: SimTime) -> bool {
        self.services.get(&job).is_some_and(|service| service.check_at == Some(at))
    }

    /// Forgets a service that has ended.
    pub(super) fn forget_service(&mut self, job: JobId) {
        self.services.remove(&job);
    }
}
