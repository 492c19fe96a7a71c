//! What recordings say of a machine's delays, as settings of a rehearsal.

use std::sync::Arc;

use super::again::{Again, again};
use super::compare::{Agreement, compare};
use super::courses::courses;
use crate::control::{PassOptions, PassTime, Profile, Trigger};
use crate::engine::Rehearsal;
use crate::event::{Event, Input, Phase, Record, RunCourse, Said};
use crate::ids::{Names, RunId};
use crate::units::{SimDuration, SimTime};
use crate::workload::{Arrival, Course};

/// Delays of a machine. Each is a median of what was recorded, so it is one that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// From placement to start: `prepare`.
    pub start: SimDuration,
    /// How much longer a run lasts than what it does: in `duration`.
    pub length: SimDuration,
    /// From the word to stop to the end, where the process listens: `stop`.
    pub stop: SimDuration,
    /// Samples are up to so much late: `sampling.jitter`, of which the median of a draw is half.
    pub jitter: SimDuration,
    /// How many values each is of, in this order.
    pub counts: [usize; 4],
    /// Of a scheduler outside, where one decided: `passes` and `completing` of the profile.
    pub passes: Option<Outside>,
}

/// Periods that are tried for a scheduler outside, beside none at all: those that Slurm's own are of (sched_interval,
/// bf_interval and sched_min_interval of slurm.conf(5), Slurm 22.05, from a second to a minute), and shorter ones.
const PERIODS: [SimDuration; 12] = [
    SimDuration::from_millis(100),
    SimDuration::from_millis(250),
    SimDuration::from_millis(500),
    SimDuration::from_secs(1),
    SimDuration::from_millis(1500),
    SimDuration::from_secs(2),
    SimDuration::from_secs(3),
    SimDuration::from_secs(5),
    SimDuration::from_secs(10),
    SimDuration::from_secs(20),
    SimDuration::from_secs(30),
    SimDuration::from_secs(60),
];

/// Phases that are tried, as parts of a period.
const PHASES: u64 = 8;

/// For how long a job completes, as tried beside what the profile says: as long as a Slurm with an epilog would.
const COMPLETING: [SimDuration; 5] = [
    SimDuration::ZERO,
    SimDuration::from_millis(250),
    SimDuration::from_millis(500),
    SimDuration::from_secs(1),
    SimDuration::from_secs(3),
];

/// When a scheduler outside looks at its queue, and for how long a job completes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    pub place: PassOptions,
    /// Of a profile that backfills at its own pace.
    pub backfill: Option<PassOptions>,
    pub completing: SimDuration,
}

impl Outside {
    fn of(profile: &Profile) -> Outside {
        Outside { place: profile.passes.place, backfill: profile.passes.backfill, completing: profile.completing }
    }

    fn apply(self, rehearsal: &Rehearsal) -> Rehearsal {
        let mut profile = (*rehearsal.profile).clone();
        (profile.passes.place, profile.passes.backfill) = (self.place, self.backfill);
        (profile.completing, profile.ticks) = (self.completing, None);
        Rehearsal { profile: Arc::new(profile), ..rehearsal.clone() }
    }

    /// Both passes at the same time, or at any. What a pass takes would have to be seen to the millisecond.
    fn of_one_period(self) -> Vec<Outside> {
        let one = |trigger: Trigger| {
            let pass = |pass: PassOptions| with_phase(PassOptions { trigger, takes: PassTime::NONE, ..pass }, 0);
            Outside { place: pass(self.place), backfill: self.backfill.map(pass), ..self }
        };
        std::iter::once(Trigger::Event).chain(PERIODS.map(Trigger::Every)).map(one).collect()
    }

    fn with_phases_of_both(self) -> Vec<Outside> {
        let at = |phase| Outside {
            place: with_phase(self.place, phase),
            backfill: self.backfill.map(|pass| with_phase(pass, phase)),
            ..self
        };
        (0..PHASES).map(at).collect()
    }

    fn with_phases_to_place(self) -> Vec<Outside> {
        (0..PHASES).map(|phase| Outside { place: with_phase(self.place, phase), ..self }).collect()
    }

    /// As it is, and backfilling by any other clock.
    fn with_backfilling(self) -> Vec<Outside> {
        let Some(pass) = self.backfill.filter(|pass| matches!(pass.trigger, Trigger::Every(_))) else {
            return vec![self];
        };
        let of_period = |period| {
            let pass = PassOptions { trigger: Trigger::Every(period), ..pass };
            (0..PHASES).map(move |phase| with_phase(pass, phase))
        };
        let others = PERIODS.into_iter().flat_map(of_period).map(|pass| Outside { backfill: Some(pass), ..self });
        std::iter::once(self).chain(others).collect()
    }

    fn with_completing(self) -> Vec<Outside> {
        let others = COMPLETING.into_iter().map(|completing| Outside { completing, ..self });
        std::iter::once(self).chain(others).collect()
    }
}

fn with_phase(pass: PassOptions, phase: u64) -> PassOptions {
    let offset = match pass.trigger {
        Trigger::Every(period) => SimDuration::from_nanos(period.as_nanos() / PHASES * phase),
        Trigger::Event | Trigger::EachAfter(_) | Trigger::Outside => SimDuration::ZERO,
    };
    PassOptions { offset, ..pass }
}

