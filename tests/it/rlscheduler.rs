//! Compares the profiles `rlscheduler-*` with a plain simulation of what their program does (deep-batch-scheduler
//! cd433e3), on random lists with many jobs submitted in the same second. The job that the policy ranks first is
//! picked, and the program waits until it fits. Events happen one at a time, arrivals before ends. With backfilling,
//! after each event all waiting jobs are considered in order of submission alone. Both sorts are stable, so jobs of the
//! same second keep the order that the policy had given them when the head was picked.

use std::path::Path;

use dryrack_engine::{RunOptions, run};
use dryrack_metrics::RunAccount;
use dryrack_rng::Stream;
use dryrack_scenario::{Options, load_text};

trials! {
    Nothing: [
        drawn_lists_start_when_the_program_would_start_them,
    ]
}

const PROCESSORS: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Job {
    submitted: u64,
    runs: u64,
    width: u64,
}

/// The score of a job, lowest first; the second value breaks ties.
type Score = fn(&Job) -> (f64, u64);

const POLICIES: [(&str, Score); 5] = [
    ("fcfs", |job| (job.submitted as f64, 0)),
    ("sjf", |job| (job.runs as f64, job.submitted)),
    ("f1", |job| {
        let (runs, submitted) = (job.runs as f64, job.submitted as f64);
        (libm::log10(runs) * job.width as f64 + 870.0 * libm::log10(submitted), 0)
    }),
    ("wfp3", |job| (-libm::pow(waited(job) / job.runs as f64, 3.0) * job.width as f64, 0)),
    ("unicef", |job| (-(waited(job) + 1e-15) / (libm::log2(job.width as f64 + 1e-15) * job.runs as f64), 0)),
];

/// The program uses -1 as the start of a waiting job, so this is negative.
fn waited(job: &Job) -> f64 {
    -1.0 - job.submitted as f64
}

fn drawn(seed: u64, count: usize) -> Vec<Job> {
    let mut stream = Stream::new(seed, "a list for rlscheduler", 0);
    let mut pick = |from: &[u64]| *stream.pick(from);
    let mut submitted = 1 + pick(&[0, 100, 1000]);
    let jobs = (0..count).map(|_| {
        submitted += pick(&[0, 0, 0, 1, 2, 5, 20, 60]);
        Job {
            submitted,
            runs: pick(&[1, 2, 3, 5, 8, 13, 40, 90, 200]),
            width: pick(&[1, 1, 2, 3, 4, 5, 8, 11, PROCESSORS]),
        }
    });
    jobs.collect()
}

/// The machine and its queue; jobs are indices.
struct Program<'j> {
    jobs: &'j [Job],
    now: u64,
    next: usize,
    free: u64,
    queue: Vec<usize>,
    /// In order of ends, and of starts for the same end.
    running: Vec<(u64, u64)>,
    starts: Vec<u64>,
}

impl Program<'_> {
    /// Handles one arrival or one end; at the same second, an arrival comes first.
    fn happen(&mut self) {
        let end = self.running.first().map_or(u64::MAX, |(end, _)| *end);
        match self.jobs.get(self.next) {
            Some(job) if job.submitted <= end => {
                self.now = self.now.max(job.submitted);
                self.queue.push(self.next);
                self.next += 1;
            }
            _ => {
                self.now = self.now.max(end);
                self.free += self.running.remove(0).1;
            }
        }
    }

    fn begin(&mut self, job: usize) {
        let Job { runs, width, .. } = self.jobs[job];
        self.free -= width;
        self.starts[job] = self.now;
        self.running.push((self.now + runs, width));
        self.running.sort_by_key(|(end, _)| *end);
        self.queue.retain(|other| *other != job);
    }

    /// The time at which this many processors are free if no other job begins.
    fn reserved(&self, width: u64) -> u64 {
        let mut free = self.free;
        let enough = self.running.iter().find(|(_, held)| {
            free += held;
            free >= width
        });
        enough.expect("it fits the empty machine").0
    }

    fn backfill(&mut self, reserved: u64) {
        self.queue.sort_by_key(|job| self.jobs[*job].submitted);
        for job in self.queue.clone() {
            if self.now + self.jobs[job].runs < reserved && self.jobs[job].width <= self.free {
                self.begin(job);
            }
        }
    }
}

/// The start of each job.
fn simulated(jobs: &[Job], score: Score, backfills: bool) -> Vec<u64> {
    let (queue, running, starts) = (Vec::new(), Vec::new(), vec![u64::MAX; jobs.len()]);
    let mut program = Program { jobs, now: 0, next: 0, free: PROCESSORS, queue, running, starts };
    loop {
        while program.queue.is_empty() {
            if program.next == jobs.len() {
                return program.starts;
            }
            program.happen();
        }
        program.queue.sort_by(|a, b| score(&jobs[*a]).partial_cmp(&score(&jobs[*b])).expect("numbers"));
        let head = program.queue[0];
        let reserved = if jobs[head].width > program.free { program.reserved(jobs[head].width) } else { 0 };
        while jobs[head].width > program.free {
            if backfills {
                program.backfill(reserved);
            }
            program.happen();
        }
        program.begin(head);
    }
}

fn rehearsed(jobs: &[Job], profile: &str) -> Vec<u64> {
    let mut text = format!("scenario: a list\nprofile: {profile}\nnodes: [{{name: m, cpus: {PROCESSORS}}}]\njobs:\n");
    for (number, Job { submitted, runs, width }) in jobs.iter().enumerate() {
        text.push_str(&format!(
            "  - {{name: j{number}, at: {submitted}s, tasks: {width}, cpus: 1, duration: {runs}s, estimate: {runs}s}}\n"
        ));
    }
    let loaded = load_text("list.yaml", &text, Path::new(""), &Options::default()).expect("a scenario");
    let mut accounts = RunAccount::default();
    let end = run(&loaded.rehearsal, RunOptions::default(), &mut [&mut accounts]);
    accounts.finish(end.at);
    let start = |job: &dryrack_metrics::JobAccount| {
        let started = job.replicas[0].started.expect("all start").as_nanos();
        assert_eq!(started % 1_000_000_000, 0, "whole seconds");
        started / 1_000_000_000
    };
    accounts.jobs.values().map(start).collect()
}

fn drawn_lists_start_when_the_program_would_start_them() {
    for (policy, score) in POLICIES {
        for (backfills, suffix) in [(false, ""), (true, "-backfill")] {
            let profile = format!("rlscheduler-{policy}{suffix}");
            let mut passed = 0;
            for seed in 1..=40 {
                let jobs = drawn(seed, 60);
                let (found, wanted) = (rehearsed(&jobs, &profile), simulated(&jobs, score, backfills));
                for (number, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    assert_eq!(found, wanted, "{profile}, list {seed}: when j{number} starts");
                }
                passed += wanted
                    .iter()
                    .zip(simulated(&jobs, score, false))
                    .filter(|(with, without)| **with < *without)
                    .count();
            }
            assert!(!backfills || passed > 100, "{profile}: backfilling hardly helped anybody: {passed}");
        }
    }
}
