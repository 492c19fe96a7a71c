//! Quotas between projects, compared with brute force. There is one host, where only order, room and quotas decide, so
//! a few lines can compute when each job must begin. The ledger is computed from the log alone.

use std::collections::BTreeMap;
use std::path::Path;

use dryrack_engine::{RunOptions, run};
use dryrack_event::{Event, Input, Phase, Reason, Sink};
use dryrack_ids::AttemptId;
use dryrack_rng::Stream;
use dryrack_scenario::{Options, load_text};
use dryrack_units::SimTime;

trials! {
    Nothing: [
        each_job_begins_when_room_order_and_quotas_let_it,
    ]
}

const GPUS: u64 = 16;
const PROJECTS: [&str; 3] = ["a", "b", "c"];
/// `c` has no quota of GPUs.
const QUOTAS: [Option<u64>; 3] = [Some(5), Some(9), None];

/// One job with times in whole seconds; each has a different priority.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: u64,
    gpus: u64,
    lasts: u64,
    project: Option<usize>,
    priority: u64,
}

fn draw(draws: &mut Stream) -> Vec<Asked> {
    let count = draws.between(2, 24);
    let mut priorities: Vec<u64> = (0..count).collect();
    (0..count)
        .map(|_| Asked {
            at: draws.between(0, 60),
            gpus: draws.between(1, 5),
            lasts: draws.between(1, 90),
            project: [None, Some(0), Some(1), Some(2)][draws.between(0, 3) as usize],
            priority: priorities.swap_remove(draws.between(0, priorities.len() as u64 - 1) as usize),
        })
        .collect()
}

/// Computes when each job begins, second by second. Each arrival, and then each release of GPUs, triggers a pass over
/// all waiting jobs, the highest priority first.
fn begins(jobs: &[Asked]) -> Vec<Option<u64>> {
    let mut begun: Vec<Option<u64>> = vec![None; jobs.len()];
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| std::cmp::Reverse(jobs[*job].priority));
    for now in 0.. {
        if begun.iter().all(Option::is_some) {
            return begun;
        }
        for is_given_back in [false, true] {
            for job in &order {
                let held_by = |begun: &[Option<u64>], project: Option<Option<usize>>| -> u64 {
                    let ends = |other: usize| begun[other].map(|at| at + jobs[other].lasts);
                    let holds = |other: &usize| {
                        ends(*other).is_some_and(|end| if is_given_back { end > now } else { end >= now })
                            && project.is_none_or(|project| jobs[*other].project == project)
                    };
                    (0..jobs.len()).filter(holds).map(|other| jobs[other].gpus).sum()
                };
                let asked = jobs[*job];
                let quota = asked.project.and_then(|project| QUOTAS[project]);
                let is_open = begun[*job].is_none() && asked.at <= now;
                let fits = held_by(&begun, None) + asked.gpus <= GPUS;
                let may = quota.is_none_or(|most| held_by(&begun, Some(asked.project)) + asked.gpus <= most);
                if is_open && fits && may {
                    begun[*job] = Some(now);
                }
            }
        }
    }
    unreachable!("every job asks for less than its quota, which comes free");
}

#[derive(Default)]
struct Ledger {
    jobs: Vec<Asked>,
    held: BTreeMap<AttemptId, u64>,
    begun: Vec<Option<u64>>,
    waited_for_quota: u64,
}

impl Sink for Ledger {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        match event {
            Event::Placed { attempt, placement, .. } => {
                let gpus = placement.claims().iter().map(|claim| claim.gpus.len() as u64).sum();
                self.held.insert(*attempt, gpus);
                for (project, most) in QUOTAS.iter().enumerate() {
                    let own =
                        |(attempt, _): &(&AttemptId, &u64)| self.jobs[attempt.job.index()].project == Some(project);
                    let held: u64 = self.held.iter().filter(own).map(|(_, gpus)| gpus).sum();
                    assert!(most.is_none_or(|most| held <= most), "{held} GPUs of {}", PROJECTS[project]);
                }
            }
            Event::Moved { attempt, to: Phase::Running, .. } => {
                self.begun[attempt.job.index()] = Some(at.as_nanos() / 1_000_000_000);
            }
            Event::Ended { attempt, .. } => {
                self.held.remove(attempt);
            }
            Event::Held { reasons, .. } => {
                self.waited_for_quota += u64::from(reasons.contains(Reason::QuotaExceeded));
            }
            _ => {}
        }
    }
}

fn scenario(jobs: &[Asked]) -> String {
    let mut text = String::from(
        "scenario: Quotas on one host
profile: at-once.profile.yaml
policies: {quotas: {a: {gpus: 5}, b: {gpus: 9}, c: {}}}
fleets: {lab: {blocks: auto, disk: 500GiB, hosts: [{name: h, cpus: 64, ram: 1024GiB, gpus: 16, gpu: A100}]}}
jobs:
",
    );
    for (number, job) in jobs.iter().enumerate() {
        let Asked { at, gpus, lasts, priority, .. } = job;
        let project = job.project.map_or(String::new(), |project| format!(", project: {}", PROJECTS[project]));
        text += &format!(
            "  - {{name: j{number}, at: {at}s, duration: {lasts}s, priority: {priority}, resources: {{gpu: {gpus}, \
             cpu: 1.., memory: 1GB..}}, retry: {{on: no_capacity, for: 10000h}}{project}}}\n"
        );
    }
    text
}

fn each_job_begins_when_room_order_and_quotas_let_it() {
    let folder = tempfile::tempdir().expect("a folder of its own");
    let profile = "name: at-once\nbase: dstack\ntitle: dstack without loops\nflow: {polled: {loops: ideal}}\n";
    std::fs::write(folder.path().join("at-once.profile.yaml"), profile).expect("it can be written");
    let (mut waited, mut begun) = (0, 0);
    for seed in 1..=400 {
        let mut jobs = draw(&mut Stream::new(seed, "quotas", 0));
        // Ids are in order of arrival.
        jobs.sort_by_key(|job| job.at);
        let loaded = load_text("quotas.yaml", &scenario(&jobs), Path::new(folder.path()), &Options::default())
            .unwrap_or_else(|faults| panic!("seed {seed}: {faults}"));
        let mut ledger = Ledger { begun: vec![None; jobs.len()], jobs, ..Ledger::default() };
        run(&loaded.rehearsal, RunOptions::default(), &mut [&mut ledger]);
        assert_eq!(ledger.begun, begins(&ledger.jobs), "seed {seed}: {:?}", ledger.jobs);
        waited += ledger.waited_for_quota;
        begun += ledger.begun.iter().flatten().count();
    }
    assert!(waited > 500 && begun > 4000, "{waited} waited for a quota, and {begun} began");
}
