//! Records of utilization policies: one run, its samples, and the first check at which the released program ends the
//! run.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::kind::{Compared, Difference, RecordFields, RecordKind, each_version, parse};
use super::profiles::Profiles;
use dryrack_control::Profile;
use dryrack_policy::{Sample, UtilizationMonitor};
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{PolicyMode, UtilizationOverrides, UtilizationPolicy, UtilizationRule};

pub struct Utilization;

#[derive(Deserialize)]
struct Record {
    id: String,
    kind: String,
    /// The minimum utilization in percent.
    min_gpu_utilization: u32,
    time_window_s: u64,
    horizon_s: u64,
    eval_every_s: u64,
    samples_ms: Vec<RecordedSample>,
    answer: BTreeMap<String, Answer>,
}

#[derive(Deserialize)]
struct Answer {
    fire_s: Option<u64>,
}

/// The time in milliseconds, the percentage of each GPU, and the number of memory entries if it differs from the number
/// of GPUs.
#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedSample {
    Well(u64, Vec<u32>),
    Odd(u64, Vec<u32>, usize),
}

impl RecordKind for Utilization {
    fn name(&self) -> &'static str {
        "utilization"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["samples_ms", "time_window_s", "min_gpu_utilization", "eval_every_s", "horizon_s", "answer"]
    }

    fn compare(&self, record: &RecordFields, _file: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        let record: Record = parse(record)?;
        check(&record)?;
        let versions = record.answer.keys().map(String::as_str);
        each_version(profiles, ("dstack", versions), (&record.id, &record.kind), |version, profile| {
            let found = fires(&record, &profile);
            Ok(difference(record.answer[version].fire_s, found).into_iter().collect())
        })
    }
}

fn check(record: &Record) -> Result<(), String> {
    if record.time_window_s == 0 || record.eval_every_s == 0 {
        return Err("time_window_s and eval_every_s must be at least 1".to_string());
    }
    let latest = 1u64 << 32;
    let fires = record.answer.values().filter_map(|answer| answer.fire_s).max().unwrap_or(0);
    if record.time_window_s.max(record.horizon_s).max(record.eval_every_s).max(fires) > latest {
        return Err(format!("times are of at most {latest} seconds"));
    }
    if record.min_gpu_utilization > 100 {
        return Err(format!("a minimum of {} percent", record.min_gpu_utilization));
    }
    let mut before = None;
    for sample in &record.samples_ms {
        let (at, readings, _) = sample.parts();
        if before.is_some_and(|before| at <= before) {
            return Err(format!("samples_ms must ascend, and {at} does not"));
        }
        if at > latest * 1000 {
            return Err(format!("times are of at most {latest} seconds"));
        }
        if let Some(reading) = readings.iter().find(|reading| **reading > 100) {
            return Err(format!("a reading of {reading} percent"));
        }
        before = Some(at);
    }
    Ok(())
}

impl RecordedSample {
    fn parts(&self) -> (u64, &[u32], usize) {
        match self {
            RecordedSample::Well(at, readings) => (*at, readings, readings.len()),
            RecordedSample::Odd(at, readings, memory) => (*at, readings, *memory),
        }
    }
}

/// The time at which the policy first fires, if it fires before the horizon. The samples go to the same monitor that
/// watches runs.
fn fires(record: &Record, profile: &Profile) -> Option<SimTime> {
    let policy = policy(record, profile)?;
    let most = record.samples_ms.iter().map(|sample| sample.parts().1.len()).max().unwrap_or(0);
    let mut monitor = UtilizationMonitor::bind(policy, most as u16, SimTime::ZERO);
    let horizon = SimTime::ZERO.saturating_add(SimDuration::from_secs(record.horizon_s));
    let (mut now, mut readings) = (SimTime::ZERO, Vec::new());
    for sample in &record.samples_ms {
        let (at, percents, memory_entries) = sample.parts();
        let at = SimTime::ZERO.saturating_add(SimDuration::from_millis(at));
        // A check at the same time as a sample already sees that sample.
        if let Some(fires) = monitor.next(now).filter(|fires| *fires < at) {
            return (fires <= horizon).then_some(fires);
        }
        now = at;
        readings.clear();
        readings.extend(percents.iter().map(|percent| Some(Permille::new(percent * 10))));
        monitor.observe(now, &Sample { at, utilization: &readings, memory_entries });
    }
    monitor.next(now).filter(|fires| *fires <= horizon)
}

fn policy(record: &Record, profile: &Profile) -> Option<UtilizationPolicy> {
    let window = SimDuration::from_secs(record.time_window_s);
    // Samples come at irregular times, so choose an interval that is short enough for one window to hold all of them.
    let most = record.samples_ms.len().max(1) as u64;
    let over = UtilizationOverrides {
        mode: Some(PolicyMode::Enforce),
        min_gpu_utilization: Some(Permille::new(record.min_gpu_utilization * 10)),
        time_window: Some(window),
        interval: Some(SimDuration::from_nanos((window.as_nanos() / most).max(1))),
        ..UtilizationOverrides::default()
    };
    let (_, mut policy) = profile.policies.utilization.bind(&over)?;
    if let UtilizationRule::Dstack { looks_every, .. } = &mut policy.rule {
        *looks_every = SimDuration::from_secs(record.eval_every_s);
    }
    Some(policy)
}

fn difference(recorded: Option<u64>, found: Option<SimTime>) -> Option<Difference> {
    let recorded = recorded.map(|secs| SimTime::ZERO.saturating_add(SimDuration::from_secs(secs)));
    let kind = match (recorded, found) {
        _ if recorded == found => return None,
        (None, _) => "fires and should not",
        (_, None) => "never fires and should",
        (Some(recorded), Some(found)) if found < recorded => "fires early",
        (Some(_), Some(_)) => "fires late",
    };
    let said = |at: Option<SimTime>| at.map_or("never".to_string(), |at| format!("at {at}"));
    Some(Difference { kind, text: format!("recorded: {}; found: {}", said(recorded), said(found)) })
}
