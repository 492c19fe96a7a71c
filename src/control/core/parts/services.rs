//! Services that scale with their requests: the number of replicas that each needs, and when this number last changed.

use std::collections::BTreeMap;

use dryrack_ids::JobId;
use dryrack_policy::{ScalingDecision, autoscale};
use dryrack_units::SimTime;
use dryrack_workload::Scaling;

/// The services whose requests were counted at least once.
#[derive(Default)]
pub struct Services(BTreeMap<JobId, Service>);

struct Service {
    /// Number of requests in the window at the last count.
    requests: u64,
    desired: u32,
    /// When the number of replicas last changed because of the requests.
    changed: Option<SimTime>,
    /// When the next check is due; `None` if no check is due.
    check_at: Option<SimTime>,
}

/// How the number of replicas of a service changes.
pub enum Rescaling {
    Now(u32),
    /// It must be checked again at this time.
    CheckAt(SimTime),
    No,
}

impl Services {
    /// Records the number of requests of a service in its window. A new service has this many replicas.
    pub fn count(&mut self, job: JobId, replicas: u32, requests: u64) {
        let new = Service { requests, desired: replicas, changed: None, check_at: None };
        self.0.entry(job).or_insert(new).requests = requests;
    }

    /// How the number of replicas of a service changes now.
    pub fn rescale(&mut self, job: JobId, scaling: &Scaling, now: SimTime) -> Rescaling {
        let Some(service) = self.0.get_mut(&job) else { return Rescaling::No };
        service.check_at = None;
        let since = service.changed.map(|changed| now.since(changed));
        match autoscale(scaling, service.desired, Some(service.requests), since) {
            ScalingDecision::To(desired) if desired != service.desired => {
                (service.desired, service.changed) = (desired, Some(now));
                Rescaling::Now(desired)
            }
            ScalingDecision::To(_) => Rescaling::No,
            ScalingDecision::NotBefore(delay) => {
                let at = service.changed.expect("a delay is since a change").saturating_add(delay);
                service.check_at = Some(at);
                Rescaling::CheckAt(at)
            }
        }
    }

    pub fn is_checked_at(&self, job: JobId, at: SimTime) -> bool {
        self.0.get(&job).is_some_and(|service| service.check_at == Some(at))
    }

    /// Forgets a service that has ended.
    pub fn forget(&mut self, job: JobId) {
        self.0.remove(&job);
    }
}
