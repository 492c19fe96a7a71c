//! `utilization_policy:` of a job: the fields that override the profile's policy. The resulting policy is checked.

use super::usage::percent;
use dryrack_control::{PolicyReads, Profile};
use dryrack_policy::{MOST_SAMPLES, ring_samples};
use dryrack_units::SimDuration;
use dryrack_workload::{AtMinimum, Gaps, IdleGpus, PolicyMode, PolicySource, UtilizationOverrides};
use dryrack_yaml::{Fields, Report, Span, Tree};

const FIELDS: [&str; 9] =
    ["min_gpu_utilization", "time_window", "mode", "gpus", "at_minimum", "longest_gap", "gaps", "grace", "from"];

pub(super) const SOURCES: [(&str, PolicySource); 2] =
    [("configuration", PolicySource::Configuration), ("profile", PolicySource::Profile)];

pub(super) const MODES: [(&str, PolicyMode); 3] =
    [("observe", PolicyMode::Observe), ("warn", PolicyMode::Warn), ("enforce", PolicyMode::Enforce)];
pub(super) const GPUS: [(&str, IdleGpus); 2] = [("any", IdleGpus::Any), ("all", IdleGpus::All)];
pub(super) const AT_MINIMUM: [(&str, AtMinimum); 2] = [("busy", AtMinimum::Busy), ("idle", AtMinimum::Idle)];
pub(super) const GAPS: [(&str, Gaps); 2] = [("void", Gaps::Void), ("bridge", Gaps::Bridge)];

/// Reads `{min_gpu_utilization: 30%, time_window: 10m}`; missing fields come from the profile. `interval` is the job's
/// own sampling interval, if it has one. `place` is where errors of the profile's part are shown.
pub(super) fn utilization(
    tree: Option<&Tree>,
    interval: Option<SimDuration>,
    place: Span,
    profile: &Profile,
    report: &mut Report,
) -> Option<UtilizationOverrides> {
    let fields = match tree {
        Some(tree) => Some(Fields::read(tree, "a utilization policy", &FIELDS, report)?),
        None => None,
    };
    let mut over = UtilizationOverrides { interval, ..UtilizationOverrides::default() };
    if let Some(fields) = &fields {
        over = UtilizationOverrides {
            mode: fields.word("mode", "a mode", &MODES, report),
            min_gpu_utilization: fields.get("min_gpu_utilization").and_then(|tree| percent(tree, report)),
            time_window: positive(fields, "time_window", report),
            gpus: fields.word("gpus", "a value of `gpus`", &GPUS, report),
            at_minimum: fields.word("at_minimum", "a value of `at_minimum`", &AT_MINIMUM, report),
            longest_gap: positive(fields, "longest_gap", report),
            gaps: fields.word("gaps", "a value of `gaps`", &GAPS, report),
            grace: fields.value("grace", report),
            interval,
            from: fields.word("from", "a value of `from`", &SOURCES, report).unwrap_or_default(),
        };
    }
    let options = &profile.policies.utilization;
    let bound = options.bind(&over);
    // A policy that is never read may be incomplete.
    let is_read = options.reads == PolicyReads::ProfileAndConfiguration || over.from == PolicySource::Configuration;
    if let (Some(fields), None) = (&fields, &bound)
        && over.is_stated()
        && is_read
    {
        for key in ["min_gpu_utilization", "time_window"] {
            let example = if key == "time_window" { "10m" } else { "30%" };
            if fields.lacks_all(&[key]) && !profile_says(profile, key) {
                let message = format!("the utilization policy lacks `{key}`, and the profile does not supply it");
                report.error_with_help(fields.place(), message, format!("add `{key}: {example}`"));
            }
        }
    }
    let (_, policy) = bound.unzip();
    let window_span = fields.as_ref().map_or(place, |fields| match fields.has("time_window") {
        true => fields.key_span("time_window"),
        false => fields.place(),
    });
    if let Some(policy) = policy {
        if policy.time_window < options.min_time_window {
            let message = format!(
                "a time window of {} is shorter than the profile `{}` allows, which is {}",
                policy.time_window, profile.name, options.min_time_window
            );
            let help =
                format!("write {} or more, or set `policies.utilization.min_time_window`", options.min_time_window);
            report.error_with_help(window_span, message, help);
        }
        if ring_samples(policy.time_window, policy.interval) > MOST_SAMPLES {
            let message = format!("more than {MOST_SAMPLES} samples in one window of {}", policy.time_window);
            report.error_with_help(window_span, message, "write a longer `interval` in `sampling`");
        }
    }
    Some(over)
}

fn positive(fields: &Fields<'_>, key: &str, report: &mut Report) -> Option<SimDuration> {
    fields.get(key).and_then(|tree| super::lengths::positive(tree, report))
}

fn profile_says(profile: &Profile, key: &str) -> bool {
    let options = &profile.policies.utilization;
    let reads = options.reads == dryrack_control::PolicyReads::ProfileAndConfiguration;
    let says = if key == "time_window" { options.time_window.is_some() } else { options.min_gpu_utilization.is_some() };
    reads && says
}
