//! Refuses runs that would never end, or would take far too long. Such a file is an input error.

use super::clouds;
use super::world::World;
use dryrack_control::Profile;
use dryrack_ids::JobId;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Arrival, Ending, Restart};
use dryrack_yaml::{Report, Span};

/// The largest number of attempts of one job. Simulating this many takes seconds; a larger number is surely a mistake.
const MAX_ATTEMPTS: u64 = 1_000_000;

/// Refuses every job that would be retried forever, or more than [`MAX_ATTEMPTS`] times. `cancellations` may be in any
/// order.
pub(super) fn refuse(
    arrivals: &[Arrival],
    world: &World,
    cancellations: &[(SimTime, JobId)],
    (profile, until): (&Profile, Option<SimTime>),
    report: &mut Report,
) {
    clouds::refuse_endless(world, until, report);
    let spans = &world.job_spans;
    refuse_vast(arrivals, spans, profile, report);
    let mut ends: Vec<Option<SimTime>> = vec![until; arrivals.len()];
    for (at, job) in cancellations {
        let end = &mut ends[job.index()];
        *end = Some(end.map_or(*at, |end| end.min(*at)));
    }
    let mut reported = None;
    for ((arrival, span), end) in arrivals.iter().zip(spans).zip(ends) {
        if end.is_none() && reported != Some(*span) && is_sampled_for_ever(arrival, profile) {
            reported = Some(*span);
            let message = format!("`{}` is sampled forever, so the run would never end", arrival.spec.name);
            let help = "write `until: 1h` in the file, or give the job a `duration`, `time_limit` or `cancel_at`";
            report.error_with_help(*span, message, help);
            continue;
        }
        let Some(again) = again(arrival, profile).filter(|_| reported != Some(*span)) else { continue };
        let name = &arrival.spec.name;
        let time = end.map(|end| SimDuration::from_nanos(end.as_nanos().saturating_sub(arrival.at.as_nanos())));
        let attempts = match (time, again.most) {
            (None, None) => {
                reported = Some(*span);
                let message = format!("`{name}` {} forever, so the run would never end", again.how);
                let limit = if again.restarts { "" } else { ", or a limit such as `retry: {limit: 5}`" };
                let help = format!("write `until: 1h` in the file, or give the job a `cancel_at`{limit}");
                report.error_with_help(*span, message, help);
                continue;
            }
            (Some(time), most) => (time.as_nanos() / again.cycle.as_nanos().max(1)).min(most.unwrap_or(u64::MAX)),
            (None, Some(most)) => most,
        };
        if attempts > MAX_ATTEMPTS {
            reported = Some(*span);
            let message = format!("`{name}` {} {attempts} times, once every {}", again.how, again.cycle);
            let help = match again.cycle < SimDuration::from_secs(1) {
                true => "write longer pauses, such as `retry: {first: 10s}`, or end the job earlier",
                false => "end the job earlier, or write a limit such as `retry: {limit: 5}`",
            };
            report.error_with_help(*span, message, help);
        }
    }
}

/// The largest number of nodes of one run. Every change on one node is visible to all others, so the work grows fast.
const MAX_NODES_OF_RUN: u32 = 10_000;

/// Refuses runs with more nodes than can be processed in reasonable time.
fn refuse_vast(arrivals: &[Arrival], spans: &[Span], profile: &Profile, report: &mut Report) {
    let mut reported = None;
    for (arrival, span) in arrivals.iter().zip(spans).filter(|_| profile.flow.places_runs()) {
        let nodes = arrival.spec.demand.nodes_apart();
        if nodes > MAX_NODES_OF_RUN && reported != Some(*span) {
            reported = Some(*span);
            let message = format!("`{}` is a run of {nodes} nodes, which is too many", arrival.spec.name);
            report.error_with_help(*span, message, format!("write {MAX_NODES_OF_RUN} or fewer, or use several jobs"));
        }
    }
}

