//! When a scheduler outside looks at its queue, out of recordings of what it started; and where they do not tell.

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

/// Periods that are tried, beside none at all: those that Slurm's own are of (sched_interval, bf_interval and
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

/// Phases that are tried, as parts of a period; the best is then moved by the error that it leaves.
const PHASES: u64 = 8;

/// For how long a job completes, as tried beside what the profile says: as long as a Slurm with an epilog would.
const COMPLETING: [SimDuration; 5] = [
    SimDuration::ZERO,
    SimDuration::from_millis(250),
    SimDuration::from_millis(500),
    SimDuration::from_secs(1),
    SimDuration::from_secs(3),
];

/// How often the scheduler was asked, at least, in what can be told.
const LOOKS: u64 = 4;

/// How often the one clock is fitted after the other, as long as that changes anything.
const ROUNDS: usize = 3;

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

/// What recordings tell, or why they do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<T> {
    Told(T),
    /// These explain the starts as well as the best of them does.
    Untold(Vec<SimDuration>),
    /// What was found is short beside how often the scheduler was asked: ends are heard late by up to that, and then a shorter
    /// period explains starts that a longer one would be too late for.
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

/// What was found of a scheduler outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: Told<PassOptions>,
    /// Of a profile that backfills at its own pace.
    pub backfill: Option<Told<PassOptions>>,
    pub completing: Told<SimDuration>,
    /// What is told, and as the profile has it what is not.
    pub outside: Outside,
    /// By how much starts are still later then; nothing where a clock is not told, whose phase may be all of it.
    pub later: Option<SimDuration>,
}

/// Of recordings in which a scheduler outside decided, with the lengths that were recorded: the clocks that leave the least
/// median error of starts, of equals the least error of all, of those the first. One after the other are fitted: a clock of
/// both passes, that of backfilling, that of the other pass, again as long as that changes anything, and for how long a job
/// completes. A value is told only if every other one is ruled out: if it is further off at so many more starts than it is
/// nearer that chance would do so in one of a hundred cases at most; and if it is four times as long as it took between two
/// looks at the scheduler. `rehearse` runs one; nothing where nothing started.
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

/// Zero of passes without a period.
fn period(outside: Outside, clock: Clock) -> SimDuration {
    match outside.clock(clock).map(|pass| pass.trigger) {
        Some(Trigger::Every(period) | Trigger::EachAfter(period)) => period,
        Some(Trigger::Event | Trigger::Outside) | None => SimDuration::ZERO,
    }
}

/// Whether the best is the only one that is left of the others, each with its value.
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

/// How much later than rehearsed each attempt of each recording began, in nanoseconds.
type Errors = BTreeMap<(usize, String), i64>;

/// One choice, and what it leaves.
#[derive(Clone)]
struct Tried {
    outside: Outside,
    errors: Errors,
}

impl Tried {
    /// The lower of the two errors in the middle, whatever their signs, and all of them together; worst for none.
    fn score(&self) -> (u64, u64) {
        let mut sizes: Vec<u64> = self.errors.values().map(|error| error.unsigned_abs()).collect();
        sizes.sort_unstable();
        let middle = sizes.get(sizes.len().saturating_sub(1) / 2).copied().unwrap_or(u64::MAX);
        (middle, sizes.iter().fold(0, |all, size| all.saturating_add(*size)))
    }

    /// In the middle, with its sign.
    fn bias(&self) -> i64 {
        let mut errors: Vec<i64> = self.errors.values().copied().collect();
        errors.sort_unstable();
        errors.get(errors.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// Whether the other is further off at so many starts, and nearer at so few.
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

/// Whether of throws of a coin so many more would be heads than tails in one of a hundred cases at most: by the bound of
/// Hoeffding (Journal of the American Statistical Association 58, 1963, theorem 1) that is where the square of the difference
/// is 2 ln 100 times the number of throws. Of fewer than ten it never is.
fn is_no_chance(heads: u64, tails: u64) -> bool {
    let more = u128::from(heads.saturating_sub(tails));
    more * more * 1000 >= u128::from(heads + tails) * 9211 && more > 0
}

struct Recorded<'r> {
    /// With the recorded lengths.
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
    /// What was tried: the last round and what is held against its end are the same.
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

    /// The best of both passes at the same time, or at any; nothing where nothing started.
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

    /// The best of each period of one clock; of the main scheduler also where it looks whenever anything changes.
    fn of_each_period(&self, known: Outside, of: Clock) -> Vec<Tried> {
        let Some(own) = known.clock(of) else { return Vec::new() };
        let event =
            (of == Clock::Place).then(|| self.tried(known.with(of, clock(own, Trigger::Event, SimDuration::ZERO))));
        let of_period =
            |period| self.of_period(period, |offset| known.with(of, clock(own, Trigger::Every(period), offset)));
        event.into_iter().chain(PERIODS.into_iter().map(of_period)).collect()
    }

    /// Of this period the best phase, which is that of the best of some, or of it moved by the error that it leaves.
    fn of_period(&self, period: SimDuration, choice: impl Fn(SimDuration) -> Outside) -> Tried {
        let offset = |phase| SimDuration::from_nanos(period.as_nanos() / PHASES * phase);
        let coarse = (0..PHASES).map(|phase| (offset(phase), self.tried(choice(offset(phase)))));
        let (offset, coarse) = coarse.min_by_key(|(_, tried)| tried.score()).expect("there are some phases");
        let moved = i128::from(offset.as_nanos()) + i128::from(coarse.bias());
        let moved = u64::try_from(moved.rem_euclid(i128::from(period.as_nanos()))).expect("less than the period");
        // What is finer was not heard.
        let fine = self.tried(choice(SimDuration::from_millis(moved / 1_000_000)));
        std::cmp::min_by_key(coarse, fine, Tried::score)
    }
}

/// What a pass takes is as the profile has it: it would have to be seen to the millisecond.
fn clock(pass: PassOptions, trigger: Trigger, offset: SimDuration) -> PassOptions {
    let takes = if trigger == Trigger::Event { PassTime::NONE } else { pass.takes };
    PassOptions { trigger, offset, takes, ..pass }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ten throws all, of a hundred 66: 32 squared is 1,024, and 9.211 times 100 is 921.1; 30 squared is 900.
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
