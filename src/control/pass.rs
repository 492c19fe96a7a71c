//! The clock of one pass: when it runs, given its period, its offset and its jitter.

use std::cell::Cell;

use super::pass_options::PassOptions;
use dryrack_planted::planted;
use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};

/// The state that a pass saw. If it has not changed, the pass could only repeat itself: the fleet's growth, the number of
/// replicas queued so far, the number that still wait, and the number of changes that time has brought.
pub(crate) type SeenByPass = (u64, u64, usize, u64);

/// The clock of one pass.
pub struct PassState {
    options: PassOptions,
    pub(crate) seed: u64,
    purpose: &'static str,
    pub(crate) last: Option<SimTime>,
    /// Whether the last pass ended because its batch was full. The remaining replicas are then due at once, in the next
    /// round of the same instant.
    pub(crate) cut_short: bool,
    /// Number of replicas of the batch that the pass had processed when a decision that takes time interrupted it. The
    /// pass resumes once that decision is made.
    pub(crate) interrupted_after: Option<u32>,
    /// The jitter of ticks that were asked for last, each at its number modulo the length. The next tick is asked for
    /// in each step, and to draw its jitter costs more than the rest of the question.
    jitters: [Cell<Option<(u64, SimDuration)>>; KEPT_JITTERS],
}

/// Enough for the ticks around the present and around the next time at which something is due.
const KEPT_JITTERS: usize = 8;

impl PassState {
    pub fn new(options: PassOptions, seed: u64, purpose: &'static str) -> PassState {
        let jitters = Default::default();
        PassState { options, seed, purpose, last: None, cut_short: false, interrupted_after: None, jitters }
    }

    /// Replaces the options, such as the period.
    pub(crate) fn follow(&mut self, options: PassOptions) {
        self.options = options;
        self.jitters = Default::default();
    }

    /// The first tick at or after `now` that has not run. Tick n is at `offset + n * period`, plus its own jitter.
    pub(crate) fn next_tick(&self, period: SimDuration, now: SimTime) -> SimTime {
        let reach = self.options.offset.saturating_add(self.options.jitter).as_nanos() / period.as_nanos() + 1;
        let mut number = (now.as_nanos() / period.as_nanos()).saturating_sub(reach);
        loop {
            let since = period.saturating_mul(number).saturating_add(self.jitter(number));
            let offset = if planted!(OffsetOfPassesIsIgnored) { SimDuration::ZERO } else { self.options.offset };
            let at = SimTime::ZERO.saturating_add(offset).saturating_add(since);
            if at >= now && self.last.is_none_or(|last| at > last) {
                return at;
            }
            number += 1;
        }
    }

    /// Records that the tick of this instant has run.
    pub(crate) fn ran(&mut self, now: SimTime) {
        self.last = Some(now);
    }

    fn jitter(&self, number: u64) -> SimDuration {
        if self.options.jitter.is_zero() {
            return SimDuration::ZERO;
        }
        let kept = &self.jitters[number as usize % KEPT_JITTERS];
        if let Some((_, jitter)) = kept.get().filter(|(of, _)| *of == number) {
            return jitter;
        }
        let jitter = Stream::new(self.seed, self.purpose, number).duration(SimDuration::ZERO, self.options.jitter);
        kept.set(Some((number, jitter)));
        jitter
    }
}
