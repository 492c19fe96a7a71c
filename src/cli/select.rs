//! Finds the scenario files at the paths on the command line.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::exit::Failure;

/// The ending of the names by which editors know scenarios.
const NAMED: &str = ".dryrack.yaml";

/// The scenario files at these paths, each only once. The path of a file gives that file. The path of a folder gives
/// every `*.dryrack.yaml` below it in the order of paths. If there is none, it gives every `*.yaml` except
/// `*.profile.yaml` (profiles that scenarios use), `*.part.yaml` (parts that scenarios include) and Kubernetes manifests.
pub fn scenario_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let expected = "a scenario file, or a folder of them";
        let kind = std::fs::metadata(path).map_err(|error| Failure::unreadable(path, &error, expected))?;
        match kind.is_dir() {
            true => {
                let mut found = Vec::new();
                collect(path, &mut found)?;
                // Where scenarios are named so, other YAML files are something else.
                if found.iter().any(|file| ends_with(file, NAMED)) {
                    found.retain(|file| ends_with(file, NAMED));
                }
                files.append(&mut found);
            }
            false => files.push(path.clone()),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::file(dir, format!("cannot be read: {error}"));
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        entries.push((entry.path(), entry.file_type().map_err(unreadable)?));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        // Links to folders are not followed, because they may lead back here.
        if kind.is_dir() {
            collect(&path, files)?;
        } else if is_scenario(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_scenario(path: &Path) -> bool {
    ends_with(path, ".yaml") && !is_profile(path) && !is_part(path) && !is_manifest(path)
}

/// The number of bytes in which the keys of a manifest are looked for.
const SHOWN_BYTES: u64 = 1 << 16;

/// Whether the file is a Kubernetes manifest, judged by its first keys.
pub fn is_manifest(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path);
    if opened.and_then(|file| file.take(SHOWN_BYTES).read_to_end(&mut bytes)).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&bytes);
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    has("apiVersion:") && has("kind:") && !has("scenario:")
}

/// Whether the file is a profile, judged by its name.
pub fn is_profile(path: &Path) -> bool {
    ends_with(path, ".profile.yaml")
}

/// Whether the file is a part for inclusion in scenarios, judged by its name.
pub fn is_part(path: &Path) -> bool {
    ends_with(path, ".part.yaml")
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}

/// Refuses named files that are not scenarios, because they cannot be run.
pub fn refuse_others(files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        if is_profile(file) {
            let command = format!("`dryrack test SCENARIO --profile {}`", file.display());
            return Err(Failure::file(
                file,
                format!("is a profile, not a scenario; run a scenario under it with {command}"),
            ));
        }
        if is_part(file) {
            return Err(Failure::file(file, "is a part for `include:`; name a scenario that includes it"));
        }
    }
    Ok(())
}
