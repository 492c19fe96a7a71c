//! Reads the SQLite file of a GPUStack server before 2.0.

use std::path::Path;

use super::super::imported::{ImportError, Imported, Names};
use super::super::sqlite::Database;
use super::{StoredRow, StoredRows, write};

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

/// Imports a file of GPUStack 0.4.1 to 0.7.1. Files of other 0.x releases are read if their columns are the same.
pub fn import_gpustack_store(path: &Path, names: Names) -> Result<Imported, ImportError> {
    let database = Database::open(path, "GPUStack")?;
    database.require(&["workers", "models", "model_instances"])?;
    let mut kept = StoredRows {
        workers_in: "table `workers`",
        workers: rows(&database, "workers")?,
        models: rows(&database, "models")?,
        instances: rows(&database, "model_instances")?,
        files: rows(&database, "model_files")?.into_iter().map(|row| row.value).collect(),
        loads: Vec::new(),
    };
    database.each("system_loads", |row| {
        let at = row.require_count("timestamp", 1)?;
        let value = row.whole(&[])?;
        kept.loads.extend(value["gpu"].as_f64().map(|percent| (at, percent)));
        Ok(())
    })?;
    write::write(&kept, names)
}

/// All rows of a table that are not marked as deleted.
fn rows(database: &Database, table: &'static str) -> Result<Vec<StoredRow>, ImportError> {
    let mut found = Vec::new();
    database.each(table, |row| {
        let place = row.place();
        let value = row.whole(&JSON)?;
        if value["deleted_at"].is_null() {
            found.push(StoredRow { place, value });
        }
        Ok(())
    })?;
    Ok(found)
}
