//! The files that failed in the last test in a folder, kept in the cache folder for `--rerun failed`.

use std::path::{Path, PathBuf};

use super::case::Status;
use super::outcome::Outcome;
use crate::exit::Failure;
use crate::output::{WholeFile, warn};
use dryrack_trace::Roots;

/// Where the failures of tests in the current folder are kept; `None` if there is no cache folder.
fn place() -> Option<PathBuf> {
    let folder = std::env::current_dir().ok()?;
    let cache = Roots::from_env(None).cache?;
    // The name of the folder must not be too long for a file.
    let name = blake3::hash(folder.as_os_str().as_encoded_bytes()).to_hex();
    Some(cache.join("failed").join(&name.as_str()[..32]))
}

/// Keeps the files that failed. If none failed, nothing is kept, and nothing is written.
pub fn store(outcome: &Outcome<'_>) {
    let failed = |status: Status| matches!(status, Status::Failed | Status::Invalid | Status::OurFault);
    let files = outcome.tested.iter().filter(|tested| tested.cases.iter().any(|case| failed(case.status)));
    let files: Vec<&Path> = files.map(|tested| tested.file.as_path()).collect();
    let Some(place) = place() else { return };
    // Without a cache the test itself is as good, so a failure to write it is reported only when it is asked for.
    if files.is_empty() {
        let _none = std::fs::remove_file(&place);
        return;
    }
    let text = serde_json::to_string(&files).expect("paths that were typed have a JSON form");
    let is_kept = std::fs::create_dir_all(place.parent().unwrap_or(&place))
        .is_ok_and(|()| WholeFile::write(&place, text.as_bytes()).is_ok());
    if !is_kept && place.exists() {
        let why = "the files that failed cannot be stored, so `--rerun failed` would test those of an earlier test";
        warn(&format!("note: {}: {why}\n", place.display()));
    }
}

/// The files that failed in the last test in the current folder.
pub fn load() -> Result<Vec<PathBuf>, Failure> {
    let Some(place) = place() else {
        let why = "error: --rerun: there is no cache folder; set DRYRACK_CACHE or HOME\n";
        return Err(Failure::Input(why.to_string()));
    };
    match std::fs::read(&place) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| Failure::file(&place, format!("is damaged: {error}")))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::file(&place, format!("cannot be read: {error}"))),
    }
}
