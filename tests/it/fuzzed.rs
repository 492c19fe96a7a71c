//! No text makes the scenario reader panic, and every place that a diagnostic names is within the text.

use std::path::Path;

use dryrack_scenario::{Options, load_text};
use dryrack_yaml::Diagnostics;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

trials! {
    Nothing: [
        no_text_makes_the_reader_panic,
    ]
}

const TEXTS: &[&str] = &[
    include_str!("broken/expectations.yaml"),
    include_str!("broken/metrics_not_whole.yaml"),
    include_str!("broken/metrics_restricted.yaml"),
    include_str!("broken/expectations_in_order.yaml"),
    include_str!("broken/jobs.yaml"),
    include_str!("broken/fleet.yaml"),
    include_str!("broken/faults.yaml"),
    include_str!("broken/nested_aliases.yaml"),
    include_str!("broken/fleets.yaml"),
    include_str!("broken/params.yaml"),
    include_str!("broken/matrix.yaml"),
    include_str!("broken/seeds.yaml"),
    "scenario: ä\nnodes: [{name: é, machine: a100-80g-x2, labels: {x: ü}}]\njobs: [{name: ß, gpus: [é/0]}]\n",
];

/// The pieces that are inserted into the files.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "\n",
    "  ",
    "\t",
    "\"",
    "'",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "#",
    "|",
    ">",
    "%",
    "---\n",
    "~",
    "null",
    "-1",
    "1e9",
    "18446744073709551616",
    "0.5",
    "99999d",
    "ä",
    "\u{2028}",
    "\u{feff}",
    "*",
    "?",
    "alpha/0",
    "p95(",
    "<=",
    "for: cancelled",
    "name: ",
    "count: 3",
    "1000000",
    "é",
    "\r\n",
    "\0",
    "${",
    "$${",
    "\"${gpus}\"",
    "include: x.yaml\n",
    "{fleet: lab}",
    "seeds: 1..3\n",
    "in: \">= 5%\"",
];

type Checked = Result<(), TestCaseError>;

fn check(text: &str, set: Vec<String>) -> Checked {
    let options = Options { set, ..Options::default() };
    let diagnostics = match load_text("fuzzed.yaml", text, Path::new("nowhere"), &options) {
        Ok(loaded) => loaded.warnings,
        Err(diagnostics) => {
            assert!(diagnostics.has_errors());
            diagnostics
        }
    };
    check_places(text, &diagnostics);
    // Rendering must not fail either.
    assert!(diagnostics.to_string().len() < 1_000_000 || diagnostics.iter().count() > 100);
    Ok(())
}

fn check_places(text: &str, diagnostics: &Diagnostics) {
    let lines: Vec<&str> = text.split('\n').collect();
    for diagnostic in diagnostics.iter().filter(|diagnostic| &*diagnostic.file == "fuzzed.yaml") {
        let line = lines.get(diagnostic.line as usize - 1).unwrap_or_else(|| panic!("{diagnostic}"));
        let end = diagnostic.column as usize - 1 + diagnostic.length as usize;
        assert!(end <= line.chars().count(), "{diagnostic}");
    }
}

fn edited() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0usize..6, prop::sample::select(PIECES));
    (prop::sample::select(TEXTS), prop::collection::vec(edit, 1..6)).prop_map(|(text, edits)| {
        let mut letters: Vec<char> = text.chars().collect();
        for (place, removed, piece) in edits {
            let at = place.index(letters.len() + 1);
            let end = (at + removed).min(letters.len());
            letters.splice(at..end, piece.chars());
        }
        letters.into_iter().collect()
    })
}

/// Tests random text, and files with a few edits.
fn no_text_makes_the_reader_panic() {
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    runner.run(&".{0,200}", |text| check(&text, Vec::new())).unwrap();
    runner.run(&edited(), |text| check(&text, Vec::new())).unwrap();
    let argument = "[a-z0-9.\"=\\[\\]{}: ä]{0,40}";
    runner.run(&(edited(), argument), |(text, argument)| check(&text, vec![argument])).unwrap();
    runner.run(&argument, |argument| check(TEXTS[TEXTS.len() - 1], vec![format!("jobs.ß.{argument}")])).unwrap();
}
