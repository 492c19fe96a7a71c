//! The utilization policy: when GPUs of a run have been idle for too long.
//!
//! # What the default rule means
//!
//! A *sample* is one reading of all GPUs of a run: a time and, for each GPU that could be read, its utilization. A
//! reading is *idle* if it is strictly below `min_gpu_utilization`. With `at_minimum: idle`, a reading at the minimum
//! is idle too. A GPU that could not be read has no reading in that sample. Readings count only after `grace` has
//! passed since the start of the run.
//!
//! Samples are ordered by their own times, even if they arrive in another order. After each sample, the policy fires if
//! and only if it would have fired with all accepted samples in the order of their times. Four kinds of samples are
//! rejected, each with a name ([`SampleFault`]): a second sample with the same time; a sample from before the start, or
//! more than `longest_gap` in the future; a sample with another number of GPUs; and a sample that is older than all
//! samples that are kept.
//!
//! The *idle spell* of a GPU is the longest sequence of readings that ends with the newest one, in which every reading
//! is idle and comes at most `longest_gap` after the one before. The default of `longest_gap` is twice the sampling
//! interval. A longer silence shows nothing about the GPU, so the spell starts again after it. With `gaps: bridge`, the
//! time between readings does not matter.
//!
//! With `gpus: any`, the policy *fires* when the first and the last reading in the spell of one GPU are at least
//! `time_window` apart. With `gpus: all`, it fires when the latest of the GPUs' first readings and the earliest of
//! their last readings are that far apart. These two readings *cover* the window, and the policy reports them. A spell
//! fires only once.
//!
//! **Never early:** when the policy fires, every reading over at least one whole window was idle, and consecutive
//! readings were at most the longest gap apart.
//!
//! **Never missed:** suppose that a GPU is idle from time x on. Readings come at most d apart, where d is at most the
//! longest gap, and each reading arrives at most D after it was taken. Then the first idle reading comes at x + d or
//! earlier. The reading that completes the window comes less than d after the end of a whole window. So the policy
//! fires **before x + window + 2d + D**. If samples are on time, d is the interval, and the policy fires less than two
//! intervals late. This is true whether the interval is shorter or longer than the window. Each lost sample adds an
//! interval, up to the longest gap.
//!
//! # What it costs
//!
//! Memory is allocated once for each run: a ring of ceil(window / interval) + 2 samples, and two spells for each GPU. A
//! sample in order costs one step for each GPU. A late sample is inserted at its place, and the samples after it are
//! read again. If samples come faster than the interval, the ring drops some samples of the window
//! ([`SampleFault::Overflow`]). The spells keep what these samples showed, so the policy still fires on time. Only a
//! late sample that is older than all samples in the ring is lost.
//!
//! # Another rule
//!
//! The module of [`UtilizationRule::Dstack`] describes the rule of dstack.

mod covered;
mod dstack;
mod idle;
mod named;
mod own;
mod recording;
mod ring;
mod rule;
#[cfg(test)]
mod tests;
mod window;

pub use own::{policy_rule_named, register_policy_rule};
pub use recording::{GpuTime, JudgedJob, judge_recording};
pub use ring::{MOST_SAMPLES, Sample, ring_samples};
pub use window::{RuleFunction, Window};

use covered::Covered;
use dstack::Dstack;
use own::Own;
use ring::Ring;
use rule::Rule;

use dryrack_planted::planted;
use dryrack_units::SimTime;
use dryrack_workload::{Coverage, SampleFault, UtilizationPolicy, UtilizationRule};

/// Watches one run. The monitor has no clock: the caller gives it samples and times.
pub struct UtilizationMonitor {
    policy: UtilizationPolicy,
    bound_at: SimTime,
    width: usize,
    ring: Ring,
    rule: Box<dyn Rule + Send + Sync>,
}

impl UtilizationMonitor {
    /// Starts watching a run of `gpus` GPUs that started at `at`.
    ///
    /// # Panics
    /// If the policy's rule is one that no program has registered. A profile with such a rule is refused.
    pub fn bind(policy: UtilizationPolicy, gpus: u16, at: SimTime) -> UtilizationMonitor {
        let width = usize::from(gpus);
        let rule: Box<dyn Rule + Send + Sync> = match policy.rule {
            UtilizationRule::Covered => Box::new(Covered::new(&policy, at, width)),
            UtilizationRule::Dstack { looks_every, first_within } => {
                Box::new(Dstack::new(looks_every, first_within, width))
            }
            UtilizationRule::Own(rule) => {
                let function = policy_rule_named(rule.name());
                let function = function.unwrap_or_else(|| panic!("no rule `{}` is registered", rule.name()));
                Box::new(Own::new(function, &policy, at, width))
            }
        };
        UtilizationMonitor { bound_at: at, width, ring: Ring::new(&policy, width), rule, policy }
    }

    pub fn policy(&self) -> &UtilizationPolicy {
        &self.policy
    }

    /// Takes a sample that arrives at `now`. Returns the fault of the sample, if any. The fault says whether the sample
    /// is still used.
    pub fn observe(&mut self, now: SimTime, sample: &Sample<'_>) -> Option<SampleFault> {
        if !self.rule.takes(sample.utilization.len(), self.width) {
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
        if planted!(LateSampleIsDropped) && place < self.ring.len() {
            return Some(SampleFault::Disorder);
        }
        // Once the ring has dropped a sample, it stays full.
        if place == 0 && self.ring.is_full() {
            return Some(SampleFault::TooOld);
        }
        let mut fault = None;
        if self.ring.is_full() {
            let leaves = self.ring.time(0).saturating_add(self.policy.time_window);
            fault = (leaves >= sample.at).then_some(SampleFault::Overflow);
            self.rule.drops_oldest(&self.policy, &self.ring);
            self.ring.drop_oldest();
            place -= 1;
        }
        self.ring.insert(place, sample);
        let is_last = place + 1 == self.ring.len();
        match is_last {
            true => self.rule.added(&self.policy, &self.ring),
            false => self.rule.inserted(&self.policy, &self.ring, place),
        }
        if is_last { fault } else { Some(SampleFault::Disorder) }
    }

    /// When the policy fires next if no more samples arrive. Returns `now` if the policy is already due.
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        self.rule.next(&self.policy, &self.ring, self.bound_at, now).map(|(at, _)| at)
    }

    /// Fires if the policy is due at `now`. Returns the readings that cover the window.
    pub fn fire(&mut self, now: SimTime) -> Option<Coverage> {
        let (at, coverage) = self.rule.next(&self.policy, &self.ring, self.bound_at, now)?;
        if at > now {
            return None;
        }
        self.rule.fired(&self.ring, &coverage);
        Some(coverage)
    }
}
