//! Warns if a profile decides by run-time estimates and no job of the scenario has one.

use dryrack_control::Profile;
use dryrack_scheduler::Backfill;
use dryrack_workload::{Arrival, JobField};
use dryrack_yaml::{Fields, Report};

/// Warns that no job has an estimate, and says how the profile decides without one.
pub(super) fn warn(file: &Fields<'_>, profile: Option<&Profile>, arrivals: &[Arrival], report: &mut Report) {
    // A profile that could not be read has already been reported.
    let Some(profile) = profile else { return };
    let scheduler = &profile.scheduler;
    let backfilled = match scheduler.backfill {
        Backfill::None => None,
        Backfill::Easy | Backfill::Rlscheduler => Some("nothing is backfilled, so it decides like `fifo`"),
        Backfill::Conservative => Some("no reservation has an end, so it decides like `fifo-skipping`"),
        Backfill::Slots => Some("each job counts as one year long"),
    };
    let so = match scheduler.order.iter().any(|key| key.uses_estimate()) {
        true => Some("the estimates do not change the order"),
        false if scheduler.stages_read(JobField::Estimate) => Some("its filters and scorers read 1e15 seconds"),
        false => backfilled,
    };
    let Some(so) = so.filter(|_| arrivals.len() > 1) else { return };
    if arrivals.iter().all(|arrival| arrival.spec.estimate.is_none()) {
        let place = file.get("profile").map_or(file.place(), |tree| tree.span);
        let help = "add `estimate: 2h` to jobs, or `estimates: exact` to a trace";
        report.warning(place, format!("`{}` decides by estimates, but no job has one: {so}", profile.name), help);
    }
}
