//! Estimates from recordings when an external scheduler examines its queue. Also detects whether the recordings
//! determine these times at all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::again::{RecordedRehearsal, again};
use super::calibrate::{Recording, median};
use super::compare::compare;
use super::timelines::timelines;
use dryrack_control::{PassOptions, PassTime, Profile, Trigger};
use dryrack_engine::Rehearsal;
use dryrack_event::{AttemptTimeline, Record};
use dryrack_ids::Names;
use dryrack_units::SimDuration;

/// The periods to try, in addition to a pass on every change. They are the periods that Slurm uses, from a second to a
/// minute (sched_interval, bf_interval and sched_min_interval of slurm.conf(5), Slurm 22.05), and shorter ones.
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

/// The number of phases to try for each period. The best phase is then shifted by its remaining error.
const PHASES: u64 = 8;

/// The completing times to try, in addition to the profile's. A Slurm cluster with an epilog has a completing time.
const COMPLETING: [SimDuration; 5] = [
    SimDuration::ZERO,
    SimDuration::from_millis(250),
    SimDuration::from_millis(500),
    SimDuration::from_secs(1),
    SimDuration::from_secs(3),
];

/// To be determined, a value must be at least this many polling intervals long.
const LOOKS: u64 = 4;

/// The largest number of rounds of fitting. Each round fits one clock after the other. Fitting ends earlier if a round
/// changes nothing.
const ROUNDS: usize = 3;

/// When an external scheduler examines its queue, and how long a job stays in its state "completing".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    pub place: PassOptions,
    /// The backfill pass, if the profile has a separate backfill pass.
    pub backfill: Option<PassOptions>,
    pub completing: SimDuration,
}

impl Outside {
    fn of(profile: &Profile) -> Outside {
        Outside { place: profile.passes.place, backfill: profile.passes.backfill, completing: profile.completing }
    }

    pub(super) fn apply(self, rehearsal: &Rehearsal) -> Rehearsal {
        let mut profile = (*rehearsal.profile).clone();
        (profile.passes.place, profile.passes.backfill) = (self.place, self.backfill);
        (profile.completing, profile.ticks) = (self.completing, None);
        Rehearsal { profile: Arc::new(profile), ..rehearsal.clone() }
    }

    fn clock(&self, of: Clock) -> Option<PassOptions> {
        match of {
            Clock::Place => Some(self.place),
            Clock::Backfill => self.backfill,
        }
    }

    fn with(self, of: Clock, pass: PassOptions) -> Outside {
        match of {
            Clock::Place => Outside { place: pass, ..self },
            Clock::Backfill => Outside { backfill: self.backfill.map(|_| pass), ..self },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    Place,
    Backfill,
}

/// A value that the recordings determine, or the reason why they do not determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calibrated<T> {
    Exact(T),
    /// Several values explain the starts about equally well.
    Ambiguous(Vec<SimDuration>),
    /// The value is short compared with the polling interval. The end of a run is seen late by up to that interval. So
    /// a start can seem to come early, and a period that is too short can explain it better than the true one.
    Coarse {
        found: SimDuration,
        every: SimDuration,
    },
}

impl<T: Copy> Calibrated<T> {
    pub fn value(&self) -> Option<T> {
        match self {
            Calibrated::Exact(it) => Some(*it),
            Calibrated::Ambiguous(_) | Calibrated::Coarse { .. } => None,
        }
    }
}

/// The results about an external scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    pub place: Calibrated<PassOptions>,
    /// The backfill pass, if the profile has a separate backfill pass.
    pub backfill: Option<Calibrated<PassOptions>>,
    pub completing: Calibrated<SimDuration>,
    /// The values to use: those that are determined, and the profile's values for the rest.
    pub outside: Outside,
    /// How much later than rehearsed the real starts still are, if these values are used. `None` if a clock is not
    /// determined, because then the error may come from its phase alone.
    pub later: Option<SimDuration>,
}

