//! Estimates the delays of a machine from recordings. A rehearsal can use them as settings.

use std::sync::Arc;

use super::compare::Agreement;
use super::outside::Calibration;
use super::timelines::timelines;
use dryrack_engine::Rehearsal;
use dryrack_event::{AttemptTimeline, Event, Input, Phase, Record, RecordBody, UsageFact};
use dryrack_ids::{AttemptId, Names};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, JobBehavior};

/// The delays of a machine. Each of the first three is the median of the recorded values, so it is a value that really
/// occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The time from placement to start, beyond the scenario's `prepare`.
    pub start: SimDuration,
    /// How much longer an attempt lasts than the scenario's `duration`.
    pub length: SimDuration,
    /// The time from the request to stop to the end, beyond the scenario's `stop`, for a process that reacts to the
    /// request.
    pub stop: SimDuration,
    /// The largest lateness of a sample, for `sampling.jitter`. The lateness is drawn uniformly, so this is twice the
    /// recorded median.
    pub jitter: SimDuration,
    /// How many recorded values each of the fields above is based on, in their order.
    pub counts: [usize; 4],
    /// The results about an external scheduler, if one decided. They set `passes` and `completing` of the profile.
    pub outside: Option<Calibration>,
}

/// One recording, with the rehearsal that predicted it.
pub struct Recording<'r> {
    pub rehearsal: &'r Rehearsal,
    pub records: &'r [Record],
    pub names: &'r Names,
    /// The interval at which the external scheduler was polled. Zero if its actions were seen at once.
    pub every: SimDuration,
}

/// Estimates the delays from all recordings together.
pub fn calibrate(
    recordings: &[Recording<'_>],
    interval: impl Fn(&Rehearsal, AttemptId) -> Option<SimDuration>,
) -> Delays {
    let (mut starts, mut lengths, mut stops, mut lates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for recording in recordings {
        for attempt in timelines(recording.records, recording.names) {
            let arrival = recording.rehearsal.arrivals.iter().find(|arrival| arrival.spec.name == attempt.job);
            let Some(arrival) = arrival else { continue };
            starts
                .extend(between(attempt.placed, attempt.started).map(|it| it.saturating_sub(arrival.behavior.prepare)));
            match attempt.stopping {
                None => lengths.extend(longer_than_predicted(&attempt, &arrival.behavior)),
                Some(_) => stops.extend(
                    between(attempt.stopping, attempt.ended).map(|it| it.saturating_sub(arrival.behavior.stop)),
                ),
            }
        }
        lates.extend(lateness(recording, &interval));
    }
    let counts = [starts.len(), lengths.len(), stops.len(), lates.len()];
    Delays {
        start: median(starts),
        length: median(lengths),
        stop: median(stops),
        jitter: median(lates).saturating_mul(2),
        counts,
        outside: None,
    }
}

fn between(from: Option<SimTime>, to: Option<SimTime>) -> Option<SimDuration> {
    to?.checked_since(from?)
}

fn longer_than_predicted(attempt: &AttemptTimeline, behavior: &JobBehavior) -> Option<SimDuration> {
    Some(between(attempt.started, attempt.ended)?.saturating_sub(behavior.run?))
}

/// How late each sample was. Samples are due at multiples of the interval after the start of the attempt.
fn lateness(
    recording: &Recording<'_>,
    interval: &impl Fn(&Rehearsal, AttemptId) -> Option<SimDuration>,
) -> Vec<SimDuration> {
    let mut started = std::collections::BTreeMap::new();
    let mut late = Vec::new();
    for record in recording.records {
        match &record.said {
            RecordBody::Event(Event::Moved { attempt, to: Phase::Running, .. }) => {
                started.insert(*attempt, record.at);
            }
            RecordBody::Input(Input::Usage(UsageFact::Sample { attempt, at, .. })) => {
                let since = between(started.get(attempt).copied(), Some(*at));
                let Some((since, interval)) = since.zip(interval(recording.rehearsal, *attempt)) else { continue };
                late.push(SimDuration::from_nanos(since.as_nanos() % interval.as_nanos()));
            }
            _ => {}
        }
    }
    late
}

/// The median; of two middle values, the lower one. Zero if there are no values.
pub(super) fn median(mut values: Vec<SimDuration>) -> SimDuration {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

impl Delays {
    /// The same scenario on a machine with these delays.
    pub fn apply(&self, rehearsal: &Rehearsal) -> Rehearsal {
        let arrival = |arrival: &Arrival| {
            let behavior = &arrival.behavior;
            let mut sampling = (*behavior.sampling).clone();
            sampling.jitter = sampling.jitter.saturating_add(self.jitter);
            let behavior = JobBehavior {
                prepare: behavior.prepare.saturating_add(self.start),
                run: behavior.run.map(|attempt| attempt.saturating_add(self.length)),
                stop: behavior.stop.saturating_add(self.stop),
                sampling: Arc::new(sampling),
                ..(**behavior).clone()
            };
            Arrival { behavior: Arc::new(behavior), ..arrival.clone() }
        };
        let rehearsal = Rehearsal { arrivals: rehearsal.arrivals.iter().map(arrival).collect(), ..rehearsal.clone() };
        match &self.outside {
            Some(found) => found.outside.apply(&rehearsal),
            None => rehearsal,
        }
    }
}

/// The absolute errors of the predicted starts, and those of the predicted ends, in nanoseconds.
pub fn exactness(found: &Agreement) -> [Vec<u64>; 2] {
    [&found.starts, &found.ends].map(|errors| errors.iter().map(|error| error.by.unsigned_abs()).collect())
}
