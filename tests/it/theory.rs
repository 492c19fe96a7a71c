//! Compares queues whose mean wait is known from theory with simulations: the interval of the simulated mean should
//! contain it.
//!
//! There is one run for each seed, and each run gives an interval. The first tenth of its jobs is left out, because it
//! begins with an empty queue (warm-up). The waits of the rest depend on each other, so an interval from their spread
//! would be far too narrow. The means of long batches hardly depend on each other. The interval is Student's t over
//! these means (batch means: Law, Simulation Modeling and Analysis, 5th edition, section 9.5.3).
//!
//! `cargo test --release --test it -- theory_coverage` runs the seeds 1 to 1000 of each queue at each load.
//!
//! A second test draws a log of 28 days instead of a long run. One interval comes from lists that are resampled from
//! this log day by day, another from the log alone. `cargo test --release --test it -- resampled_coverage` draws a
//! thousand logs.

use std::path::{Path, PathBuf};

use dryrack_engine::{Progress, RunOptions, run};
use dryrack_event::{Event, Input, Sink};
use dryrack_metrics::{ResampledFrom, estimate_resampled, wait_sections};
use dryrack_plan::estimate;
use dryrack_rehearse::rehearse;
use dryrack_rng::Stream;
use dryrack_scenario::{Options, load, load_text};
use dryrack_scheduler::Caching;
use dryrack_units::{SimDuration, SimTime};
use rayon::prelude::*;

trials! {
    Nothing: [
        the_formulas_are_those_of_the_textbook,
        intervals_hold_the_mean_wait_of_theory,
        intervals_of_one_log_hold_the_mean_wait_of_theory,
    ]
    Coverage: [
        theory_coverage,
        resampled_coverage,
    ]
}

/// The number of batches of the jobs after the warm-up.
const BATCHES: usize = 10;

/// A queue at a load: its file, jobs per hour, and the mean wait in seconds.
struct Queue {
    file: &'static str,
    per_hour: u32,
    wait: f64,
    /// The number of jobs of one run. The correlation of waits lasts for a time that grows as 1 / (1 - load)², and so
    /// does the run: 5,000 / (1 - load)² jobs.
    jobs: usize,
}

/// Loads of a third, a half and two thirds.
fn queues() -> Vec<Queue> {
    let jobs = [11_250, 20_000, 45_000];
    let mmc = [8, 12, 16].into_iter().zip(jobs).map(|(per_hour, jobs)| {
        let wait = erlang_c(2, f64::from(per_hour), 12.0) * 3600.0;
        Queue { file: "mmc", per_hour, wait, jobs }
    });
    let mg1 = [4, 6, 8].into_iter().zip(jobs).map(|(per_hour, jobs)| {
        // Uniform between 0 and b: moments b/2 and b²/3.
        let longest = 10.0 * 60.0;
        let wait = pollaczek_khinchine(f64::from(per_hour) / 3600.0, longest / 2.0, longest * longest / 3.0);
        Queue { file: "mg1", per_hour, wait, jobs }
    });
    mmc.chain(mg1).collect()
}

/// The mean wait in an M/M/c queue, in the unit of the rates: the probability of waiting (Erlang's second formula) over
/// the rate at which a queue shrinks. Gross, Shortle, Thompson and Harris, Fundamentals of Queueing Theory, 4th
/// edition, 2.3.
fn erlang_c(servers: u32, arrivals: f64, services: f64) -> f64 {
    let offered = arrivals / services;
    let (mut term, mut sum) = (1.0, 0.0);
    for server in 1..=servers {
        sum += term;
        term *= offered / f64::from(server);
    }
    let waiting = term * f64::from(servers) / (f64::from(servers) - offered);
    waiting / (sum + waiting) / (f64::from(servers) * services - arrivals)
}

/// The mean wait in an M/G/1 queue: the same book, 5.1.1.
fn pollaczek_khinchine(arrivals: f64, mean: f64, second_moment: f64) -> f64 {
    arrivals * second_moment / (2.0 * (1.0 - arrivals * mean))
}

fn scenario(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/theory/{file}.yaml"))
}

/// When each job arrived, and how long it waited, in seconds.
#[derive(Default)]
struct Waits {
    came: Vec<SimTime>,
    waits: Vec<f64>,
}

impl Sink for Waits {
    fn input(&mut self, _step: u64, at: SimTime, input: &Input) {
        if let Input::Submit { .. } = input {
            self.came.push(at);
        }
    }

