//! Recorded GPU utilization, read from a CSV file with one column for each GPU.
//!
//! ```text
//! time,gpu0,gpu1,gpu0_memory
//! 0,97,0,41GiB
//! 10,N/A,NaN,41GiB
//! ```
//!
//! The first column is the time, in seconds or as `1m30s`. A column whose name ends in `_memory` contains the memory of
//! the GPU with the name before that suffix. Every other column is the utilization of a GPU in percent, with or without
//! `%`. A cell that is empty or `N/A` has no reading (nvidia-smi writes `[N/A]`). NaN, infinite numbers and numbers
//! outside 0 to 100 are not readings either, and are counted by name.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::TraceError;
use super::text::open;
use dryrack_units::{Bytes, Permille, SimDuration, UnitError};
use dryrack_workload::{Series, UsageRow, utilization_of_percent};

/// The content of a recording, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageRecording {
    /// The names of the GPUs, as in the header.
    pub names: Vec<String>,
    pub rows: Vec<UsageRow>,
    /// The number of cells without a reading, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// The largest number of cells in a recording. A larger recording would not fit in memory and cannot be of one job.
const CELLS_MAX: usize = 50_000_000;

/// Reads a recording, plain or gzip.
pub fn read_usage_csv(path: &Path) -> Result<UsageRecording, TraceError> {
    let mut input = csv::ReaderBuilder::new().flexible(true).from_reader(open(path)?);
    let malformed = |line: u64, column: u64, expected: &str, found: &str| TraceError::Malformed {
        file: path.to_path_buf(),
        line,
        column,
        expected: expected.to_string(),
        found: if found.is_empty() { "nothing".to_string() } else { format!("`{found}`") },
    };
    let header = input.headers().map_err(|fault| malformed(1, 1, "a line of CSV", &fault.to_string()))?;
    let header: Vec<String> = header.iter().map(|name| name.trim().to_string()).collect();
    let columns = Columns::of(&header).map_err(|(expected, found)| malformed(1, 1, expected, &found))?;
    let has = |count: usize| if count == 1 { "1 field".to_string() } else { format!("{count} fields") };
    let mut recording = UsageRecording { names: columns.names.clone(), ..UsageRecording::default() };
    for record in input.records() {
        let record = record.map_err(|fault| {
            let line = fault.position().map_or(1, csv::Position::line);
            malformed(line, 1, "a line of CSV", &fault.to_string())
        })?;
        // Empty lines are skipped, but they count in line numbers.
        let line = record.position().map_or(1, csv::Position::line);
        if record.len() != header.len() {
            let expected = format!("{}, as the header has", has(header.len()));
            return Err(malformed(line, 1, &expected, &has(record.len())));
        }
        if recording.rows.len() * (header.len() + 1) > CELLS_MAX {
            return Err(malformed(line, 1, "a recording of at most 50 million cells", "more"));
        }
        let row = recording.row(&columns, &record);
        recording.rows.push(row.map_err(|(column, expected)| {
            let before: usize = record.iter().take(column).map(|cell| cell.chars().count() + 1).sum();
            malformed(line, before as u64 + 1, expected, record[column].trim())
        })?);
    }
    Ok(recording)
}

struct Columns {
    names: Vec<String>,
    utilization: Vec<usize>,
    /// The memory column of each GPU. `None` if no GPU has one.
    memory: Option<Vec<usize>>,
}

impl Columns {
    /// Reads the header. The error says what was expected and what was found.
    fn of(header: &[String]) -> Result<Columns, (&'static str, String)> {
        let is_memory = |name: &str| name.ends_with("_memory");
        let gpus: Vec<usize> = (1..header.len()).filter(|column| !is_memory(&header[*column])).collect();
        if gpus.is_empty() {
            return Err(("a time and a column for each GPU, such as time,gpu0,gpu1", header.join(",")));
        }
        // In a file without a header, the first sample would be read as names, so reject such a file.
        if time(&header[0]).is_some() {
            return Err(("names of columns, such as time,gpu0,gpu1", header.join(",")));
        }
        if gpus.len() > usize::from(u16::MAX) {
            return Err(("at most 65535 GPUs", format!("{} columns", gpus.len())));
        }
        let names: Vec<String> = gpus.iter().map(|column| header[*column].clone()).collect();
        let twice = |name: &&String| header.iter().filter(|other| other == name).count() > 1;
        if let Some(name) = header.iter().find(twice) {
            return Err(("each column once", name.clone()));
        }
        let of = |column: &str| names.iter().position(|name| format!("{name}_memory") == column);
        let stray = header.iter().skip(1).find(|name| is_memory(name) && of(name).is_none());
        if let Some(stray) = stray {
            return Err(("the memory of a GPU that has a column of its own", stray.clone()));
        }
        let memory: Vec<usize> = names
            .iter()
            .filter_map(|name| header.iter().position(|column| *column == format!("{name}_memory")))
            .collect();
        if !memory.is_empty() && memory.len() < names.len() {
            return Err(("the memory of every GPU, or of none", header.join(",")));
        }
        Ok(Columns { utilization: gpus, memory: (!memory.is_empty()).then_some(memory), names })
    }
}

fn time(text: &str) -> Option<SimDuration> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !text.is_empty();
    if plain { format!("{text}s").parse().ok() } else { text.parse().ok() }
}