/// Fits the clocks of an external scheduler to recordings. The rehearsals use the recorded run times.
///
/// The best clocks are those with the smallest median error of starts. On a tie, the smallest total error decides, then
/// the order of trying. First one clock is fitted for both passes. Then the clock of backfill and the clock of the
/// other pass are fitted alternately, as long as something changes. The completing time is fitted last.
///
/// A value is determined if all other values are ruled out, and if it is at least four polling intervals long. A value
/// is ruled out if, compared with the best value, it fits more starts worse than better, and if chance alone would cause
/// such a difference in at most one of a hundred cases.
///
/// `rehearse` runs one rehearsal. Returns `None` if no run started.
pub fn calibrate_outside(
    recordings: &[Recording<'_>],
    rehearse: impl Fn(&Rehearsal) -> Vec<Record>,
) -> Option<Calibration> {
    let own = Outside::of(&recordings.first()?.rehearsal.profile);
    let recorded = recordings.iter().map(Recorded::of).collect();
    let every = recordings.iter().map(|recording| recording.every).max()?;
    let fitting = Fitting { recorded, rehearse, known: RefCell::default() };
    let mut best = fitting.of_both(own)?;
    for _ in 0..ROUNDS {
        let before = best.outside;
        for clock in [Clock::Backfill, Clock::Place] {
            let others = fitting.of_each_period(best.outside, clock);
            best = std::iter::once(best).chain(others).min_by_key(ClockTrial::score)?;
        }
        if best.outside == before {
            break;
        }
    }
    let clock_told = |clock| {
        let pass = best.outside.clock(clock)?;
        let others = fitting.of_each_period(best.outside, clock);
        let others = others.iter().filter(|other| period(other.outside, clock) != period(best.outside, clock));
        let others = others.map(|other| (period(other.outside, clock), other));
        Some(judged(pass, period(best.outside, clock), &best, others))
    };
    let heard = |calibrated: Calibrated<PassOptions>, clock| coarse(calibrated, period(best.outside, clock), every);
    let place = heard(clock_told(Clock::Place)?, Clock::Place);
    let backfill = clock_told(Clock::Backfill).map(|calibrated| heard(calibrated, Clock::Backfill));
    let backfilling = backfill.as_ref().map_or(own.backfill, |calibrated| calibrated.value().or(own.backfill));
    let known = Outside { place: place.value().unwrap_or(own.place), backfill: backfilling, ..own };
    let tried: Vec<ClockTrial> = (std::iter::once(known))
        .chain(COMPLETING.into_iter().map(|completing| Outside { completing, ..known }))
        .map(|choice| fitting.tried(choice))
        .collect();
    let best = tried.iter().min_by_key(|tried| tried.score())?;
    let value = best.outside.completing;
    let others = tried.iter().filter(|other| other.outside.completing != value);
    let completing = judged(value, value, best, others.map(|other| (other.outside.completing, other)));
    let completing = if value == own.completing { completing } else { coarse(completing, value, every) };
    let outside = Outside { completing: completing.value().unwrap_or(own.completing), ..known };
    let are_told = place.value().is_some() && backfill.as_ref().is_none_or(|calibrated| calibrated.value().is_some());
    let later = |error: &i64| SimDuration::from_nanos(u64::try_from(*error).unwrap_or(0));
    let later = are_told.then(|| median(fitting.tried(outside).errors.values().map(later).collect()));
    Some(Calibration { place, backfill, completing, outside, later })
}

fn coarse<T>(calibrated: Calibrated<T>, found: SimDuration, every: SimDuration) -> Calibrated<T> {
    match calibrated {
        _ if found < every.saturating_mul(LOOKS) => Calibrated::Coarse { found, every },
        calibrated => calibrated,
    }
}

/// The period of a clock. Zero if its pass has no period.
fn period(outside: Outside, clock: Clock) -> SimDuration {
    match outside.clock(clock).map(|pass| pass.trigger) {
        Some(Trigger::Every(period) | Trigger::EachAfter(period)) => period,
        Some(Trigger::Event | Trigger::Outside) | None => SimDuration::ZERO,
    }
}

/// Judges whether the best value is determined, which means that it rules out all others. `others` contains the other
/// choices, each with its value.
fn judged<'t, T>(
    it: T,
    value: SimDuration,
    best: &ClockTrial,
    others: impl Iterator<Item = (SimDuration, &'t ClockTrial)>,
) -> Calibrated<T> {
    let left = others.filter(|(_, other)| !best.rules_out(other)).map(|(value, _)| value);
    let mut left: Vec<SimDuration> = left.chain([value]).collect();
    left.sort_unstable();
    if left.len() == 1 { Calibrated::Exact(it) } else { Calibrated::Ambiguous(left) }
}

/// How much later than rehearsed each attempt started, in nanoseconds. The key is the number of the recording and the
/// attempt.
type Errors = BTreeMap<(usize, String), i64>;

/// One choice of clocks, with the errors of a rehearsal that uses it.
#[derive(Clone)]
struct ClockTrial {
    outside: Outside,
    errors: Errors,
}

impl ClockTrial {
    /// The score of the choice: the median of the absolute errors, and their sum; smaller is better. Of two middle
    /// values, the lower one is the median. If there are no errors, the score is the worst possible one.
    fn score(&self) -> (u64, u64) {
        let mut sizes: Vec<u64> = self.errors.values().map(|error| error.unsigned_abs()).collect();
        sizes.sort_unstable();
        let middle = sizes.get(sizes.len().saturating_sub(1) / 2).copied().unwrap_or(u64::MAX);
        (middle, sizes.iter().fold(0, |all, size| all.saturating_add(*size)))
    }

    /// The median of the errors with their signs.
    fn bias(&self) -> i64 {
        let mut errors: Vec<i64> = self.errors.values().copied().collect();
        errors.sort_unstable();
        errors.get(errors.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// Whether, compared with this choice, the other one is worse for significantly more starts than it is better.
    fn rules_out(&self, other: &ClockTrial) -> bool {
        let sizes =
            self.errors.iter().filter_map(|(attempt, error)| Some((error.abs(), other.errors.get(attempt)?.abs())));
        let (mut further, mut nearer) = (0, 0);
        for (own, of_other) in sizes {
            further += u64::from(of_other > own);
            nearer += u64::from(of_other < own);
        }
        is_no_chance(further, nearer)
    }
}

/// Whether chance is ruled out as the cause of an excess of heads over tails: a fair coin gives such an excess in at
/// most one of a hundred cases. By Hoeffding's bound (Journal of the American Statistical Association 58, 1963, theorem
/// 1), this is so if the square of the difference is at least 2 ln 100 times the number of throws. Fewer than ten
/// throws never rule out chance.
fn is_no_chance(heads: u64, tails: u64) -> bool {
    let more = u128::from(heads.saturating_sub(tails));
    more * more * 1000 >= u128::from(heads + tails) * 9211 && more > 0
}

struct Recorded<'r> {
    /// The rehearsal with the recorded run times.
    rehearsal: Rehearsal,
    real: Vec<AttemptTimeline>,
    names: &'r Names,
}

impl<'r> Recorded<'r> {
    fn of(recording: &Recording<'r>) -> Recorded<'r> {
        let RecordedRehearsal { rehearsal, .. } =
            again(recording.rehearsal.clone(), recording.records, recording.names);
        Recorded { rehearsal, real: timelines(recording.records, recording.names), names: recording.names }
    }
}

struct Fitting<'r, R> {
    recorded: Vec<Recorded<'r>>,
    rehearse: R,
    /// All choices tried so far. Later rounds and the final comparison try some of them again.
    known: RefCell<Vec<ClockTrial>>,
}

impl<R: Fn(&Rehearsal) -> Vec<Record>> Fitting<'_, R> {
    fn tried(&self, outside: Outside) -> ClockTrial {
        if let Some(known) = self.known.borrow().iter().find(|known| known.outside == outside) {
            return known.clone();
        }
        let mut errors = Errors::new();
        for (index, recorded) in self.recorded.iter().enumerate() {
            let predicted = timelines(&(self.rehearse)(&outside.apply(&recorded.rehearsal)), recorded.names);
            let found = compare(&predicted, &recorded.real, |_| None).starts;
            errors.extend(found.into_iter().map(|error| ((index, error.attempt), error.by)));
        }
        let tried = ClockTrial { outside, errors };
        self.known.borrow_mut().push(tried.clone());
        tried
    }

    /// The best choice with the same clock for both passes, either periodic or on every change. `None` if no run
    /// started.
    fn of_both(&self, own: Outside) -> Option<ClockTrial> {
        let both = |trigger, offset| Outside {
            place: clock(own.place, trigger, offset),
            backfill: own.backfill.map(|pass| clock(pass, trigger, offset)),
            ..own
        };
        let event = self.tried(both(Trigger::Event, SimDuration::ZERO));
        let of_period = |period| self.of_period(period, |offset| both(Trigger::Every(period), offset));
        let tried = std::iter::once(event).chain(PERIODS.into_iter().map(of_period));
        tried.filter(|tried| !tried.errors.is_empty()).min_by_key(ClockTrial::score)
    }

    /// The best choice for each period of one clock. For the place pass, this includes a pass on every change.
    fn of_each_period(&self, known: Outside, of: Clock) -> Vec<ClockTrial> {
        let Some(own) = known.clock(of) else { return Vec::new() };
        let event =
            (of == Clock::Place).then(|| self.tried(known.with(of, clock(own, Trigger::Event, SimDuration::ZERO))));
        let of_period =
            |period| self.of_period(period, |offset| known.with(of, clock(own, Trigger::Every(period), offset)));
        event.into_iter().chain(PERIODS.into_iter().map(of_period)).collect()
    }

    /// The best choice for this period. Tries a few phases, then shifts the best of them by its remaining error.
    fn of_period(&self, period: SimDuration, choice: impl Fn(SimDuration) -> Outside) -> ClockTrial {
        let offset = |phase| SimDuration::from_nanos(period.as_nanos() / PHASES * phase);
        let coarse = (0..PHASES).map(|phase| (offset(phase), self.tried(choice(offset(phase)))));
        let (offset, coarse) = coarse.min_by_key(|(_, tried)| tried.score()).expect("there are some phases");
        let moved = i128::from(offset.as_nanos()) + i128::from(coarse.bias());
        let moved = u64::try_from(moved.rem_euclid(i128::from(period.as_nanos()))).expect("less than the period");
        // Recorded times are exact to the millisecond at best.
        let fine = self.tried(choice(SimDuration::from_millis(moved / 1_000_000)));
        std::cmp::min_by_key(coarse, fine, ClockTrial::score)
    }
}

/// The pass with this trigger and offset. Its duration stays that of the profile, because fitting it would require
/// starts that are observed to the millisecond.
fn clock(pass: PassOptions, trigger: Trigger, offset: SimDuration) -> PassOptions {
    let takes = if trigger == Trigger::Event { PassTime::NONE } else { pass.takes };
    PassOptions { trigger, offset, takes, ..pass }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten of ten throws rule out chance. 66 of 100 are enough too, because 32 squared is 1,024 and 9.211 times 100 is
    /// 921.1. 65 of 100 do not, because 30 squared is 900.
    #[test]
    fn what_chance_would_do_rules_nothing_out() {
        for (heads, tails, is_no) in [
            (0, 0, false),
            (9, 0, false),
            (10, 0, true),
            (0, 10, false),
            (66, 34, true),
            (65, 35, false),
            (50, 50, false),
        ] {
            assert_eq!(is_no_chance(heads, tails), is_no, "{heads} and {tails}");
        }
    }
}
