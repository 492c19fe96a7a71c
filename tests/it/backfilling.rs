//! Backfilling over random queues: with state that is kept between passes, the decisions equal those of the plain
//! computation.

use std::collections::BTreeSet;
use std::path::Path;

use dryrack_engine::{Audit, Checks, Rehearsal, RunOptions, run};
use dryrack_event::{Digest, Digester};
use dryrack_rng::Stream;
use dryrack_scenario::{Options, load_text};
use dryrack_scheduler::{Caching, GangPlaces, GpuOrder, Grouping, OrderKey, ScorerName, WeightedScorer};

trials! {
    Nothing: [
        what_is_kept_decides_as_the_plain_computation,
        slots_are_planned_as_by_the_plain_computation,
        denied_jobs_of_slurm_wait_as_by_the_plain_computation,
    ]
    Time: [
        slow_what_is_kept_decides_as_the_plain_computation_in_3000_worlds,
        slow_slots_are_planned_as_by_the_plain_computation_in_300_worlds,
        slow_denied_jobs_of_slurm_wait_as_by_the_plain_computation_in_2000_worlds,
    ]
}

const PROFILES: [&str; 5] =
    ["easy", "conservative", "conservative", "rlscheduler-fcfs-backfill", "rlscheduler-sjf-backfill"];

/// Draws a few nodes, and many jobs with few different demands, most of which wait.
fn draw(draws: &mut Stream, profiles: &[&str]) -> String {
    let profile = *draws.pick(profiles);
    let mut text = format!("scenario: Many wait\nprofile: {profile}\nnodes:\n");
    for kind in 0..draws.between(1, 3) {
        let gpus = match draws.between(0, 3) {
            0 => String::new(),
            _ => format!(", gpus: [{{type: g, memory: 80GiB, count: {}}}]", draws.pick(&[2, 4, 8])),
        };
        let zone = draws.pick(&["", ", labels: {zone: east}", ", labels: {zone: west}"]);
        let (count, cpus) = (draws.between(1, 5), *draws.pick(&[4, 16, 64]));
        text.push_str(&format!("  - {{name: k{kind}, count: {count}, cpus: {cpus}, ram: 64GiB{gpus}{zone}}}\n"));
    }
    text.push_str("  - {name: one, cpus: 64, ram: 64GiB, gpus: [{type: g, memory: 80GiB, count: 8}]}\n");
    let demands: Vec<String> = (0..draws.between(1, 6)).map(|_| draw_demand(draws, profile)).collect();
    let exact = draws.between(0, 1000);
    text.push_str("jobs:\n");
    let mut at = 0;
    for job in 0..draws.between(5, 60) {
        at += *draws.pick(&[0, 0, 1, 5, 60]);
        let length = *draws.pick(&[0, 1, 10, 60, 300, 600, 1234]);
        let guess = length * draws.pick(&[1, 3, 4, 10]) / 2;
        let estimate = if draws.chance(exact) { length } else { guess };
        let estimate = if draws.chance(930) { format!(", estimate: {estimate}s") } else { String::new() };
        let odd = match draws.between(0, 20) {
            0 => format!(", prepare: {}s", draws.between(1, 60)),
            1 => format!(", stop: {}s, cancel_at: {}s", draws.between(0, 60), at + draws.between(1, 600)),
            2 => ", priority: 1".to_string(),
            3 => ", on: one".to_string(),
            _ => String::new(),
        };
        let (demand, user) = (draws.pick(&demands), draws.pick(&["ann", "bob"]));
        text.push_str(&format!(
            "  - {{name: j{job}, at: {at}s, {demand}, duration: {length}s{estimate}, user: {user}{odd}}}\n"
        ));
    }
    if draws.chance(400) {
        let (at, for_so_long) = (draws.between(0, 1500), draws.between(1, 900));
        let becomes = draws.pick(&["crashed", "not_ready", "maintenance"]);
        text.push_str(&format!(
            "faults:\n  - {{at: {at}s, node: k0*, becomes: {becomes}}}\n  - {{at: {}s, node: k0*, becomes: ready}}\n",
            at + for_so_long
        ));
    }
    text
}

