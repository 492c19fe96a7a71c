//! Compares decisions with stored ones, to show what a change of the code altered.
//!
//! A baseline is a folder with one file for each scenario. The file holds the digest and the scheduler's decisions of
//! each run, one decision on each line. Long files are compressed. If the digests are equal, nothing else is compared.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::case::{Case, Status, Tested};
use crate::exit::Failure;
use crate::output::WholeFile;

const FIRST_LINE: &str = "dryrack baseline 1";
/// The size in bytes above which a file is compressed.
const PLAIN_BYTES: usize = 64 * 1024;

/// The result of comparing a run with the baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Change {
    /// The baseline does not have this run.
    New,
    Same,
    /// The baseline has this run, but the scenario or this run of it no longer exists.
    Gone,
    /// The decisions are the same, but the log differs in something else.
    LogOnly,
    /// The first decision that differs. `None` means that this side has no more decisions.
    Decision {
        number: usize,
        was: Option<String>,
        now: Option<String>,
    },
}

/// One run, and the result of comparing it with the baseline.
pub struct ComparedRun {
    /// The scenario file.
    pub file: PathBuf,
    /// The path of the file, the cell, and the profile of a reproduction.
    pub name: String,
    pub change: Change,
}

/// Every run that was compared.
pub struct Compared {
    pub runs: Vec<ComparedRun>,
    pub was_updated: bool,
}

impl Compared {
    pub fn differs(&self) -> bool {
        !self.was_updated && self.runs.iter().any(|run| run.change.is_other())
    }
}

impl Change {
    pub fn is_other(&self) -> bool {
        !matches!(self, Change::Same | Change::New)
    }

    /// The differences, in one to three lines; empty if the run is new or equal to the baseline.
    pub fn lines(&self) -> Vec<String> {
        let described = |line: &Option<String>| line.clone().unwrap_or_else(|| "(nothing more)".to_string());
        match self {
            Change::Same | Change::New => Vec::new(),
            Change::Gone => vec!["is stored but no longer exists".to_string()],
            Change::LogOnly => vec!["has the same decisions, but its log differs".to_string()],
            Change::Decision { number, was, now } => {
                vec![
                    format!("decision {number}"),
                    format!("  was  {}", described(was)),
                    format!("  now  {}", described(now)),
                ]
            }
        }
    }
}

/// One run in the baseline.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stored {
    digest: String,
    lines: Vec<String>,
}

/// The arguments: the paths, whether all runs of the files are included and unaltered, and whether to update the
/// baseline.
pub struct BaselineRequest<'a> {
    pub paths: &'a [PathBuf],
    pub is_whole: bool,
    pub updates: bool,
}

/// Compares every run with the baseline in `dir`. Updates the baseline if the user asks for it.
pub fn compare(dir: &Path, tested: &[Tested], asked: &BaselineRequest<'_>) -> Result<Compared, Failure> {
    let updates = asked.updates;
    if !updates && !dir.is_dir() {
        let why = "is not a folder; store a baseline first with --update-baseline";
        return Err(Failure::file(dir, why));
    }
    let mut runs = Vec::new();
    for tested in tested {
        let path = place(dir, &tested.file);
        let mut stored = read(&path)?;
        if asked.is_whole && tested.cases.iter().all(is_run) {
            let labels: Vec<String> = tested.cases.iter().map(label).collect();
            let gone: Vec<String> = stored.keys().filter(|known| !labels.contains(known)).cloned().collect();
            for label in gone {
                let run = label.trim_start_matches('-').replace(" under ", " reproduced under ");
                let name = format!("{} {}", tested.file.display(), run.trim());
                runs.push(ComparedRun { file: tested.file.clone(), name, change: Change::Gone });
                stored.remove(&label);
            }
        }
        for case in tested.cases.iter().filter(|case| is_run(case)) {
            let change = change(stored.get(&label(case)), case);
            runs.push(ComparedRun { file: tested.file.clone(), name: case.name(&tested.file), change });
        }
        if updates && tested.cases.iter().any(is_run) {
            for case in tested.cases.iter().filter(|case| is_run(case)) {
                let digest = case.digest.clone().unwrap_or_default();
                stored.insert(label(case), Stored { digest, lines: case.decisions.clone() });
            }
            write(&path, &stored)?;
        }
    }
    let gone = if asked.is_whole { gone(dir, asked.paths) } else { Vec::new() };
    for (file, path) in gone {
        runs.push(ComparedRun { name: file.display().to_string(), file, change: Change::Gone });
        if updates {
            std::fs::remove_file(&path).map_err(|error| Failure::file(&path, format!("cannot be removed: {error}")))?;
        }
    }
    Ok(Compared { runs, was_updated: updates })
}

/// Scenario files below `paths` that are in the baseline but no longer exist. Each is paired with its file in the
/// baseline.
fn gone(dir: &Path, paths: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
                continue;
            }
            let text = path.to_string_lossy();
            let Some(stem) = text.strip_suffix(".gz").unwrap_or(&text).strip_suffix(".baseline") else { continue };
            // The path inside the baseline shows below which of the given paths the scenario file was.
            let stem = Path::new(stem);
            let below = |asked: &PathBuf| Some(asked.join(stem.strip_prefix(place_of_folder(dir, asked)).ok()?));
            if let Some(file) = paths.iter().filter(|path| path.is_dir()).find_map(below)
                && !file.exists()
            {
                found.push((file, path));
            }
        }
    }
    found.sort();
    found
}

