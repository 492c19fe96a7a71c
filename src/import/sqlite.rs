//! SQLite files of servers, which are opened read-only.
//!
//! A file may be damaged, of another release, or written by another program. Anything unexpected is reported with its
//! table, row and column. Rows are numbered in the order of their ids.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Statement};
use serde_json::{Number, Value};

use super::imported::{ImportError, LAST_MILLIS, millis_of_date};
use dryrack_live::probe::shown;

pub(super) struct Database {
    connection: Connection,
    server: &'static str,
}

/// A row, with its values by column name.
pub(super) struct Row {
    table: &'static str,
    /// The number of the row, starting at 1.
    number: usize,
    cells: BTreeMap<String, Value>,
}

impl Database {
    /// Opens a file that should be the database of `server`.
    pub fn open(path: &Path, server: &'static str) -> Result<Database, ImportError> {
        Ok(Database { connection: Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?, server })
    }

    /// Returns an error if one of these tables is missing.
    pub fn require(&self, tables: &[&'static str]) -> Result<(), ImportError> {
        for table in tables {
            if self.columns(table)?.is_empty() {
                return Err(ImportError::NoTable { server: self.server, table });
            }
        }
        Ok(())
    }

    /// The names of a table's columns; empty if the table does not exist. SQLite allows any bytes in a name, but its
    /// client library does not, so the query returns names as bytes.
    fn columns(&self, table: &str) -> Result<Vec<String>, ImportError> {
        let asked = "SELECT CAST(name AS BLOB) FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid";
        let fault = |error: rusqlite::Error| of_table(table, &error);
        let mut statement = self.connection.prepare(asked).map_err(fault)?;
        let mut rows = statement.query([table]).map_err(fault)?;
        let mut names = Vec::new();
        while let Some(row) = rows.next().map_err(fault)? {
            let bytes = row.get_ref(0).map_err(fault)?.as_bytes_or_null().unwrap_or_default().unwrap_or_default();
            let place = || format!("table `{table}`, column {}", names.len() + 1);
            let name = std::str::from_utf8(bytes).map_err(|_| {
                let found = shown(&String::from_utf8_lossy(bytes));
                ImportError::malformed(place(), format!("a name in text, not the bytes of `{found}`"))
            })?;
            names.push(name.to_string());
        }
        Ok(names)
    }

    /// Passes each row with all its columns to `each`. A missing table has no rows.
    pub fn each(
        &self,
        table: &'static str,
        mut with: impl FnMut(Row) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let names = self.columns(table)?;
        if names.is_empty() {
            return Ok(());
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let list: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let order = if names.iter().any(|name| name == "id") { " ORDER BY id" } else { "" };
        // The table's name is a constant of this program, so it need not be escaped.
        let asked = format!("SELECT {} FROM {table}{order}", list.join(", "));
        let fault = |error: rusqlite::Error| of_table(table, &error);
        let mut statement: Statement<'_> = self.connection.prepare(&asked).map_err(fault)?;
        let mut rows = statement.query([]).map_err(fault)?;
        let mut number = 0;
        while let Some(row) = rows.next().map_err(fault)? {
            number += 1;
            let mut found = Row { table, number, cells: BTreeMap::new() };
            for (index, name) in names.iter().enumerate() {
                let cell =
                    cell(row.get_ref(index).map_err(fault)?).map_err(|expected| found.malformed(name, expected))?;
                found.cells.insert(name.clone(), cell);
            }
            with(found)?;
        }
        Ok(())
    }
}

fn of_table(table: &str, error: &rusqlite::Error) -> ImportError {
    ImportError::malformed(format!("table `{table}`"), format!("readable data: {error}"))
}

fn cell(value: ValueRef<'_>) -> Result<Value, &'static str> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        ValueRef::Text(bytes) => Value::from(std::str::from_utf8(bytes).map_err(|_| "text")?),
        ValueRef::Blob(_) => return Err("text or a number, not bytes"),
    })
}

impl Row {
    /// The place of the row, such as ``table `jobs`, row 2``.
    pub fn place(&self) -> String {
        format!("table `{}`, row {}", self.table, self.number)
    }

    pub fn malformed(&self, column: &str, expected: impl Into<String>) -> ImportError {
        ImportError::malformed(format!("{}, column `{column}`", self.place()), expected)
    }

    /// The value of a column; null if the column does not exist, as in an older release.
    fn get(&self, column: &str) -> &Value {
        self.cells.get(column).unwrap_or(&Value::Null)
    }

    fn wrong(&self, column: &str, expected: &str) -> ImportError {
        let found = match self.get(column) {
            Value::Null => "nothing".to_string(),
            other => format!("`{}`", shown(&other.to_string())),
        };
        self.malformed(column, format!("{expected}, found {found}"))
    }

    pub fn text(&self, column: &str) -> Result<Option<&str>, ImportError> {
        match self.get(column) {
            Value::Null => Ok(None),
            other => other.as_str().map(Some).ok_or_else(|| self.wrong(column, "text")),
        }
    }

    pub fn require_text(&self, column: &str) -> Result<&str, ImportError> {
        self.text(column)?.ok_or_else(|| self.wrong(column, "text"))
    }

    pub fn integer(&self, column: &str) -> Result<Option<i64>, ImportError> {
        match self.get(column) {
            Value::Null => Ok(None),
            other => other.as_i64().map(Some).ok_or_else(|| self.wrong(column, "a whole number")),
        }
    }

    pub fn require_integer(&self, column: &str) -> Result<i64, ImportError> {
        self.integer(column)?.ok_or_else(|| self.wrong(column, "a whole number"))
    }

    /// Reads a date, in milliseconds since 1970.
    pub fn millis(&self, column: &str) -> Result<Option<i64>, ImportError> {
        let Some(typed) = self.text(column)? else { return Ok(None) };
        millis_of_date(typed).map(Some).ok_or_else(|| self.wrong(column, "a date such as 2026-11-02 08:20:00.125"))
    }

    pub fn require_millis(&self, column: &str) -> Result<i64, ImportError> {
        self.millis(column)?.ok_or_else(|| self.wrong(column, "a date such as 2026-11-02 08:20:00.125"))
    }

    /// Reads a time that is a count of units since 1970, and converts it to milliseconds. `in_a_second` is the number
    /// of units in a second.
    pub fn require_count(&self, column: &str, in_a_second: i64) -> Result<i64, ImportError> {
        let millis = i128::from(self.require_integer(column)?) * 1000 / i128::from(in_a_second);
        let possible = i64::try_from(millis).ok().filter(|millis| (0..LAST_MILLIS).contains(millis));
        possible.ok_or_else(|| self.wrong(column, "a time between 1970 and 2500"))
    }

    /// Reads JSON.
    pub fn json(&self, column: &str) -> Result<Value, ImportError> {
        let Some(text) = self.text(column)? else { return Ok(Value::Null) };
        serde_json::from_str(text).map_err(|_| self.wrong(column, "JSON"))
    }

    /// Returns the whole row, with these columns parsed as JSON.
    pub fn whole(self, json: &[&str]) -> Result<Value, ImportError> {
        let mut map = serde_json::Map::new();
        for column in self.cells.keys() {
            let is_json = json.contains(&column.as_str()) && self.get(column).is_string();
            let value = if is_json { self.json(column)? } else { self.get(column).clone() };
            map.insert(column.clone(), value);
        }
        Ok(Value::Object(map))
    }
}