    fn event(&mut self, _step: u64, at: SimTime, event: &Event) {
        if let Event::Placed { attempt, .. } = event {
            // Jobs are placed in order of arrival, so the waits are in that order too.
            assert_eq!(attempt.job.index(), self.waits.len());
            self.waits.push(at.since(self.came[attempt.job.index()]).as_secs_f64());
        }
    }
}

/// The interval of one run: its centre, and half its width.
fn interval(queue: &Queue, seed: u64, jobs: usize) -> (f64, f64) {
    let set = vec![format!("params.rate={}/h", queue.per_hour), format!("params.jobs={jobs}")];
    let options = Options { set, seed: Some(seed.to_string()), ..Options::default() };
    let loaded = load(&scenario(queue.file), &options).unwrap_or_else(|faults| panic!("{faults}"));
    let mut sink = Waits::default();
    run(&loaded.rehearsal, RunOptions::default(), &mut [&mut sink]);
    let waits = sink.waits;
    assert_eq!(waits.len(), jobs, "all are placed, in the order in which they came");
    let batches = waits[jobs / 10..].chunks_exact(jobs * 9 / 10 / BATCHES);
    let means: Vec<f64> = batches.map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect();
    assert_eq!(means.len(), BATCHES);
    let found = estimate(&means).expect("of ten");
    (found.mean, found.half_width.expect("of ten"))
}

/// The number of seeds whose interval contains the mean, and the mean over all seeds.
fn coverage(queue: &Queue, seeds: u64, jobs: usize) -> (usize, f64) {
    let found: Vec<(f64, f64)> = (1..=seeds).into_par_iter().map(|seed| interval(queue, seed, jobs)).collect();
    let held = found.iter().filter(|(mean, half_width)| (mean - queue.wait).abs() <= *half_width).count();
    (held, found.iter().map(|(mean, _)| mean).sum::<f64>() / seeds as f64)
}

/// The days of a drawn log, and the number of lists that are resampled from it.
const LOG_DAYS: u64 = 28;
const LISTS: u64 = 10;

/// A log of M/M/2 as a list of jobs: Poisson arrivals, and exponential service times of five minutes on average.
fn drawn_log(per_hour: u32, seed: u64) -> String {
    let (mut gaps, mut services) = (Stream::new(seed, "gaps of a log", 0), Stream::new(seed, "services of a log", 0));
    let (gap, service) = (SimDuration::from_secs(3600 / u64::from(per_hour)), SimDuration::from_secs(300));
    let mut list = "job,submit_s,duration_s,gpus\n".to_string();
    let mut at = SimTime::ZERO;
    for job in 0.. {
        at = at.saturating_add(gaps.exponential(gap));
        if at.as_secs_f64() >= (LOG_DAYS * 86_400) as f64 {
            break;
        }
        let length = services.exponential(service).as_secs_f64();
        list.push_str(&format!("{job},{:.3},{length:.3},1\n", at.as_secs_f64()));
    }
    list
}

/// Whether the interval from lists resampled from one drawn log, and the interval from the log alone, hold the mean
/// wait. The latter is `None` if the log gives no interval.
fn held_by_one_log(per_hour: u32, seed: u64) -> (bool, Option<bool>) {
    let folder = tempfile::tempdir().expect("a folder of our own");
    std::fs::write(folder.path().join("log.csv"), drawn_log(per_hour, seed)).expect("a folder of our own");
    let truth = erlang_c(2, f64::from(per_hour), 12.0) * 3600.0;
    let accounts = |resample: &str, seed: u64| {
        let text = format!(
            "scenario: A drawn log\nprofile: fifo\nnodes: [{{name: servers, machine: l4-x1, count: 2}}]\n\
             trace: {{file: log.csv, format: csv{resample}}}\n"
        );
        let options = Options { seed: Some(seed.to_string()), ..Options::default() };
        let loaded = load_text("log.yaml", &text, folder.path(), &options).unwrap_or_else(|faults| panic!("{faults}"));
        rehearse(&loaded.rehearsal, Vec::new(), &Progress::default(), Caching::On, Vec::new())
    };
    let mean = |seed: u64| {
        let run = accounts(", resample: {block: 1d}", seed);
        match run.run_metrics.metrics().get("queue_wait_mean_seconds") {
            Some(dryrack_metrics::Value::Time(wait)) => wait.as_secs_f64(),
            other => panic!("{other:?}"),
        }
    };
    let means: Vec<f64> = (1..=LISTS).map(mean).collect();
    let from = ResampledFrom { blocks: LOG_DAYS, length: 1.0 };
    let (low, high) = estimate_resampled(&means, from).and_then(|found| found.interval()).expect("of ten lists");
    let sections = wait_sections(accounts("", 1).run_metrics.accounts()).expect("thousands of waits");
    let holds = |(low, high): (f64, f64)| (low..=high).contains(&truth);
    (holds((low, high)), sections.mean.map(holds))
}

