//! CSV with a header line. Columns are found by name and may be in any order. A field that begins with a quotation mark is
//! a quoted one (RFC 4180). It may contain commas, but no line end.

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
    /// The names of the columns, in the caller's order.
    names: [&'static str; N],
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
        let unquoted = unquote(&mut lines)?;
        let valid = columns.join(", ");
        let spans: Vec<Span> = spans(lines.bytes(), unquoted).collect();
        for span in spans {
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
            true => Ok(Table { lines, order, names: columns, fields: [Span::default(); N] }),
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

    /// Adds the name of the column to a fault in a field of the current row.
    pub(super) fn with_column(&self, mut fault: TraceError) -> TraceError {
        let name = |at: u64| {
            let starts_there = |known: &&usize| self.fields[**known].start as u64 + 1 == at;
            self.order.iter().find(starts_there).map(|known| self.names[*known])
        };
        match &mut fault {
            TraceError::Malformed { column, expected, .. } => {
                if let Some(name) = name(*column) {
                    expected.push_str(&format!(" in column `{name}`"));
                }
            }
            TraceError::BadLine { column, problem, .. } => {
                if let Some(name) = name(*column) {
                    problem.push_str(&format!(", in column `{name}`"));
                }
            }
            _ => {}
        }
        fault
    }

    /// Moves to the next row that is not empty. Returns false at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        while self.lines.advance()? {
            let quoted = unquote(&mut self.lines)?;
            let line = self.lines.bytes();
            if line.is_empty() {
                continue;
            }
            let mut count = 0;
            for span in spans(line, quoted) {
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

/// The fields of a line. `quoted` are those of a line with quotation marks. An empty line has one empty field.
fn spans(line: &[u8], quoted: Option<Vec<Span>>) -> impl Iterator<Item = Span> + '_ {
    let plain = quoted.is_none().then(|| {
        let mut start = 0;
        line.split(|byte| *byte == b',').map(move |field| {
            let span = Span { start, end: start + field.len() };
            start = span.end + 1;
            span
        })
    });
    plain.into_iter().flatten().chain(quoted.into_iter().flatten())
}

/// Removes the quotation marks of a line that has any, and returns its fields. Each begins where it began before, after its
/// quotation mark, so that a fault can be shown in the line as written.
fn unquote<R: BufRead>(lines: &mut Lines<R>) -> Result<Option<Vec<Span>>, TraceError> {
    if !lines.bytes().contains(&b'"') {
        return Ok(None);
    }
    let mut record = csv::ByteRecord::new();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(lines.bytes());
    // Reading from memory does not fail.
    if reader.read_byte_record(&mut record).is_err() {
        return Err(lines.malformed(0, "a line of CSV", "other text"));
    }
    let (mut spans, mut at) = (Vec::new(), 0);
    for field in &record {
        let is_quoted = lines.bytes().get(at) == Some(&b'"');
        let marks = if is_quoted { 2 + field.iter().filter(|byte| **byte == b'"').count() } else { 0 };
        let (start, end) = (at + usize::from(is_quoted), at + field.len() + marks);
        // Otherwise the mark that ends the field is missing, or is not the end of it.
        if !matches!(lines.bytes().get(end), None | Some(b',')) || end > lines.bytes().len() {
            // A field before, in which a mark is at a wrong place, can seem to reach the end of the line.
            let at = at.min(lines.bytes().len());
            let found = quoted(&lines.bytes()[at..]);
            return Err(lines.malformed(at, "a quotation mark at the end of a quoted field", &found));
        }
        lines.bytes_mut()[start..start + field.len()].copy_from_slice(field);
        spans.push(Span { start, end: start + field.len() });
        at = end + 1;
    }
    Ok(Some(spans))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<Vec<String>, String> {
        let mut lines = Lines::new(Path::new("t.csv"), line.as_bytes());
        lines.advance().expect("a line");
        let quoted = unquote(&mut lines).map_err(|fault| fault.to_string())?;
        let text = |span: Span| String::from_utf8_lossy(span.of(lines.bytes())).into_owned();
        Ok(spans(lines.bytes(), quoted).map(text).collect())
    }

    /// The rules are those of RFC 4180, section 2.
    #[test]
    fn a_quoted_field_may_contain_commas_and_quotation_marks() {
        let rows: [(&str, &[&str]); 8] = [
            ("a,b", &["a", "b"]),
            ("", &[""]),
            (r#""a,b",c"#, &["a,b", "c"]),
            (r#"x,"a ""b"" c",,"#, &["x", r#"a "b" c"#, "", ""]),
            (r#""","a""#, &["", "a"]),
            (r#""""""#, &[r#"""#]),
            (r#"5" disk,b"#, &[r#"5" disk"#, "b"]),
            (r#""a","b,"#, &[]),
        ];
        for (line, expected) in rows {
            match fields(line) {
                Ok(found) => assert_eq!(found, expected, "{line}"),
                Err(fault) => {
                    assert!(expected.is_empty(), "{line}: {fault}");
                    let wanted = "t.csv:1:5: expected a quotation mark at the end of a quoted field, found `\\\"b,`";
                    assert_eq!(fault, wanted);
                }
            }
        }
    }
}
