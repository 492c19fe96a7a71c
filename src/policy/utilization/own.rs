//! Rules by name: those of [`named`], and those that a program registers.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::named;
use super::ring::Ring;
use super::rule::Rule;
use crate::{RuleFunction, Window};
use dryrack_units::SimTime;
use dryrack_workload::{Coverage, UtilizationPolicy};

static RULES: RwLock<BTreeMap<String, RuleFunction>> = RwLock::new(BTreeMap::new());

/// Registers a rule. A profile uses it with `policies: {utilization: {rule: {own: NAME}}}`. The rule is evaluated at
/// each sample, starting a whole window after the end of the grace time. It fires once for each unbroken sequence of
/// samples at which it is true. The function must depend only on its argument.
///
/// # Errors
/// If the name is taken.
pub fn register_policy_rule(name: &str, rule: RuleFunction) -> Result<(), String> {
    let is_built_in = named::RULES.iter().any(|(known, _)| *known == name);
    let mut rules = RULES.write().unwrap_or_else(PoisonError::into_inner);
    if is_built_in || rules.contains_key(name) {
        return Err(format!("a rule named `{name}` already exists"));
    }
    rules.insert(name.to_string(), rule);
    Ok(())
}

/// The rule with this name, either built in or registered.
pub fn policy_rule_named(name: &str) -> Option<RuleFunction> {
    if let Some((_, rule)) = named::RULES.iter().find(|(known, _)| *known == name) {
        return Some(*rule);
    }
    RULES.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
}

pub(super) struct Own {
    rule: RuleFunction,
    /// The first time at which a whole window of samples is available.
    from: SimTime,
    width: usize,
    /// Whether the rule is true at the newest sample. `has_fired` says whether it has fired since it became true.
    holds: bool,
    has_fired: bool,
}

impl Own {
    pub fn new(rule: RuleFunction, policy: &UtilizationPolicy, bound_at: SimTime, width: usize) -> Own {
        let from = bound_at.saturating_add(policy.grace).saturating_add(policy.time_window);
        Own { rule, from, width, holds: false, has_fired: false }
    }

    /// The index of the first sample in the window.
    fn first(policy: &UtilizationPolicy, ring: &Ring) -> usize {
        let newest = ring.time(ring.len() - 1);
        let is_before = |index: &usize| ring.time(*index).saturating_add(policy.time_window) < newest;
        (0..ring.len()).take_while(is_before).count()
    }

    fn evaluate(&mut self, policy: &UtilizationPolicy, ring: &Ring) {
        let window = Window { policy, ring, first: Own::first(policy, ring), width: self.width };
        self.holds = ring.time(ring.len() - 1) >= self.from && (self.rule)(&window);
        self.has_fired &= self.holds;
    }
}

impl Rule for Own {
    fn added(&mut self, policy: &UtilizationPolicy, ring: &Ring) {
        self.evaluate(policy, ring);
    }

    fn inserted(&mut self, policy: &UtilizationPolicy, ring: &Ring, _place: usize) {
        self.evaluate(policy, ring);
    }

    fn next(&self, policy: &UtilizationPolicy, ring: &Ring, _: SimTime, now: SimTime) -> Option<(SimTime, Coverage)> {
        if !self.holds || self.has_fired {
            return None;
        }
        let (first, last) = (Own::first(policy, ring), ring.len() - 1);
        let gpus = (0..self.width as u16).collect();
        let samples = (last - first) as u32 + 1;
        Some((now, Coverage { gpus, first: ring.time(first), last: ring.time(last), samples }))
    }

    fn fired(&mut self, _: &Ring, _: &Coverage) {
        self.has_fired = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sample, UtilizationMonitor};
    use dryrack_units::Permille;
    use dryrack_units::SimDuration;
    use dryrack_workload::{AtMinimum, Gaps, IdleGpus, OwnRule, PolicyMode, UtilizationRule};

    /// Whether the mean of all readings is below the minimum.
    fn mean_is_low(window: &Window<'_>) -> bool {
        let readings: Vec<u64> = window.readings(0).flatten().map(|reading| u64::from(reading.get())).collect();
        let sum: u64 = readings.iter().sum();
        sum < u64::from(window.policy().min_gpu_utilization.get()) * readings.len() as u64
    }

    #[test]
    fn a_registered_rule_fires_once_for_each_time_that_it_begins_to_hold() {
        register_policy_rule("mean_of_the_test", mean_is_low).unwrap();
        assert!(register_policy_rule("mean_of_the_test", mean_is_low).is_err());
        assert!(register_policy_rule("mean_below", mean_is_low).is_err());
        let policy = UtilizationPolicy {
            rule: UtilizationRule::Own(OwnRule::new("mean_of_the_test")),
            mode: PolicyMode::Warn,
            min_gpu_utilization: Permille::new(200),
            time_window: SimDuration::from_secs(30),
            gpus: IdleGpus::All,
            at_minimum: AtMinimum::Busy,
            interval: SimDuration::from_secs(10),
            longest_gap: SimDuration::from_secs(20),
            gaps: Gaps::Void,
            grace: SimDuration::ZERO,
        };
        let at = |seconds: u64| SimTime::from_nanos(seconds * 1_000_000_000);
        let mut monitor = UtilizationMonitor::bind(policy, 1, SimTime::ZERO);
        let mut fired = Vec::new();
        // Means of four samples, the first at 30 s, in percent and by hand: 25, 22.5, 20, 15, 10, 30, 30, 30, 30, 5.
        for (step, percent) in [30, 30, 20, 20, 20, 20, 0, 0, 100, 20, 0, 0, 0].into_iter().enumerate() {
            let now = at(10 * step as u64);
            let sample = Sample { at: now, utilization: &[Some(Permille::new(percent * 10))], memory_entries: 1 };
            assert_eq!(monitor.observe(now, &sample), None);
            fired.extend(monitor.fire(now).map(|coverage| (step, coverage.samples)));
        }
        assert_eq!(fired, [(6, 4), (12, 4)]);
    }
}
