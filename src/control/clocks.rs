//! The clocks of passes that take time. After its pass ends, a clock sleeps for one period. If a pass is due while the
//! other pass runs, it begins when the other pass ends.
//!
//! ```text
//!  backfill  ──[ pass, longer with a longer queue ]── period ──[ pass ]── ...
//!  place     ────────waits───────────────────────[ pass ]──── period ────waits─[ pass ]── ...
//! ```
//!
//! A pass that is skipped because it could change nothing still takes its time. If a profile has recorded start times,
//! passes begin at these times. After the last recorded time, passes follow their periods.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pass_options::{PassOptions, Passes, Trigger};
use dryrack_units::{SimDuration, SimTime, TextForm};

/// How long a pass takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PassTime {
    /// Time that every pass takes, even if no replica waits.
    #[serde(default, with = "TextForm")]
    pub least: SimDuration,
    /// Additional time for each replica that is waiting when the pass begins.
    #[serde(default, with = "TextForm")]
    pub each: SimDuration,
}

impl PassTime {
    pub const NONE: PassTime = PassTime { least: SimDuration::ZERO, each: SimDuration::ZERO };

    pub(super) fn is_none(&self) -> bool {
        *self == PassTime::NONE
    }
}

/// For each kind of pass, the times at which it began, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ticks {
    /// The times at which place passes began.
    #[serde(default, with = "times")]
    #[schemars(with = "Vec<TextForm>")]
    pub place: Arc<[SimDuration]>,
    /// The times at which backfill passes began.
    #[serde(default, with = "times")]
    #[schemars(with = "Vec<TextForm>")]
    pub backfill: Arc<[SimDuration]>,
}

/// One of the two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassKind {
    Place,
    Backfill,
}

#[derive(Clone, Debug)]
struct Clock {
    period: SimDuration,
    takes: PassTime,
    /// Recorded start times of passes. The first `gone` of them have passed.
    listed: Arc<[SimDuration]>,
    gone: usize,
    next: SimTime,
    busy_until: SimTime,
}

impl Clock {
    /// Creates the clock of a pass. Returns `None` if the pass has no period.
    fn new(options: PassOptions, listed: &Arc<[SimDuration]>) -> Option<Clock> {
        let Trigger::Every(period) = options.trigger else { return None };
        let listed = Arc::clone(listed);
        let first = listed.first().copied().unwrap_or(options.offset);
        let (takes, next) = (options.takes, SimTime::ZERO.saturating_add(first));
        Some(Clock { period, takes, listed, gone: 0, next, busy_until: SimTime::ZERO })
    }

    /// Whether both run alike from now on, wherever they are.
    fn is_like(&self, other: &Clock) -> bool {
        (self.period, self.takes, &self.listed) == (other.period, other.takes, &other.listed)
    }

    fn length(&self, waiting: usize) -> SimDuration {
        self.takes.least.saturating_add(self.takes.each.saturating_mul(waiting as u64))
    }

    /// How the clock goes on while so many replicas wait. `None` if a recorded pass is to come.
    fn beat(&self, waiting: usize, begins_first: bool) -> Option<Beat> {
        let length = self.length(waiting);
        (self.gone >= self.listed.len()).then(|| Beat {
            next: self.next.as_nanos().into(),
            busy_until: self.busy_until.as_nanos().into(),
            length: length.as_nanos().into(),
            step: length.saturating_add(self.period).as_nanos().into(),
            keeps_phase: self.takes.is_none(),
            begins_first,
        })
    }

    /// Begins so many passes, the last of them at this time.
    fn tick_often(&mut self, passes: i128, last: i128, waiting: usize) {
        self.gone += (passes - 1) as usize;
        self.next = SimTime::from_nanos(last as u64);
        self.tick(self.next, waiting);
    }

