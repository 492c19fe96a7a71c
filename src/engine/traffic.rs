//! The requests that come to services, as who counts them for the control plane hears of them.

use std::collections::BTreeMap;

use super::queue::EventQueue;
use super::world::Due;
use dryrack_event::Input;
use dryrack_ids::JobId;
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, next_count};

/// What was last said of each service.
#[derive(Default)]
pub(super) struct Traffic {
    said: BTreeMap<JobId, u64>,
}

/// A job is submitted: if it is a service that scales, its requests are counted from now on.
pub(super) fn begin(queue: &mut EventQueue<Due>, arrival: &Arrival, job: JobId) {
    if arrival.spec.scaling.is_some() && arrival.behavior.requests.is_some() {
        queue.push(next_count(arrival.at, 0), Due::Requests { job, counts: 0 });
    }
}

impl Traffic {
    /// One count, and the next one if that could be another. A count that is as the last one says nothing new.
    pub fn count(
        &mut self,
        queue: &mut EventQueue<Due>,
        arrival: &Arrival,
        (job, counts): (JobId, u64),
        now: SimTime,
    ) -> Option<Input> {
        let (scaling, requests) = (arrival.spec.scaling.as_ref()?, arrival.behavior.requests.as_ref()?);
        let since = now.since(arrival.at);
        if since < requests.settled(scaling.window) {
            let counts = counts + 1;
            queue.push(next_count(arrival.at, counts), Due::Requests { job, counts });
        }
        let requests = requests.count(since, scaling.window);
        let before = self.said.insert(job, requests);
        (before != Some(requests)).then_some(Input::RequestsCounted { job, requests })
    }
}
