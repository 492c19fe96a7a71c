//! Broken files, and the exact diagnostics of each.
//!
//! Each `broken/NAME.yaml` is checked against `broken/NAME.stderr`. To write those again, run with `DRYRACK_BLESS=1`,
//! and then check for every changed line that the message tells the user what to type next.

use std::path::{Path, PathBuf};

use dryrack_scenario::{Options, check, load, load_text};

trials! {
    Nothing: [
        a_wrong_override_is_shown_on_the_command_line,
        an_override_changes_the_file_as_if_it_had_been_written_there,
        what_is_no_scenario_at_all_ends_in_one_clear_error,
        an_override_of_a_composed_file_is_shown_on_the_command_line,
        a_composed_file_is_the_same_as_one_written_out,
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/broken")
}

/// The diagnostics of a file, with its path relative to the folder of broken files.
fn rendered(path: &Path, options: &Options) -> String {
    let prefix = format!("{}/", folder().display());
    check(path, options).to_string().replace(&prefix, "")
}

fn compare(expected: &Path, found: &str) {
    if std::env::var_os("DRYRACK_BLESS").is_some() {
        std::fs::write(expected, found).unwrap();
    }
    let text = std::fs::read_to_string(expected).unwrap_or_default();
    assert_eq!(text, found, "{} differs; what was found:\n{found}", expected.display());
}

/// The files that are broken, by name.
pub fn broken_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// Checks that the diagnostics of one broken file are exactly the expected ones.
pub fn a_broken_file_is_told_what_to_type_next(path: &Path) {
    let found = rendered(path, &Options::default());
    assert!(!found.is_empty(), "{} is not broken", path.display());
    compare(&path.with_extension("stderr"), &found);
}

const SOUND: &str = "\
scenario: A sound file
nodes:
  - {name: alpha, machine: a100-80g-x2}
  - {name: beta, machine: a100-80g-x2, count: 2}
jobs:
  - {name: chat, gpus: 1}
expect:
  - {name: runs, job: chat, is: running}
";

fn set(arguments: &[&str]) -> Options {
    Options { set: arguments.iter().map(|argument| argument.to_string()).collect(), ..Options::default() }
}

/// A wrong override is shown where it was typed.
fn a_wrong_override_is_shown_on_the_command_line() {
    let arguments = [
        "nodes.alpha.state=not_redy",
        "nodes.alhpa.state=ready",
        "nodes.7.state=ready",
        "nodes.alpha.sate=ready",
        "jobs.chat.gpus.x=1",
        "jobs.chat.gpus=[alpha/9]",
        "jobs.chat.at=5",
        "nodes.alpha",
        "nodes..state=ready",
        "jobs.chat.labels={a: [}",
        "until=",
        "nodes=",
    ];
    let mut found = String::new();
    for argument in arguments {
        match load_text("sound.yaml", SOUND, Path::new(""), &set(&[argument])) {
            Ok(_) => panic!("{argument} is fine"),
            Err(diagnostics) => found.push_str(&diagnostics.to_string()),
        }
    }
    let named = Options {
        seed: Some("x".to_string()),
        profile: Some("spred".to_string()),
        until: Some("10".to_string()),
        ..Options::default()
    };
    found.push_str(&load_text("sound.yaml", SOUND, Path::new(""), &named).unwrap_err().to_string());
    compare(&folder().join("overrides.stderr"), &found);
}

/// An override changes any field, and the text in the log is the file with that change.
fn an_override_changes_the_file_as_if_it_had_been_written_there() {
    let options = set(&["nodes.alpha.state=not_ready", "jobs.0.at=10s", "jobs.chat.labels.zone=west", "until=5m"]);
    let loaded = load_text("sound.yaml", SOUND, Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"));
    let again = load_text("again.yaml", &loaded.rehearsal.source, Path::new(""), &Options::default());
    let again = again.unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(loaded.rehearsal.nodes[0].state, dryrack_fleet::NodeState::NotReady);
    assert_eq!(loaded.rehearsal.arrivals[0].at.to_string(), "10s");
    assert_eq!(loaded.rehearsal.until.map(|until| until.to_string()).as_deref(), Some("5m"));
    assert_eq!(loaded.rehearsal.arrivals[0].spec, again.rehearsal.arrivals[0].spec);
    assert_eq!(loaded.rehearsal.nodes.len(), again.rehearsal.nodes.len());
    assert_eq!(format!("{:?}", loaded.rehearsal.arrivals), format!("{:?}", again.rehearsal.arrivals));
}

/// Files that are not text, too large, too deep or missing each cause one clear error.
fn what_is_no_scenario_at_all_ends_in_one_clear_error() {
    let scratch = tempfile::tempdir().unwrap();
    let large = std::fs::File::create(scratch.path().join("large.yaml")).unwrap();
    large.set_len(100_000_000).unwrap();
    let files: [(&str, Vec<u8>); 6] = [
        ("deep.yaml", vec![b'['; 100_000]),
        ("nul.yaml", b"scenario: \0 x\n".to_vec()),
        ("rubbish.yaml", (0..=255).cycle().skip(137).take(4096).collect()),
        ("utf16.yaml", [0xff, 0xfe].into_iter().chain("scenario: x".bytes().flat_map(|byte| [byte, 0])).collect()),
        ("two.yaml", b"scenario: one\n---\nscenario: two\n".to_vec()),
        ("tags.yaml", b"scenario: !!set one\n".to_vec()),
    ];
    for (name, bytes) in &files {
        std::fs::write(scratch.path().join(name), bytes).unwrap();
    }
    let mut found = String::new();
    let names = files.iter().map(|(name, _)| *name).chain(["large.yaml", "missing.yaml", "."]);
    for name in names {
        let diagnostics = load(&scratch.path().join(name), &Options::default()).map(|_| ()).unwrap_err();
        assert_eq!(diagnostics.iter().count(), 1, "{name}: {diagnostics}");
        found.push_str(&diagnostics.to_string().replace(&format!("{}/", scratch.path().display()), ""));
    }
    compare(&folder().join("no_scenario.stderr"), &found);
}

const COMPOSED: &str = "\
scenario: A sound file of parts
params: {machine: a100-80g-x2}
matrix: {gpus: [1, 2], profile: [first-fit, spread]}
fleets: {lab: [{name: alpha, machine: \"${machine}\"}]}
nodes: {fleet: lab}
jobs:
  - {name: chat, gpus: \"${gpus}\"}
expect:
  - {name: runs, job: chat, is: running}
";

/// An override of a composed file must name an existing parameter or axis.
fn an_override_of_a_composed_file_is_shown_on_the_command_line() {
    let pinned = ["matrix.gpus=2", "matrix.profile=spread"];
    let rows: [&[&str]; 9] = [
        &[],
        &["params.gpus=3"],
        &["matrix.gpus=2"],
        &["params.machien=l4-x1"],
        &["matrix.gpsu=1"],
        &["params.machine=a100-80g-x9"],
        &["matrix.gpus=[2, 3]"],
        &["fleets.lab=[]"],
        &["include=other.yaml"],
    ];
    let mut found = String::new();
    for row in rows {
        let is_early = row.first().is_none_or(|argument| argument.starts_with("matrix"));
        let arguments: Vec<&str> = row.iter().copied().chain(pinned.into_iter().filter(|_| !is_early)).collect();
        match load_text("composed.yaml", COMPOSED, Path::new(""), &set(&arguments)) {
            Ok(_) => panic!("{arguments:?} is fine"),
            Err(diagnostics) => found.push_str(&diagnostics.to_string()),
        }
    }
    compare(&folder().join("overrides_of_composition.stderr"), &found);
}

/// A composed file equals the one that would have been written without composing, and its log contains that one.
fn a_composed_file_is_the_same_as_one_written_out() {
    let options =
        set(&["matrix.gpus=2", "matrix.profile=spread", "params.machine=a100-80g-x8", "nodes.alpha.state=joining"]);
    let loaded =
        load_text("composed.yaml", COMPOSED, Path::new(""), &options).unwrap_or_else(|faults| panic!("{faults}"));
    let written = "\
scenario: A sound file of parts
profile: spread
nodes:
  - {name: alpha, machine: a100-80g-x8, state: joining}
jobs:
  - {name: chat, gpus: 2}
expect:
  - {name: runs, job: chat, is: running}
";
    let written = load_text("written.yaml", written, Path::new(""), &Options::default());
    let written = written.unwrap_or_else(|faults| panic!("{faults}"));
    let again = load_text("again.yaml", &loaded.rehearsal.source, Path::new(""), &Options::default());
    let again = again.unwrap_or_else(|faults| panic!("{faults}"));
    for other in [&written, &again] {
        assert_eq!(loaded.rehearsal.profile, other.rehearsal.profile);
        assert_eq!(format!("{:?}", loaded.rehearsal.arrivals), format!("{:?}", other.rehearsal.arrivals));
        assert_eq!(format!("{:?}", loaded.rehearsal.nodes), format!("{:?}", other.rehearsal.nodes));
    }
}