    fn tick(&mut self, at: SimTime, waiting: usize) {
        self.busy_until = at.saturating_add(self.length(waiting));
        self.gone += 1;
        let listed = self.listed.get(self.gone).map(|since| SimTime::ZERO.saturating_add(*since));
        // A pass that takes no time keeps its phase, also after it has waited for the other pass.
        let since = if self.takes.is_none() && self.gone > self.listed.len() { self.next } else { self.busy_until };
        self.next = listed.unwrap_or(since.saturating_add(self.period));
    }
}

/// A clock whose passes all take equally long. Times are in nanoseconds, wide enough for differences and products.
#[derive(Clone, Copy, Debug)]
struct Beat {
    next: i128,
    busy_until: i128,
    length: i128,
    /// From the beginning of a pass to that of the next one, if it is not delayed.
    step: i128,
    /// Whether a delayed pass does not delay the ones after it.
    keeps_phase: bool,
    /// Whether its pass begins first if those of both clocks are due at the same time.
    begins_first: bool,
}

impl Beat {
    /// How many passes begin before `now` if none is delayed.
    fn passes_until(&self, now: i128) -> i128 {
        if self.next < now { (now - 1 - self.next) / self.step + 1 } else { 0 }
    }

    /// In how many rounds from now on a pass of this clock and then one of the second clock begin before `now`, neither of
    /// them delayed.
    fn free_rounds(&self, second: &Beat, now: i128) -> i128 {
        // How much later the second clock is after each round, and how much room it has in the first round.
        let drift = second.step - self.step;
        let tie = i128::from(second.begins_first);
        let after_first = second.next - self.next - self.length.max(tie);
        let before_next = self.next + self.step - second.next - second.length.max(1 - tie);
        steps_within(after_first, drift).min(steps_within(before_next, -drift)).min(second.passes_until(now))
    }

    /// In how many rounds a pass of this clock begins before `now`, and one of the second clock when it ends, for which that one
    /// waited. The second clock is the faster one, so it finds the first at work again and again.
    fn joined_rounds(&self, second: &Beat, now: i128) -> i128 {
        let waits = second.next <= self.next + self.length && second.step <= self.step && !second.keeps_phase;
        let is_next = second.step + self.length > self.step && self.step >= self.length + second.length;
        let follower = Beat { next: self.next + self.length, ..*self };
        if waits && is_next { follower.passes_until(now) } else { 0 }
    }
}

/// The number of steps n = 0, 1, ... until `room + n * change` is negative for the first time.
fn steps_within(room: i128, change: i128) -> i128 {
    match (room < 0, change < 0) {
        (true, _) => 0,
        (false, true) => room / -change + 1,
        (false, false) => i128::MAX,
    }
}

/// Both clocks of a profile whose passes take time or were recorded.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    place: Clock,
    backfill: Option<Clock>,
    /// Number of waiting replicas when they were last counted.
    waiting: usize,
}

impl Clocks {
    /// The clocks after a change of the profile: these ones, if the passes are the same as before.
    pub fn after_change(clocks: Option<Clocks>, passes: &Passes, ticks: Option<&Ticks>) -> Option<Clocks> {
        let new = Clocks::new(passes, ticks)?;
        Some(clocks.filter(|before| before.is_like(&new)).unwrap_or(new))
    }