/// Parses a utilization. Returns `None` if the text is not a utilization, and an `Err` with the reason if there is no
/// reading.
fn utilization(text: &str) -> Option<Result<Option<Permille>, &'static str>> {
    if matches!(text, "" | "N/A" | "[N/A]" | "n/a" | "NA") {
        return Some(Err("not available"));
    }
    let number: f64 = text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok()?;
    Some(match utilization_of_percent(number) {
        Ok(reading) => Ok(Some(reading)),
        Err(UnitError::NotANumber { .. }) => Err("NaN"),
        Err(UnitError::Infinite { .. }) => Err("infinite"),
        Err(_) => Err("outside 0 to 100"),
    })
}

fn memory(text: &str) -> Option<Option<Bytes>> {
    if matches!(text, "" | "N/A" | "[N/A]" | "n/a" | "NA") {
        return Some(None);
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok().map(|bytes| Some(Bytes::new(bytes))) } else { text.parse().ok().map(Some) }
}

impl UsageRecording {
    /// Reads one record. The error contains the wrong column and what was expected there.
    fn row(&mut self, columns: &Columns, record: &csv::StringRecord) -> Result<UsageRow, (usize, &'static str)> {
        let cell = |column: usize| record[column].trim();
        let at = time(cell(0)).ok_or((0, "seconds, or a time such as 1m30s"))?;
        let mut row = UsageRow { at, utilization: Vec::new(), memory: Vec::new() };
        for column in &columns.utilization {
            let reading = utilization(cell(*column)).ok_or((*column, "a percentage, N/A or NaN"))?;
            row.utilization.push(reading.unwrap_or_else(|why| {
                *self.refused.entry(why).or_default() += 1;
                None
            }));
        }
        for column in columns.memory.iter().flatten() {
            let amount = memory(cell(*column)).ok_or((*column, "an amount of memory such as 40GiB, or bytes"))?;
            row.memory.push(amount);
        }
        Ok(row)
    }

    /// The series of one GPU. The times of the recording must be in ascending order.
    pub fn series(&self, column: usize) -> Series {
        let memory = match self.rows.first().is_some_and(|row| !row.memory.is_empty()) {
            true => self.rows.iter().map(|row| row.memory[column]).collect(),
            false => Vec::new(),
        };
        Series {
            times: self.rows.iter().map(|row| row.at).collect(),
            utilization: self.rows.iter().map(|row| row.utilization[column]).collect(),
            memory,
        }
    }

    /// The rows of one GPU, as a job with only this GPU.
    pub fn column(&self, column: usize) -> Vec<UsageRow> {
        let row = |row: &UsageRow| UsageRow {
            at: row.at,
            utilization: vec![row.utilization[column]],
            memory: row.memory.get(column).map(|memory| vec![*memory]).unwrap_or_default(),
        };
        self.rows.iter().map(row).collect()
    }

    /// The first time that is not later than the time before it.
    pub fn first_out_of_order(&self) -> Option<SimDuration> {
        self.rows.windows(2).find(|pair| pair[1].at <= pair[0].at).map(|pair| pair[1].at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<UsageRecording, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("usage.csv");
        std::fs::write(&path, text).expect("written");
        read_usage_csv(&path).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_column_for_each_gpu_is_read_and_what_is_no_reading_is_counted_by_name() {
        let recording =
            read("time, a, b, a_memory, b_memory\n0,97,0.5 %,41GiB,0\n10,N/A,NaN,41GiB,\n1m,inf,101,1024,[N/A]\n")
                .expect("it is a recording");
        assert_eq!(recording.names, ["a", "b"]);
        let utilization: Vec<_> = recording.rows.iter().map(|row| row.utilization.clone()).collect();
        assert_eq!(utilization[0], [Some(Permille::new(970)), Some(Permille::new(5))]);
        assert_eq!(utilization[1..], [[None, None], [None, None]]);
        let refused: Vec<(&str, u64)> = recording.refused.iter().map(|(why, count)| (*why, *count)).collect();
        assert_eq!(refused, [("NaN", 1), ("infinite", 1), ("not available", 1), ("outside 0 to 100", 1)]);
        assert_eq!(recording.rows[2].memory, [Some(Bytes::new(1024)), None]);
        assert_eq!(recording.rows[2].at, SimDuration::from_secs(60));
    }

    #[test]
    fn a_file_that_is_no_recording_is_told_where() {
        let rows = [
            ("time\n", "a time and a column for each GPU"),
            ("0,5\n10,6\n", "1:1: expected names of columns"),
            ("time,a\n\n0,5\n10\n", "4:1: expected 2 fields, as the header has, found `1 field`"),
            ("time,a,a\n", "each column once"),
            ("time,a,b_memory\n", "the memory of a GPU that has a column of its own"),
            ("time,a,b,a_memory\n", "the memory of every GPU, or of none"),
            ("time,a\nsoon,5\n", "seconds, or a time such as 1m30s"),
            ("time,a\n0,busy\n", "a percentage, N/A or NaN"),
        ];
        for (text, wanted) in rows {
            let fault = read(text).expect_err(text);
            assert!(fault.contains(wanted), "{text}: {fault}");
        }
    }
}
