//! The policies of a profile: utilization policies, and quotas on what the runs of a project hold. A run's own
//! configuration may override the utilization policy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::profile_error::ProfileError;
use dryrack_policy::{MOST_SAMPLES, Quota, policy_rule_named, ring_samples};
use dryrack_units::{OptionalTextForm, Permille, SimDuration, TextForm, present};
use dryrack_workload::{
    AtMinimum, Gaps, IdleGpus, PolicyMode, PolicySource, UtilizationOverrides, UtilizationPolicy, UtilizationRule,
};

/// Policies that end runs or limit what projects hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyOptions {
    pub utilization: UtilizationOptions,
    /// Quotas by project. Only profiles with runs read them.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Option<Quota>>")]
    pub quotas: BTreeMap<String, Quota>,
}

/// The utilization policy of a profile. The policy applies to a run if its minimum and its window are stated, here or
/// in the run's own configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UtilizationOptions {
    pub rule: UtilizationRule,
    pub reads: PolicyReads,
    pub mode: PolicyMode,
    /// Utilization of a GPU below which it is idle; no default if absent.
    #[serde(with = "OptionalTextForm")]
    pub min_gpu_utilization: Option<Permille>,
    /// How long GPUs must have been idle before the policy fires; no default if absent.
    #[serde(with = "OptionalTextForm")]
    pub time_window: Option<SimDuration>,
    /// The shortest allowed window. Checking a scenario reports a shorter window as an error.
    #[serde(with = "TextForm")]
    pub min_time_window: SimDuration,
    pub gpus: IdleGpus,
    pub at_minimum: AtMinimum,
    /// How often GPUs are sampled.
    #[serde(with = "TextForm")]
    pub interval: SimDuration,
    /// The longest time between two samples without a gap in the usage data; twice the interval if absent.
    #[serde(with = "OptionalTextForm")]
    pub longest_gap: Option<SimDuration>,
    pub gaps: Gaps,
    /// Time since the start of a run in which readings do not count.
    #[serde(with = "TextForm")]
    pub grace: SimDuration,
}

/// Which statements of a policy apply when a run starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyReads {
    /// The profile states the policy, and the run's configuration overrides single fields.
    #[default]
    ProfileAndConfiguration,
    /// Only the run's configuration counts. A policy that is stated in the profile, or in a project's profiles, applies
    /// to no run (dstack 2383).
    Configuration,
}

impl UtilizationOptions {
    /// The policy that applies to a run with this configuration, and where the policy was stated.
    pub fn bind(&self, over: &UtilizationOverrides) -> Option<(PolicySource, UtilizationPolicy)> {
        // If only the configuration counts, a statement from a project's profiles is ignored except for its interval.
        let unread;
        let over = match (self.reads, over.from) {
            (PolicyReads::Configuration, PolicySource::Profile) => {
                unread = UtilizationOverrides { interval: over.interval, ..UtilizationOverrides::default() };
                &unread
            }
            (PolicyReads::ProfileAndConfiguration, _) | (_, PolicySource::Configuration) => over,
        };
        let (minimum, window) = match self.reads {
            PolicyReads::ProfileAndConfiguration => (self.min_gpu_utilization, self.time_window),
            PolicyReads::Configuration => (None, None),
        };
        // Most runs have no policy, so this comes first.
        let min_gpu_utilization = over.min_gpu_utilization.or(minimum)?;
        let time_window = over.time_window.or(window)?;
        let interval = over.interval.unwrap_or(self.interval);
        let longest_gap = over.longest_gap.or(self.longest_gap);
        let policy = UtilizationPolicy {
            rule: self.rule,
            mode: over.mode.unwrap_or(self.mode),
            min_gpu_utilization,
            time_window,
            gpus: over.gpus.unwrap_or(self.gpus),
            at_minimum: over.at_minimum.unwrap_or(self.at_minimum),
            interval,
            longest_gap: longest_gap.unwrap_or_else(|| interval.saturating_mul(2)),
            gaps: over.gaps.unwrap_or(self.gaps),
            grace: over.grace.unwrap_or(self.grace),
        };
        let source = if over.is_stated() { over.from } else { PolicySource::Profile };
        Some((source, policy))
    }