fn is_run(case: &Case) -> bool {
    matches!(case.status, Status::Passed | Status::Failed) && case.digest.is_some()
}

/// The name of a run inside the file of the baseline, such as `[profile=spread] under gpustack-0.5-dev`, or `-`.
fn label(case: &Case) -> String {
    let cell = if case.cell.is_empty() { "-".to_string() } else { format!("[{}]", case.cell) };
    match &case.reproduces {
        Some(profile) => format!("{cell} under {profile}"),
        None => cell,
    }
}

fn change(stored: Option<&Stored>, case: &Case) -> Change {
    let Some(stored) = stored else { return Change::New };
    if case.digest.as_deref() == Some(stored.digest.as_str()) {
        return Change::Same;
    }
    let (was, now) = (&stored.lines, &case.decisions);
    let number = was.iter().zip(now).position(|(was, now)| was != now).unwrap_or(was.len().min(now.len()));
    match (was.get(number), now.get(number)) {
        (None, None) => Change::LogOnly,
        (was, now) => Change::Decision { number: number + 1, was: was.cloned(), now: now.cloned() },
    }
}

/// The path of the baseline file for a scenario file, below `dir`.
fn place(dir: &Path, file: &Path) -> PathBuf {
    let path = place_of_folder(dir, file);
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    path.with_file_name(format!("{name}.baseline"))
}

fn place_of_folder(dir: &Path, file: &Path) -> PathBuf {
    let mut path = dir.to_path_buf();
    for part in file.components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => path.push("up"),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    path
}

fn compressed(path: &Path) -> PathBuf {
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    path.with_file_name(format!("{name}.gz"))
}

fn read(path: &Path) -> Result<BTreeMap<String, Stored>, Failure> {
    let packed = compressed(path);
    let (path, text) = match (std::fs::read_to_string(path), std::fs::File::open(&packed)) {
        (Ok(text), _) => (path, Ok(text)),
        (Err(_), Ok(file)) => {
            let mut text = String::new();
            let read = flate2::read::GzDecoder::new(file).read_to_string(&mut text);
            (packed.as_path(), read.map(|_| text))
        }
        (Err(error), Err(_)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        (Err(error), Err(_)) => (path, Err(error)),
    };
    let text = text.map_err(|error| Failure::file(path, format!("cannot be read: {error}")))?;
    let refuse = || Failure::file(path, "is not a baseline of this version; store it again with --update-baseline");
    parse(&text).ok_or_else(refuse)
}

fn parse(text: &str) -> Option<BTreeMap<String, Stored>> {
    let mut lines = text.lines();
    (lines.next()? == FIRST_LINE).then_some(())?;
    let mut all = BTreeMap::new();
    let mut open: Option<(String, Stored)> = None;
    for line in lines {
        if let Some(label) = line.strip_prefix("run ") {
            let (label, digest) = label.rsplit_once(' ')?;
            all.extend(open.replace((label.to_string(), Stored { digest: digest.to_string(), lines: Vec::new() })));
        } else {
            open.as_mut()?.1.lines.push(line.strip_prefix("  ")?.to_string());
        }
    }
    all.extend(open);
    Some(all)
}

fn written(stored: &BTreeMap<String, Stored>) -> String {
    let mut text = format!("{FIRST_LINE}\n");
    for (label, Stored { digest, lines }) in stored {
        text.push_str(&format!("run {label} {digest}\n"));
        lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

fn write(path: &Path, stored: &BTreeMap<String, Stored>) -> Result<(), Failure> {
    let text = written(stored);
    let unwritable = |error: std::io::Error| Failure::file(path, format!("cannot be written: {error}"));
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(unwritable)?;
    let packed = compressed(path);
    let other = match text.len() > PLAIN_BYTES {
        true => {
            // The header must not contain the time, so that equal decisions give equal bytes.
            let mut encoder = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::default());
            encoder.write_all(text.as_bytes()).map_err(unwritable)?;
            WholeFile::write(&packed, &encoder.finish().map_err(unwritable)?)?;
            path
        }
        false => {
            WholeFile::write(path, text.as_bytes())?;
            &packed
        }
    };
    match std::fs::remove_file(other) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unwritable(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_reads_back() {
        let stored = |digest: &str, lines: &[&str]| Stored {
            digest: digest.to_string(),
            lines: lines.iter().map(|line| line.to_string()).collect(),
        };
        let all = BTreeMap::from([
            ("-".to_string(), stored("ab", &["10s chat placed on alpha/0", ""])),
            ("[profile=x y] under z".to_string(), stored("cd", &[])),
        ]);
        assert_eq!(parse(&written(&all)), Some(all));
        assert_eq!(parse("dryrack baseline 2\n"), None);
    }

    #[test]
    fn each_file_has_a_place_of_its_own_below_the_folder() {
        let rows = [
            ("a.yaml", "dir/a.yaml.baseline"),
            ("./b/a.yaml", "dir/b/a.yaml.baseline"),
            ("../a.yaml", "dir/up/a.yaml.baseline"),
            ("/x/a.yaml", "dir/x/a.yaml.baseline"),
        ];
        for (file, expected) in rows {
            assert_eq!(place(Path::new("dir"), Path::new(file)), Path::new(expected), "{file}");
        }
    }
}
