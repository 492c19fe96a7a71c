//! Measures utilization policies: 10,000 jobs of 8 GPUs, each with its own monitor, sampled every 10 s.
//!
//! `cargo bench --bench policy` measures both rules. It also counts memory allocations while samples are judged; there
//! must be none. The monitors get one sample each in turn, as on a cluster, so a monitor is no longer in the caches
//! when it gets its next sample. The results are in `benches/README.md`.

use std::alloc::System;
use std::process::ExitCode;
use std::time::Instant;

use dryrack_policy::{Sample, UtilizationMonitor};
use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{AtMinimum, Gaps, IdleGpus, PolicyMode, UtilizationPolicy, UtilizationRule};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const JOBS: usize = 10_000;
const GPUS: usize = 8;
const INTERVAL: SimDuration = SimDuration::from_secs(10);
const WINDOW: SimDuration = SimDuration::from_secs(600);
/// The samples before measuring: two windows, so that the ring buffer is full. As many samples are then measured.
const WARM_UP: u64 = 120;
const SAMPLES: u64 = 120;
const ROUNDS: usize = 5;
/// The number of distinct rows of readings; a power of two.
const READINGS: usize = 1 << 12;

fn policy(rule: UtilizationRule) -> UtilizationPolicy {
    UtilizationPolicy {
        rule,
        mode: PolicyMode::Observe,
        min_gpu_utilization: Permille::new(300),
        time_window: WINDOW,
        gpus: IdleGpus::Any,
        at_minimum: AtMinimum::Busy,
        interval: INTERVAL,
        longest_gap: INTERVAL.saturating_mul(2),
        gaps: Gaps::Void,
        grace: SimDuration::ZERO,
    }
}

/// About half of the readings are idle, so that windows break and begin again.
fn readings() -> Vec<[Option<Permille>; GPUS]> {
    let draws = &mut Stream::new(1, "policy bench", 0);
    let reading = |draws: &mut Stream| Some(Permille::new(draws.between(0, 599) as u32));
    (0..READINGS).map(|_| std::array::from_fn(|_| reading(draws))).collect()
}

/// Judges samples `from` to `to` of all jobs. Returns how many times a policy fired.
fn judge(monitors: &mut [UtilizationMonitor], readings: &[[Option<Permille>; GPUS]], from: u64, to: u64) -> u64 {
    let mut fired = 0;
    for tick in from..to {
        let at = SimTime::ZERO + INTERVAL.saturating_mul(tick);
        for (job, monitor) in monitors.iter_mut().enumerate() {
            let row = &readings[(job * 31 + tick as usize * 7) % READINGS];
            monitor.observe(at, &Sample { at, utilization: row, memory_entries: GPUS });
            fired += u64::from(monitor.fire(at).is_some());
        }
    }
    fired
}

#[expect(clippy::disallowed_methods, reason = "how long it takes is what is asked")]
fn main() -> ExitCode {
    // `cargo test` also starts benches, only to check that they compile.
    if std::env::args().any(|typed| typed == "--test") {
        return ExitCode::SUCCESS;
    }
    let readings = readings();
    let rules = [
        ("covered", UtilizationRule::Covered),
        (
            "dstack",
            UtilizationRule::Dstack {
                looks_every: SimDuration::from_secs(4),
                first_within: SimDuration::from_secs(60),
            },
        ),
    ];
    println!("{JOBS} jobs of {GPUS} GPUs, a window of {WINDOW}, a sample every {INTERVAL}, {ROUNDS} rounds");
    let mut is_constant = true;
    for (name, rule) in rules {
        let before = Region::new(ALLOCATOR);
        let mut monitors: Vec<UtilizationMonitor> =
            (0..JOBS).map(|_| UtilizationMonitor::bind(policy(rule), GPUS as u16, SimTime::ZERO)).collect();
        let bytes = before.change().bytes_allocated / JOBS;
        let mut fired = judge(&mut monitors, &readings, 1, WARM_UP);
        let mut rates = Vec::with_capacity(ROUNDS);
        let mut from = WARM_UP;
        let judged = Region::new(ALLOCATOR);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            fired += judge(&mut monitors, &readings, from, from + SAMPLES);
            rates.push((SAMPLES * JOBS as u64) as f64 / begun.elapsed().as_secs_f64() / 1e6);
            from += SAMPLES;
        }
        let allocated = judged.change().allocations;
        rates.sort_by(f64::total_cmp);
        println!(
            "{name:<8} {:6.2} million samples a second (of {:.2}..{:.2}), {:.1} million GPU readings; {bytes} bytes a job, \
             {allocated} allocations while judging, fired {fired} times",
            rates[ROUNDS / 2],
            rates[0],
            rates[ROUNDS - 1],
            rates[ROUNDS / 2] * GPUS as f64,
        );
        is_constant &= allocated == 0;
    }
    if is_constant { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
