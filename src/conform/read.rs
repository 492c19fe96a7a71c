//! Files of records: one JSON object to a line, plain or gzip.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde_json::Value;
use thiserror::Error;

use super::account::Account;
use super::{KINDS, Profiles, RecordFields};

/// A longer line is no record: a bound on memory whatever the file.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Faults of one file that are told.
const FAULTS_MAX: usize = 20;

/// Why a file cannot be asked again: all that is wrong with it, up to a number.
#[derive(Debug, Error)]
pub enum ConformError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("has no records")]
    Empty,
    /// Each fault with its first line and how many lines have it.
    #[error("{}", told(.0))]
    Lines(Vec<Fault>),
}

/// What is wrong with a line, and with others likewise.
#[derive(Debug)]
pub struct Fault {
    line: u64,
    text: String,
    lines: u64,
}

fn told(faults: &[Fault]) -> String {
    let told = |Fault { line, text, lines }: &Fault| match lines - 1 {
        0 => format!("line {line}: {text}"),
        others => format!("line {line}: {text} (and {others} more lines)"),
    };
    faults.iter().map(told).collect::<Vec<String>>().join("\n  ")
}

/// Asks every answer of the file again, and adds to the account what became of each.
pub fn conform(path: &Path, profiles: &mut Profiles, account: &mut Account) -> Result<(), ConformError> {
    let mut input = open(path)?;
    let (mut faults, mut records, mut number) = (Vec::<Fault>::new(), 0, 0);
    let mut line = Vec::new();
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    loop {
        line.clear();
        number += 1;
        if (&mut input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            faults.push(Fault { line: number, text: format!("is longer than {LINE_BYTES_MAX} bytes"), lines: 1 });
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        records += 1;
        let add = |kind, compared| account.add(kind, &path.display().to_string(), number, compared);
        let Err(text) = record(&line, &file_name, profiles, add) else { continue };
        match faults.iter_mut().find(|known| known.text == text) {
            Some(known) => known.lines += 1,
            None => faults.push(Fault { line: number, text, lines: 1 }),
        }
        if faults.len() == FAULTS_MAX {
            break;
        }
    }
    account.records += records;
    match (faults.is_empty(), records) {
        (false, _) => Err(ConformError::Lines(faults)),
        (true, 0) => Err(ConformError::Empty),
        (true, _) => Ok(()),
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

fn record(
    line: &[u8],
    file: &str,
    profiles: &mut Profiles,
    mut add: impl FnMut(&'static str, super::Compared),
) -> Result<(), String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // The line is the file's, not the first.
        let message = text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        format!("not JSON: {message}, at column {}", error.column())
    })?;
    let Value::Object(fields) = value else { return Err("expected a record such as {\"id\": ...}".to_string()) };
    let kind = KINDS.iter().find(|kind| kind.describes(&fields)).ok_or_else(|| unknown(&fields))?;
    for compared in kind.compare(&fields, file, profiles)? {
        add(kind.name(), compared);
    }
    Ok(())
}

/// Of no known kind: the one of which it has most fields is what may have been meant.
fn unknown(record: &RecordFields) -> String {
    let has = |field: &&&str| record.contains_key(**field);
    let nearest = KINDS.iter().max_by_key(|kind| kind.fields().iter().filter(has).count());
    // One field in common says nothing.
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
            let fault = record(line.as_bytes(), "records.jsonl", &mut Profiles::default(), |_, _| {}).expect_err(line);
            assert_eq!(fault, wanted, "{line}");
        }
    }
}
