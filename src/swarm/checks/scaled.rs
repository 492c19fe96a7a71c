//! All times and durations are doubled. Doubling changes no bit of a fraction, so even ties stay ties.

use std::sync::Arc;

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{TimedEvent, events, same, with_times};
use dryrack_control::{Profile, Trigger, attained_width};
use dryrack_engine::Rehearsal;
use dryrack_event::Event;
use dryrack_scheduler::OrderKey;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Arrival, IdleLimit, JobBehavior, JobSpec, UtilizationRule};
use serde_json::Value;

pub fn judge(case: &Case<'_>) -> CheckResult {
    if !is_scalable(case.world) {
        return Ok(Judged::DoesNotApply);
    }
    let exact = with_exact_levels(case.world);
    let exact_log = exact.as_ref().map(log_of);
    let (world, log) = (exact.as_ref().unwrap_or(case.world), exact_log.as_deref().unwrap_or(case.log));
    let Some(doubled) = doubled(world) else { return Ok(Judged::DoesNotApply) };
    let half = |at: SimTime| SimTime::from_nanos(at.as_nanos() / 2);
    let halved = |event: Event| with_half_durations(with_times(event, half));
    let found = events(&log_of(&doubled), |_| true).into_iter().map(|(at, event)| (half(at), halved(event)));
    let mut found: Vec<TimedEvent> = found.collect();
    let mut expected = events(log, |_| true);
    // Kueue's eviction takes a second at least, which is no option. So what follows the first one is not compared.
    let is_eviction = |(_, event): &&TimedEvent| matches!(event, Event::Evicted { .. });
    if let Some((last, _)) = expected.iter().find(is_eviction).cloned() {
        expected.retain(|(at, _)| *at <= last);
        found.retain(|(at, _)| *at <= last);
    }
    same(&expected, &found).map_err(|difference| format!("all times are doubled:\n  {difference}"))?;
    Ok(Judged::Holds)
}

/// Halves the durations that an event holds. Events about a policy that fired do not occur here, because the worlds have
/// no samples.
fn with_half_durations(event: Event) -> Event {
    let half = |duration: SimDuration| SimDuration::from_nanos(duration.as_nanos() / 2);
    match event {
        Event::PolicyBound { attempt, source, mut values } => {
            values.time_window = half(values.time_window);
            values.interval = half(values.interval);
            values.longest_gap = half(values.longest_gap);
            values.grace = half(values.grace);
            if let UtilizationRule::Dstack { looks_every, first_within } = &mut values.rule {
                (*looks_every, *first_within) = (half(*looks_every), half(*first_within));
            }
            Event::PolicyBound { attempt, source, values }
        }
        other => other,
    }
}

/// Whether all times of a world are in its lists and its profile, and none is drawn or rounded during the run. A gang that
/// runs with fewer tasks runs longer by a fraction, which is rounded to a nanosecond.
fn is_scalable(world: &Rehearsal) -> bool {
    let profile = &world.profile;
    let scheduler = &profile.scheduler;
    let constants = [OrderKey::F1, OrderKey::Wfp3Rlscheduler, OrderKey::UnicefRlscheduler];
    let passes = [Some(profile.passes.analyse), Some(profile.passes.place), profile.passes.backfill];
    let has_samples = world.arrivals.iter().any(|arrival| arrival.behavior.usage.is_some());
    let has_requests = world.arrivals.iter().any(|arrival| arrival.behavior.requests.is_some());
    let is_elastic = |arrival: &Arrival| arrival.spec.demand.sets().iter().any(|set| set.min_tasks < set.tasks);
    profile.flow.passes_over_queue()
        && profile.slurm.is_none()
        && world.clouds.offers.iter().all(Vec::is_empty)
        && !scheduler.order.iter().any(|key| constants.contains(key))
        // Custom stages state times.
        && scheduler.own_stages().next().is_none()
        && passes.iter().flatten().all(|pass| pass.jitter.is_zero() && pass.trigger != Trigger::Outside)
        && is_exact(profile.retry.factor)
        && !has_samples
        && !has_requests
        && !world.arrivals.iter().any(is_elastic)
}

/// Whether a pause that grows by this factor stays a whole number of nanoseconds.
fn is_exact(factor: Permille) -> bool {
    factor.get().is_multiple_of(1000)
}

