//! Compares the profile `tiresias` with a plain simulation of what its program does (Tiresias 959f9b0, schedule
//! `dlas-gpu`), on random lists of jobs. A queue is a list in which running jobs come before waiting ones. A job that
//! has used its quantum goes to the end of the next queue. At each event all GPUs are assigned again, starting with the
//! first job of the first queue, and jobs that do not fit are skipped.

use std::path::Path;

use dryrack_engine::{RunOptions, run};
use dryrack_metrics::RunAccount;
use dryrack_rng::Stream;
use dryrack_scenario::{Options, load_text};

trials! {
    Nothing: [
        drawn_lists_end_when_the_program_would_end_them,
    ]
}

const GPUS: u64 = 10;
/// The widths divide the bounds, so every job changes queues at a whole second, because the program counts only whole
/// seconds.
const WIDTHS: [u64; 4] = [1, 2, 5, 10];
const BOUNDS: [u64; 3] = [3250, 7200, 18_000];

#[derive(Clone, Copy)]
struct Job {
    submitted: u64,
    width: u64,
    runs: u64,
}

fn drawn(seed: u64, count: usize) -> Vec<Job> {
    let mut stream = Stream::new(seed, "a list for tiresias", 0);
    let mut pick = |from: &[u64]| *stream.pick(from);
    let mut submitted = 0;
    let jobs = (0..count).map(|_| {
        submitted += pick(&[0, 30, 60, 90, 200, 400]);
        Job { submitted, width: pick(&WIDTHS), runs: pick(&[60, 300, 900, 1800, 4000, 7000]) }
    });
    jobs.collect()
}

#[derive(Clone, Copy, Default)]
struct State {
    ran: u64,
    queue: usize,
    runs: bool,
    stopped: u32,
    ended: Option<u64>,
}

/// The end of each job in seconds, and how often it was stopped.
fn simulated(jobs: &[Job]) -> Vec<(u64, u32)> {
    let mut states = vec![State::default(); jobs.len()];
    let mut queues: Vec<Vec<usize>> = vec![Vec::new(); BOUNDS.len() + 1];
    let (mut now, mut next) = (0, 0);
    loop {
        let comes = jobs.get(next).map(|job| job.submitted);
        let running = (0..jobs.len()).filter(|job| states[*job].runs);
        let events = running.flat_map(|job| {
            let (State { ran, queue, .. }, Job { width, runs, .. }) = (states[job], jobs[job]);
            let leaves = BOUNDS.get(queue).map(|bound| now + bound / width - ran);
            [Some(now + runs - ran), leaves].into_iter().flatten()
        });
        let Some(then) = events.chain(comes).min() else { break };
        states.iter_mut().filter(|state| state.runs).for_each(|state| state.ran += then - now);
        now = then;
        for job in 0..next {
            let State { runs, ran, queue, .. } = states[job];
            if runs && ran == jobs[job].runs {
                queues[queue].retain(|other| *other != job);
                states[job] = State { runs: false, ended: Some(now), ..states[job] };
            }
        }
        while jobs.get(next).is_some_and(|job| job.submitted == now) {
            queues[0].push(next);
            next += 1;
        }
        for job in 0..next {
            let State { runs, ran, queue, .. } = states[job];
            if runs && BOUNDS.get(queue).is_some_and(|bound| ran * jobs[job].width >= *bound) {
                queues[queue].retain(|other| *other != job);
                queues[queue + 1].push(job);
                states[job].queue += 1;
            }
        }
        let mut free = GPUS;
        for job in queues.iter().flatten().copied() {
            let fits = jobs[job].width <= free;
            free -= if fits { jobs[job].width } else { 0 };
            states[job].stopped += u32::from(states[job].runs && !fits);
            states[job].runs = fits;
        }
        queues.iter_mut().for_each(|queue| queue.sort_by_key(|job| !states[*job].runs));
    }
    states.iter().map(|state| (state.ended.expect("nothing is left to happen"), state.stopped)).collect()
}

fn rehearsed(jobs: &[Job]) -> Vec<(u64, u32)> {
    let mut text = format!("scenario: a list\nprofile: tiresias\nnodes: [{{name: m, gpus: {GPUS}, gpu: l4}}]\njobs:\n");
    for (number, Job { submitted, width, runs }) in jobs.iter().enumerate() {
        text.push_str(&format!(
            "  - {{name: j{number}, at: {submitted}s, tasks: {width}, gpus: 1, duration: {runs}s, checkpoint: {{}}}}\n"
        ));
    }
    let loaded = load_text("list.yaml", &text, Path::new(""), &Options::default()).expect("a scenario");
    let mut accounts = RunAccount::default();
    let end = run(&loaded.rehearsal, RunOptions::default(), &mut [&mut accounts]);
    accounts.finish(end.at);
    let became = |job: &dryrack_metrics::JobAccount| {
        let replica = &job.replicas[0];
        let ended = replica.ended.expect("all end");
        assert_eq!(ended.as_nanos() % 1_000_000_000, 0, "whole seconds");
        (ended.as_nanos() / 1_000_000_000, replica.attempt - 1)
    };
    accounts.jobs.values().map(became).collect()
}

fn drawn_lists_end_when_the_program_would_end_them() {
    let mut stopped = 0;
    for seed in 1..=60 {
        let jobs = drawn(seed, 24);
        let (found, wanted) = (rehearsed(&jobs), simulated(&jobs));
        stopped += wanted.iter().map(|(_, stopped)| stopped).sum::<u32>();
        for (number, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert_eq!(found, wanted, "list {seed}, j{number}: when it ends, and how often it was stopped");
        }
    }
    assert!(stopped > 500, "hardly anybody was stopped: {stopped}");
}
