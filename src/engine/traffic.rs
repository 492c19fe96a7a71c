//! Counts the requests to services and reports the counts to the control plane.

use std::collections::BTreeMap;

use super::queue::EventQueue;
use super::world::Due;
use dryrack_event::{Input, UsageFact};
use dryrack_ids::JobId;
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, next_count};

/// The last reported count of each service.
#[derive(Default)]
pub(super) struct Traffic {
    said: BTreeMap<JobId, u64>,
}

/// Starts to count the requests of a submitted job, if the job is a service that scales.
pub(super) fn begin(queue: &mut EventQueue<Due>, arrival: &Arrival, job: JobId) {
    let behavior = &arrival.behavior;
    if arrival.spec.scaling.is_some() && (behavior.requests.is_some() || behavior.serving.is_some()) {
        queue.push(next_count(arrival.at, 0), Due::Requests { job, counts: 0 });
    }
}

impl Traffic {
    /// Counts the requests once, and schedules the next count if the count could change. Returns no input if the count
    /// is the same as the last reported count.
    pub fn count(
        &mut self,
        queue: &mut EventQueue<Due>,
        arrival: &Arrival,
        (job, counts): (JobId, u64),
        now: SimTime,
    ) -> Option<Input> {
        let (scaling, behavior) = (arrival.spec.scaling.as_ref()?, &arrival.behavior);
        let since = now.since(arrival.at);
        let (requests, settled) = match (&behavior.serving, &behavior.requests) {
            (Some(serving), _) => (serving.count(since, scaling.window), serving.settled(scaling.window)),
            (None, Some(requests)) => (requests.count(since, scaling.window), requests.settled(scaling.window)),
            (None, None) => return None,
        };
        if since < settled {
            let counts = counts + 1;
            queue.push(next_count(arrival.at, counts), Due::Requests { job, counts });
        }
        let before = self.said.insert(job, requests);
        (before != Some(requests)).then_some(Input::Usage(UsageFact::Requests { job, requests }))
    }
}
