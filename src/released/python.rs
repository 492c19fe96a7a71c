//! Finds the Python with which environments are created.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::ReleasedError;

/// The version of Python for which the packages are locked.
pub const PYTHON: &str = "3.11";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    pub path: PathBuf,
    /// The full version, such as `3.11.7`.
    pub version: String,
}

/// A Python of version [`PYTHON`]: the one that `DRYRACK_PYTHON` names, otherwise the first one found on the search
/// path, in pyenv or in uv.
pub fn find_python() -> Result<Python, ReleasedError> {
    if let Some(named) = env::var_os("DRYRACK_PYTHON").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return match version_of(path.as_os_str()) {
            Some(found) if is_wanted(&found.version) => Ok(found),
            found => Err(ReleasedError::WrongPython {
                path,
                is: found.map_or("no Python that starts".to_string(), |found| format!("Python {}", found.version)),
                wanted: PYTHON,
            }),
        };
    }
    let by_name = [format!("python{PYTHON}"), "python3".to_string(), "python".to_string()];
    let homes = env::var_os("HOME").map(PathBuf::from);
    let kept = homes.iter().flat_map(|home| {
        let folders = [home.join(".pyenv/versions"), home.join(".local/share/uv/python")];
        folders.into_iter().flat_map(|folder| kept_in(&folder))
    });
    let candidates = by_name.iter().map(|name| PathBuf::from(name.as_str())).chain(kept);
    let mut looked = Vec::new();
    for candidate in candidates {
        match version_of(candidate.as_os_str()) {
            Some(found) if is_wanted(&found.version) => return Ok(found),
            Some(found) => looked.push(format!("{} is {}", candidate.display(), found.version)),
            None => looked.push(format!("no {}", candidate.display())),
        }
    }
    looked.truncate(6);
    Err(ReleasedError::NoPython { wanted: PYTHON, looked })
}

fn is_wanted(version: &str) -> bool {
    version.strip_prefix(PYTHON).is_some_and(|rest| rest.starts_with('.'))
}

/// The interpreters of the wanted version in a folder that has a subfolder for each version.
fn kept_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(PYTHON));
    let mut found: Vec<PathBuf> = names.map(|path| path.join("bin").join(format!("python{PYTHON}"))).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found
}

/// The interpreter with this name. A shim of pyenv is resolved, so that the environment does not depend on it.
fn version_of(name: &OsStr) -> Option<Python> {
    let asked = "import sys, platform; print(sys.executable); print(platform.python_version())";
    let output =
        Command::new(name).args(["-I", "-c", asked]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let mut lines = said.lines();
    let (path, version) = (lines.next()?, lines.next()?);
    Some(Python { path: PathBuf::from(path), version: version.to_string() })
}
