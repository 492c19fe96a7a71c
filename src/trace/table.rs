//! CSV with a header line. Columns are found by name and may be in any order. There is no quoting, so a quotation mark
//! is an ordinary character.

use std::io::BufRead;
use std::path::Path;

use super::error::{Faults, TraceError, nearest};
use super::text::{Lines, Span, quoted};

/// Returns all rows, or all faults together.
pub(super) fn gather<T>(file: &Path, rows: impl Iterator<Item = Result<T, TraceError>>) -> Result<Vec<T>, TraceError> {
    let mut whole = Vec::new();
    let mut faults = Faults::default();
    for row in rows {
        match row {
            Ok(row) => whole.push(row),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(whole) } else { Err(TraceError::from_faults(file, faults)) }
}

/// A CSV file. Its `N` columns are found by name.
pub(super) struct Table<R, const N: usize> {
    pub(super) lines: Lines<R>,
    /// For each column of the file, the position of that column in the caller's order.
    order: Vec<usize>,
    /// The fields of the current row, in the caller's order. A field is empty if the file lacks its column.
    pub(super) fields: [Span; N],
}

impl<R: BufRead, const N: usize> Table<R, N> {
    /// Reads the header line, which must have every column. `file` is the name of the input in error messages.
    pub(super) fn new(file: &Path, input: R, columns: [&'static str; N]) -> Result<Table<R, N>, TraceError> {
        Table::with_at_least(N, file, input, columns)
    }

    /// Reads the header line, which must have at least the first `needed_count` columns.
    pub(super) fn with_at_least(
        needed_count: usize,
        file: &Path,
        input: R,
        columns: [&'static str; N],
    ) -> Result<Table<R, N>, TraceError> {
        let mut lines = Lines::new(file, input);
        let mut order = Vec::new();
        let mut seen = [false; N];
        let mut faults = Faults::default();
        // In a file without any line, every column is missing.
        lines.advance()?;
        let valid = columns.join(", ");
        for span in split(lines.bytes()) {
            let name = span.of(lines.bytes()).trim_ascii();
            match columns.iter().position(|column| column.as_bytes() == name) {
                Some(known) if seen[known] => {
                    faults.push(lines.malformed(span.start, "each column once", &quoted(name)));
                }
                Some(known) => {
                    seen[known] = true;
                    order.push(known);
                }
                None if lines.bytes().is_empty() => {}
                None => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    faults.push(TraceError::UnknownColumn {
                        file: file.to_path_buf(),
                        line: lines.number(),
                        column: span.start as u64 + 1,
                        nearest: nearest(&name, columns),
                        name,
                        valid: valid.clone(),
                    });
                }
            }
        }
        let needed = columns[..needed_count].join(", ");
        for (column, _) in columns.iter().zip(seen).take(needed_count).filter(|(_, seen)| !seen) {
            let (file, line, name) = (file.to_path_buf(), lines.number(), column.to_string());
            faults.push(TraceError::MissingColumn { file, line, name, valid: needed.clone() });
        }
        match faults.is_empty() {
            true => Ok(Table { lines, order, fields: [Span::default(); N] }),
            false => Err(TraceError::from_faults(file, faults)),
        }
    }

    /// Whether the file has these columns. Returns an error if it has only some of them.
    pub(super) fn has_all_or_none(
        &self,
        these: std::ops::Range<usize>,
        file: &Path,
        columns: [&'static str; N],
    ) -> Result<bool, TraceError> {
        let missing: Vec<usize> = these.clone().filter(|column| !self.order.contains(column)).collect();
        if missing.is_empty() || missing.len() == these.len() {
            return Ok(missing.is_empty());
        }
        let needed = columns[these].join(", ");
        let mut faults = Faults::default();
        for column in missing {
            let (file, line, name) = (file.to_path_buf(), self.lines.number(), columns[column].to_string());
            faults.push(TraceError::MissingColumn { file, line, name, valid: needed.clone() });
        }
        Err(TraceError::from_faults(file, faults))
    }

    /// Moves to the next row that is not empty. Returns false at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.bytes();
            if line.is_empty() {
                continue;
            }
            let mut count = 0;
            for span in split(line) {
                match self.order.get(count) {
                    Some(known) => self.fields[*known] = span,
                    None => {
                        return Err(self.lines.malformed(
                            span.start,
                            format!("{} fields", self.order.len()),
                            "a further one",
                        ));
                    }
                }
                count += 1;
            }
            let width = self.order.len();
            if count < width {
                let found = format!("the end of the line after {count}");
                return Err(self.lines.malformed(line.len(), format!("{width} fields"), &found));
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Splits a line at its commas. An empty line has one empty field.
fn split(line: &[u8]) -> impl Iterator<Item = Span> + '_ {
    let mut start = 0;
    line.split(|byte| *byte == b',').map(move |field| {
        let span = Span { start, end: start + field.len() };
        start = span.end + 1;
        span
    })
}