fn draw_demand(draws: &mut Stream, profile: &str) -> String {
    // Under `slurm-24.11`, which has partitions, such a gang is an error.
    if profile != "slurm-24.11" && draws.chance(150) {
        let (cpus, tasks, gpus) = (draws.pick(&[1, 4, 8]), draws.between(1, 3), draws.pick(&[1, 2, 4]));
        let gang = draws.pick(&["anywhere", "anywhere", "spread", "packed"]);
        return format!(
            "tasks: [{{name: launcher, cpus: {cpus}}}, {{name: worker, tasks: {tasks}, gpus: {gpus}}}], gang: {gang}"
        );
    }
    let mut demand = match draws.between(0, 9) {
        0 => "gpus: 0.25".to_string(),
        1 => "gpu_memory: 30GiB".to_string(),
        2 => format!("cpus: {}", draws.pick(&[1, 2, 4])),
        _ => format!("gpus: {}", draws.pick(&[1, 1, 2, 3, 4, 8])),
    };
    if draws.chance(300) {
        let gang = draws.pick(&["spread", "anywhere", "packed"]);
        demand.push_str(&format!(", tasks: {}, gang: {gang}", draws.between(2, 4)));
    }
    if draws.chance(200) {
        demand.push_str(&format!(", labels: {{zone: {}}}", draws.pick(&["east", "west"])));
    }
    demand
}

/// Sometimes replaces the profile's order, scores or choice of GPUs.
fn vary(draws: &mut Stream, world: &mut Rehearsal) {
    let mut profile = dryrack_control::Profile::clone(&world.profile);
    let orders = [
        vec![OrderKey::Submitted],
        vec![OrderKey::Priority, OrderKey::Submitted],
        vec![OrderKey::Estimate],
        vec![OrderKey::FairShare, OrderKey::Submitted],
    ];
    let scorers = [ScorerName::BestFit, ScorerName::Pack, ScorerName::Spread, ScorerName::Readiness];
    let scheduler = &mut profile.scheduler;
    if draws.chance(400) {
        scheduler.order = draws.pick(&orders).clone();
    }
    if draws.chance(500) {
        scheduler.scorers = vec![WeightedScorer { stage: *draws.pick(&scorers), weight: 1.0 }];
    }
    scheduler.gpus = *draws.pick(&[GpuOrder::First, GpuOrder::First, GpuOrder::Tightest, GpuOrder::Emptiest]);
    if draws.chance(200) {
        scheduler.gangs = *draws.pick(&[GangPlaces::Racks, GangPlaces::Consolidate]);
    }
    assert!(profile.faults().is_empty(), "{:?}", profile.faults());
    world.profile = profile.into();
}

fn digest(world: &Rehearsal, grouping: Grouping, caching: Caching) -> Digest {
    let (mut digester, mut audit) = (Digester::default(), Audit::new(&world.profile));
    let options = RunOptions { grouping, caching, checks: Checks::AtTheEnd, ..RunOptions::default() };
    run(world, options, &mut [&mut digester, &mut audit]);
    audit.finish();
    digester.finish()
}

fn hold(seeds: std::ops::Range<u64>, draw: impl Fn(&mut Stream) -> String, vary: impl Fn(&mut Stream, &mut Rehearsal)) {
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let mut draws = Stream::new(seed, "backfilling test", 0);
        let text = draw(&mut draws);
        let loaded = load_text("many.yaml", &text, Path::new(""), &Options::default());
        let mut world = loaded.unwrap_or_else(|faults| panic!("{text}\n{faults}")).rehearsal;
        vary(&mut draws, &mut world);
        let plain = digest(&world, Grouping::EachNode, Caching::Off);
        for caching in [Caching::Paranoid, Caching::On] {
            assert_eq!(digest(&world, Grouping::Classes, caching), plain, "world {seed}, {caching:?}:\n{text}");
        }
        seen.insert(plain.to_string());
    }
    assert!(seen.len() > 1, "worlds differ");
}

fn what_is_kept_decides_as_the_plain_computation() {
    hold(0..75, |draws| draw(draws, &PROFILES), vary);
}

