//! Compares decisions with stored ones, to show what a change of the code altered.
//!
//! A baseline is a folder with one file for each scenario. The file holds the digest and the scheduler's decisions of
//! each run, one decision on each line. Long files are compressed. If the digests are equal, nothing else is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::case::{Case, Status, Tested};
use crate::exit::Failure;
use crate::explain::brief;
use crate::output::WholeFile;
use dryrack_engine::{Records, RunOptions, explain, run};
use dryrack_ids::JobId;
use dryrack_rehearse::names;
use dryrack_scenario::load;
use dryrack_units::SimTime;

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
        /// How many later decisions differ too.
        others: usize,
        /// The line of the job in the scenario file, or that of the title if the job is not written there.
        line: u32,
        /// Why the job waits or where it was placed, as `explain` says it of the new run.
        why: Vec<String>,
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

    /// The line of the file to which the change belongs.
    pub fn line(&self) -> u32 {
        match self {
            Change::Decision { line, .. } => *line,
            Change::New | Change::Same | Change::Gone | Change::LogOnly => 1,
        }
    }

    /// The differences, in a few lines; empty if the run is new or equal to the baseline.
    pub fn lines(&self) -> Vec<String> {
        let described = |line: &Option<String>| line.clone().unwrap_or_else(|| "(nothing more)".to_string());
        match self {
            Change::Same | Change::New => Vec::new(),
            Change::Gone => vec!["is stored but no longer exists".to_string()],
            Change::LogOnly => vec!["has the same decisions, but its log differs".to_string()],
            Change::Decision { number, was, now, others, why, .. } => {
                let head = [
                    format!("decision {number}"),
                    format!("  was  {}", described(was)),
                    format!("  now  {}", described(now)),
                ];
                let others = match others {
                    0 => None,
                    1 => Some("  and 1 later decision differs".to_string()),
                    _ => Some(format!("  and {others} later decisions differ")),
                };
                head.into_iter().chain(why.iter().map(|line| format!("  {line}"))).chain(others).collect()
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

/// The arguments: the paths, whether all runs of the files are included and unaltered, and which runs to store.
pub struct BaselineRequest<'a> {
    pub paths: &'a [PathBuf],
    pub is_whole: bool,
    pub updates: Updates<'a>,
}

/// Which runs are stored in the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates<'a> {
    None,
    All,
    /// Those with these names.
    Only(&'a BTreeSet<String>),
}

impl Updates<'_> {
    /// Whether any run of this scenario file may be stored.
    fn concern(self, file: &Path) -> bool {
        match self {
            Updates::None => false,
            Updates::All => true,
            // The name of a run begins with its file.
            Updates::Only(names) => names.iter().any(|name| name.starts_with(&file.display().to_string())),
        }
    }

    fn includes(self, name: &str) -> bool {
        match self {
            Updates::None => false,
            Updates::All => true,
            Updates::Only(names) => names.contains(name),
        }
    }
}

/// Compares every run with the baseline in `dir`, and stores those that the user asks for.
pub fn compare(dir: &Path, tested: &[Tested], asked: &BaselineRequest<'_>) -> Result<Compared, Failure> {
    let updates = asked.updates;
    if updates == Updates::None && !dir.is_dir() {
        let why = "is not a folder; store a baseline first with --update-baseline";
        return Err(Failure::file(dir, why));
    }
    let mut runs = Vec::new();
    let mut explained = 0;
    for tested in tested {
        let path = place(dir, &tested.file);
        // Lock the file before it is read, so that two processes that store runs in it do not undo each other.
        let file = updates.concern(&tested.file).then(|| begin(&path)).transpose()?;
        let mut stored = read(&path)?;
        let mut is_stored_anew = false;
        if asked.is_whole && tested.cases.iter().all(is_run) {
            let labels: Vec<String> = tested.cases.iter().map(label).collect();
            let gone: Vec<String> = stored.keys().filter(|known| !labels.contains(known)).cloned().collect();
            for label in gone {
                let run = label.trim_start_matches('-').replace(" under ", " reproduced under ");
                let name = format!("{} {}", tested.file.display(), run.trim());
                if updates.includes(&name) {
                    stored.remove(&label);
                    is_stored_anew = true;
                }
                runs.push(ComparedRun { file: tested.file.clone(), name, change: Change::Gone });
            }
        }
        for case in tested.cases.iter().filter(|case| is_run(case)) {
            let (label, name) = (label(case), case.name(&tested.file));
            let mut change = change(stored.get(&label), case);
            if matches!(change, Change::Decision { .. }) && explained < EXPLAINED {
                explained += 1;
                explain_change(&tested.file, case, &mut change);
            }
            if updates.includes(&name) {
                let digest = case.digest.clone().unwrap_or_default();
                stored.insert(label, Stored { digest, lines: case.decisions.clone() });
                is_stored_anew = true;
            }
            runs.push(ComparedRun { file: tested.file.clone(), name, change });
        }
        if let Some(file) = file.filter(|_| is_stored_anew) {
            write(file, &path, &stored)?;
        }
    }
    let gone = if asked.is_whole { gone(dir, asked.paths) } else { Vec::new() };
    for (file, path) in gone {
        let name = file.display().to_string();
        if updates.includes(&name) {
            std::fs::remove_file(&path).map_err(|error| Failure::file(&path, format!("cannot be removed: {error}")))?;
        }
        runs.push(ComparedRun { name, file, change: Change::Gone });
    }
    Ok(Compared { runs, was_updated: updates != Updates::None })
}

/// The number of changes that are explained. Each is run once more for this.
const EXPLAINED: usize = 20;

/// Adds to a changed decision where its job is in the file, and why the new run decides so.
fn explain_change(file: &Path, case: &Case, change: &mut Change) {
    let Change::Decision { was, now, line, why, .. } = change else { return };
    // A decision begins with its time and its job: `10s chat[1] #2 placed on alpha/0`.
    let Some(mut words) = now.as_ref().or(was.as_ref()).map(|decision| decision.split(' ')) else { return };
    let (Some(at), Some(subject)) = (words.next().and_then(|at| at.parse::<SimTime>().ok()), words.next()) else {
        return;
    };
    let job = subject.split('[').next().unwrap_or(subject);
    *line = line_of(file, job);
    let Some(Ok(loaded)) = case.rerun.as_ref().map(|overrides| load(file, &overrides.lower(file))) else { return };
    // A scheduler in another process is not started again.
    if loaded.outside.is_some() && case.kept.is_none() {
        return;
    }
    let rehearsal = loaded.rehearsal;
    let names = names(&rehearsal);
    let Some(job) = names.jobs.find(job).map(JobId::new) else { return };
    let mut again = Records::default();
    let records = case.kept.as_ref().unwrap_or_else(|| {
        // The same run has ended well a moment ago.
        run(&rehearsal, RunOptions::default(), &mut [&mut again]);
        &again
    });
    let explained = explain(Arc::clone(&rehearsal.profile), rehearsal.seed, &records.0, (job, None), Some(at));
    if let (Ok(explained), Some(arrival)) = (explained, rehearsal.arrivals.get(job.index())) {
        *why = brief(&explained, &arrival.spec.demand, Some(at), &names);
    }
}

/// The line on which a job is named in the scenario file; if it is not, the line of the title.
fn line_of(file: &Path, job: &str) -> u32 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let is_word = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    let names = |line: &str| {
        let after = line.split_once("name:").map_or("", |(_, after)| after.trim_start());
        after.trim_start_matches(['"', '\'']).strip_prefix(job).is_some_and(|rest| !rest.starts_with(is_word))
    };
    let line = text.lines().position(names).or_else(|| text.lines().position(|line| line.starts_with("scenario:")));
    line.map_or(1, |line| line as u32 + 1)
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
        (first_was, first_now) => {
            let (was, now) = (was.get(number + 1..).unwrap_or_default(), now.get(number + 1..).unwrap_or_default());
            let others = (0..was.len().max(now.len())).filter(|place| was.get(*place) != now.get(*place)).count();
            let (was, now) = (first_was.cloned(), first_now.cloned());
            Change::Decision { number: number + 1, was, now, others, line: 1, why: Vec::new() }
        }
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

/// Begins to write a file of the baseline, and locks it.
fn begin(path: &Path) -> Result<WholeFile, Failure> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|error| Failure::uncreated(folder, &error))?;
    WholeFile::create(path)
}

fn write(mut file: WholeFile, path: &Path, stored: &BTreeMap<String, Stored>) -> Result<(), Failure> {
    let text = written(stored);
    let unwritable = |error: std::io::Error| Failure::file(path, format!("cannot be written: {error}"));
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
            let written = file.write_all(text.as_bytes());
            file.keep(written)?;
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