/// Of recordings in which a scheduler outside decided, with the lengths that were recorded: the clocks that leave the least
/// median error of starts, of equals the least error of all, of those the first; and by how much starts are still later
/// then. One after the other are fitted: a period of both passes, a phase of both, period and phase of backfilling, the phase of
/// the other pass, and for how long a job completes. `rehearse` runs one; nothing where nothing started.
pub fn calibrate_outside(
    recordings: &[Recording<'_>],
    rehearse: impl Fn(&Rehearsal) -> Vec<Record>,
) -> Option<(Outside, SimDuration)> {
    let errors = |tried: Outside| -> Vec<i64> {
        let of_one = |recording: &Recording<'_>| {
            let Again { rehearsal, .. } = again(recording.rehearsal.clone(), recording.records, recording.names);
            let foretold = courses(&rehearse(&tried.apply(&rehearsal)), recording.names);
            let real = courses(recording.records, recording.names);
            compare(&foretold, &real, |_| None).starts.into_iter().map(|error| error.by).collect::<Vec<i64>>()
        };
        recordings.iter().flat_map(of_one).collect()
    };
    let best = |tried: Vec<Outside>| -> Option<Outside> {
        let scored = tried.into_iter().filter_map(|tried| Some((score(&errors(tried))?, tried)));
        scored.min_by_key(|(score, _)| *score).map(|(_, tried)| tried)
    };
    let mut found = Outside::of(&recordings.first()?.rehearsal.profile);
    for others in [
        Outside::of_one_period,
        Outside::with_phases_of_both,
        Outside::with_backfilling,
        Outside::with_phases_to_place,
        Outside::with_completing,
    ] {
        found = best(others(found))?;
    }
    let later = errors(found).iter().map(|error| SimDuration::from_nanos(u64::try_from(*error).unwrap_or(0))).collect();
    Some((found, median(later)))
}

/// The lower of the two errors in the middle, whatever their signs, and all of them together.
fn score(errors: &[i64]) -> Option<(u64, u64)> {
    let mut sizes: Vec<u64> = errors.iter().map(|error| error.unsigned_abs()).collect();
    sizes.sort_unstable();
    let middle = sizes.get(sizes.len().saturating_sub(1) / 2).copied()?;
    Some((middle, sizes.iter().fold(0, |all, size| all.saturating_add(*size))))
}

/// One recording and the rehearsal that foretold it.
pub struct Recording<'r> {
    pub rehearsal: &'r Rehearsal,
    pub records: &'r [Record],
    pub names: &'r Names,
}

/// Fitted on all of these together.
pub fn calibrate(recordings: &[Recording<'_>], interval: impl Fn(&Rehearsal, RunId) -> Option<SimDuration>) -> Delays {
    let (mut starts, mut lengths, mut stops, mut lates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for recording in recordings {
        for run in courses(recording.records, recording.names) {
            let arrival = recording.rehearsal.arrivals.iter().find(|arrival| arrival.spec.name == run.job);
            let Some(arrival) = arrival else { continue };
            starts.extend(between(run.placed, run.started).map(|it| it.saturating_sub(arrival.course.prepare)));
            match run.stopping {
                None => lengths.extend(more_than_foretold(&run, &arrival.course)),
                Some(_) => {
                    stops.extend(between(run.stopping, run.ended).map(|it| it.saturating_sub(arrival.course.stop)))
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
        passes: None,
    }
}

fn between(from: Option<SimTime>, to: Option<SimTime>) -> Option<SimDuration> {
    to?.checked_since(from?)
}

fn more_than_foretold(run: &RunCourse, course: &Course) -> Option<SimDuration> {
    Some(between(run.started, run.ended)?.saturating_sub(course.run?))
}

/// How late each sample was, against the multiples of its interval since the start.
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

/// The lower of the two in the middle; nothing for none.
fn median(mut values: Vec<SimDuration>) -> SimDuration {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

impl Delays {
    /// The same scenario on a machine with these delays.
    pub fn apply(&self, rehearsal: &Rehearsal) -> Rehearsal {
        let arrival = |arrival: &Arrival| {
            let course = &arrival.course;
            let mut sampling = (*course.sampling).clone();
            sampling.jitter = sampling.jitter.saturating_add(self.jitter);
            let course = Course {
                prepare: course.prepare.saturating_add(self.start),
                run: course.run.map(|run| run.saturating_add(self.length)),
                stop: course.stop.saturating_add(self.stop),
                sampling: Arc::new(sampling),
                ..(**course).clone()
            };
            Arrival { course: Arc::new(course), ..arrival.clone() }
        };
        let rehearsal = Rehearsal { arrivals: rehearsal.arrivals.iter().map(arrival).collect(), ..rehearsal.clone() };
        self.passes.map_or(rehearsal.clone(), |outside| outside.apply(&rehearsal))
    }
}

/// How far starts and ends were from what was foretold, in nanoseconds, whatever the sign.
pub fn exactness(found: &Agreement) -> [Vec<u64>; 2] {
    [&found.starts, &found.ends].map(|errors| errors.iter().map(|error| error.by.unsigned_abs()).collect())
}
