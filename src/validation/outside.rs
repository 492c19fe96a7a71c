//! Estimates when an external scheduler looks at its queue, from recordings of what it started, and says when they do
//! not determine it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::again::{Again, again};
use super::calibrate::{Recording, median};
use super::compare::compare;
use super::timelines::timelines;
use dryrack_control::{PassOptions, PassTime, Profile, Trigger};
use dryrack_engine::Rehearsal;
use dryrack_event::{AttemptTimeline, Record};
use dryrack_ids::Names;
use dryrack_units::SimDuration;

/// Periods to try, besides none at all: those that Slurm itself uses (sched_interval, bf_interval and
/// sched_min_interval of slurm.conf(5), Slurm 22.05, from a second to a minute), and shorter ones.
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

/// The number of phases to try in a period; the best is then shifted by its remaining error.
const PHASES: u64 = 8;

/// Completing times to try besides the profile's: as long as a Slurm with an epilog would take.
const COMPLETING: [SimDuration; 5] = [
    SimDuration::ZERO,
    SimDuration::from_millis(250),
    SimDuration::from_millis(500),
    SimDuration::from_secs(1),
    SimDuration::from_secs(3),
];

/// The number of polling intervals that a value must last at least to be determined.
const LOOKS: u64 = 4;

/// The largest number of rounds in which the clocks are fitted in turn; fitting stops when nothing changes.
const ROUNDS: usize = 3;

/// When an external scheduler looks at its queue, and how long a job stays completing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    pub place: PassOptions,
    /// The backfill pass, if the profile has a separate one.
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

/// A value that recordings determine, or why they do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<T> {
    Told(T),
    /// Several values explain the starts as well as the best of them.
    Untold(Vec<SimDuration>),
    /// The value found is short relative to the polling interval. Ends are seen late by up to that interval, and then
    /// a shorter period explains starts that a longer one would make too late.
    Coarse {
        found: SimDuration,
        every: SimDuration,
    },
}

impl<T: Copy> Told<T> {
    pub fn told(&self) -> Option<T> {
        match self {
            Told::Told(it) => Some(*it),
            Told::Untold(_) | Told::Coarse { .. } => None,
        }
    }
}

/// The results for an external scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: Told<PassOptions>,
    /// The backfill pass, if the profile has a separate one.
    pub backfill: Option<Told<PassOptions>>,
    pub completing: Told<SimDuration>,
    /// The determined values; undetermined ones are the profile's.
    pub outside: Outside,
    /// How much later starts still are with these values; `None` if a clock is undetermined, because its phase may be
    /// the whole error.
    pub later: Option<SimDuration>,
}

