//! The errors of reading, finding and fetching traces.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The largest number of faults of one file that are kept. Further faults are only counted.
const FAULTS_SHOWN: usize = 20;

/// Why a trace cannot be read, found or fetched. The text follows "failed to …: ".
#[derive(Debug, Error)]
pub enum TraceError {
    /// A field has an invalid value. `column` is the position of the field's first byte in the line, counted from 1.
    #[error("{}:{line}:{column}: expected {expected}, found {found}", file.display())]
    Malformed { file: PathBuf, line: u64, column: u64, expected: String, found: String },

    #[error("{}:{line}:{column}: unknown column `{name}`; {}", file.display(), hint(nearest, valid))]
    UnknownColumn { file: PathBuf, line: u64, column: u64, name: String, nearest: Option<String>, valid: String },

    #[error("{}:{line}: no column `{name}`; all of {valid} are needed", file.display())]
    MissingColumn { file: PathBuf, line: u64, name: String, valid: String },

    #[error("{}: {} faults{}", file.display(), faults.len() as u64 + more, each(faults, *more))]
    Several { file: PathBuf, faults: Vec<TraceError>, more: u64 },

    /// A line is not in the expected form. `problem` says what is wrong.
    #[error("{}:{line}:{column}: {problem}", file.display())]
    BadLine { file: PathBuf, line: u64, column: u64, problem: String },

    /// `like` says which format it is most like, and what it lacks.
    #[error("{}: its first line is of none of the formats {valid}{like}", file.display())]
    UnknownFormat { file: PathBuf, valid: String, like: String },

    #[error("{}: its first line is of sacct's own columns; write the list with `sacct --parsable2`", file.display())]
    SacctColumns { file: PathBuf },

    #[error("{}: is an archive; unpack it, and name one of its files", file.display())]
    Archive { file: PathBuf },

    #[error("{}:{line}: cannot be read: {source}", file.display())]
    Unreadable { file: PathBuf, line: u64, source: io::Error },

    #[error("{}: is empty; expected {expected}", file.display())]
    Empty { file: PathBuf, expected: &'static str },

    #[error("{}: {}", file.display(), why_unopened(source))]
    Unopened { file: PathBuf, source: io::Error },

    #[error("{}: cannot be written: {source}", file.display())]
    Unwritten { file: PathBuf, source: io::Error },

    #[error("{}:{line}:{column}: {problem}", file.display())]
    BadIndex { file: PathBuf, line: usize, column: usize, problem: String },

    #[error("{}: trace {trace}: {problem}", file.display())]
    BadEntry { file: PathBuf, trace: String, problem: String },

    #[error("unknown trace `{name}`; {}", hint(nearest, valid))]
    UnknownTrace { name: String, nearest: Option<String>, valid: String },

    #[error("trace {trace} has no {what} `{name}`; {}", hint(nearest, valid))]
    UnknownList { trace: String, what: &'static str, name: String, nearest: Option<String>, valid: String },

    #[error("trace {trace} contains no tasks: use it as the `usage` of a job")]
    NoTasks { trace: String },

    #[error("trace {trace} contains no GPU usage")]
    NoUsage { trace: String },

    #[error("trace {trace} contains no nodes")]
    NoNodes { trace: String },

    #[error("trace {trace} is missing: no {file} in {}; get it with `dryrack trace get {trace}`", places(looked))]
    NotHere { trace: String, file: String, looked: Vec<PathBuf> },

    #[error("{}: the durations follow from Gavel's {table}, which is neither beside the file nor in a folder above it", file.display())]
    NoThroughputs { file: PathBuf, table: &'static str },

    #[error("{} is not the indexed {trace}: its content has sha256 {found}, expected {expected}", file.display())]
    WrongSum { trace: String, file: PathBuf, found: String, expected: String },

    #[error(
        "{} is damaged (sha256 {found}, expected {expected}) and takes precedence over the cache; remove or replace it",
        file.display()
    )]
    InTheWay { file: PathBuf, found: String, expected: String },

    #[error("there is no folder for traces: set DRYRACK_CACHE, XDG_CACHE_HOME or HOME to an absolute path")]
    NoCache,

    #[error("no {file} or {file}.gz in {}", folder.display())]
    NotInFolder { file: String, folder: PathBuf },

    #[error("cannot download without curl on the PATH; download {address} yourself and put it at {}", into.display())]
    NoCurl { address: String, into: PathBuf },

    #[error("failed to download {address}: {detail}")]
    Download { address: String, detail: String },

    #[error("the content of {address} has sha256 {found}, expected {expected}; it was not stored")]
    WrongDownload { address: String, found: String, expected: String },

    #[error(
        "{why}\ndownload it by hand from one of its addresses and put it at {}, plain, or with .gz added if it is \
         compressed; `dryrack trace verify` checks it",
        into.display()
    )]
    NotFetched { why: Box<TraceError>, into: PathBuf },

    /// Every address of a file failed, or several files failed.
    #[error("{}", joined(attempts))]
    AllFailed { attempts: Vec<TraceError> },
}

