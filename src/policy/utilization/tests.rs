//! Tests of the rules one sample at a time. Times are in seconds, readings in percent.

use super::named::RULES;
use super::ring::Ring;
use super::*;
use dryrack_units::{Permille, SimDuration};
use dryrack_workload::{AtMinimum, Gaps, IdleGpus, OwnRule, PolicyMode, UsageRow};

fn policy(rule: UtilizationRule, gpus: IdleGpus) -> UtilizationPolicy {
    UtilizationPolicy {
        rule,
        mode: PolicyMode::Enforce,
        min_gpu_utilization: Permille::new(200),
        time_window: SimDuration::from_secs(30),
        gpus,
        at_minimum: AtMinimum::Busy,
        interval: SimDuration::from_secs(10),
        longest_gap: SimDuration::from_secs(20),
        gaps: Gaps::Void,
        grace: SimDuration::ZERO,
    }
}

fn dstack(gpus: IdleGpus) -> UtilizationPolicy {
    let every = SimDuration::from_secs(10);
    policy(UtilizationRule::Dstack { looks_every: every, first_within: every }, gpus)
}

fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

fn percent(readings: &[Option<u32>]) -> Vec<Option<Permille>> {
    readings.iter().map(|reading| reading.map(|percent| Permille::new(10 * percent))).collect()
}

fn monitor(policy: UtilizationPolicy, gpus: u16) -> UtilizationMonitor {
    UtilizationMonitor::bind(policy, gpus, SimTime::ZERO)
}

/// Takes a sample of these readings at its own time, or at a later one.
fn observe(monitor: &mut UtilizationMonitor, now: u64, taken: u64, readings: &[Option<u32>]) -> Option<SampleFault> {
    let utilization = percent(readings);
    monitor.observe(at(now), &Sample { at: at(taken), utilization: &utilization, memory_entries: readings.len() })
}

fn coverage(gpus: &[u16], first: u64, last: u64, samples: u32) -> Option<Coverage> {
    Some(Coverage { gpus: gpus.iter().copied().collect(), first: at(first), last: at(last), samples })
}

#[test]
fn a_gpu_that_is_busy_again_covers_nothing_although_its_spell_was_the_same() {
    let mut monitor = monitor(policy(UtilizationRule::Covered, IdleGpus::Any), 2);
    for seconds in [0, 10, 20, 30] {
        assert_eq!(observe(&mut monitor, seconds, seconds, &[Some(0), Some(0)]), None);
    }
    assert_eq!(observe(&mut monitor, 40, 40, &[None, Some(90)]), None);
    assert_eq!(monitor.fire(at(40)), coverage(&[0], 0, 30, 4));
}

#[test]
fn dstack_fires_at_its_time_and_not_before() {
    let mut monitor = monitor(dstack(IdleGpus::Any), 1);
    for seconds in [0, 10, 20] {
        observe(&mut monitor, seconds, seconds, &[Some(0)]);
    }
    // At 30 s, the sample of 0 s is skipped, and that of 10 s is the first one that counts.
    assert_eq!(monitor.next(at(20)), Some(at(30)));
    assert_eq!(monitor.fire(at(20)), None);
    assert_eq!(monitor.fire(at(30)), coverage(&[0], 10, 20, 2));
}

#[test]
fn dstack_fires_again_when_the_newest_sample_of_the_last_time_is_skipped() {
    for late in [None, Some(15)] {
        let mut monitor = monitor(dstack(IdleGpus::Any), 1);
        for seconds in [0, 10, 20, 30] {
            observe(&mut monitor, seconds, seconds, &[Some(0)]);
        }
        assert_eq!(monitor.fire(at(30)), coverage(&[0], 10, 30, 3));
        if let Some(late) = late {
            assert_eq!(observe(&mut monitor, 30, late, &[Some(0)]), Some(SampleFault::Disorder));
        }
        let mut fired = Vec::new();
        for seconds in [40, 50, 60, 70, 80] {
            observe(&mut monitor, seconds, seconds, &[Some(0)]);
            fired.extend(monitor.fire(at(seconds)).map(|coverage| (seconds, coverage.first)));
        }
        // The sample of 30 s is skipped at 60 s, the sample of 60 s at 90 s.
        assert_eq!(fired, [(60, at(40))], "{late:?}");
        assert_eq!(monitor.next(at(80)), Some(at(90)));
    }
}

