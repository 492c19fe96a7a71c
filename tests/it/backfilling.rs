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
    ]
    Time: [
        slow_what_is_kept_decides_as_the_plain_computation_in_3000_worlds,
        slow_slots_are_planned_as_by_the_plain_computation_in_300_worlds,
    ]
}

const PROFILES: [&str; 5] =
    ["easy", "conservative", "conservative", "rlscheduler-fcfs-backfill", "rlscheduler-sjf-backfill"];

/// Draws a few nodes, and many jobs with few different demands, most of which wait.
fn draw(draws: &mut Stream, profiles: &[&str]) -> String {
    let mut text = format!("scenario: Many wait\nprofile: {}\nnodes:\n", draws.pick(profiles));
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
    let demands: Vec<String> = (0..draws.between(1, 6)).map(|_| draw_demand(draws)).collect();
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

fn draw_demand(draws: &mut Stream) -> String {
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

fn hold(seeds: std::ops::Range<u64>, profiles: &[&str], vary: impl Fn(&mut Stream, &mut Rehearsal)) {
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let mut draws = Stream::new(seed, "backfilling test", 0);
        let text = draw(&mut draws, profiles);
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
    hold(0..75, &PROFILES, vary);
}

fn slow_what_is_kept_decides_as_the_plain_computation_in_3000_worlds() {
    hold(1000..4000, &PROFILES, vary);
}

fn slots_are_planned_as_by_the_plain_computation() {
    hold(0..40, &["slurm-22.05", "slurm-24.11"], |_, _| {});
}

fn slow_slots_are_planned_as_by_the_plain_computation_in_300_worlds() {
    hold(1000..1300, &["slurm-22.05", "slurm-24.11"], |_, _| {});
}
