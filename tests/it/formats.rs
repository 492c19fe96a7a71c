//! Files of earlier formats still read: logs, records of tests, stored decisions and scenarios.

use std::path::{Path, PathBuf};

use crate::cli::{dryrack, empty, stdout};
use assert_cmd::assert::OutputAssertExt;
use dryrack_event::FORMAT_VERSION;

trials! {
    Nothing: [
        logs_of_every_version_are_replayed,
        a_record_of_every_version_is_replayed,
        stored_decisions_of_every_version_are_compared,
        a_scenario_of_every_version_passes,
        a_later_version_is_refused_by_its_number,
        the_version_of_rust_is_stated_alike_everywhere,
    ]
}

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats")
}

fn logs_of_every_version_are_replayed() {
    for version in 1..=FORMAT_VERSION {
        let name = format!("logs/{version}.jsonl");
        let text = std::fs::read_to_string(formats().join(&name)).expect("a log for each version");
        assert!(text.contains(&format!("\"format\":{version},")), "{name}");
        // A replay compares every event, and prints nothing if all are the same.
        dryrack(&formats(), &["replay", &name]).assert().code(0).stdout("").stderr("");
    }
}

fn a_record_of_every_version_is_replayed() {
    let said = stdout(&formats(), &["replay", "record-1.zip"], 0);
    assert!(said.contains("    same  baseline-1.yaml  Two jobs want one GPU\n"), "{said}");
}

fn stored_decisions_of_every_version_are_compared() {
    let dir = empty();
    let copy = |name: &str, to: &str| {
        let to = dir.path().join(to);
        std::fs::create_dir_all(to.parent().expect("in a folder")).expect("a folder of our own");
        std::fs::copy(formats().join(name), to).expect("a folder of our own");
    };
    copy("baseline-1.yaml", "one.yaml");
    copy("baseline-1.baseline", "base/one.yaml.baseline");
    let said = stdout(dir.path(), &["test", "one.yaml", "--baseline", "base"], 0);
    assert!(said.contains("baseline: 1 as stored, 0 changed\n"), "{said}");
}

fn a_scenario_of_every_version_passes() {
    dryrack(&formats(), &["test", "scenario-0.1.yaml"]).assert().code(0).stderr("");
}

fn a_later_version_is_refused_by_its_number() {
    let dir = empty();
    let text = std::fs::read_to_string(formats().join("logs/3.jsonl")).expect("it is stored");
    std::fs::write(dir.path().join("later.jsonl"), text.replacen("\"format\":3", "\"format\":99", 1))
        .expect("a folder of our own");
    let why = dryrack(dir.path(), &["replay", "later.jsonl"]).assert().code(2).get_output().stderr.clone();
    let why = String::from_utf8(why).expect("text");
    assert!(why.contains("the log has format 99, but this dryrack reads formats 1 to 3"), "{why}");
}

/// The oldest Rust that builds dryrack is that of the manifest; CI builds with it.
fn the_version_of_rust_is_stated_alike_everywhere() {
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        std::fs::read_to_string(path).expect("it is ours")
    };
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with("rust-version = ")).expect("the manifest states it");
    let version = line.split('"').nth(1).expect("in quotes");
    assert!(read("README.md").contains(&format!("needs Rust {version};")), "{version}");
    assert!(read("Dockerfile").contains(&format!("FROM rust:{version}-")), "{version}");
}
