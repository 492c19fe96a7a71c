//! A job that arrives after the end of the run. It makes draws of its own, which must not be those of other jobs.

use std::sync::Arc;

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{events, same};
use dryrack_units::SimDuration;
use dryrack_workload::{Arrival, JobSpec};

pub fn judge(case: &Case<'_>) -> CheckResult {
    let world = case.world;
    let (Some(last), Some(first)) = (case.log.last(), world.arrivals.first()) else {
        return Ok(Judged::DoesNotApply);
    };
    let at = last.at.saturating_add(SimDuration::from_secs(1));
    let comes = world.arrivals.last().is_none_or(|arrival| arrival.at < at);
    if world.until.is_some_and(|until| at > until) || !comes {
        return Ok(Judged::DoesNotApply);
    }
    let mut more = world.clone();
    let spec = JobSpec {
        name: "later".into(),
        after: Arc::from([]),
        run_limit: None,
        shared_deadline: None,
        shared_retry: None,
        restarts_with: None,
        ..JobSpec::clone(&first.spec)
    };
    // The job may be one that never ends.
    more.until = Some(at);
    more.arrivals.push(Arrival { at, spec: Arc::new(spec), ..first.clone() });
    let until_then: Vec<_> = events(&log_of(&more), |_| true).into_iter().filter(|(then, _)| *then < at).collect();
    let own: Vec<_> = events(case.log, |_| true);
    same(&own, &until_then[..own.len().min(until_then.len())])
        .map_err(|difference| format!("one more job arrives at {at}:\n  {difference}"))?;
    Ok(Judged::Holds)
}
