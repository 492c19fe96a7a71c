//! Planted faults (`src/planted`): each has one place and a named judge, and what no scenario can show is tested here.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::Path;

use dryrack_engine::{Progress, Records, Rehearsal, RunOptions, replay, run};
use dryrack_event::{Digester, Input, Lifecycle, Record, RecordBody, Sink};
use dryrack_metrics::wait_quantiles;
use dryrack_planted::Fault;
use dryrack_rehearse::rehearse;
use dryrack_scenario::{Options, load_text};
use dryrack_scheduler::Caching;
use dryrack_units::SimTime;

trials! {
    Nothing: [
        every_fault_has_one_place_and_a_named_judge,
        a_cancelled_analysis_is_not_heard_of_again,
        each_part_of_a_record_changes_the_digest,
        who_was_never_placed_has_the_longest_wait,
        an_event_in_the_place_of_another_of_its_kind_is_found_by_a_replay,
    ]
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn text_of(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Calls `visit` with each Rust file below a folder.
fn each_source(folder: &Path, visit: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        match entry.is_dir() {
            true => each_source(&entry, visit),
            false if entry.extension().is_some_and(|extension| extension == "rs") => {
                visit(&std::fs::read_to_string(&entry).expect("text"));
            }
            false => {}
        }
    }
}

/// `.ci/planted` checks that each judge notices its fault; this test only that the judge exists.
fn every_fault_has_one_place_and_a_named_judge() {
    let mut places: BTreeMap<String, u32> = BTreeMap::new();
    each_source(&Path::new(ROOT).join("src"), &mut |text| {
        for rest in text.split("planted!(").skip(1) {
            let name = rest.split(')').next().unwrap_or_default();
            *places.entry(name.to_string()).or_default() += 1;
        }
    });
    let page = text_of("docs/src/planted.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), Fault::ALL.len(), "the page has a row for each fault; `.ci/planted --find` writes it");
    assert!(Fault::ALL.len() >= 60);
    for (fault, row) in Fault::ALL.iter().zip(rows) {
        let name = fault.name();
        assert_eq!(places.get(name), Some(&1), "`planted!({name})` is in one place");
        let [stated, area, wrong, judge, _] = row[..] else { panic!("{row:?} has five cells") };
        assert_eq!((stated.trim_matches('`'), area, wrong), (name, fault.area(), fault.wrong()));
        check_judge(name, judge.trim_matches('`'));
    }
}

fn check_judge(fault: &str, judge: &str) {
    let (kind, what) = judge.split_once(": ").unwrap_or(("scenario", judge));
    let last = what.rsplit("::").next().unwrap_or_default();
    let is_there = match kind {
        "scenario" => judge.starts_with("scenarios/") && Path::new(ROOT).join(judge).is_file(),
        "records" => Path::new(ROOT).join(what).is_file(),
        "swarm" | "swarm of pods" => {
            what.strip_prefix("seed ").and_then(|seed| seed.parse::<u32>().ok()).is_some_and(|seed| seed <= 2000)
        }
        "trial" => {
            let module = what.split("::").next().unwrap_or_default();
            text_of(&format!("tests/it/{module}.rs")).contains(last)
        }
        "unit test" => {
            let room = what.split(' ').next().and_then(|package| package.strip_prefix("dryrack-")).unwrap_or_default();
            let mut is_there = false;
            each_source(&Path::new(ROOT).join("src").join(room), &mut |text| {
                is_there |= text.contains(&format!("fn {last}("));
            });
            is_there
        }
        _ => false,
    };
    assert!(is_there, "{fault}: {judge:?} is no judge");
}

/// The records of a scenario, and the scenario as it was run.
fn recorded(file: &str) -> (Rehearsal, Vec<Record>) {
    let folder = Path::new(ROOT).join(file);
    let folder = folder.parent().expect("a file is in a folder");
    let loaded = load_text(file, &text_of(file), folder, &Options::default());
    let rehearsal = loaded.unwrap_or_else(|faults| panic!("{faults}")).rehearsal;
    let mut records = Records::default();
    run(&rehearsal, RunOptions::default(), &mut [&mut records as &mut dyn Sink]);
    (rehearsal, records.0)
}

/// The analysis of `in-analysis` would end at 1m10s; the job is cancelled at 30s. Nobody waits for its result, so the world
/// is told to abandon it, and none comes.
fn a_cancelled_analysis_is_not_heard_of_again() {
    let (_, records) = recorded("scenarios/basics/cancelled-means-no-more-work.yaml");
    let is_result =
        |record: &&Record| matches!(record.said, RecordBody::Input(Input::Attempt { fact: Lifecycle::Analysed, .. }));
    // Analyses of no length end at once, so each result is of a job that was not cancelled before.
    let last = records.iter().filter(is_result).map(|record| record.at.as_nanos()).max();
    assert!(last.is_none_or(|last| last < 70_000_000_000), "a result at {last:?} ns");
}

fn each_part_of_a_record_changes_the_digest() {
    let (_, records) = recorded("scenarios/basics/labels-missing-and-wrong.yaml");
    let digest = |records: &[Record]| {
        let mut digester = Digester::default();
        records.iter().for_each(|record| digester.record(record));
        digester.finish()
    };
    let whole = digest(&records);
    for index in 0..records.len() {
        let record = &records[index];
        let another = records.iter().find(|other| other.said != record.said).expect("not all are alike");
        let changed = [
            Record { at: SimTime::from_nanos(record.at.as_nanos() + 1), ..record.clone() },
            Record { step: record.step + 1, ..record.clone() },
            Record { said: another.said.clone(), ..record.clone() },
        ];
        for one in changed {
            let mut others = records.clone();
            others[index] = one;
            assert_ne!(digest(&others), whole, "record {index}");
        }
        assert_ne!(digest(&[&records[..index], &records[index + 1..]].concat()), whole, "without record {index}");
    }
}

/// `a` is placed at once, and `b` still waits when the run is cut off. So half of the two waits are known.
fn who_was_never_placed_has_the_longest_wait() {
    let text = "scenario: One of two is never placed\nuntil: 5m\nnodes: [{name: m, cpus: 1}]\njobs:\n  \
                - {name: a, cpus: 1, duration: 1h}\n  - {name: b, cpus: 1, duration: 1h}\n";
    let loaded = load_text("text.yaml", text, Path::new(""), &Options::default());
    let rehearsal = loaded.unwrap_or_else(|faults| panic!("{faults}")).rehearsal;
    let rehearsed = rehearse(&rehearsal, Vec::new(), &Progress::default(), Caching::On, Vec::new());
    let waits = wait_quantiles(rehearsed.run_metrics.accounts());
    assert_eq!((waits[0], waits[50], waits[51], waits[100]), (Some(0.0), Some(0.0), None, None));
}

fn an_event_in_the_place_of_another_of_its_kind_is_found_by_a_replay() {
    let (rehearsal, records) = recorded("scenarios/basics/labels-missing-and-wrong.yaml");
    let again = |records: Vec<Record>| replay(rehearsal.profile.clone(), rehearsal.seed, records);
    assert!(again(records.clone()).is_ok());
    let events: Vec<usize> =
        (0..records.len()).filter(|index| matches!(records[*index].said, RecordBody::Event(_))).collect();
    let mut changed = 0;
    for index in &events {
        let RecordBody::Event(event) = &records[*index].said else { continue };
        let other = events.iter().find_map(|other| match &records[*other].said {
            RecordBody::Event(other) if discriminant(other) == discriminant(event) && other != event => Some(other),
            _ => None,
        });
        let Some(other) = other else { continue };
        let mut records = records.clone();
        records[*index].said = RecordBody::Event(other.clone());
        assert!(again(records).is_err(), "{other:?} in the place of {event:?}");
        changed += 1;
    }
    assert!(changed > 4, "{changed} events have another of their kind");
}
