//! Estimates a machine's delays from recordings, as settings of a rehearsal.

use std::sync::Arc;

use super::compare::Agreement;
use super::outside::Found;
use super::timelines::timelines;
use dryrack_engine::Rehearsal;
use dryrack_event::{AttemptTimeline, Event, Input, Phase, Record, Said};
use dryrack_ids::{Names, RunId};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Arrival, JobBehavior};

/// The delays of a machine. Each is the median of recorded values, so it is a value that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The time from placement to start: `prepare`.
    pub start: SimDuration,
    /// How much longer a run lasts than its work: added to `duration`.
    pub length: SimDuration,
    /// The time from the request to stop to the end, if the process reacts: `stop`.
    pub stop: SimDuration,
    /// The largest lateness of samples: `sampling.jitter`, of which a draw's median is half.
    pub jitter: SimDuration,
    /// The number of values behind each of these, in this order.
    pub counts: [usize; 4],
    /// The results for an external scheduler, if one decided: `passes` and `completing` of the profile.
    pub outside: Option<Found>,
}

/// One recording and the rehearsal that predicted it.
pub struct Recording<'r> {
    pub rehearsal: &'r Rehearsal,
    pub records: &'r [Record],
    pub names: &'r Names,
    /// The interval at which an external scheduler was polled; zero if its actions were seen at once.
    pub every: SimDuration,
}

/// Fits the delays to all recordings together.
pub fn calibrate(recordings: &[Recording<'_>], interval: impl Fn(&Rehearsal, RunId) -> Option<SimDuration>) -> Delays {
    let (mut starts, mut lengths, mut stops, mut lates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for recording in recordings {
        for run in timelines(recording.records, recording.names) {
            let arrival = recording.rehearsal.arrivals.iter().find(|arrival| arrival.spec.name == run.job);
            let Some(arrival) = arrival else { continue };
            starts.extend(between(run.placed, run.started).map(|it| it.saturating_sub(arrival.behavior.prepare)));
            match run.stopping {
                None => lengths.extend(more_than_foretold(&run, &arrival.behavior)),
                Some(_) => {
                    stops.extend(between(run.stopping, run.ended).map(|it| it.saturating_sub(arrival.behavior.stop)))
                }
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

fn more_than_foretold(run: &AttemptTimeline, behavior: &JobBehavior) -> Option<SimDuration> {
    Some(between(run.started, run.ended)?.saturating_sub(behavior.run?))
}

/// The lateness of each sample relative to the multiples of its interval since the start.
fn lateness(
    recording: &Recording<'_>,
    interval: &impl Fn(&Rehearsal, RunId) -> Option<SimDuration>,
) -> Vec<SimDuration> {
    let mut started = std::collections::BTreeMap::new();
    let mut late = Vec::new();
    for record in recording.records {
        match &record.said {
            Said::Event(Event::Moved { run, to: Phase::Running, .. }) => {
                started.insert(*run, record.at);
            }
            Said::Input(Input::UsageSample { run, at, .. }) => {
                let since = between(started.get(run).copied(), Some(*at));
                let Some((since, interval)) = since.zip(interval(recording.rehearsal, *run)) else { continue };
                late.push(SimDuration::from_nanos(since.as_nanos() % interval.as_nanos()));
            }
            _ => {}
        }
    }
    late
}

/// The median, which is the lower of the two middle values; zero if there are none.
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
                run: behavior.run.map(|run| run.saturating_add(self.length)),
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

/// The absolute errors of predicted starts and ends, in nanoseconds.
pub fn exactness(found: &Agreement) -> [Vec<u64>; 2] {
    [&found.starts, &found.ends].map(|errors| errors.iter().map(|error| error.by.unsigned_abs()).collect())
}
