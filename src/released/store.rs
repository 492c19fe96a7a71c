//! The cache folder of the environments.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Release, ReleasedError, releases};

/// The drivers. They are embedded in the binary, and written beside the environments, where Python can read them.
const DRIVERS: [(&str, &str); 8] = [
    ("main.py", include_str!("drivers/main.py")),
    ("driver.py", include_str!("drivers/driver.py")),
    ("records.py", include_str!("drivers/records.py")),
    ("gpustack.py", include_str!("drivers/gpustack.py")),
    ("gpustack_queue.py", include_str!("drivers/gpustack_queue.py")),
    ("dstack.py", include_str!("drivers/dstack.py")),
    ("dstack_policy.py", include_str!("drivers/dstack_policy.py")),
    ("ray.py", include_str!("drivers/ray.py")),
];

/// The file in each part that holds the lock from which the part was built. It is written last.
pub(crate) const LOCK: &str = "lock.txt";

/// The folder of all environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

/// An installed release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRelease {
    pub release: Release,
    /// Whether it was built from the lock that this dryrack contains. If not, it must be installed again.
    pub is_current: bool,
    /// The size of the release's own part in bytes, without its base.
    pub bytes: u64,
}

impl Store {
    /// The folder `outside` in the cache folder that `DRYRACK_CACHE`, `XDG_CACHE_HOME` or `HOME` names.
    pub fn from_env() -> Result<Store, ReleasedError> {
        let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
        let absolute = |name: &str| named(name).filter(|path| path.is_absolute());
        let cache = named("DRYRACK_CACHE")
            .or_else(|| absolute("XDG_CACHE_HOME").map(|cache| cache.join("dryrack")))
            .or_else(|| absolute("HOME").map(|home| home.join(".cache").join("dryrack")))
            .ok_or(ReleasedError::NoCache)?;
        let cache = std::path::absolute(&cache).map_err(|source| ReleasedError::file(&cache, source))?;
        Ok(Store::at(&cache.join("outside")))
    }

    pub fn at(root: &Path) -> Store {
        Store { root: root.to_path_buf() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn base(&self, release: &Release) -> PathBuf {
        self.root.join("bases").join(release.base)
    }

    pub(crate) fn release(&self, release: &Release) -> PathBuf {
        self.root.join("releases").join(format!("{}-{}", release.program, release.version))
    }

    /// The Python interpreter of a release's base.
    pub(crate) fn python(&self, release: &Release) -> PathBuf {
        self.base(release).join("bin").join("python")
    }

    /// The installed releases, in the order of [`releases`].
    pub fn list(&self) -> Vec<InstalledRelease> {
        let here = releases().iter().filter(|release| self.release(release).is_dir());
        here.map(|release| InstalledRelease {
            release: release.clone(),
            is_current: self.is_installed(release),
            bytes: bytes_below(&self.release(release)),
        })
        .collect()
    }

    /// The installed bases, with the size of each in bytes.
    pub fn bases(&self) -> Vec<(&'static str, u64)> {
        let mut found: Vec<(&'static str, u64)> = Vec::new();
        for release in releases() {
            let folder = self.base(release);
            if folder.is_dir() && found.iter().all(|(name, _)| *name != release.base) {
                found.push((release.base, bytes_below(&folder)));
            }
        }
        found
    }

    /// Whether both parts of the release are complete and match the locks in this dryrack.
    pub fn is_installed(&self, release: &Release) -> bool {
        is_built(&self.base(release), release.base_lock()) && is_built(&self.release(release), release.lock)
    }

    /// The command (program first) that starts the driver of `release`.
    pub fn command_of(&self, release: &Release) -> Result<Vec<OsString>, ReleasedError> {
        if !self.is_installed(release) {
            return Err(ReleasedError::NotInstalled { name: release.to_string() });
        }
        let main = self.drivers()?.join("main.py");
        Ok(vec![
            self.python(release).into_os_string(),
            // Isolated mode: ignore Python's environment variables and the user's own packages.
            "-I".into(),
            main.into_os_string(),
            release.program.into(),
            self.release(release).into_os_string(),
        ])
    }

    /// The folder with the drivers of this binary. Writes the drivers if the folder does not exist.
    fn drivers(&self) -> Result<PathBuf, ReleasedError> {
        let mut sum = Sha256::new();
        for (name, text) in DRIVERS {
            sum.update(name.len().to_le_bytes());
            sum.update(name);
            sum.update(text.len().to_le_bytes());
            sum.update(text);
        }
        let sum: String = sum.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let folder = self.root.join("drivers").join(sum);
        if folder.is_dir() {
            return Ok(folder);
        }
        let beside = UnfinishedFolder::new(&folder)?;
        for (name, text) in DRIVERS {
            let file = beside.path.join(name);
            fs::write(&file, text).map_err(|source| ReleasedError::file(&file, source))?;
        }
        beside.settle(&folder)?;
        Ok(folder)
    }
}

pub(crate) fn is_built(folder: &Path, lock: &str) -> bool {
    fs::read_to_string(folder.join(LOCK)).is_ok_and(|built_from| built_from == lock)
}

/// A folder that is built under a temporary name. It is deleted on drop unless `settle` was called.
pub(crate) struct UnfinishedFolder {
    pub path: PathBuf,
}

impl UnfinishedFolder {
    pub fn new(place: &Path) -> Result<UnfinishedFolder, ReleasedError> {
        let (parent, name) = parts_of(place);
        fs::create_dir_all(&parent).map_err(|source| ReleasedError::file(&parent, source))?;
        clear_left(&parent, &name);
        // The process id separates two concurrent installations.
        let path = parent.join(format!(".{name}.{}.part", std::process::id()));
        let _from_an_earlier_process = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(|source| ReleasedError::file(&path, source))?;
        Ok(UnfinishedFolder { path })
    }

    /// Moves the folder to its final place, and replaces an existing one.
    pub fn settle(self, place: &Path) -> Result<(), ReleasedError> {
        let (parent, name) = parts_of(place);
        let old = parent.join(format!(".{name}.{}.old", std::process::id()));
        let had_old = fs::rename(place, &old).is_ok();
        let settled = fs::rename(&self.path, place);
        if had_old {
            let _of_no_use = fs::remove_dir_all(&old);
        }
        match settled {
            Ok(()) => Ok(()),
            // Another process has created the same content in the meantime.
            Err(_) if place.is_dir() => Ok(()),
            Err(source) => Err(ReleasedError::file(place, source)),
        }
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        let _gone_if_settled = fs::remove_dir_all(&self.path);
    }
}

fn parts_of(place: &Path) -> (PathBuf, String) {
    let parent = place.parent().expect("a place in the store").to_path_buf();
    let name = place.file_name().expect("a place in the store").to_string_lossy().into_owned();
    (parent, name)
}

/// Deletes temporary folders for `name` that killed processes have left.
pub(crate) fn clear_left(parent: &Path, name: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = file_name.strip_prefix('.').and_then(|rest| rest.strip_prefix(name)) else { continue };
        let process = rest.strip_prefix('.').and_then(|rest| rest.strip_suffix(".part").or(rest.strip_suffix(".old")));
        // Without procfs it is unknown whether the process still runs, so delete nothing.
        let is_over = |id: u32| Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{id}")).exists();
        if process.and_then(|id| id.parse().ok()).is_some_and(is_over) {
            let _as_much_as_can_be = fs::remove_dir_all(entry.path());
        }
    }
}

/// The total size of the files below a folder in bytes. Links do not count.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |found| found.len()),
            _ => 0,
        })
        .sum()
}
