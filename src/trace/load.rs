//! Loads a trace by name. Finds its file, and reads and verifies the file in one pass.

use std::io::{self, BufReader, Read};
use std::path::Path;

use super::error::TraceError;
use super::format::{Format, nodes, rows};
use super::genai;
use super::index::Index;
use super::locate::{Located, Roots, locate};
use super::row::{NodeTrace, TaskTrace};
use super::rows::collect;
use super::sum::ChecksumReader;
use super::text;
use dryrack_workload::Series;

const BUFFER_BYTES: usize = 128 * 1024;

/// The tasks of the trace `name`, from the list named `list` or from the first list. Returns an error if the checksum
/// differs from the index.
pub fn load_tasks(index: &Index, roots: &Roots, name: &str, list: Option<&str>) -> Result<TaskTrace, TraceError> {
    let entry = index.trace(name)?;
    if entry.format.is_archive() {
        return Ok(genai::tasks(&load_usage(index, roots, name)?));
    }
    let located = locate(roots, entry, entry.tasks(list)?)?;
    checked(name, &located, |input| collect(&located.path, rows(entry.format, &located.path, input)?))
}

/// The nodes of the trace `name`, from the list named `list` or from the first list. Returns an error if the checksum
/// differs from the index.
pub fn load_nodes(index: &Index, roots: &Roots, name: &str, list: Option<&str>) -> Result<NodeTrace, TraceError> {
    let entry = index.trace(name)?;
    let located = locate(roots, entry, entry.nodes(list)?)?;
    checked(name, &located, |input| nodes(entry.format, name, &located.path, input))
}

/// The tasks of a file in this format. The file need not be in the index.
pub fn read_tasks(format: Format, path: &Path) -> Result<TaskTrace, TraceError> {
    collect(path, rows(format, path, text::open_lines(path)?)?)
}

/// The nodes of a file in this format. The file need not be in the index.
pub fn read_nodes(format: Format, path: &Path) -> Result<NodeTrace, TraceError> {
    nodes(format, &path.display().to_string(), path, text::open_lines(path)?)
}

/// Opens a file for reading, and decompresses it if it is compressed.
pub fn open_file(path: &Path) -> Result<Box<dyn Read>, TraceError> {
    text::open(path)
}

/// The GPU usage of the trace `name`: a series for each name, in order of the names. Returns an error if a checksum
/// differs from the index.
pub fn load_usage(index: &Index, roots: &Roots, name: &str) -> Result<Vec<(String, Series)>, TraceError> {
    let entry = index.trace(name)?;
    let located = locate(roots, entry, entry.utilization()?)?;
    let duty_cycles = checked(name, &located, |input| genai::read_duty_cycles(&located.path, input))?;
    let memory = match entry.memory() {
        None => genai::Pods::new(),
        Some(file) => {
            let located = locate(roots, entry, file)?;
            checked(name, &located, |input| genai::read_memory(&located.path, input))?
        }
    };
    Ok(genai::series(duty_cycles, &memory))
}

fn checked<T>(
    trace: &str,
    located: &Located,
    read: impl FnOnce(&mut BufReader<ChecksumReader>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, ChecksumReader::open(&located.path)?);
    let rows = read(&mut input);
    // Read the rest of the file, because a reader that found a fault may have stopped early, and the checksum needs the
    // whole file.
    let rest = io::copy(&mut input, &mut io::sink());
    let found = match rest {
        Ok(_) => input.into_inner().hex(),
        Err(fault) => format!("none ({fault})"),
    };
    // A wrong checksum takes precedence, because faults in the rows of a different file say nothing about this trace.
    match found == located.sha256 {
        true => rows,
        false => Err(TraceError::WrongSum {
            trace: trace.to_string(),
            file: located.path.clone(),
            found,
            expected: located.sha256.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_carried_trace_is_loaded_by_name() {
        let carried: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        let roots = Roots { carried: Some(carried), ..Roots::default() };
        let trace = load_tasks(&Index::built_in(), &roots, "gaia", None).unwrap();
        assert_eq!(trace.tally.rows(), 51_987);
    }

    #[test]
    fn a_changed_file_is_not_the_trace_whatever_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let gaia = folder.path().join("unilu-gaia-2014");
        std::fs::create_dir(&gaia).unwrap();
        let roots = Roots { carried: Some(folder.path().to_path_buf()), ..Roots::default() };
        for content in ["1 0 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1\n", "not a log\n", "\x1f\u{8b}"] {
            std::fs::write(gaia.join("UniLu-Gaia-2014-2.swf"), content).unwrap();
            let message = load_tasks(&Index::built_in(), &roots, "gaia", None).unwrap_err().to_string();
            assert!(
                message.contains("UniLu-Gaia-2014-2.swf is not the indexed gaia: its content has sha256 "),
                "{message}"
            );
        }
    }
}