/// The world with limits of Tiresias's queues that each job reaches after a whole number of nanoseconds. Otherwise that
/// time is rounded: a limit in GPU time, divided by the number of GPUs. `None` if no limit changes.
fn with_exact_levels(world: &Rehearsal) -> Option<Rehearsal> {
    // One GPU second, in nanoseconds multiplied by thousandths of a GPU.
    const GPU_SECOND: u64 = 1_000_000_000_000;
    let widths = world.arrivals.iter().map(|arrival| attained_width(&arrival.spec.demand));
    let unit = widths.map(|width| width / gcd(width, GPU_SECOND)).fold(1, |one, other| one / gcd(one, other) * other);
    let levels: Vec<u64> = world.profile.scheduler.levels.iter().map(|level| level.next_multiple_of(unit)).collect();
    if levels == world.profile.scheduler.levels {
        return None;
    }
    let mut exact = world.clone();
    Arc::make_mut(&mut exact.profile).scheduler.levels = levels;
    Some(exact)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

fn doubled(world: &Rehearsal) -> Option<Rehearsal> {
    let mut world = world.clone();
    let twice = |at: SimTime| SimTime::from_nanos(at.as_nanos() * 2);
    world.profile = Arc::new(doubled_profile(&world.profile)?);
    world.arrivals = world.arrivals.iter().map(doubled_arrival).collect();
    world.cancellations.iter_mut().for_each(|(at, _)| *at = twice(*at));
    world.scalings.iter_mut().for_each(|(at, ..)| *at = twice(*at));
    world.faults.iter_mut().for_each(|(at, _)| *at = twice(*at));
    world.evaluations.iter_mut().for_each(|(at, _)| *at = twice(*at));
    world.kueue.iter_mut().for_each(|(at, _)| *at = twice(*at));
    world.until = world.until.map(twice);
    Some(world)
}

fn doubled_arrival(arrival: &Arrival) -> Arrival {
    let twice = |duration: SimDuration| duration.saturating_mul(2);
    let (mut spec, mut behavior) = (JobSpec::clone(&arrival.spec), JobBehavior::clone(&arrival.behavior));
    spec.estimate = spec.estimate.map(twice);
    spec.time_limit = spec.time_limit.map(twice);
    if let Some(retry) = &mut spec.retry {
        (retry.backoff.first, retry.backoff.max) = (twice(retry.backoff.first), twice(retry.backoff.max));
    }
    let policy = Arc::make_mut(&mut spec.utilization);
    for duration in [&mut policy.time_window, &mut policy.longest_gap, &mut policy.grace, &mut policy.interval] {
        *duration = duration.map(twice);
    }
    let terms = Arc::make_mut(&mut spec.terms);
    terms.retry.iter_mut().for_each(|retry| retry.duration = twice(retry.duration));
    terms.idle = terms.idle.map(|idle| match idle {
        IdleLimit::After(limit) => IdleLimit::After(twice(limit)),
        IdleLimit::Off => IdleLimit::Off,
    });
    behavior.run = behavior.run.map(twice);
    behavior.master_run = behavior.master_run.map(twice);
    behavior.prepare = twice(behavior.prepare);
    behavior.analysis = behavior.analysis.map(twice);
    behavior.stop = twice(behavior.stop);
    if let Some(checkpoint) = &mut behavior.checkpoint {
        (checkpoint.every, checkpoint.restart) = (twice(checkpoint.every), twice(checkpoint.restart));
    }
    if let Some(faults) = &mut behavior.random_faults {
        faults.starts.slow_by = twice(faults.starts.slow_by);
        faults.analyses.slow_by = twice(faults.analyses.slow_by);
        faults.acks.late_by = twice(faults.acks.late_by);
    }
    let at = SimTime::from_nanos(arrival.at.as_nanos() * 2);
    Arrival { at, spec: Arc::new(spec), behavior: Arc::new(behavior), ..arrival.clone() }
}

/// A profile holds each duration as a text with a unit, and nothing else has such a text. `None` if the profile has
/// another value of which doubling is not allowed.
fn doubled_profile(profile: &Profile) -> Option<Profile> {
    let mut data = serde_json::to_value(profile).expect("a profile has a JSON form");
    double(&mut data);
    let mut doubled: Profile = serde_json::from_value(data).ok()?;
    doubled.scheduler.levels.iter_mut().for_each(|level| *level *= 2);
    doubled.faults().is_empty().then_some(doubled)
}

fn double(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(double),
        Value::Array(items) => items.iter_mut().for_each(double),
        Value::String(text) => {
            if let Ok(duration) = text.parse::<SimDuration>() {
                *text = duration.saturating_mul(2).to_string();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
