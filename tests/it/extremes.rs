//! Mostly numbers at the ends of what a format can hold. Each file of `tests/data/extreme` but `basic.yaml`, which a plan names,
//! once ended the program with an internal error, took all memory, or did not end in 20 s. Whether its result is right matters
//! less than that there is one.

use std::path::{Path, PathBuf};

use crate::cli::dryrack;

trials! {
    Nothing: [
        no_number_ends_the_program_with_an_internal_error,
    ]
}

/// The command that reads a file.
fn command(name: &str) -> &'static str {
    let by_end = [(".plan.yaml", "plan"), (".replay", "replay"), (".conform", "conform"), (".yaml", "run")];
    by_end.iter().find(|(end, _)| name.ends_with(end)).map(|(_, command)| *command).expect("a known end of a name")
}

fn no_number_ends_the_program_with_an_internal_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/extreme");
    let listed = std::fs::read_dir(&folder).expect("it is carried");
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.expect("it can be listed").path()).collect();
    files.sort();
    assert!(files.len() > 30, "{} files", files.len());
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let output = dryrack(&folder, &[command(name), name]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=2)), "{name}: {}\n{said}", output.status);
        assert!(!said.contains("internal error"), "{name}: {said}");
    }
}
