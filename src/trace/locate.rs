//! Finds the files of a named trace, and checks them against the index.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use dryrack_units::Bytes;

use super::error::TraceError;
use super::index::{Index, TraceEntry, TraceFile};
use super::sum;

/// The places in which traces are looked for, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The `traces` folder of the repository. It contains the traces that may be redistributed.
    pub carried: Option<PathBuf>,
    /// The folder that `DRYRACK_DATA` names. It contains a folder `traces`.
    pub data: Option<PathBuf>,
    /// The cache folder. `dryrack trace get` puts the files that it fetches into a folder `traces` there.
    pub cache: Option<PathBuf>,
}

impl Roots {
    /// The places from the environment. `DRYRACK_DATA` gives the data folder. `DRYRACK_CACHE`, `XDG_CACHE_HOME` or
    /// `HOME` gives the cache.
    pub fn from_env(carried: Option<PathBuf>) -> Roots {
        Roots::from_variables(carried, |name| env::var_os(name).map(PathBuf::from))
    }

    fn from_variables(carried: Option<PathBuf>, variable: impl Fn(&str) -> Option<PathBuf>) -> Roots {
        let named = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
        // A relative path in XDG_CACHE_HOME must be ignored (XDG Base Directory Specification 0.8).
        let absolute = |name: &str| named(name).filter(|path| path.is_absolute());
        let cache = named("DRYRACK_CACHE")
            .or_else(|| absolute("XDG_CACHE_HOME").map(|cache| cache.join("dryrack")))
            .or_else(|| absolute("HOME").map(|home| home.join(".cache").join("dryrack")));
        Roots { carried, data: named("DRYRACK_DATA"), cache }
    }

    /// The folders in which `entry` may be, in the order of the search.
    pub fn folders(&self, entry: &TraceEntry) -> Vec<PathBuf> {
        let elsewhere = |root: &PathBuf| root.join("traces");
        let roots = [self.carried.clone(), self.data.as_ref().map(elsewhere), self.cache.as_ref().map(elsewhere)];
        roots.into_iter().flatten().map(|root| root.join(&entry.folder)).collect()
    }

    /// The cache folder of `entry`.
    pub(super) fn cache_folder(&self, entry: &TraceEntry) -> Option<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join("traces").join(&entry.folder))
    }
}

/// A file that exists. Its content has not been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub path: PathBuf,
    /// The checksum of the uncompressed content, according to the index.
    pub sha256: String,
}

/// Finds the file, plain or as `.gz`, in the first place that has it.
pub fn locate(roots: &Roots, entry: &TraceEntry, file: &TraceFile) -> Result<Located, TraceError> {
    let folders = roots.folders(entry);
    match folders.iter().find_map(|folder| file.found_in(folder)) {
        Some(path) => Ok(Located { path, sha256: file.sha256.clone() }),
        None => Err(TraceError::NotHere { trace: entry.name.clone(), file: file.name.clone(), looked: folders }),
    }
}

/// The state of one file of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    pub file: String,
    pub state: FileState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The content is correct according to the index.
    Right {
        path: PathBuf,
    },
    Wrong {
        path: PathBuf,
        found: String,
        expected: String,
    },
    Missing,
}

/// The result of [`verify`] for one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub trace: String,
    pub files: Vec<FileCheck>,
}

impl Checked {
    /// Whether no existing file is wrong; a missing file does not count as wrong.
    pub fn nothing_wrong(&self) -> bool {
        !self.files.iter().any(|check| matches!(check.state, FileState::Wrong { .. }))
    }

    pub fn all_right(&self) -> bool {
        self.files.iter().all(|check| matches!(check.state, FileState::Right { .. }))
    }
}

/// Verifies the checksum of every existing file of the trace `name`.
pub fn verify(index: &Index, roots: &Roots, name: &str) -> Result<Checked, TraceError> {
    let entry = index.trace(name)?;
    let check = |file: &TraceFile| {
        let state = check_first(roots, entry, file)?;
        Ok(FileCheck { file: file.name.clone(), state })
    };
    let files = entry.files.iter().map(check).collect::<Result<Vec<_>, TraceError>>()?;
    Ok(Checked { trace: entry.name.clone(), files })
}

/// The state of the file that [`locate`] returns.
fn check_first(roots: &Roots, entry: &TraceEntry, file: &TraceFile) -> Result<FileState, TraceError> {
    match roots.folders(entry).iter().find_map(|folder| file.found_in(folder)) {
        Some(path) => check_path(path, file),
        None => Ok(FileState::Missing),
    }
}

pub(super) fn check_path(path: PathBuf, file: &TraceFile) -> Result<FileState, TraceError> {
    let found = sum::of_file(&path)?;
    Ok(match found == file.sha256 {
        true => FileState::Right { path },
        false => FileState::Wrong { path, found, expected: file.sha256.clone() },
    })
}

/// One trace of the index, with the number of its files that exist here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub trace: String,
    pub description: String,
    pub licence: String,
    pub source: String,
    /// The total size of all files, uncompressed.
    pub size: Bytes,
    pub files: usize,
    /// The number of files that exist here. Their checksums are not verified: see [`verify`].
    pub here: usize,
}

