//! Reads what may come from outside, broken or not: the inputs that the fuzzer kept (`.ci/fuzz`), and scenarios with
//! random edits. No input makes a reader panic, and every place that a diagnostic names is within the input.

mod targets;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use targets::{TARGETS, target};

trials! {
    Nothing: [
        no_text_makes_the_reader_panic,
        each_input_that_the_fuzzer_kept_is_read,
        the_fuzzer_has_each_crate_that_its_targets_use,
    ]
}

/// The longest time for one input, in a build without optimization and on a machine that does other work too.
const LONGEST: Duration = Duration::from_secs(10);

/// The inputs of a target, sorted.
fn inputs(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus").join(name);
    let read = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = read.map(|entry| entry.expect("it can be listed").path()).collect();
    files.sort();
    files
}

#[expect(clippy::disallowed_methods, reason = "a reader must not take long, and no run depends on it")]
fn each_input_that_the_fuzzer_kept_is_read() {
    for target in &TARGETS {
        let files = inputs(target.name);
        assert!(!files.is_empty(), "{} has no inputs", target.name);
        for file in files {
            let input = std::fs::read(&file).expect("it is carried");
            assert!(input.len() <= target.longest, "{}: {} bytes", file.display(), input.len());
            let begun = Instant::now();
            let read = std::panic::catch_unwind(|| (target.read)(&input));
            assert!(read.is_ok(), "{}: its reader is at fault", file.display());
            assert!(begun.elapsed() < LONGEST, "{}: {} s", file.display(), begun.elapsed().as_secs());
        }
    }
}

/// The targets are compiled here with the dependencies of these tests, and with those of `fuzz/` only by `.ci/fuzz`.
fn the_fuzzer_has_each_crate_that_its_targets_use() {
    let manifest = include_str!("../../fuzz/Cargo.toml");
    let targets = include_str!("fuzzed/targets.rs");
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = targets.split(|letter: char| !is_word(letter));
    let mut used: Vec<String> =
        words.filter(|word| word.starts_with("dryrack_")).map(|word| word.replace('_', "-")).collect();
    used.sort();
    used.dedup();
    assert!(used.len() > 5, "{used:?}");
    let is_lacking = |name: &&String| !manifest.lines().any(|line| line.starts_with(&format!("{name} = ")));
    let lacking: Vec<&String> = used.iter().filter(is_lacking).collect();
    assert!(lacking.is_empty(), "fuzz/Cargo.toml lacks {lacking:?}");
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

fn check(text: &str, set: &[String]) -> Result<(), TestCaseError> {
    let input = [&[text.to_string()], set].concat().join("\0");
    (target("scenario").expect("it is listed").read)(input.as_bytes());
    Ok(())
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
    runner.run(&".{0,200}", |text| check(&text, &[])).unwrap();
    runner.run(&edited(), |text| check(&text, &[])).unwrap();
    let argument = "[a-z0-9.\"=\\[\\]{}: ä]{0,40}";
    runner.run(&(edited(), argument), |(text, argument)| check(&text, &[argument])).unwrap();
    runner.run(&argument, |argument| check(TEXTS[TEXTS.len() - 1], &[format!("jobs.ß.{argument}")])).unwrap();
}
