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

    fn tick(&mut self, at: SimTime, waiting: usize) {
        let each = self.takes.each.saturating_mul(waiting as u64);
        self.busy_until = at.saturating_add(self.takes.least.saturating_add(each));
        self.gone += 1;
        let listed = self.listed.get(self.gone).map(|since| SimTime::ZERO.saturating_add(*since));
        // A pass that takes no time keeps its phase, also after it has waited for the other pass.
        let since = if self.takes.is_none() && self.gone > self.listed.len() { self.next } else { self.busy_until };
        self.next = listed.unwrap_or(since.saturating_add(self.period));
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
            self.tick(which, at);
        }
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