/// How many of so many drawn logs have intervals that hold the mean wait: from resampled lists, from the log alone, and
/// the number of logs that give an interval alone.
fn log_coverage(per_hour: u32, logs: u64) -> (usize, usize, usize) {
    let found: Vec<(bool, Option<bool>)> =
        (1..=logs).into_par_iter().map(|seed| held_by_one_log(per_hour, seed)).collect();
    let held = found.iter().filter(|(held, _)| *held).count();
    let alone: Vec<bool> = found.iter().filter_map(|(_, alone)| *alone).collect();
    (held, alone.iter().filter(|held| **held).count(), alone.len())
}

/// Of 12 intervals of 95 %, at least 9 hold the mean, except with a probability of 0.2 %.
fn intervals_of_one_log_hold_the_mean_wait_of_theory() {
    let (held, alone, of) = log_coverage(8, 12);
    assert!(held >= 9, "{held} of 12 intervals from resampled lists");
    assert!(of >= 9 && alone + 3 >= of, "{alone} of {of} intervals from the log alone");
}

/// Of a thousand logs, fixed beforehand, the intervals from resampled lists hold the mean wait with 930 to 970, and so
/// do the intervals from the log alone, in proportion to the logs that give one.
fn resampled_coverage() {
    let mut wrong = Vec::new();
    for per_hour in [8, 12] {
        let (held, alone, of) = log_coverage(per_hour, 1000);
        let said = format!("{per_hour}/h: {held} of 1000 from resampled lists; {alone} of {of} from the log alone");
        println!("{said}");
        let share = alone as f64 / of as f64;
        if !(930..=970).contains(&held) || !(0.93..=0.97).contains(&share) {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Checks the formulas against values worked out on paper: 4 servers and 2 erlangs give 4/23, 2 servers and 1 erlang
/// give 1/3; service times of 5 minutes on average, uniform up to 10, at 6 an hour give 200 s; with one server and
/// memoryless service times both are rho / (mu - lambda).
fn the_formulas_are_those_of_the_textbook() {
    assert!((erlang_c(4, 12.0, 6.0) - 4.0 / 23.0 / 12.0).abs() < 1e-12);
    assert!((erlang_c(2, 12.0, 12.0) - 1.0 / 3.0 / 12.0).abs() < 1e-12);
    assert!((pollaczek_khinchine(6.0 / 3600.0, 300.0, 120_000.0) - 200.0).abs() < 1e-9);
    assert!((erlang_c(1, 3.0, 6.0) - 0.5 / 3.0).abs() < 1e-12);
    assert!((pollaczek_khinchine(3.0, 1.0 / 6.0, 2.0 / 36.0) - 0.5 / 3.0).abs() < 1e-12);
}

/// Of 20 intervals of 95 %, at least 16 contain the mean, except with a probability of 0.03 %; and the mean over all
/// seeds is near it.
fn intervals_hold_the_mean_wait_of_theory() {
    for queue in queues().iter().filter(|queue| [6, 12].contains(&queue.per_hour)) {
        let (held, mean) = coverage(queue, 20, 2_000);
        assert!(held >= 16, "{} at {}/h: {held} of 20 hold {} s", queue.file, queue.per_hour, queue.wait);
        assert!((mean / queue.wait - 1.0).abs() < 0.1, "{} at {}/h: {mean} s", queue.file, queue.per_hour);
    }
}

/// Of a thousand intervals of 95 %, with seeds fixed beforehand, 930 to 970 contain the mean.
fn theory_coverage() {
    let mut wrong = Vec::new();
    for queue in queues() {
        let (held, mean) = coverage(&queue, 1000, queue.jobs);
        let said = format!(
            "{} at {}/h: {held} of 1000 hold {:.3} s; mean {mean:.3} s",
            queue.file, queue.per_hour, queue.wait
        );
        println!("{said}");
        if !(930..=970).contains(&held) {
            wrong.push(said);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
