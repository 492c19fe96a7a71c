//! Detects changes of files for `--watch`, by checking the files several times a second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The time between two checks.
const PAUSE: Duration = Duration::from_millis(300);

/// The modification time and length of every watched file.
pub type Snapshot = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The YAML files below the paths. If a path is a file, all YAML files in its folder count too, because the file may
/// include them.
pub fn snapshot(paths: &[PathBuf]) -> Snapshot {
    let mut seen = Snapshot::new();
    for path in paths {
        match path.is_dir() {
            true => scan(path, &mut seen),
            false => {
                note(path, &mut seen);
                scan(path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")), &mut seen);
            }
        }
    }
    seen
}

/// Waits until the files differ from `seen`, and returns the new snapshot.
pub fn changed(paths: &[PathBuf], seen: Snapshot) -> Snapshot {
    loop {
        #[expect(clippy::disallowed_methods, reason = "the wall clock is waited for between runs, never in one")]
        std::thread::sleep(PAUSE);
        let now = snapshot(paths);
        if now != seen {
            return now;
        }
    }
}

fn scan(dir: &Path, seen: &mut Snapshot) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links to folders are not followed, because they may lead back here.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => scan(&path, seen),
            _ if path.extension().is_some_and(|extension| extension == "yaml") => note(&path, seen),
            _ => {}
        }
    }
}

fn note(path: &Path, seen: &mut Snapshot) {
    let known = std::fs::metadata(path);
    let stamp = known.map_or((None, 0), |known| (known.modified().ok(), known.len()));
    seen.insert(path.to_path_buf(), stamp);
}