/// All traces of the index, in its order.
pub fn list(index: &Index, roots: &Roots) -> Vec<Listed> {
    let listed = |entry: &TraceEntry| Listed {
        trace: entry.name.clone(),
        description: entry.description.clone(),
        licence: entry.licence.clone(),
        source: entry.source.clone(),
        size: entry.files.iter().fold(Bytes::ZERO, |sum, file| Bytes::new(sum.get().saturating_add(file.bytes))),
        files: entry.files.len(),
        here: entry.files.iter().filter(|file| locate(roots, entry, file).is_ok()).count(),
    };
    index.traces.iter().map(listed).collect()
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = match (self.here, self.files) {
            (0, _) => format!("missing; `dryrack trace get {}`", self.trace),
            (here, files) if here == files => "here".to_string(),
            (here, files) => format!("{here} of {files} files present; `dryrack trace get {}`", self.trace),
        };
        writeln!(f, "{} ({}, {here})", self.trace, self.size)?;
        write!(f, "  {}\n  licence: {}\n  source: {}", self.description, self.licence, self.source)
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, check) in self.files.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: {}", self.trace, check)?;
        }
        Ok(())
    }
}

impl fmt::Display for FileCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| path.display().to_string();
        match &self.state {
            FileState::Right { path } => write!(f, "{} is right ({})", self.file, shown(path)),
            FileState::Wrong { path, found, expected } => {
                write!(f, "{} is WRONG ({}): sha256 {found}, expected {expected}", self.file, shown(path))
            }
            FileState::Missing => write!(f, "{} is missing", self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces")
    }

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let roots = |variables: &[(&str, &str)]| {
            let variables = variables.to_vec();
            Roots::from_variables(None, move |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        let cache = |variables: &[(&str, &str)]| roots(variables).cache.map(|path| path.display().to_string());
        let home = ("HOME", "/home/ada");
        assert_eq!(cache(&[]), None);
        assert_eq!(cache(&[home]), Some("/home/ada/.cache/dryrack".to_string()));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/var/c")]), Some("/var/c/dryrack".to_string()));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "relative")]), Some("/home/ada/.cache/dryrack".to_string()));
        assert_eq!(cache(&[home, ("DRYRACK_CACHE", "/c")]), Some("/c".to_string()));
        assert_eq!(cache(&[home, ("DRYRACK_CACHE", "")]), Some("/home/ada/.cache/dryrack".to_string()));
        assert_eq!(roots(&[("DRYRACK_DATA", "/d")]).data, Some(PathBuf::from("/d")));
    }

    #[test]
    fn a_trace_is_looked_for_in_the_repository_then_the_data_folder_then_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let at = |part: &str| folder.path().join(part);
        let roots = Roots { carried: Some(at("carried")), data: Some(at("data")), cache: Some(at("cache")) };
        let index = Index::built_in();
        let openb = index.trace("openb").unwrap();
        let file = openb.tasks(Some("cpu037")).unwrap();
        let message = locate(&roots, openb, file).unwrap_err().to_string();
        let places = [at("carried/openb"), at("data/traces/openb"), at("cache/traces/openb")];
        let shown = places.each_ref().map(|place| place.display().to_string()).join(", ");
        assert_eq!(
            message,
            format!(
                "trace openb is missing: no openb_pod_list_cpu037.csv in {shown}; \
                 get it with `dryrack trace get openb`"
            )
        );
        for (place, name) in places.iter().zip(["x.csv.gz", "x.csv", "x.csv"]).rev() {
            let path = place.join(name.replace('x', "openb_pod_list_cpu037"));
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(&path, "").unwrap();
            assert_eq!(locate(&roots, openb, file).unwrap().path, path);
        }
    }

    #[test]
    fn the_carried_log_is_right_and_a_changed_one_is_not() {
        let index = Index::built_in();
        let carried = Roots { carried: Some(repository()), ..Roots::default() };
        let checked = verify(&index, &carried, "gaia").unwrap();
        assert!(checked.all_right(), "{checked}");
        let missing = verify(&index, &carried, "openb").unwrap();
        assert!(missing.nothing_wrong() && !missing.all_right(), "{missing}");

        let folder = tempfile::tempdir().unwrap();
        let gaia = folder.path().join("unilu-gaia-2014");
        std::fs::create_dir(&gaia).unwrap();
        std::fs::write(gaia.join("UniLu-Gaia-2014-2.swf"), "; changed\n").unwrap();
        let changed = Roots { carried: Some(folder.path().to_path_buf()), ..Roots::default() };
        let checked = verify(&index, &changed, "gaia").unwrap();
        assert!(!checked.nothing_wrong());
        assert!(checked.to_string().contains("UniLu-Gaia-2014-2.swf is WRONG ("), "{checked}");
    }

    #[test]
    fn the_list_says_what_is_here() {
        let roots = Roots { carried: Some(repository()), ..Roots::default() };
        let listed = list(&Index::built_in(), &roots);
        let here: Vec<(&str, usize, usize)> = listed.iter().map(|l| (l.trace.as_str(), l.here, l.files)).collect();
        assert_eq!(here, [("gaia", 1, 1), ("openb", 0, 11), ("genai-2026", 0, 2)]);
        assert!(listed[0].to_string().starts_with("gaia (4.6MiB, here)\n  three months of "));
        assert!(listed[1].to_string().starts_with("openb (5.2MiB, missing; `dryrack trace get openb`)\n"));
    }
}