/// Fits the clocks of an external scheduler to recordings, using the recorded run times. Chooses the clocks with the
/// smallest median error of starts; on a tie, the smallest total error, then the first. Fits in turn: one clock for
/// both passes, the clock of backfill, the clock of the other pass, repeating while anything changes, and then the
/// completing time. A value is determined only if every other value is ruled out, and if it is at least four times as
/// long as the polling interval. A value is ruled out if it is further off at so many more starts than it is nearer
/// that chance does that in at most one of a hundred cases. `rehearse` runs one rehearsal. Returns `None` if nothing
/// started.
pub fn calibrate_outside(recordings: &[Recording<'_>], rehearse: impl Fn(&Rehearsal) -> Vec<Record>) -> Option<Found> {
    let own = Outside::of(&recordings.first()?.rehearsal.profile);
    let recorded = recordings.iter().map(Recorded::of).collect();
    let every = recordings.iter().map(|recording| recording.every).max()?;
    let fitting = Fitting { recorded, rehearse, known: RefCell::default() };
    let mut best = fitting.of_both(own)?;
    for _ in 0..ROUNDS {
        let before = best.outside;
        for clock in [Clock::Backfill, Clock::Place] {
            let others = fitting.of_each_period(best.outside, clock);
            best = std::iter::once(best).chain(others).min_by_key(Tried::score)?;
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
    let heard = |told: Told<PassOptions>, clock| coarse(told, period(best.outside, clock), every);
    let place = heard(clock_told(Clock::Place)?, Clock::Place);
    let backfill = clock_told(Clock::Backfill).map(|told| heard(told, Clock::Backfill));
    let backfilling = backfill.as_ref().map_or(own.backfill, |told| told.told().or(own.backfill));
    let known = Outside { place: place.told().unwrap_or(own.place), backfill: backfilling, ..own };
    let tried: Vec<Tried> = (std::iter::once(known))
        .chain(COMPLETING.into_iter().map(|completing| Outside { completing, ..known }))
        .map(|choice| fitting.tried(choice))
        .collect();
    let best = tried.iter().min_by_key(|tried| tried.score())?;
    let value = best.outside.completing;
    let others = tried.iter().filter(|other| other.outside.completing != value);
    let completing = judged(value, value, best, others.map(|other| (other.outside.completing, other)));
    let completing = if value == own.completing { completing } else { coarse(completing, value, every) };
    let outside = Outside { completing: completing.told().unwrap_or(own.completing), ..known };
    let are_told = place.told().is_some() && backfill.as_ref().is_none_or(|told| told.told().is_some());
    let later = |error: &i64| SimDuration::from_nanos(u64::try_from(*error).unwrap_or(0));
    let later = are_told.then(|| median(fitting.tried(outside).errors.values().map(later).collect()));
    Some(Found { place, backfill, completing, outside, later })
}

fn coarse<T>(told: Told<T>, found: SimDuration, every: SimDuration) -> Told<T> {
    match told {
        _ if found < every.saturating_mul(LOOKS) => Told::Coarse { found, every },
        told => told,
    }
}

/// The period of a clock; zero for passes without a period.
fn period(outside: Outside, clock: Clock) -> SimDuration {
    match outside.clock(clock).map(|pass| pass.trigger) {
        Some(Trigger::Every(period) | Trigger::EachAfter(period)) => period,
        Some(Trigger::Event | Trigger::Outside) | None => SimDuration::ZERO,
    }
}

/// Judges whether the best value is determined: whether it rules out all others, each given with its value.
fn judged<'t, T>(
    it: T,
    value: SimDuration,
    best: &Tried,
    others: impl Iterator<Item = (SimDuration, &'t Tried)>,
) -> Told<T> {
    let left = others.filter(|(_, other)| !best.rules_out(other)).map(|(value, _)| value);
    let mut left: Vec<SimDuration> = left.chain([value]).collect();
    left.sort_unstable();
    if left.len() == 1 { Told::Told(it) } else { Told::Untold(left) }
}

/// How much later than rehearsed each attempt of each recording started, in nanoseconds.
type Errors = BTreeMap<(usize, String), i64>;

/// One choice of clocks, and its errors.
#[derive(Clone)]
struct Tried {
    outside: Outside,
    errors: Errors,
}

impl Tried {
    /// The median of the absolute errors (the lower of the two middle ones), and their sum; the worst score if there
    /// are none.
    fn score(&self) -> (u64, u64) {
        let mut sizes: Vec<u64> = self.errors.values().map(|error| error.unsigned_abs()).collect();
        sizes.sort_unstable();
        let middle = sizes.get(sizes.len().saturating_sub(1) / 2).copied().unwrap_or(u64::MAX);
        (middle, sizes.iter().fold(0, |all, size| all.saturating_add(*size)))
    }

    /// The median error with its sign.
    fn bias(&self) -> i64 {
        let mut errors: Vec<i64> = self.errors.values().copied().collect();
        errors.sort_unstable();
        errors.get(errors.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// Whether the other choice is further off at significantly more starts than it is nearer.
    fn rules_out(&self, other: &Tried) -> bool {
        let sizes = self.errors.iter().filter_map(|(run, error)| Some((error.abs(), other.errors.get(run)?.abs())));
        let (mut further, mut nearer) = (0, 0);
        for (own, of_other) in sizes {
            further += u64::from(of_other > own);
            nearer += u64::from(of_other < own);
        }
        is_no_chance(further, nearer)
    }
}

/// Whether a fair coin gives such an excess of heads over tails in at most one of a hundred cases. By the bound of
/// Hoeffding (Journal of the American Statistical Association 58, 1963, theorem 1) that is so if the square of the
/// difference is at least 2 ln 100 times the number of throws. It is never so for fewer than ten throws.
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
        let Again { rehearsal, .. } = again(recording.rehearsal.clone(), recording.records, recording.names);
        Recorded { rehearsal, real: timelines(recording.records, recording.names), names: recording.names }
    }
}

struct Fitting<'r, R> {
    recorded: Vec<Recorded<'r>>,
    rehearse: R,
    /// The choices tried so far: later rounds and the final comparison try the same ones again.
    known: RefCell<Vec<Tried>>,
}

impl<R: Fn(&Rehearsal) -> Vec<Record>> Fitting<'_, R> {
    fn tried(&self, outside: Outside) -> Tried {
        if let Some(known) = self.known.borrow().iter().find(|known| known.outside == outside) {
            return known.clone();
        }
        let mut errors = Errors::new();
        for (index, recorded) in self.recorded.iter().enumerate() {
            let foretold = timelines(&(self.rehearse)(&outside.apply(&recorded.rehearsal)), recorded.names);
            let found = compare(&foretold, &recorded.real, |_| None).starts;
            errors.extend(found.into_iter().map(|error| ((index, error.run), error.by)));
        }
        let tried = Tried { outside, errors };
        self.known.borrow_mut().push(tried.clone());
        tried
    }

    /// The best choice with one clock for both passes, periodic or on every change; `None` if nothing started.
    fn of_both(&self, own: Outside) -> Option<Tried> {
        let both = |trigger, offset| Outside {
            place: clock(own.place, trigger, offset),
            backfill: own.backfill.map(|pass| clock(pass, trigger, offset)),
            ..own
        };
        let event = self.tried(both(Trigger::Event, SimDuration::ZERO));
        let of_period = |period| self.of_period(period, |offset| both(Trigger::Every(period), offset));
        let tried = std::iter::once(event).chain(PERIODS.into_iter().map(of_period));
        tried.filter(|tried| !tried.errors.is_empty()).min_by_key(Tried::score)
    }

    /// The best choice for each period of one clock; for the main scheduler, also that of a pass on every change.
    fn of_each_period(&self, known: Outside, of: Clock) -> Vec<Tried> {
        let Some(own) = known.clock(of) else { return Vec::new() };
        let event =
            (of == Clock::Place).then(|| self.tried(known.with(of, clock(own, Trigger::Event, SimDuration::ZERO))));
        let of_period =
            |period| self.of_period(period, |offset| known.with(of, clock(own, Trigger::Every(period), offset)));
        event.into_iter().chain(PERIODS.into_iter().map(of_period)).collect()
    }

    /// The best phase for this period: the best of a few phases, or that phase shifted by its remaining error.
    fn of_period(&self, period: SimDuration, choice: impl Fn(SimDuration) -> Outside) -> Tried {
        let offset = |phase| SimDuration::from_nanos(period.as_nanos() / PHASES * phase);
        let coarse = (0..PHASES).map(|phase| (offset(phase), self.tried(choice(offset(phase)))));
        let (offset, coarse) = coarse.min_by_key(|(_, tried)| tried.score()).expect("there are some phases");
        let moved = i128::from(offset.as_nanos()) + i128::from(coarse.bias());
        let moved = u64::try_from(moved.rem_euclid(i128::from(period.as_nanos()))).expect("less than the period");
        // Times are not recorded more finely than milliseconds.
        let fine = self.tried(choice(SimDuration::from_millis(moved / 1_000_000)));
        std::cmp::min_by_key(coarse, fine, Tried::score)
    }
}

/// A pass with this trigger. Its duration is the profile's, because it would have to be observed to the millisecond.
fn clock(pass: PassOptions, trigger: Trigger, offset: SimDuration) -> PassOptions {
    let takes = if trigger == Trigger::Event { PassTime::NONE } else { pass.takes };
    PassOptions { trigger, offset, takes, ..pass }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten of ten throws, or 66 of a hundred, rule out chance: 32 squared is 1,024, and 9.211 times 100 is 921.1; 30
    /// squared is 900.
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
