//! Builds and removes environments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::store::{LOCK, UnfinishedFolder, bytes_below, clear_left, is_built};
use crate::{Release, ReleasedError, Store, find_python, pip, releases};

/// The tools that build source packages. They are installed first.
const BUILDERS: [&str; 2] = ["setuptools==", "wheel=="];

/// The result of [`Store::install`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub release: Release,
    /// Whether the release was already installed.
    pub was_here: bool,
    /// Whether the base was built for this release. If not, it was already there because of an earlier release.
    pub made_base: bool,
    pub base_bytes: u64,
    pub release_bytes: u64,
    pub folder: PathBuf,
}

impl Store {
    /// Installs `release`. Calls `said` with each step.
    pub fn install(&self, release: &Release, said: &dyn Fn(&str)) -> Result<Installed, ReleasedError> {
        let was_here = self.is_installed(release);
        let made_base = !is_built(&self.base(release), release.base_lock());
        if made_base {
            self.build_base(release, said)?;
        }
        if !is_built(&self.release(release), release.lock) {
            self.build_release(release, said)?;
        }
        Ok(Installed {
            release: release.clone(),
            was_here,
            made_base,
            base_bytes: bytes_below(&self.base(release)),
            release_bytes: bytes_below(&self.release(release)),
            folder: self.release(release),
        })
    }

    fn build_base(&self, release: &Release, said: &dyn Fn(&str)) -> Result<(), ReleasedError> {
        let python = find_python()?;
        let place = self.base(release);
        let beside = UnfinishedFolder::new(&place)?;
        let what = format!("the base {}", release.base);
        said(&format!("creating an environment with Python {}", python.version));
        let made =
            Command::new(&python.path).args(["-I", "-m", "venv"]).arg(&beside.path).stdin(Stdio::null()).output();
        let made = made.map_err(|source| ReleasedError::file(&python.path, source))?;
        if !made.status.success() {
            let text = [made.stdout, made.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            return Err(match text.contains("No space left on device") {
                true => ReleasedError::DiskFull { what, folder: beside.path.clone() },
                false => ReleasedError::NoVenv {
                    python: python.path,
                    detail: text.split_whitespace().collect::<Vec<_>>().join(" "),
                },
            });
        }
        let inside = beside.path.join("bin").join("python");
        let is_builder = |line: &&str| BUILDERS.iter().any(|builder| line.starts_with(builder));
        let (builders, packages): (Vec<&str>, Vec<&str>) = release.base_lock().lines().partition(is_builder);
        for lines in [builders, packages] {
            if !lines.is_empty() {
                pip::install((&what, &inside), &lines.join("\n"), None, &beside.path, said)?;
            }
        }
        settle(beside, &place, release.base_lock())
    }

    fn build_release(&self, release: &Release, said: &dyn Fn(&str)) -> Result<(), ReleasedError> {
        let place = self.release(release);
        let beside = UnfinishedFolder::new(&place)?;
        let python = self.python(release);
        pip::install((&release.to_string(), &python), release.lock.trim_end(), Some(&beside.path), &beside.path, said)?;
        settle(beside, &place, release.lock)
    }

    /// Removes a release. Also removes its base if no other release uses it. Returns the number of bytes that were
    /// freed.
    pub fn remove(&self, release: &Release) -> Result<u64, ReleasedError> {
        let folder = self.release(release);
        if !folder.is_dir() {
            return Err(ReleasedError::NotInstalled { name: release.to_string() });
        }
        let mut freed = bytes_below(&folder);
        take_away(&folder)?;
        let is_used = releases().iter().any(|other| other.base == release.base && self.release(other).is_dir());
        let base = self.base(release);
        if !is_used && base.is_dir() {
            freed += bytes_below(&base);
            take_away(&base)?;
        }
        Ok(freed)
    }
}

/// Writes the lock last, so that an environment part with a lock is always complete.
fn settle(beside: UnfinishedFolder, place: &Path, lock: &str) -> Result<(), ReleasedError> {
    let file = beside.path.join(LOCK);
    fs::write(&file, lock).map_err(|source| ReleasedError::file(&file, source))?;
    beside.settle(place)
}

/// Removes the lock first, so that an interrupted removal leaves nothing that looks complete.
fn take_away(folder: &Path) -> Result<(), ReleasedError> {
    let lock = folder.join(LOCK);
    if lock.exists() {
        fs::remove_file(&lock).map_err(|source| ReleasedError::file(&lock, source))?;
    }
    fs::remove_dir_all(folder).map_err(|source| ReleasedError::file(folder, source))?;
    if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) {
        clear_left(parent, &name.to_string_lossy());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> Release {
        releases()[0].clone()
    }

    fn built(store: &Store, release: &Release) {
        for (folder, lock) in [(store.base(release), release.base_lock()), (store.release(release), release.lock)] {
            fs::create_dir_all(&folder).expect("a folder of our own");
            fs::write(folder.join(LOCK), lock).expect("a folder of our own");
        }
    }

    #[test]
    fn a_half_or_an_older_part_is_not_installed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (store, release) = (Store::at(dir.path()), first());
        assert!(!store.is_installed(&release));
        built(&store, &release);
        assert!(store.is_installed(&release));
        fs::write(store.release(&release).join(LOCK), "another lock").expect("a folder of our own");
        assert!(!store.is_installed(&release));
        assert!(!store.list()[0].is_current);
        built(&store, &release);
        fs::remove_file(store.base(&release).join(LOCK)).expect("it was written");
        assert!(!store.is_installed(&release));
        let said = store.command_of(&release).expect_err("its base is half").to_string();
        assert_eq!(said, format!("{release} is not installed; install it with `dryrack outside install {release}`"));
    }

    #[test]
    fn a_base_goes_with_the_last_release_on_it() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::at(dir.path());
        let on_one: Vec<&Release> = releases().iter().filter(|release| release.base == first().base).take(2).collect();
        let [one, other] = on_one[..] else { panic!("a base of one release") };
        built(&store, one);
        built(&store, other);
        store.remove(one).expect("it is there");
        assert!(store.base(other).is_dir() && store.is_installed(other));
        store.remove(other).expect("it is there");
        assert!(!store.base(other).exists());
        assert!(store.remove(other).is_err());
    }

    #[test]
    fn what_a_killed_process_left_is_cleared() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (store, release) = (Store::at(dir.path()), first());
        let place = store.release(&release);
        // No process has this id, because process ids on Linux stay below 2^22.
        let left = place.with_file_name(format!(".{}-{}.4194305.part", release.program, release.version));
        fs::create_dir_all(left.join("numpy")).expect("a folder of our own");
        let beside = UnfinishedFolder::new(&place).expect("a folder of our own");
        assert!(!left.exists() || !Path::new("/proc/self").exists());
        let path = beside.path.clone();
        drop(beside);
        assert!(!path.exists() && !place.exists());
    }
}
