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

    fn tick(&mut self, at: SimTime, waiting: usize) {
        self.busy_until = at.saturating_add(self.length(waiting));
        self.gone += 1;
        let listed = self.listed.get(self.gone).map(|since| SimTime::ZERO.saturating_add(*since));
        // A pass that takes no time keeps its phase, also after it has waited for the other pass.
        let since = if self.takes.is_none() && self.gone > self.listed.len() { self.next } else { self.busy_until };
        self.next = listed.unwrap_or(since.saturating_add(self.period));
    }
}

/// Where two clocks are, and how they stand to each other. While as many replicas wait, equal offsets lead to equal ticks.
#[derive(Clone, Copy, Debug)]
struct Stand {
    /// When the next place pass is due, in nanoseconds.
    next: u64,
    /// How many passes of each clock have begun.
    gone: [usize; 2],
    /// The other times of both clocks, after `next` (modulo 2^64).
    offsets: [u64; 3],
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

    /// Advances through all ticks before `now`. A job may come after centuries, so once both clocks stand to each other as they
    /// did before, all whole cycles are skipped at once. They are found as Brent finds them ("An improved Monte Carlo
    /// factorization algorithm", 1980): by comparing with a stand that is renewed after twice as many ticks each time.
    pub fn advance(&mut self, now: SimTime) {
        let (mut seen, mut ticks, mut most_ticks) = (self.stand(), 0, 1);
        let mut has_skipped = false;
        while let Some((at, which)) = self.earlier().filter(|(at, _)| *at < now) {
            self.tick(which, at);
            if has_skipped {
                continue;
            }
            ticks += 1;
            let stand = self.stand();
            match (seen, stand) {
                (Some(seen), Some(stand)) if seen.offsets == stand.offsets => {
                    self.skip_cycles(&seen, &stand, now);
                    has_skipped = true;
                }
                (Some(_), _) if ticks < most_ticks => {}
                _ => (seen, ticks, most_ticks) = (stand, 0, most_ticks * 2),
            }
        }
    }

    /// How the clocks stand to each other. `None` while a recorded pass is to come, because it keeps its time.
    fn stand(&self) -> Option<Stand> {
        let clocks = || std::iter::once(&self.place).chain(&self.backfill);
        if clocks().any(|clock| clock.gone < clock.listed.len()) {
            return None;
        }
        let next = self.place.next.as_nanos();
        let after_next = |at: SimTime| at.as_nanos().wrapping_sub(next);
        let of_backfill = self.backfill.as_ref().map(|clock| (after_next(clock.next), after_next(clock.busy_until)));
        let (backfill, busy) = of_backfill.unwrap_or_default();
        let gone = [self.place.gone, self.backfill.as_ref().map_or(0, |clock| clock.gone)];
        Some(Stand { next, gone, offsets: [after_next(self.place.busy_until), backfill, busy] })
    }

    /// Skips as many cycles of the length from one stand to the next equal one as fit before `now`.
    fn skip_cycles(&mut self, one: &Stand, next: &Stand, now: SimTime) {
        let length = next.next - one.next;
        let Some((at, _)) = self.earlier().filter(|(at, _)| *at < now) else { return };
        let cycles = (now.as_nanos() - 1 - at.as_nanos()) / length;
        let by = SimDuration::from_nanos(cycles * length);
        let skip = |clock: &mut Clock, which: usize| {
            clock.next = clock.next.saturating_add(by);
            clock.busy_until = clock.busy_until.saturating_add(by);
            clock.gone += (next.gone[which] - one.gone[which]) * cycles as usize;
        };
        skip(&mut self.place, 0);
        self.backfill.iter_mut().for_each(|clock| skip(clock, 1));
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

    fn passes(place: (u64, u64), backfill: Option<(u64, u64)>) -> Passes {
        let pass = |(offset, each): (u64, u64)| PassOptions {
            trigger: Trigger::Every(ms(1000)),
            batch: None,
            jitter: SimDuration::ZERO,
            offset: ms(offset),
            takes: PassTime { least: ms(1), each: ms(each) },
        };
        let analyse = PassOptions { trigger: Trigger::Event, ..pass((0, 0)) };
        Passes { analyse, place: pass(place), backfill: backfill.map(pass) }
    }

    fn clocks(place: (u64, u64), backfill: (u64, u64)) -> Clocks {
        Clocks::new(&passes(place, Some(backfill)), None).expect("its passes take time")
    }

    fn both(clocks: &Clocks) -> [Option<SimTime>; 2] {
        [clocks.next(PassKind::Place), clocks.next(PassKind::Backfill)]
    }

    /// A profile with the same passes lets the clocks go on where they are. With others, they begin anew.
    #[test]
    fn clocks_go_on_if_a_change_of_the_profile_keeps_the_passes() {
        let mut before = clocks((0, 0), (0, 2));
        before.advance(at(5000));
        for (passes, goes_on) in [
            (passes((0, 0), Some((0, 2))), true),
            (passes((0, 1), Some((0, 2))), false),
            (passes((0, 0), Some((0, 3))), false),
            (passes((0, 0), None), false),
        ] {
            let after = Clocks::after_change(Some(before.clone()), &passes, None).expect("its passes take time");
            assert_eq!(after.place.gone > 0, goes_on, "{passes:?}");
        }
        let alone = Clocks::new(&passes((0, 0), None), None);
        let both = Clocks::after_change(alone, &passes((0, 0), Some((0, 2))), None).expect("its passes take time");
        assert!(both.backfill.is_some(), "a second clock begins");
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

    /// However the clocks meet, skipped cycles leave them as one pass after the other does.
    #[test]
    fn skipped_cycles_are_the_same_as_one_pass_after_the_other() {
        let mut seed = 1_u64;
        let mut draw = |choices: &[u64]| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            choices[(seed >> 33) as usize % choices.len()]
        };
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
            for now in [40, 300, 301, 3000].map(SimTime::from_nanos) {
                let waiting = draw(&[0, 1, 4]) as usize;
                clocks.are_waiting(waiting);
                one_by_one.are_waiting(waiting);
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
    }

    /// Passes each second for 500 years are more than can be made one by one. The place pass comes with each whole second, and
    /// backfilling takes 905 us, so both stand as at the beginning after 200,181 s: 1e9 and 1,000,905,000 ns have the common
    /// factor 5,000.
    #[test]
    fn centuries_are_skipped() {
        let mut clocks = clocks((0, 0), (0, 0));
        clocks.place.takes = PassTime::NONE;
        if let Some(backfill) = &mut clocks.backfill {
            backfill.takes.least = SimDuration::from_nanos(905_000);
        }
        let cycles = 78_000;
        clocks.advance(at(cycles * 200_181_000));
        assert_eq!(both(&clocks), [Some(at(cycles * 200_181_000)); 2]);
        assert_eq!(clocks.place.gone as u64, cycles * 200_181);
        assert_eq!(clocks.backfill.map(|clock| clock.gone as u64), Some(cycles * 200_000));
    }

    /// Each pass begins 1001 ms after the one before it, also in 500 years. At the beginning, the clocks stand to each other as
    /// they never do again, because no pass has ended yet.
    #[test]
    fn centuries_are_skipped_from_the_second_pass_on() {
        let mut clocks = clocks((0, 0), (500, 0));
        let passes = 15_760_000_000;
        clocks.advance(at(passes * 1001));
        assert_eq!(both(&clocks), [Some(at(passes * 1001)), Some(at(passes * 1001 + 500))]);
        assert_eq!([clocks.place.gone, clocks.backfill.map_or(0, |clock| clock.gone)], [passes as usize; 2]);
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
