//! Reads files of records: one JSON object in each line, plain or gzip.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde_json::Value;
use thiserror::Error;

use super::KINDS;
use super::account::Account;
use super::kind::{RecordFields, RecordKind};
use super::profiles::Profiles;

/// The largest length of a line in bytes. A longer line is not a record, so any file can be read in bounded memory.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// The largest number of faults that are reported for one file.
const FAULTS_MAX: usize = 20;

/// Why the answers of a file cannot be compared. Collects the faults of a file up to a limit.
#[derive(Debug, Error)]
pub enum ConformError {
    #[error("{}", why_unreadable(.0))]
    Unreadable(#[from] std::io::Error),
    #[error("has no recorded decisions")]
    Empty,
    /// The different faults, each with its first line and the number of lines that have it.
    #[error("{}", describe(.0))]
    Lines(Vec<Fault>),
}

fn why_unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist; expected a file of recorded decisions".to_string(),
        std::io::ErrorKind::IsADirectory => "is a folder; name a file of recorded decisions in it".to_string(),
        _ => format!("cannot be read: {error}"),
    }
}

/// A fault of one line. Other lines with the same fault are only counted.
#[derive(Debug)]
pub struct Fault {
    line: u64,
    text: String,
    lines: u64,
}

fn describe(faults: &[Fault]) -> String {
    let described = |Fault { line, text, lines }: &Fault| match lines - 1 {
        0 => format!("line {line}: {text}"),
        others => format!("line {line}: {text} (and {others} more lines)"),
    };
    faults.iter().map(described).collect::<Vec<String>>().join("\n  ")
}

/// Compares every answer of the file and adds the results to the account.
pub fn conform(path: &Path, profiles: &mut Profiles, account: &mut Account) -> Result<(), ConformError> {
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    account.records += each_line(path, |number, line| {
        let (kind, fields) = parse(line)?;
        for compared in kind.compare(&fields, &file_name, profiles)? {
            account.add(kind.name(), &path.display().to_string(), number, compared);
        }
        Ok(())
    })?;
    Ok(())
}

/// Calls `each` with the number and the bytes of every line that is not blank. Returns the number of these lines.
/// Collects the faults that `each` returns.
pub(super) fn each_line(
    path: &Path,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), String>,
) -> Result<u64, ConformError> {
    let mut input = open(path)?;
    let (mut faults, mut records, mut number) = (Faults::default(), 0, 0);
    let mut line = Vec::new();
    while !faults.are_many() {
        line.clear();
        number += 1;
        if (&mut input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            faults.add(number, format!("is longer than {LINE_BYTES_MAX} bytes"));
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        records += 1;
        if let Err(text) = each(number, &line) {
            faults.add(number, text);
        }
    }
    match records {
        0 if faults.0.is_empty() => Err(ConformError::Empty),
        _ => faults.into_result().map(|()| records),
    }
}

/// The faults of lines; equal faults are stored once.
#[derive(Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub fn add(&mut self, line: u64, text: String) {
        match self.0.iter_mut().find(|known| known.text == text) {
            Some(known) => known.lines += 1,
            None => self.0.push(Fault { line, text, lines: 1 }),
        }
    }

    pub fn are_many(&self) -> bool {
        self.0.len() == FAULTS_MAX
    }

    pub fn into_result(self) -> Result<(), ConformError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConformError::Lines(self.0)) }
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, std::io::Error> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    let mut bytes = BufReader::new(file);
    let gzip = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if gzip { Box::new(BufReader::new(MultiGzDecoder::new(bytes))) } else { Box::new(bytes) })
}

/// Parses one record and finds the record's kind.
pub(super) fn parse(line: &[u8]) -> Result<(&'static dyn RecordKind, RecordFields), String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // Drop serde_json's line number. It counts within this line and not within the file.
        let message = text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        format!("not JSON: {message}, at column {}", error.column())
    })?;
    let Value::Object(fields) = value else { return Err("expected a record such as {\"id\": ...}".to_string()) };
    let kind = KINDS.iter().find(|kind| kind.describes(&fields)).ok_or_else(|| unknown(&fields))?;
    Ok((*kind, fields))
}

/// The message for a record of an unknown kind. It suggests the kind that shares the most fields with the record.
fn unknown(record: &RecordFields) -> String {
    let has = |field: &&&str| record.contains_key(**field);
    let nearest = KINDS.iter().max_by_key(|kind| kind.fields().iter().filter(has).count());
    // One shared field may be a coincidence.
    let nearest = nearest.filter(|kind| kind.fields().iter().filter(has).count() > 1);
    match nearest {
        Some(kind) => {
            let missing: Vec<&str> = kind.fields().iter().filter(|field| !has(field)).copied().collect();
            format!("of no known kind; a record of kind `{}` has {} besides", kind.name(), missing.join(", "))
        }
        None => {
            let known: Vec<String> =
                KINDS.iter().map(|kind| format!("`{}` has {}", kind.name(), kind.fields().join(", "))).collect();
            format!("of no known kind; {}", known.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_record_is_told_why() {
        let rows = [
            ("{\"id\"", "not JSON: EOF while parsing an object, at column 5"),
            ("[]", "expected a record such as {\"id\": ...}"),
            (
                "{\"samples_ms\": [], \"horizon_s\": 3}",
                "of no known kind; a record of kind `utilization` has time_window_s, min_gpu_utilization, \
                 eval_every_s, answer besides",
            ),
        ];
        for (line, wanted) in rows {
            let fault = parse(line.as_bytes()).map(|_| ()).expect_err(line);
            assert_eq!(fault, wanted, "{line}");
        }
    }
}