fn slow_what_is_kept_decides_as_the_plain_computation_in_3000_worlds() {
    hold(1000..4000, |draws| draw(draws, &PROFILES), vary);
}

const SLURM: [&str; 2] = ["slurm-22.05", "slurm-24.11"];

fn slots_are_planned_as_by_the_plain_computation() {
    hold(0..40, |draws| draw(draws, &SLURM), |_, _| {});
}

fn slow_slots_are_planned_as_by_the_plain_computation_in_300_worlds() {
    hold(1000..1300, |draws| draw(draws, &SLURM), |_, _| {});
}

/// Draws a Slurm cluster in which limits of QOS and a reservation deny many of the jobs, and others block partitions.
fn draw_denied(draws: &mut Stream) -> String {
    const LIMITS: [&str; 9] = [
        "max_jobs_per_user: 1",
        "max_jobs_per_account: 2",
        "grp_jobs: 3",
        "max_wall: 10m",
        "max_tres_per_job: {cpu: 7}",
        "max_tres_per_user: {cpu: 8}",
        "max_tres_per_account: {node: 2}",
        "grp_tres: {gres/gpu: 4}",
        "grp_tres: {cpu: 20, gres/gpu: 6}",
    ];
    let profile = draws.pick(&["slurm-22.05", "slurm-22.05-builtin", "slurm-24.11"]);
    let mut text = format!("scenario: Many are denied\nprofile: {profile}\nunplaced: ignore\nuntil: 3h\nslurm:\n");
    text.push_str("  partitions: [{name: main, default: true}, {name: high, nodes: ['a*'], priority_tier: 2}]\n");
    text.push_str(
        "  reservations: [{name: kept, start: 5m, duration: 20m, nodes: [a-0], users: [ann, bob]}]\n  qos:\n",
    );
    let preempts = draws.chance(300);
    for qos in 0..4 {
        let first = draws.between(0, LIMITS.len() as u64 - 1);
        let second = (first + draws.between(1, LIMITS.len() as u64 - 1)) % LIMITS.len() as u64;
        let limits = [first, second].map(|limit| LIMITS[limit as usize]);
        let limits = if limits.iter().all(|limit| limit.starts_with("grp_tres")) { &limits[..1] } else { &limits };
        let preempts = if preempts && qos == 3 { ", preempt: [q0]" } else { "" };
        text.push_str(&format!("    - {{name: q{qos}, {}{preempts}}}\n", limits.join(", ")));
    }
    if preempts {
        text.push_str("  preempt_type: qos\n  cred_expire: 5s\n");
    }
    text.push_str("nodes:\n");
    for name in ["a", "b"] {
        let count = draws.between(1, 3);
        text.push_str(&format!("  - {{name: {name}, count: {count}, cpus: 8, gpus: 4, gpu: a100-40g}}\n"));
    }
    text.push_str("jobs:\n");
    let mut at = 0;
    for job in 0..draws.between(20, 120) {
        at += *draws.pick(&[0, 0, 1, 5, 60]);
        let length = *draws.pick(&[1, 10, 60, 300, 600]);
        let estimate = length * draws.pick(&[1, 2, 4]);
        let (user, account) = (draws.pick(&["ann", "bob", "cyd"]), draws.pick(&["lab", "clinic"]));
        let (cpus, gpus) = (draws.pick(&[1, 4, 8]), draws.pick(&[0, 1, 4]));
        let partition = *draws.pick(&["main", "main", "high", "\"main,high\""]);
        let reservation = if *user != "cyd" && draws.chance(150) { ", reservation: kept" } else { "" };
        text.push_str(&format!(
            "  - {{name: j{job}, at: {at}s, cpus: {cpus}, gpus: {gpus}, user: {user}, account: {account}, \
             qos: q{}, partition: {partition}{reservation}, duration: {length}s, estimate: {estimate}s}}\n",
            draws.between(0, 3)
        ));
    }
    text
}

fn denied_jobs_of_slurm_wait_as_by_the_plain_computation() {
    hold(0..60, draw_denied, |_, _| {});
}

fn slow_denied_jobs_of_slurm_wait_as_by_the_plain_computation_in_2000_worlds() {
    hold(1000..3000, draw_denied, |_, _| {});
}