#[test]
fn dstack_names_the_gpus_that_are_idle_in_all_samples_that_count() {
    for (gpus, idle) in [(IdleGpus::Any, vec![0, 2]), (IdleGpus::All, vec![])] {
        let mut monitor = monitor(dstack(gpus), 3);
        // GPU 1 is busy in the first sample that counts, and GPU 2 in the one before, which is skipped.
        for (seconds, first, skipped) in [(0, 0, 90), (10, 90, 0), (20, 0, 0), (30, 0, 0)] {
            observe(&mut monitor, seconds, seconds, &[Some(0), Some(first), Some(skipped)]);
        }
        let fired = monitor.fire(at(30)).map(|coverage| coverage.gpus.to_vec());
        assert_eq!(fired.unwrap_or_default(), idle);
    }
    let mut both = monitor(dstack(IdleGpus::All), 2);
    for seconds in [0, 10, 20, 30] {
        observe(&mut both, seconds, seconds, &[Some(0), Some(0)]);
    }
    assert_eq!(both.fire(at(30)), coverage(&[0, 1], 10, 30, 3));
}

#[test]
fn a_sample_of_more_gpus_than_the_run_has_is_a_fault() {
    let mut of_dstack = monitor(dstack(IdleGpus::Any), 2);
    assert_eq!(observe(&mut of_dstack, 0, 0, &[Some(0)]), None);
    assert_eq!(observe(&mut of_dstack, 10, 10, &[Some(0), Some(0), Some(0)]), Some(SampleFault::GpuCount));
    let mut covered = monitor(policy(UtilizationRule::Covered, IdleGpus::Any), 2);
    assert_eq!(observe(&mut covered, 0, 0, &[Some(0)]), Some(SampleFault::GpuCount));
}

#[test]
fn a_ring_that_is_full_drops_its_oldest_sample_and_takes_none_before_it() {
    let mut monitor = monitor(policy(UtilizationRule::Covered, IdleGpus::Any), 1);
    // Five samples fit: those of a window, its other end, and one before.
    for seconds in [10, 20, 30, 40, 50] {
        assert_eq!(observe(&mut monitor, seconds, seconds, &[Some(90)]), None);
    }
    assert_eq!(observe(&mut monitor, 50, 5, &[Some(90)]), Some(SampleFault::TooOld));
    // The sample of 10 s is dropped, which has left the window of 60 s.
    assert_eq!(observe(&mut monitor, 60, 60, &[Some(90)]), None);
    assert_eq!(observe(&mut monitor, 60, 15, &[Some(90)]), Some(SampleFault::TooOld));
    assert_eq!(observe(&mut monitor, 60, 45, &[Some(90)]), Some(SampleFault::Disorder));
    assert_eq!(observe(&mut monitor, 60, 60, &[Some(90)]), Some(SampleFault::Duplicate));
    // The late sample has taken the place of that of 20 s. At 61 s, the sample of 30 s is dropped, and at 70 s that of
    // 40 s, exactly a window later.
    assert_eq!(observe(&mut monitor, 61, 61, &[Some(90)]), None);
    assert_eq!(observe(&mut monitor, 70, 70, &[Some(90)]), Some(SampleFault::Overflow));
}

#[test]
fn a_reading_is_kept_up_to_the_largest_number_that_is_no_missing_one() {
    let mut ring = Ring::new(&policy(UtilizationRule::Covered, IdleGpus::Any), 1);
    for (index, permille) in [1000, 65_534, 65_535, 65_536, 70_000].into_iter().enumerate() {
        let sample = Sample { at: at(index as u64), utilization: &[Some(Permille::new(permille))], memory_entries: 1 };
        ring.insert(index, &sample);
        assert_eq!(ring.reading(index, 0), Some(Permille::new(permille.min(65_534))));
    }
}

/// Whether the built-in rule `mean_below` holds for samples of these readings.
fn mean_is_below(gpus: IdleGpus, width: usize, samples: &[&[Option<u32>]]) -> bool {
    let policy = policy(UtilizationRule::Covered, gpus);
    let mut ring = Ring::new(&policy, width);
    for (index, readings) in samples.iter().enumerate() {
        let sample = Sample { at: at(index as u64), utilization: &percent(readings), memory_entries: width };
        ring.insert(index, &sample);
    }
    let window = Window { policy: &policy, ring: &ring, first: 0, width };
    assert_eq!((window.gpus(), window.times().len()), (width, samples.len()));
    let (_, holds) = RULES.into_iter().find(|(name, _)| *name == "mean_below").expect("a built-in rule");
    holds(&window)
}

