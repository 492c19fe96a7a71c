//! Everything happens later by the same time.

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{events, same, with_times};
use dryrack_control::{CLOSE, PassTime, Profile, Trigger};
use dryrack_engine::Rehearsal;
use dryrack_event::{Input, Record, RecordBody, UsageFact};
use dryrack_scheduler::{Backfill, OrderKey};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::UtilizationRule;

/// The longest shift. A world whose periods fit together only after a longer time is not judged.
const LONGEST: SimDuration = SimDuration::from_secs(365 * 86_400);

const WEEK: SimDuration = SimDuration::from_secs(7 * 86_400);

pub fn judge(case: &Case<'_>) -> CheckResult {
    let world = case.world;
    let Some(by) = shift_of(&world.profile).filter(|_| world.clouds.offers.iter().all(Vec::is_empty)) else {
        return Ok(Judged::DoesNotApply);
    };
    if case.log.iter().any(is_cut_off) {
        return Ok(Judged::DoesNotApply);
    }
    let later = shifted(world, by);
    let back = |at: SimTime| SimTime::from_nanos(at.as_nanos().saturating_sub(by.as_nanos()));
    let found = events(&log_of(&later), |_| true).into_iter().map(|(at, event)| (back(at), with_times(event, back)));
    same(&events(case.log, |_| true), &found.collect::<Vec<_>>())
        .map_err(|difference| format!("everything happens {by} later:\n  {difference}"))?;
    Ok(Judged::Holds)
}

/// Whether the record is a sample of a clock that lags, so that its time would lie before time zero. It is stamped with
/// time zero instead, and would have another time in a world that begins later.
fn is_cut_off(record: &Record) -> bool {
    match &record.said {
        RecordBody::Input(Input::Usage(UsageFact::Sample { at, .. })) => {
            *at == SimTime::ZERO && record.at > SimTime::ZERO
        }
        RecordBody::Input(_) | RecordBody::Event(_) => false,
    }
}

/// A time after which all periods of the profile begin together again, as at time zero. `None` if a profile decides by
/// absolute times, or draws the beginning of each pass.
fn shift_of(profile: &Profile) -> Option<SimDuration> {
    let scheduler = &profile.scheduler;
    let absolute = [OrderKey::F1, OrderKey::Wfp3Rlscheduler, OrderKey::UnicefRlscheduler];
    if !profile.flow.passes_over_queue()
        || profile.slurm.is_some()
        || profile.ticks.is_some()
        || scheduler.order.iter().any(|key| absolute.contains(key))
    {
        return None;
    }
    let mut periods = vec![profile.heartbeat.every, profile.policies.utilization.interval];
    periods.extend(profile.heartbeat.checked_every);
    // Custom stages read the hour and the weekday.
    periods.extend(scheduler.own_stages().next().map(|_| WEEK));
    periods.extend(profile.heartbeat.evicted_every);
    if let UtilizationRule::Dstack { looks_every, .. } = profile.policies.utilization.rule {
        periods.push(looks_every);
    }
    if scheduler.order.contains(&OrderKey::FairShare) {
        // Usage halves as a whole, so no rounding differs.
        periods.push(scheduler.fair_share.half_life);
    }
    if scheduler.backfill == Backfill::Slots {
        // Ends of attempts that are close to a multiple of this time are tried together.
        periods.extend([scheduler.slots.resolution, CLOSE]);
    }
    let passes = [Some(profile.passes.analyse), Some(profile.passes.place), profile.passes.backfill];
    for pass in passes.into_iter().flatten() {
        match pass.trigger {
            Trigger::Event => {}
            // The first pass comes after the offset. Later, a job never waits longer than a period.
            Trigger::Every(period) if pass.offset >= period => return None,
            // A pass that takes time moves the next one, so its beginnings are no multiples of a period.
            Trigger::Every(period) if pass.jitter.is_zero() && pass.takes == PassTime::NONE => periods.push(period),
            Trigger::Every(_) | Trigger::EachAfter(_) | Trigger::Outside => return None,
        }
    }
    let multiple = |one: u64, other: u64| {
        let (mut a, mut b) = (one, other);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        (one / a).checked_mul(other).filter(|all| *all <= LONGEST.as_nanos())
    };
    let all = periods.iter().map(|period| period.as_nanos()).filter(|period| *period > 0);
    all.into_iter().try_fold(1, multiple).map(SimDuration::from_nanos)
}

fn shifted(world: &Rehearsal, by: SimDuration) -> Rehearsal {
    let mut world = world.clone();
    world.arrivals.iter_mut().for_each(|arrival| arrival.at += by);
    world.cancellations.iter_mut().for_each(|(at, _)| *at += by);
    world.scalings.iter_mut().for_each(|(at, ..)| *at += by);
    world.faults.iter_mut().for_each(|(at, _)| *at += by);
    world.evaluations.iter_mut().for_each(|(at, _)| *at += by);
    // The objects of time zero are there before anything happens, as the nodes are.
    world.kueue.iter_mut().filter(|(at, _)| *at > SimTime::ZERO).for_each(|(at, _)| *at += by);
    world.until = world.until.map(|until| until + by);
    world
}
