//! Rows of the data files.

use std::collections::BTreeMap;
use std::str::FromStr;

/// A row of a data file. Cells are found by column name.
pub struct Row {
    pub place: String,
    pub cells: BTreeMap<&'static str, &'static str>,
}

pub fn rows(file: &'static str, text: &'static str) -> impl Iterator<Item = Row> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    // Leak the cells, so that rows can be returned without copies. The files are read once and are kept as long as the
    // program runs.
    let keep = |cell: &str| -> &'static str { Box::leak(cell.to_string().into_boxed_str()) };
    let header: Vec<_> = reader.headers().unwrap_or_else(|error| panic!("{file}: {error}")).iter().map(keep).collect();
    reader.into_records().enumerate().map(move |(index, record)| {
        let place = format!("{file}:{}", index + 2);
        let record = record.unwrap_or_else(|error| panic!("{place}: {error}"));
        let cells = header.iter().copied().zip(record.iter().map(keep)).collect();
        Row { place, cells }
    })
}

impl Row {
    pub fn text(&self, column: &str) -> &'static str {
        self.cells.get(column).unwrap_or_else(|| panic!("{}: no column `{column}`", self.place))
    }

    /// Parses a cell. Returns `None` if the cell is empty.
    pub fn optional<T: FromStr<Err: std::fmt::Display>>(&self, column: &str) -> Option<T> {
        match self.text(column) {
            "" => None,
            text => Some(text.parse().unwrap_or_else(|error| panic!("{}: {column} `{text}`: {error}", self.place))),
        }
    }

    pub fn required<T: FromStr<Err: std::fmt::Display>>(&self, column: &str) -> T {
        self.optional(column).unwrap_or_else(|| panic!("{}: {column} is empty", self.place))
    }

    pub fn list(&self, column: &str) -> impl Iterator<Item = &'static str> {
        self.text(column).split(';').filter(|item| !item.is_empty())
    }
}
