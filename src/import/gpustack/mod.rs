//! Imports a GPUStack server's data as a scenario: its workers, its models, and the places of their instances.
//!
//! There are two sources: the SQLite file of releases before 2.0 ([`store`]), which is opened read-only, and saved
//! answers of any release's REST interface ([`pages`]). Both give a [`StoredRows`], whose rows use the field names of
//! the interface (schemas/workers.py and schemas/models.py of gpustack 0.4.1 to 2.3.0). [`write`] makes a scenario from
//! it. Fields that a release lacks are optional. The data show the current state and no history: a deleted instance
//! leaves no row.

mod ask;
mod pages;
mod store;
mod write;

use serde_json::Value;

pub use pages::import_gpustack_pages;
pub use store::import_gpustack_store;

use super::imported::{ImportError, millis_of_date};
use dryrack_live::probe::shown;

/// A map of fields by name, and the place in the source.
#[derive(Debug)]
struct StoredRow {
    place: String,
    value: Value,
}

/// The rows of each kind, in the order of their ids.
#[derive(Debug, Default)]
struct StoredRows {
    /// The name of the table or file with the workers, for messages.
    workers_in: &'static str,
    workers: Vec<StoredRow>,
    models: Vec<StoredRow>,
    instances: Vec<StoredRow>,
    /// Downloaded weight files, which are recorded since 0.6.
    files: Vec<Value>,
    /// Mean utilization of all GPUs in percent, each with its time in milliseconds since 1970.
    loads: Vec<(i64, f64)>,
}

/// A word from a fixed list, in lower case. The interface writes such words in lower case, the database in capitals.
fn word(row: &Value, key: &str) -> Option<String> {
    row[key].as_str().map(str::to_ascii_lowercase)
}

fn text<'v>(row: &'v Value, key: &str) -> Option<&'v str> {
    row[key].as_str().filter(|text| !text.is_empty())
}

/// A boolean, which the database stores as a whole number.
fn flag(row: &Value, key: &str) -> Option<bool> {
    row[key].as_bool().or_else(|| row[key].as_i64().map(|number| number != 0))
}

/// A date field in milliseconds since 1970.
fn millis(row: &Value, key: &str, place: &str) -> Result<Option<i64>, ImportError> {
    let Some(typed) = text(row, key) else { return Ok(None) };
    let malformed =
        || ImportError::malformed(format!("{place}, column `{key}`"), format!("a date, not `{}`", shown(typed)));
    millis_of_date(typed).map(Some).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are from GNU `date -u -d @SECONDS`.
    #[test]
    fn dates_are_read_in_every_form_that_a_server_writes() {
        let of = |text: &str| millis(&serde_json::json!({"at": text}), "at", "row 1");
        for text in ["2026-11-02 08:20:00.125000", "2026-11-02T08:20:00.125Z", "2026-11-02T08:20:00.125+00:00"] {
            assert_eq!(of(text).expect("it is a date"), Some(1_793_607_600_125), "{text}");
        }
        assert_eq!(of("2026-11-02 08:20:00").expect("it is a date"), Some(1_793_607_600_000));
        assert_eq!(of("").expect("nothing is said"), None);
        let said = of("yesterday").unwrap_err().to_string();
        assert_eq!(said, "row 1, column `at`: expected a date, not `yesterday`");
    }
}
