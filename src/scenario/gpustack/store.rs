//! The SQLite file of a GPUStack server before 2.0.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Number, Value};

use super::super::imported::{ImportError, Imported, Names};
use super::{Kept, write};

/// Columns that hold JSON as text.
const JSON: [&str; 9] = [
    "labels",
    "system_reserved",
    "status",
    "categories",
    "worker_selector",
    "gpu_selector",
    "backend_parameters",
    "computed_resource_claim",
    "distributed_servers",
];

const SERVER: &str = "GPUStack";

/// Of a file that GPUStack 0.4.1 to 0.7.1 keep; older and newer ones of 0.x are read as far as they are alike.
pub fn import_gpustack_store(path: &Path, names: Names) -> Result<Imported, ImportError> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    for table in ["workers", "models", "model_instances"] {
        if !has_table(&database, table)? {
            return Err(ImportError::NoTable { server: SERVER, table });
        }
    }
    let optional =
        |table: &'static str| if has_table(&database, table)? { rows(&database, table) } else { Ok(Vec::new()) };
    let kept = Kept {
        workers: rows(&database, "workers")?,
        models: rows(&database, "models")?,
        instances: rows(&database, "model_instances")?,
        files: optional("model_files")?,
        loads: optional("system_loads")?.iter().filter_map(load).collect(),
    };
    write::write(&kept, names)
}

fn has_table(database: &Connection, table: &str) -> Result<bool, ImportError> {
    Ok(database.query_row("SELECT count(*) FROM pragma_table_info(?1)", [table], |row| row.get::<_, i64>(0))? > 0)
}

fn load(row: &Value) -> Option<(i64, f64)> {
    Some((row["timestamp"].as_i64()?.checked_mul(1000)?, row["gpu"].as_f64()?))
}

/// All that were not deleted, in the order of their ids.
fn rows(database: &Connection, table: &'static str) -> Result<Vec<Value>, ImportError> {
    // The name is one of the constants above.
    let mut statement = database.prepare(&format!("SELECT * FROM {table} ORDER BY id"))?;
    let names: Vec<String> = statement.column_names().map(str::to_string).collect();
    let mut found = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut map = Map::new();
        for (index, name) in names.iter().enumerate() {
            let place = || format!("table `{table}`, row {}, column `{name}`", found.len() + 1);
            map.insert(name.clone(), cell(row.get_ref(index)?, JSON.contains(&name.as_str()), place)?);
        }
        if map.get("deleted_at").is_none_or(Value::is_null) {
            found.push(Value::Object(map));
        }
    }
    Ok(found)
}

fn cell(value: ValueRef<'_>, is_json: bool, place: impl Fn() -> String) -> Result<Value, ImportError> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|_| ImportError::malformed(place(), "text"))?;
            if is_json {
                serde_json::from_str(text).map_err(|_| ImportError::malformed(place(), "JSON"))?
            } else {
                Value::from(text)
            }
        }
        ValueRef::Blob(_) => return Err(ImportError::malformed(place(), "text or a number, not bytes")),
    })
}
