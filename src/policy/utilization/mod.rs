//! When GPUs have been idle for too long.
//!
//! # What the default rule means
//!
//! A *sample* is one look at all GPUs of a run: a time and, for each GPU that could be read, its utilization. A reading is
//! *idle* if it is strictly below `min_gpu_utilization` (`at_minimum: idle` includes the minimum itself). A GPU that could
//! not be read is as if it had not been looked at. Readings count from `grace` after the start of the run.
//!
//! Samples are taken by their own times, in whatever order they come: the policy holds after a sample exactly if it would
//! hold had all those taken so far come in order. Not taken, each with its name ([`SampleFault`]), are a second sample of
//! one time, one from before the start or more than `longest_gap` in the future, one of another number of GPUs, and one
//! older than all that are kept.
//!
//! The *idle spell* of a GPU is the longest row of its readings that ends with its newest one, all of them idle, and each
//! at most `longest_gap` after the one before (twice the sampling interval, if it is not stated). With `gaps: bridge` the
//! distance does not matter. A longer silence is no evidence, so the spell begins again behind it.
//!
//! The policy *fires* when, of any GPU (`gpus: any`), the first and the last reading of the spell are at least
//! `time_window` apart; with `gpus: all` when the latest first and the earliest last reading of all GPUs are. These two
//! readings, first and last, are named: they *cover* the window. A spell fires once.
//!
//! **Never early:** when it fires, every reading over at least a whole window was idle, none further from the next than
//! the longest gap. **Never never:** say a GPU is idle from x on, readings come at most d apart, with d at most the
//! longest gap, and each is heard at most D after it was taken. Then the first idle reading lies before x + d or at it,
//! and the one that completes the window less than d after a window has passed: the policy fires **before
//! x + window + 2d + D**. With samples on time d is the interval, whatever it is up to the window or beyond, and the
//! policy is less than two intervals late. Each lost sample adds an interval, up to the longest gap.
//!
//! # What it costs
//!
//! Memory is taken once for a run: a ring of ceil(window / interval) + 2 samples, and two spells for each GPU. A sample in
//! order costs a step for each GPU; a late one is put in its place, and those behind it are read again. If samples come
//! faster than the interval says, the ring forgets some that lie in the window ([`SampleFault::Overflow`]); what they
//! showed stays in the spells, so it fires when it should, and only a late sample older than the ring is lost.
//!
//! # Another rule
//!
//! What dstack does is [`UtilizationRule::Dstack`], described in its module.

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

/// Watches one run. It is told samples and times, and has no clock.
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
    /// For a run of so many GPUs that started at `at`.
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

    /// A sample is heard at `now`. What is odd about it, if something is; whether it is used then, the fault says.
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

    /// When it fires next if nothing more is heard; `now` if it should have by now.
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        match &self.rule {
            Rule::Covered(covered) => covered.coverage(&self.policy).map(|_| now),
            Rule::Dstack(dstack) => dstack.next(&self.policy, &self.ring, self.bound_at, now).map(|(at, _)| at),
        }
    }

    /// Fires if it should at `now`, and says what covered the window.
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