    /// Whether the policy that applies to a run with this configuration is possible. Its window and its interval must
    /// be longer than zero. One window must not need more samples than are kept for a run.
    pub fn can_bind(&self, over: &UtilizationOverrides) -> bool {
        self.bind(over).is_none_or(|(_, policy)| {
            let times = [policy.time_window, policy.interval];
            times.iter().all(|time| !time.is_zero())
                && ring_samples(policy.time_window, policy.interval) <= MOST_SAMPLES
        })
    }

    pub(super) fn faults(&self) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        let mut times = vec![("policies.utilization.interval", self.interval)];
        times.extend(self.time_window.map(|window| ("policies.utilization.time_window", window)));
        times.extend(self.longest_gap.map(|gap| ("policies.utilization.longest_gap", gap)));
        if let UtilizationRule::Dstack { looks_every, .. } = self.rule {
            times.push(("policies.utilization.rule.dstack.looks_every", looks_every));
        }
        if let UtilizationRule::Own(rule) = self.rule
            && policy_rule_named(rule.name()).is_none()
        {
            faults.push(ProfileError::UnknownRule(rule.name()));
        }
        faults.extend(times.iter().filter(|(_, time)| time.is_zero()).map(|(name, _)| ProfileError::NoTime(name)));
        if let Some(window) = self.time_window {
            if window < self.min_time_window {
                faults.push(ProfileError::ShortWindow { window, least: self.min_time_window });
            }
            if !self.interval.is_zero() && ring_samples(window, self.interval) > MOST_SAMPLES {
                faults.push(ProfileError::ManySamples);
            }
        }
        if self.min_gpu_utilization.is_some_and(|minimum| minimum > Permille::new(1000)) {
            faults.push(ProfileError::OverHundred);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: UtilizationOptions = UtilizationOptions {
        rule: UtilizationRule::Covered,
        reads: PolicyReads::ProfileAndConfiguration,
        mode: PolicyMode::Warn,
        min_gpu_utilization: Some(Permille::new(300)),
        time_window: Some(SimDuration::from_secs(600)),
        min_time_window: SimDuration::ZERO,
        gpus: IdleGpus::Any,
        at_minimum: AtMinimum::Busy,
        interval: SimDuration::from_secs(10),
        longest_gap: None,
        gaps: Gaps::Void,
        grace: SimDuration::ZERO,
    };

    #[test]
    fn a_configuration_overrides_a_profile_field_by_field() {
        let (source, policy) = PROFILE.bind(&UtilizationOverrides::default()).expect("the profile has a policy");
        assert_eq!(source, PolicySource::Profile);
        assert_eq!(policy.longest_gap, SimDuration::from_secs(20));
        let over = UtilizationOverrides { time_window: Some(SimDuration::from_secs(60)), ..Default::default() };
        let (source, policy) = PROFILE.bind(&over).expect("both have a policy");
        assert_eq!(source, PolicySource::Configuration);
        assert_eq!((policy.time_window, policy.mode), (SimDuration::from_secs(60), PolicyMode::Warn));
        assert_eq!(policy.min_gpu_utilization, Permille::new(300));
    }

    #[test]
    fn what_a_project_s_profiles_say_is_bound_as_theirs_and_not_read_where_only_the_configuration_is() {
        let over = UtilizationOverrides {
            min_gpu_utilization: Some(Permille::new(500)),
            time_window: Some(SimDuration::from_secs(300)),
            from: PolicySource::Profile,
            ..Default::default()
        };
        let (source, policy) = PROFILE.bind(&over).expect("both have a policy");
        assert_eq!((source, policy.time_window), (PolicySource::Profile, SimDuration::from_secs(300)));
        assert_eq!(UtilizationOptions { reads: PolicyReads::Configuration, ..PROFILE }.bind(&over), None);
    }

    #[test]
    fn a_policy_in_a_profile_that_is_not_read_binds_nobody() {
        let deaf = UtilizationOptions { reads: PolicyReads::Configuration, ..PROFILE };
        assert_eq!(deaf.bind(&UtilizationOverrides::default()), None);
        let over = UtilizationOverrides {
            min_gpu_utilization: Some(Permille::new(500)),
            time_window: Some(SimDuration::from_secs(300)),
            ..Default::default()
        };
        assert!(deaf.bind(&over).is_some());
    }
}
