//! A hundred drawn worlds, pod by pod.

use std::path::Path;
use std::time::{Duration, Instant};

use dryrack_apiserver::{Config, Heard, Limits, Rehearsal};
use dryrack_kubernetes::cycle::Profile;
use serde_json::{Value, json};

use super::drawn::{THEMES, Theme, world};
use super::native::{Counts, Native};

const WORLDS: u64 = 100;
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Short back-offs, because each costs real time.
pub fn config() -> Config {
    Config { max_backoff: 1, percentage_of_nodes_to_score: Some(100), ..Config::default() }
}

/// The rules of the release of the program, as far as they are written down, for all nodes.
pub fn rules(rehearsal: &Rehearsal) -> Profile {
    let rules = match rehearsal.release().minor {
        20..=21 => Profile::v1_20(),
        _ => Profile::v1_35(),
    };
    Profile { percentage_of_nodes_to_score: 100, ..rules }
}

#[expect(clippy::disallowed_methods, reason = "the trial states how long it took")]
pub fn now() -> Instant {
    Instant::now()
}

pub fn are_decided_as_the_rules_say(program: &Path) {
    let began = now();
    let (mut total, mut differences, mut late) = (Counts::default(), Vec::new(), 0);
    for seed in 1..=WORLDS {
        let theme = THEMES[(seed % THEMES.len() as u64) as usize];
        let (native, came_late) = run(program, seed, theme);
        total.bound += native.counts.bound;
        total.with_ties += native.counts.with_ties;
        total.unschedulable += native.counts.unschedulable;
        total.preempting += native.counts.preempting;
        total.victims += native.counts.victims;
        late += came_late;
        let name = |text: String| format!("world {seed} ({theme:?}): {text}");
        differences.extend(native.differences.into_iter().map(name));
    }
    println!("{WORLDS} worlds: {total:?}, {late} after the program was idle, in {:?}", began.elapsed());
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    assert!(total.bound > 1_500 && total.unschedulable > 200 && total.preempting > 50, "{total:?}");
}

fn run(program: &Path, seed: u64, theme: Theme) -> (Native, usize) {
    let drawn = world(seed, theme);
    let mut rehearsal =
        Rehearsal::start(program, config(), Limits::default(), PATIENCE).unwrap_or_else(|fault| panic!("{fault}"));
    let mut native = Native::new(&drawn.objects, rules(&rehearsal));
    for object in &drawn.objects {
        rehearsal.apply(object.clone()).expect("a drawn object is served");
    }
    let mut late = follow(&mut rehearsal, &mut native, theme);
    // 1.20 counts the nodes that have an image when it sees a node, so it must see each node after the others.
    for node in drawn.objects.iter().filter(|object| object["kind"] == "Node") {
        rehearsal.apply(node.clone()).expect("a node");
    }
    for pod in drawn.pods {
        native.submit(&pod);
        rehearsal.apply(pod).expect("a drawn pod is served");
        late += follow(&mut rehearsal, &mut native, theme);
    }
    // Pods that were moved during a back-off, and those for which others made room.
    for _ in 0..3 {
        rehearsal.pass(Duration::from_secs(1));
        late += follow(&mut rehearsal, &mut native, theme);
    }
    assert_eq!(rehearsal.unserved(), [], "world {seed}");
    assert_eq!(rehearsal.server().refused(), [], "world {seed}");
    (native, late)
}

/// Settles the world, and carries out what the program decided until it decides nothing more.
fn follow(rehearsal: &mut Rehearsal, native: &mut Native, theme: Theme) -> usize {
    let mut late = 0;
    loop {
        let settled = rehearsal.settle().unwrap_or_else(|fault| panic!("{fault}"));
        late += settled.late;
        let mut has_changed = false;
        for (pod, started) in native.follow(&settled.heard) {
            // The order of starts matters to preemption alone.
            if theme == Theme::Preemption {
                let pod = rehearsal.server().get("Pod", &pod).expect("it was bound");
                rehearsal.apply(running(&pod, started)).expect("a pod");
                has_changed = true;
            }
        }
        for heard in &settled.heard {
            if let Heard::Evicted { pod } = heard {
                native.remove(pod);
                has_changed |= rehearsal.remove("Pod", pod);
            }
        }
        if !has_changed {
            return late;
        }
    }
}

fn running(pod: &Value, started: i64) -> Value {
    let mut pod = pod.clone();
    pod["status"]["phase"] = json!("Running");
    let (minutes, seconds) = (started / 60, started % 60);
    pod["status"]["startTime"] = json!(format!("2026-01-02T00:{minutes:02}:{seconds:02}Z"));
    pod
}
