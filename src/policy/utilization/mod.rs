//! When GPUs have been idle for too long.
//!
//! # What the default rule means
//!
//! A *sample* is one reading of all GPUs of a run: a time and, for each GPU that could be read, its utilization. A
//! reading is *idle* if it is strictly below `min_gpu_utilization` (`at_minimum: idle` includes the minimum itself).
//! A GPU that could not be read has no reading in that sample. Readings count from `grace` after the start of the
//! run.
//!
//! Samples are ordered by their own times, in whatever order they arrive: after a sample, the policy fires exactly if
//! it would fire had all accepted samples arrived in order. Four kinds of samples are rejected, each with its name
//! ([`SampleFault`]): a second sample of the same time, one from before the start or more than `longest_gap` in the
//! future, one with another number of GPUs, and one older than all that are kept.
//!
//! The *idle spell* of a GPU is the longest sequence of its readings that ends with the newest one, in which all are
//! idle and each is at most `longest_gap` after the one before (twice the sampling interval, if it is not stated).
//! With `gaps: bridge` the distance does not matter. A longer silence proves nothing, so the spell starts again after
//! it.
//!
//! With `gpus: any` the policy *fires* when the first and last reading of any GPU's spell are at least `time_window`
//! apart; with `gpus: all`, when the latest first reading and the earliest last reading of all GPUs are. These two
//! readings, first and last, are named: they *cover* the window. A spell fires once.
//!
//! **Never early:** when the policy fires, every reading over at least a whole window was idle, and consecutive
//! readings were at most the longest gap apart. **Never missed:** suppose that a GPU is idle from x on, that readings
//! come at most d apart, with d at most the longest gap, and that each arrives at most D after it was taken. Then the
//! first idle reading lies at or before x + d, and the reading that completes the window comes less than d after a
//! window has passed, so the policy fires **before x + window + 2d + D**. With samples on time d is the interval,
//! whether it is shorter or longer than the window, and the policy is less than two intervals late. Each lost sample
//! adds an interval, up to the longest gap.
//!
//! # What it costs
//!
//! Memory is allocated once per run: a ring of ceil(window / interval) + 2 samples, and two spells for each GPU. A
//! sample in order costs one step for each GPU. A late sample is inserted in its place, and the samples after it are
//! read again. If samples come faster than the interval says, the ring forgets some that lie in the window
//! ([`SampleFault::Overflow`]). The spells keep what those samples showed, so the policy still fires on time, and
//! only a late sample older than the ring is lost.
//!
//! # Another rule
//!
//! dstack's rule is [`UtilizationRule::Dstack`], described in its module.

mod covered;
mod dstack;
mod recording;
mod ring;

pub use recording::{GpuTime, Judged, judge_recording};
pub use ring::{MOST_SAMPLES, Sample, ring_samples};

use covered::Covered;
use dstack::Dstack;
use ring::Ring;

use dryrack_units::{Permille, SimTime};
use dryrack_workload::{AtMinimum, Coverage, SampleFault, UtilizationPolicy, UtilizationRule};

/// Watches one run. It has no clock: the caller gives it samples and times.
pub struct UtilizationMonitor {
    policy: UtilizationPolicy,
    bound_at: SimTime,
    width: usize,
    ring: Ring,
    rule: Rule,
}

enum Rule {
    Covered(Covered),
    Dstack(Dstack),
}

fn is_idle(policy: &UtilizationPolicy, reading: Permille) -> bool {
    match policy.at_minimum {
        AtMinimum::Busy => reading < policy.min_gpu_utilization,
        AtMinimum::Idle => reading <= policy.min_gpu_utilization,
    }
}

impl UtilizationMonitor {
    /// Starts watching a run of `gpus` GPUs that started at `at`.
    pub fn bind(policy: UtilizationPolicy, gpus: u16, at: SimTime) -> UtilizationMonitor {
        let width = usize::from(gpus);
        let rule = match policy.rule {
            UtilizationRule::Covered => Rule::Covered(Covered::new(&policy, at, width)),
            UtilizationRule::Dstack { looks_every, first_within } => {
                Rule::Dstack(Dstack::new(looks_every, first_within, width))
            }
        };
        UtilizationMonitor { bound_at: at, width, ring: Ring::new(&policy, width), rule, policy }
    }

    pub fn policy(&self) -> &UtilizationPolicy {
        &self.policy
    }

    /// Takes a sample that arrives at `now`. Returns its fault, if it has one; the fault says whether the sample is
    /// still used.
    pub fn observe(&mut self, now: SimTime, sample: &Sample<'_>) -> Option<SampleFault> {
        let is_refused = match self.rule {
            Rule::Covered(_) => sample.utilization.len() != self.width,
            Rule::Dstack(_) => sample.utilization.len() > self.width,
        };
        if is_refused {
            return Some(SampleFault::GpuCount);
        }
        if sample.at < self.bound_at {
            return Some(SampleFault::BeforeStart);
        }
        if sample.at > now.saturating_add(self.policy.longest_gap) {
            return Some(SampleFault::Future);
        }
        let (mut place, is_there) = self.ring.place(sample.at);
        if is_there {
            return Some(SampleFault::Duplicate);
        }
        let has_forgotten = self.ring.is_full() || self.ring.number(0) > 0;
        if place == 0 && has_forgotten {
            return Some(SampleFault::TooOld);
        }
        let mut fault = None;
        if self.ring.is_full() {
            let newest = self.ring.newest().map_or(sample.at, |newest| newest.max(sample.at));
            let leaves = self.ring.time(0).saturating_add(self.policy.time_window);
            fault = (leaves >= newest).then_some(SampleFault::Overflow);
            if let Rule::Covered(covered) = &mut self.rule {
                covered.drops_oldest(&self.policy, &self.ring);
            }
            self.ring.drop_oldest();
            place -= 1;
        }
        self.ring.insert(place, sample);
        let is_last = place + 1 == self.ring.len();
        match (&mut self.rule, is_last) {
            (Rule::Covered(covered), true) => covered.added(&self.policy, &self.ring),
            (Rule::Covered(covered), false) => covered.inserted(&self.policy, &self.ring),
            (Rule::Dstack(dstack), true) => dstack.added(&self.policy, &self.ring),
            (Rule::Dstack(dstack), false) => dstack.inserted(&self.policy, &self.ring, place),
        }
        if is_last { fault } else { Some(SampleFault::Disorder) }
    }

    /// When it fires next if no more samples arrive; `now` if it is already due.
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        match &self.rule {
            Rule::Covered(covered) => covered.coverage(&self.policy).map(|_| now),
            Rule::Dstack(dstack) => dstack.next(&self.policy, &self.ring, self.bound_at, now).map(|(at, _)| at),
        }
    }

    /// Fires if it is due at `now`, and returns the readings that cover the window.
    pub fn fire(&mut self, now: SimTime) -> Option<Coverage> {
        match &mut self.rule {
            Rule::Covered(covered) => {
                let coverage = covered.coverage(&self.policy)?;
                covered.fired(&coverage);
                Some(coverage)
            }
            Rule::Dstack(dstack) => {
                let (at, coverage) = dstack.next(&self.policy, &self.ring, self.bound_at, now)?;
                if at > now {
                    return None;
                }
                dstack.fired(&self.ring);
                Some(coverage)
            }
        }
    }
}
