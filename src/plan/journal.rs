//! The journal of finished runs, written line by line. If the process is killed, only the runs in progress are lost.
//!
//! The first line identifies the plan. Every other line is one run, with a checksum as its last field: a damaged digit
//! would otherwise change the answer of the plan. If the process was killed while it wrote a line, the last line is
//! incomplete and is cut off. Lines are in the order in which runs end, so the journal of a finished plan is rewritten in
//! the order of the alternatives.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::locked_file::open_locked;
use super::plan_run::PlanRun;
use dryrack_planted::planted;
use dryrack_scenario::PlanFile;

/// Runs by alternative and seed.
pub type Runs = BTreeMap<(usize, u64), PlanRun>;

/// The first line of a journal. A journal belongs to a plan only if this line has the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanHeader {
    pub dryrack: String,
    pub plan: String,
    /// The BLAKE3 hash of the plan's text and of its inputs: see [`super::InputHash`].
    pub input: String,
}

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("{}: cannot be read or written: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} contains runs of another plan, or of another version of the plan or of dryrack", path.display())]
    OfAnother { path: PathBuf },
    #[error("{}:{line}: not a run of a plan: {what}", path.display())]
    NoRun { path: PathBuf, line: usize, what: String },
    #[error("{}:{line}: not a run of this plan: {what}", path.display())]
    NotOfPlan { path: PathBuf, line: usize, what: String },
    #[error(
        "{}:{line}: has no checksum: it is damaged, or an earlier version wrote it; without --resume, the plan begins anew",
        path.display()
    )]
    NoChecksum { path: PathBuf, line: usize },
    #[error("{}:{line}: was changed after it was written: its checksum differs", path.display())]
    Altered { path: PathBuf, line: usize },
    #[error("{} is being written by another process", path.display())]
    InUse { path: PathBuf },
}

/// A journal that is open for appending runs. It is locked until it is dropped or the process ends.
pub struct Journal {
    path: PathBuf,
    lines: Mutex<WholeLines>,
}

impl Journal {
    /// Opens or creates the journal, and returns the runs in it. Fails if another process has it open.
    pub fn open(path: &Path, header: &PlanHeader, plan: &PlanFile) -> Result<(Journal, Runs), JournalError> {
        let failed = |source| JournalError::Io { path: path.to_path_buf(), source };
        let opened = open_locked(path).map_err(failed)?;
        let mut file = opened.ok_or_else(|| JournalError::InUse { path: path.to_path_buf() })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        // Text after the last line break is an incomplete line.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let held = if whole == 0 { BTreeMap::new() } else { read(path, &bytes[..whole], (header, plan))? };
        let mut lines = WholeLines { file, whole: whole as u64 };
        lines.cut().map_err(failed)?;
        if whole == 0 {
            lines.add(&line(header)).map_err(failed)?;
        }
        Ok((Journal { path: path.to_path_buf(), lines: Mutex::new(lines) }, held))
    }

    /// Appends a run. It is kept even if the process is then killed.
    pub fn add(&self, run: &PlanRun) -> Result<(), JournalError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.add(&summed(run)).map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    /// The complete journal in the order of the alternatives. Its bytes do not depend on the order in which the runs
    /// ended.
    pub fn sorted(header: &PlanHeader, runs: &Runs) -> Vec<u8> {
        let mut bytes = line(header);
        runs.values().for_each(|run| bytes.extend(summed(run)));
        bytes
    }

    /// Locks the journal, if there is one, so that it can be replaced. Fails if another process has it open.
    pub fn reserve(path: &Path) -> Result<Option<File>, JournalError> {
        if !path.exists() {
            return Ok(None);
        }
        let opened = open_locked(path).map_err(|source| JournalError::Io { path: path.to_path_buf(), source })?;
        opened.map(Some).ok_or_else(|| JournalError::InUse { path: path.to_path_buf() })
    }

    /// The runs in the journal of another part of the same plan, for merging.
    pub fn read_only(path: &Path, header: &PlanHeader, plan: &PlanFile) -> Result<Runs, JournalError> {
        let bytes = std::fs::read(path).map_err(|source| JournalError::Io { path: path.to_path_buf(), source })?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        read(path, &bytes[..whole], (header, plan))
    }
}