impl TraceError {
    /// Converts faults to an error. A single fault stays itself, and several become [`TraceError::Several`]. `faults`
    /// must not be empty.
    pub(super) fn from_faults(file: &Path, faults: Faults) -> TraceError {
        let Faults { mut shown, more } = faults;
        match (shown.len(), more) {
            (1, 0) => shown.remove(0),
            _ => TraceError::Several { file: file.to_path_buf(), faults: shown, more },
        }
    }

    /// Converts failures to an error. A single failure stays itself, and several become [`TraceError::AllFailed`].
    pub(super) fn from_attempts(mut attempts: Vec<TraceError>) -> TraceError {
        match attempts.len() {
            1 => attempts.remove(0),
            _ => TraceError::AllFailed { attempts },
        }
    }
}

/// The faults of one file. They are collected while the file is read to its end.
#[derive(Debug, Default)]
pub(super) struct Faults {
    shown: Vec<TraceError>,
    more: u64,
}

impl Faults {
    pub(super) fn push(&mut self, fault: TraceError) {
        match self.shown.len() < FAULTS_SHOWN {
            true => self.shown.push(fault),
            false => self.more += 1,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

/// The valid name that is most similar to `name`, if one is similar enough.
pub(super) fn nearest<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // On a tie, take the first valid name, so that the hint depends only on the order of the list.
    let mut best: Option<(usize, &str)> = None;
    for candidate in valid {
        let distance = strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
        let close = distance <= candidate.chars().count().max(3) / 2;
        if close && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate.to_string())
}

fn hint(nearest: &Option<String>, valid: &str) -> String {
    match nearest {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("expected one of {valid}"),
    }
}

fn each(faults: &[TraceError], more: u64) -> String {
    let mut text: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

fn joined(attempts: &[TraceError]) -> String {
    attempts.iter().map(TraceError::to_string).collect::<Vec<_>>().join("\n")
}

fn places(looked: &[PathBuf]) -> String {
    let shown: Vec<String> = looked.iter().map(|place| place.display().to_string()).collect();
    if shown.is_empty() { "any folder (none is known)".to_string() } else { shown.join(", ") }
}

/// Why a file could not be opened, in words that do not depend on the system.
fn why_unopened(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "does not exist".to_string(),
        io::ErrorKind::IsADirectory => "is a folder; name a file in it".to_string(),
        io::ErrorKind::PermissionDenied => "cannot be read: permission denied".to_string(),
        _ => format!("cannot be read: {source}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_unlike_any_other_gets_no_guess() {
        let valid = ["gpu_milli", "gpu_spec", "num_gpu"];
        assert_eq!(nearest("gpu_mili", valid), Some("gpu_milli".to_string()));
        assert_eq!(nearest("GPU_SPEC", valid), Some("gpu_spec".to_string()));
        assert_eq!(nearest("wavelength", valid), None);
    }
}