    fn is_like(&self, other: &Clocks) -> bool {
        let have_like_backfill = match (&self.backfill, &other.backfill) {
            (Some(own), Some(other)) => own.is_like(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.place.is_like(&other.place) && have_like_backfill
    }

    pub fn new(passes: &Passes, ticks: Option<&Ticks>) -> Option<Clocks> {
        let takes = |pass: &PassOptions| !pass.takes.is_none();
        if ticks.is_none() && !takes(&passes.place) && !passes.backfill.as_ref().is_some_and(takes) {
            return None;
        }
        let ticks = ticks.cloned().unwrap_or_default();
        let place = Clock::new(passes.place, &ticks.place)?;
        let backfill = passes.backfill.and_then(|pass| Clock::new(pass, &ticks.backfill));
        Some(Clocks { place, backfill, waiting: 0 })
    }

    /// When the next pass of this kind begins. `None` if backfill does not have a separate clock.
    pub fn next(&self, which: PassKind) -> Option<SimTime> {
        let (clock, other) = match which {
            PassKind::Place => (&self.place, self.backfill.as_ref()),
            PassKind::Backfill => (self.backfill.as_ref()?, Some(&self.place)),
        };
        let is_recorded = clock.gone < clock.listed.len();
        let free = other.filter(|_| !is_recorded).map_or(SimTime::ZERO, |other| other.busy_until);
        Some(clock.next.max(free))
    }

    /// Advances through all ticks before `now`.
    pub fn advance(&mut self, now: SimTime) {
        while let Some((at, which)) = self.earlier().filter(|(at, _)| *at < now) {
            if !self.skip_rounds(now.as_nanos().into()) {
                self.tick(which, at);
            }
        }
    }

    /// Advances through many equal rounds before `now` at once, if there are any: a job may come after centuries. Returns whether
    /// there were.
    fn skip_rounds(&mut self, now: i128) -> bool {
        let waiting = self.waiting;
        let Some(place) = self.place.beat(waiting, false) else { return false };
        let Some(clock) = &mut self.backfill else {
            let passes = place.passes_until(now);
            self.place.tick_often(passes, place.next + (passes - 1) * place.step, waiting);
            return true;
        };
        let Some(backfill) = clock.beat(waiting, true) else { return false };
        let is_first = backfill.next <= place.next;
        let (first, second) = if is_first { (backfill, place) } else { (place, backfill) };
        let (free, joined) = (first.free_rounds(&second, now), first.joined_rounds(&second, now));
        let rounds = free.max(joined);
        if rounds < 2 || first.next < second.busy_until {
            return false;
        }
        let last = first.next + (rounds - 1) * first.step;
        let follows = if free < joined { last + first.length } else { second.next + (rounds - 1) * second.step };
        let (of_backfill, of_place) = if is_first { (last, follows) } else { (follows, last) };
        clock.tick_often(rounds, of_backfill, waiting);
        self.place.tick_often(rounds, of_place, waiting);
        true
    }

    /// The pass that begins earlier, and when it begins. On a tie, backfill runs first.
    fn earlier(&self) -> Option<(SimTime, PassKind)> {
        let is_first = self.backfill.as_ref().is_some_and(|backfill| backfill.next <= self.place.next);
        let which = if is_first { PassKind::Backfill } else { PassKind::Place };
        Some((self.next(which)?, which))
    }

    pub fn are_waiting(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    /// Begins a pass: sets how long it works and when the next one begins.
    pub fn tick(&mut self, which: PassKind, at: SimTime) {
        let waiting = self.waiting;
        match which {
            PassKind::Place => self.place.tick(at, waiting),
            PassKind::Backfill => self.backfill.iter_mut().for_each(|clock| clock.tick(at, waiting)),
        }
    }
}

/// Durations, written as text in a profile.
mod times {
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    use super::*;

    pub fn serialize<S: Serializer>(times: &Arc<[SimDuration]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(times.iter().map(|time| time.to_string()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[SimDuration]>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> SimDuration {
        SimDuration::from_millis(milliseconds)
    }

    fn at(milliseconds: u64) -> SimTime {
        SimTime::from_nanos(milliseconds * 1_000_000)
    }

    fn clocks(place: (u64, u64), backfill: (u64, u64)) -> Clocks {
        let pass = |(offset, each): (u64, u64)| PassOptions {
            trigger: Trigger::Every(ms(1000)),
            batch: None,
            jitter: SimDuration::ZERO,
            offset: ms(offset),
            takes: PassTime { least: ms(1), each: ms(each) },
        };
        let analyse = PassOptions { trigger: Trigger::Event, ..pass((0, 0)) };
        let passes = Passes { analyse, place: pass(place), backfill: Some(pass(backfill)) };
        Clocks::new(&passes, None).expect("its passes take time")
    }

    fn both(clocks: &Clocks) -> [Option<SimTime>; 2] {
        [clocks.next(PassKind::Place), clocks.next(PassKind::Backfill)]
    }

    /// Backfill begins a second after the end of its last pass, which took 1 ms plus 2 ms for each of four waiting
    /// replicas.
    #[test]
    fn a_long_queue_makes_a_slow_clock() {
        let mut clocks = clocks((500, 0), (0, 2));
        clocks.are_waiting(4);
        clocks.advance(at(3000));
        assert_eq!(both(&clocks), [Some(at(3503)), Some(at(3027))]);
        clocks.are_waiting(0);
        clocks.advance(at(5000));
        assert_eq!(both(&clocks), [Some(at(5505)), Some(at(5029))]);
    }

    /// However the clocks meet, many rounds at once leave them as one pass after the other does.
    #[test]
    fn many_rounds_at_once_are_the_same_as_one_after_the_other() {
        let mut seed = 1_u64;
        let mut draw = |choices: &[u64]| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            choices[(seed >> 33) as usize % choices.len()]
        };
        let mut skipped = 0;
        for _ in 0..20_000 {
            let mut pass = || PassOptions {
                trigger: Trigger::Every(SimDuration::from_nanos(draw(&[1, 5, 9, 10, 10, 10, 13]))),
                batch: None,
                jitter: SimDuration::ZERO,
                offset: SimDuration::from_nanos(draw(&[0, 1, 3, 7, 30])),
                takes: PassTime {
                    least: SimDuration::from_nanos(draw(&[0, 0, 1, 2, 3, 8])),
                    each: SimDuration::from_nanos(draw(&[0, 0, 1])),
                },
            };
            let (place, backfill) = (pass(), pass());
            let analyse = PassOptions { trigger: Trigger::Event, ..place };
            let backfill = Some(backfill).filter(|_| draw(&[0, 1, 1, 1]) == 1);
            let times =
                |draw: u64| -> Arc<[SimDuration]> { (0..draw).map(|n| SimDuration::from_nanos(n * 7)).collect() };
            let ticks = Ticks { place: times(draw(&[0, 0, 3])), backfill: times(draw(&[0, 0, 2])) };
            let Some(mut clocks) = Clocks::new(&Passes { analyse, place, backfill }, Some(&ticks)) else { continue };
            let mut one_by_one = clocks.clone();
            for now in [40, 300, 301, 900].map(SimTime::from_nanos) {
                let waiting = draw(&[0, 1, 4]) as usize;
                clocks.are_waiting(waiting);
                one_by_one.are_waiting(waiting);
                if clocks.earlier().is_some_and(|(at, _)| at < now) {
                    skipped += usize::from(clocks.clone().skip_rounds(now.as_nanos().into()));
                }
                clocks.advance(now);
                while let Some((at, which)) = one_by_one.earlier().filter(|(at, _)| *at < now) {
                    one_by_one.tick(which, at);
                }
                assert_eq!(
                    format!("{clocks:?}"),
                    format!("{one_by_one:?}"),
                    "{place:?} {backfill:?} {ticks:?} at {now:?}"
                );
            }
        }
        assert!(skipped > 10_000, "many rounds at once: {skipped}");
    }

    /// Backfill works from 0 to 9 ms and delays the place pass, which wakes at 4 ms. The same happens every time
    /// after that.
    #[test]
    fn who_finds_the_other_at_work_waits_and_follows_it_from_then_on() {
        let mut clocks = clocks((4, 0), (0, 2));
        clocks.are_waiting(4);
        clocks.advance(at(1));
        assert_eq!(both(&clocks), [Some(at(9)), Some(at(1009))]);
        clocks.advance(at(1010));
        assert_eq!(both(&clocks), [Some(at(1018)), Some(at(2018))]);
    }
}