/// A file of complete lines.
struct WholeLines {
    file: File,
    /// The length of the complete lines, in bytes.
    whole: u64,
}

impl WholeLines {
    /// Appends a line. If the disk holds only a part of it, the part is removed: runs that end later must not continue
    /// this line.
    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line);
        match written {
            Ok(()) => self.whole += line.len() as u64,
            // Making a file shorter needs no free space. The first error is the one to report.
            Err(_) => self.cut().unwrap_or(()),
        }
        written
    }

    /// Removes what follows the complete lines.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.whole)?;
        self.file.seek(SeekFrom::Start(self.whole)).map(|_| ())
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("it has a JSON form");
    line.push(b'\n');
    line
}

/// What comes before and after the checksum of a run, and its length.
const BEFORE_SUM: &str = ",\"sum\":\"";
const AFTER_SUM: &str = "\"}";
const SUM: usize = 16;

/// The line of a run. Its last field is the checksum of the line without this field.
fn summed(run: &PlanRun) -> Vec<u8> {
    let mut line = serde_json::to_vec(run).expect("it has a JSON form");
    let sum = sum(&line);
    line.pop();
    line.extend(format!("{BEFORE_SUM}{sum}{AFTER_SUM}\n").bytes());
    line
}

/// The first digits of the BLAKE3 hash.
fn sum(line: &[u8]) -> String {
    blake3::hash(line).to_hex()[..SUM].to_string()
}

/// The line of a run without its checksum, and the checksum; an empty one if the line has none.
fn without_sum(line: &[u8]) -> (Vec<u8>, &[u8]) {
    let whole = || {
        let rest = line.strip_suffix(AFTER_SUM.as_bytes())?;
        let (rest, sum) = rest.split_at_checked(rest.len().checked_sub(SUM)?)?;
        Some(([rest.strip_suffix(BEFORE_SUM.as_bytes())?, b"}"].concat(), sum))
    };
    whole().unwrap_or_else(|| (line.to_vec(), &[]))
}

fn no_run(path: &Path, line: usize, error: &serde_json::Error) -> JournalError {
    JournalError::NoRun { path: path.to_path_buf(), line, what: error.to_string() }
}

fn read(path: &Path, bytes: &[u8], (header, plan): (&PlanHeader, &PlanFile)) -> Result<Runs, JournalError> {
    let mut lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let first = lines.next().map_or(&[][..], |(_, line)| line);
    let own: PlanHeader = serde_json::from_slice(first).map_err(|error| no_run(path, 1, &error))?;
    if own != *header && !planted!(JournalOfAnotherPlan) {
        return Err(JournalError::OfAnother { path: path.to_path_buf() });
    }
    let mut held = BTreeMap::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let (line, stated) = without_sum(line);
        let run: PlanRun = serde_json::from_slice(&line).map_err(|error| no_run(path, number + 1, &error))?;
        if let Some(what) = misfit(&run, plan) {
            return Err(JournalError::NotOfPlan { path: path.to_path_buf(), line: number + 1, what });
        }
        if stated.is_empty() {
            return Err(JournalError::NoChecksum { path: path.to_path_buf(), line: number + 1 });
        }
        if stated != sum(&line).as_bytes() {
            return Err(JournalError::Altered { path: path.to_path_buf(), line: number + 1 });
        }
        held.insert((run.cell, run.seed), run);
    }
    Ok(held)
}

/// Why a run of a journal cannot belong to this plan; `None` if it can.
fn misfit(run: &PlanRun, plan: &PlanFile) -> Option<String> {
    let (alternatives, constraints) = (plan.cells(), plan.asked.len());
    if run.cell >= alternatives && !planted!(InventedAlternative) {
        Some(format!("alternative {}, counted from 0, of {alternatives}", run.cell))
    } else if !plan.seeds.contains(&run.seed) {
        Some(format!("seed {}", run.seed))
    } else if run.constraints.len() != constraints {
        Some(format!("{} constraints instead of {constraints}", run.constraints.len()))
    } else {
        None
    }
}