/// Whether the job does not end by itself and a policy samples its GPUs.
fn is_sampled_for_ever(arrival: &Arrival, profile: &Profile) -> bool {
    let (spec, behavior) = (&arrival.spec, &arrival.behavior);
    behavior.run.is_none()
        && behavior.usage.is_some()
        && spec.time_limit.is_none()
        && spec.shared_deadline.is_none()
        && profile.policies.utilization.bind(&spec.utilization).is_some()
}

/// A job that is attempted again and again.
struct RepeatedJob {
    how: &'static str,
    /// Whether each attempt ends by itself and is restarted, rather than failing.
    restarts: bool,
    /// The time from one attempt to the next, once the pauses between attempts have reached their maximum.
    cycle: SimDuration,
    /// The number of attempts, if some limit other than time applies.
    most: Option<u64>,
}

fn again(arrival: &Arrival, profile: &Profile) -> Option<RepeatedJob> {
    let (spec, behavior) = (&arrival.spec, &arrival.behavior);
    let policy = profile.retry_of(spec);
    let (first, max) = (policy.backoff.first.min(policy.backoff.max), policy.backoff.max);
    let grown = if policy.backoff.factor > Permille::new(1000) { max } else { first };
    let is_certain = |chance: Permille| chance >= Permille::new(1000);
    let unlimited = policy.limit.is_none();
    // Exceeding a deadline counts as a failure too.
    let (analysing, preparing) = (profile.deadlines.analysing, profile.deadlines.preparing);
    let random_faults = behavior.random_faults.as_deref().copied().unwrap_or_default();
    let analyses = random_faults.analyses;
    let hangs = is_certain(analyses.hang) || behavior.analysis.is_none_or(|length| length > analysing);
    if spec.analyse && (behavior.analysis_fails || hangs || is_certain(analyses.fail)) {
        let cycle = behavior.analysis.filter(|_| !hangs).unwrap_or(analysing).saturating_add(grown);
        return unlimited.then_some(RepeatedJob { how: "fails its analysis", restarts: false, cycle, most: None });
    }
    if is_certain(random_faults.starts.fail) || behavior.prepare > preparing {
        let cycle = behavior.prepare.min(preparing).saturating_add(grown);
        return unlimited.then_some(RepeatedJob { how: "fails to start", restarts: false, cycle, most: None });
    }
    if is_certain(random_faults.acks.lost) {
        let cycle = profile.deadlines.scheduled.saturating_add(grown);
        return unlimited.then_some(RepeatedJob {
            how: "is never acknowledged and is tried again",
            restarts: false,
            cycle,
            most: None,
        });
    }
    if policy.limit.is_some_and(|limit| behavior.failing_starts > limit) {
        return None;
    }
    let starts = RepeatedJob {
        how: "fails to start",
        restarts: false,
        cycle: behavior.prepare.saturating_add(grown),
        most: Some(u64::from(behavior.failing_starts)),
    };
    let starts = (behavior.failing_starts > 0).then_some(starts);
    let Some(length) = behavior.run else { return starts };
    // A service must keep its number of replicas, so it replaces a replica that has ended.
    if spec.scaling.is_some() {
        let cycle = behavior.prepare.saturating_add(length);
        return Some(RepeatedJob { how: "is restarted", restarts: true, cycle, most: None });
    }
    // A job that reaches its time limit has expired, and is not retried.
    if spec.time_limit.is_some_and(|limit| length > limit) {
        return starts;
    }
    let goes_on = match spec.restart {
        Restart::Never => false,
        Restart::OnFailure => behavior.ending == Ending::Failed,
        Restart::Always => true,
    };
    // A run that lasts at least as long as the longest pause resets the failure count. The next pause is then the first
    // one again.
    let is_forgiven = length >= max && !length.is_zero();
    match goes_on && (unlimited || is_forgiven) {
        true => {
            let pause = if is_forgiven { first } else { grown };
            let cycle = behavior.prepare.saturating_add(length).saturating_add(pause);
            Some(RepeatedJob { how: "is restarted", restarts: true, cycle, most: None })
        }
        false => starts,
    }
}
