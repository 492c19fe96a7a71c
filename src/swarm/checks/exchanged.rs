//! Two queues with the same rules exchange their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{TimedEvent, events};
use dryrack_event::Event;
use dryrack_scheduler::Lines;
use dryrack_workload::{Arrival, JobField, JobSpec};

pub fn judge(case: &Case<'_>) -> CheckResult {
    let world = case.world;
    let scheduler = &world.profile.scheduler;
    let reads_names = scheduler.stages_read(JobField::Queue);
    if !world.profile.flow.passes_over_queue() || scheduler.lines != Lines::EachQueue || reads_names {
        return Ok(Judged::DoesNotApply);
    }
    let mut exchanged = world.clone();
    for arrival in &mut exchanged.arrivals {
        let queue = arrival.spec.queue.as_deref().map(|queue| match queue {
            "short" => "long",
            "long" => "short",
            other => other,
        });
        let spec = JobSpec { queue: queue.map(Arc::from), ..JobSpec::clone(&arrival.spec) };
        *arrival = Arrival { spec: Arc::new(spec), ..arrival.clone() };
    }
    let (expected, found) = (placements(case), of_jobs(&events(&log_of(&exchanged), is_placement)));
    match expected.iter().find(|(job, own)| found.get(*job) != Some(own)) {
        None if expected.len() == found.len() => Ok(Judged::Holds),
        difference => Err(format!(
            "the queues `short` and `long` exchange their names:\n  expected {difference:?}\n     found {:?}",
            difference.map(|(job, _)| found.get(job))
        )),
    }
}

fn placements(case: &Case<'_>) -> BTreeMap<String, Vec<TimedEvent>> {
    of_jobs(&events(case.log, is_placement))
}

fn is_placement(event: &Event) -> bool {
    matches!(event, Event::Placed { .. })
}

fn of_jobs(events: &[TimedEvent]) -> BTreeMap<String, Vec<TimedEvent>> {
    let mut jobs: BTreeMap<String, Vec<TimedEvent>> = BTreeMap::new();
    for event in events {
        let attempt = event.1.attempt().map(|attempt| attempt.to_string()).unwrap_or_default();
        jobs.entry(attempt).or_default().push(event.clone());
    }
    jobs
}