#[test]
fn a_mean_is_of_the_samples_in_which_the_gpu_could_be_read() {
    let any = |width, samples: &[&[Option<u32>]]| mean_is_below(IdleGpus::Any, width, samples);
    let all = |width, samples: &[&[Option<u32>]]| mean_is_below(IdleGpus::All, width, samples);
    // The minimum is 20 %. A mean of exactly 20 % is not below it.
    assert!(!any(1, &[&[Some(40)], &[Some(0)]]));
    assert!(any(1, &[&[Some(39)], &[Some(0)]]));
    assert!(!any(1, &[&[Some(39)], &[None]]));
    assert!(!any(1, &[&[None], &[None]]));
    assert!(any(2, &[&[Some(90), Some(0)], &[Some(90), Some(30)]]));
    assert!(!all(2, &[&[Some(90), Some(0)], &[Some(90), Some(30)]]));
    assert!(all(2, &[&[Some(10), Some(0)], &[Some(20), Some(30)]]));
    assert!(!all(0, &[&[]]) && !any(0, &[&[]]));
}

#[test]
fn a_rule_by_name_sees_the_samples_of_the_window_and_late_ones() {
    let own = policy(UtilizationRule::Own(OwnRule::new("mean_below")), IdleGpus::All);
    // Two samples are in a window of 30 s. Their means at 60 s and at 90 s are 50 % and 0 %.
    let mut rare = monitor(own, 1);
    let mut fired = Vec::new();
    for (seconds, reading) in [(0, 100), (30, 100), (60, 0), (90, 0)] {
        observe(&mut rare, seconds, seconds, &[Some(reading)]);
        fired.extend(rare.fire(at(seconds)));
    }
    assert_eq!(fired.into_iter().map(Some).collect::<Vec<_>>(), [coverage(&[0], 60, 90, 2)]);
    // The mean of 20 %, 20 % and 30 % is not low. With the late reading of 0 %, it is 17.5 %.
    let mut late = monitor(own, 1);
    for (seconds, reading) in [(0, 20), (10, 20), (30, 30)] {
        observe(&mut late, seconds, seconds, &[Some(reading)]);
        assert_eq!(late.fire(at(seconds)), None);
    }
    assert_eq!(observe(&mut late, 31, 20, &[Some(0)]), Some(SampleFault::Disorder));
    assert_eq!(late.fire(at(31)), coverage(&[0], 0, 30, 4));
}

fn rows(times: &[u64]) -> Vec<UsageRow> {
    let row = |seconds: &u64| UsageRow {
        at: SimDuration::from_secs(*seconds),
        utilization: percent(&[Some(0)]),
        memory: Vec::new(),
    };
    times.iter().map(row).collect()
}

#[test]
fn a_recording_is_judged_between_its_rows_and_one_interval_after_the_last() {
    let fired = |times: &[u64]| judge_recording(dstack(IdleGpus::Any), &rows(times)).fired;
    let covers = |now, last, samples| coverage(&[0], 10, last, samples).map(|coverage| (at(now), coverage));
    // It fires at 30 s, before the row of 45 s, and after the row of 30 s.
    assert_eq!(fired(&[0, 10, 20, 45]), covers(30, 20, 2));
    assert_eq!(fired(&[0, 10, 20, 30]), covers(30, 30, 3));
    // The end is 30 s.
    assert_eq!(fired(&[0, 10, 20]), covers(30, 20, 2));
    assert_eq!(fired(&[0, 10]), None);
}

#[test]
fn odd_rows_are_counted_and_times_of_several_jobs_are_added() {
    let judged = judge_recording(policy(UtilizationRule::Covered, IdleGpus::Any), &rows(&[0, 20, 10, 20, 20]));
    let mut odd = [0; SampleFault::ALL.len()];
    odd[SampleFault::Disorder as usize] = 1;
    odd[SampleFault::Duplicate as usize] = 2;
    assert_eq!(judged.odd, odd);
    // From 0 s until one interval after the last row.
    let seconds = SimDuration::from_secs;
    assert_eq!(judged.all, GpuTime { idle: seconds(30), ..GpuTime::default() });
    let one = GpuTime { idle: seconds(1), busy: seconds(2), unknown: seconds(4) };
    let sum = one.plus(GpuTime { idle: seconds(10), busy: seconds(20), unknown: seconds(40) });
    assert_eq!(sum, GpuTime { idle: seconds(11), busy: seconds(22), unknown: seconds(44) });
    assert_eq!(sum.sum(), seconds(77));
}
