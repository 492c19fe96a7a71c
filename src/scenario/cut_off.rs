//! Jobs of a trace and requests of services that come after the scenario stops the run.

use super::load::Loaded;
use dryrack_units::{SimTime, counted, grouped};
use dryrack_workload::ServiceRequest;

impl Loaded {
    /// What the run assumes, followed by what is not in its figures and not in it.
    pub fn assumed_and_cut_off(&self) -> Vec<String> {
        self.assumed.iter().cloned().chain(self.in_warm_up()).chain(self.cut_off()).collect()
    }

    /// A sentence about the jobs and requests that the figures leave out because they come before the end of `warm_up`. `None`
    /// without a warm-up.
    pub fn in_warm_up(&self) -> Option<String> {
        let warm_up = self.rehearsal.warm_up.filter(|warm_up| *warm_up > SimTime::ZERO)?;
        let (jobs, requests) = (self.rehearsal.jobs_and_early(), self.rehearsal.requests_and_early());
        let part = |(all, early): (usize, usize), word: &str| {
            (all > 0).then(|| format!("{} of {}", grouped(&early.to_string()), many(all, word)))
        };
        let parts: Vec<String> = part(jobs, "job").into_iter().chain(part(requests, "request")).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(" and ")) };
        Some(format!(
            "The figures leave out the first {warm_up} (`warm_up`), and what is submitted or arrives then{parts}"
        ))
    }

    /// Sentences about jobs and requests that are not in the run because they come after `until`. Of a resampled trace there
    /// are none: it is as long as the scenario states, and any part of it is as good as another one.
    pub fn cut_off(&self) -> Vec<String> {
        let Some(until) = self.rehearsal.until else { return Vec::new() };
        let mut sentences = Vec::new();
        for trace in self.trace.iter().filter(|trace| trace.resampled.is_none()) {
            sentences.extend(trace.after_until.map(|late| {
                let (jobs, are) = (counted(trace.tasks, "job"), if late == 1 { "is" } else { "are" });
                format!(
                    "{late} of {jobs} of {} {are} submitted after `until` ({until}), {}",
                    trace.name,
                    not_there(late)
                )
            }));
        }
        for arrival in &self.rehearsal.arrivals {
            // In a closed loop, the times of requests have no meaning.
            let Some(serving) = arrival.behavior.serving.as_ref().filter(|serving| serving.clients.is_none()) else {
                continue;
            };
            let is_there = |request: &ServiceRequest| arrival.at.saturating_add(request.at) <= until;
            let late = serving.requests.len() - serving.requests.partition_point(is_there);
            if late > 0 {
                let all = counted(serving.requests.len(), "request");
                let (job, come) = (&arrival.spec.name, if late == 1 { "comes" } else { "come" });
                sentences
                    .push(format!("{late} of {all} of `{job}` {come} after `until` ({until}), {}", not_there(late)));
            }
        }
        sentences
    }
}

/// A number with its noun: `1,817 requests`.
fn many(count: usize, word: &str) -> String {
    format!("{} {word}{}", grouped(&count.to_string()), if count == 1 { "" } else { "s" })
}

fn not_there(count: usize) -> &'static str {
    if count == 1 { "so it is not in the run" } else { "so they are not in the run" }
}
