//! Reads answers of a GPUStack server's REST interface, as `curl` saved them.
//!
//! ```sh
//! for what in workers models model-instances model-files; do
//!   curl -fsS -H "Authorization: Bearer $GPUSTACK_API_KEY" -o pages/$what.json "$SERVER/v2/$what?page=1&perPage=100"
//! done
//! ```
//!
//! Before 2.0 the path is `/v1`. The name of a file shows its kind. If there are several pages, each has its own file,
//! such as `workers-2.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;

use super::super::imported::{ImportError, Imported, Names};
use super::{StoredRow, StoredRows, write};
use dryrack_live::probe::shown;

/// Kinds of files. No kind is a prefix of another: `model-instances` does not begin with `models`.
const KINDS: [&str; 4] = ["model-instances", "model-files", "workers", "models"];

/// The size limit of a file in bytes; a larger file is not a server's answer.
const MOST_BYTES: u64 = 256 << 20;

/// Imports a folder with saved answers, one in each file.
pub fn import_gpustack_pages(folder: &Path, names: Names) -> Result<Imported, ImportError> {
    let mut files: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kind = KINDS.into_iter().find(|kind| name.starts_with(kind) && name.ends_with(".json"));
        if let Some(kind) = kind {
            files.entry(kind).or_default().push(path);
        }
    }
    let mut take = |kind: &'static str| {
        let mut paths = files.remove(kind).unwrap_or_default();
        paths.sort();
        rows(&paths, kind)
    };
    let kept = StoredRows {
        workers_in: "workers.json",
        workers: take("workers")?,
        models: take("models")?,
        instances: take("model-instances")?,
        files: take("model-files")?.into_iter().map(|row| row.value).collect(),
        loads: Vec::new(),
    };
    write::write(&kept, names)
}

fn unreadable(path: &Path, error: &io::Error) -> ImportError {
    ImportError::malformed(path.display().to_string(), format!("what can be read: {error}"))
}

/// The rows in all pages of one kind, in the order of their ids. Each row appears once.
fn rows(paths: &[PathBuf], kind: &str) -> Result<Vec<StoredRow>, ImportError> {
    if paths.is_empty() {
        // The list of downloaded files is optional.
        let expected = format!("a file `{kind}.json`, the answer of /v2/{kind}");
        let missing = ImportError::malformed("saved answers of the server", expected);
        return if kind == "model-files" { Ok(Vec::new()) } else { Err(missing) };
    }
    let (mut rows, mut total) = (Vec::new(), 0);
    for path in paths {
        let page = page(path)?;
        total = total.max(page["pagination"]["total"].as_u64().unwrap_or(0));
        rows.extend(items(page, path)?);
    }
    // Pages overlap if rows were added or deleted between the requests.
    let mut seen = BTreeSet::new();
    rows.retain(|row: &StoredRow| row.value["id"].as_i64().is_none_or(|id| seen.insert(id)));
    rows.sort_by_key(|row| row.value["id"].as_i64());
    if total > rows.len() as u64 {
        let expected = format!(
            "all {total} rows, found {}; save the other pages as `{kind}-2.json` (page=2) and so on",
            rows.len()
        );
        return Err(ImportError::malformed(paths[0].display().to_string(), expected));
    }
    rows.retain(|row| row.value["deleted_at"].is_null());
    Ok(rows)
}

fn page(path: &Path) -> Result<Value, ImportError> {
    let place = path.display().to_string();
    let size = fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
    if size > MOST_BYTES {
        let expected = format!("at most {} MiB, found {} MiB", MOST_BYTES >> 20, size >> 20);
        return Err(ImportError::malformed(place, expected));
    }
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    serde_json::from_str(&text)
        .map_err(|fault| ImportError::malformed(format!("{place}:{}:{}", fault.line(), fault.column()), "JSON"))
}

/// The rows of a page, which are under the key `items`.
fn items(mut page: Value, path: &Path) -> Result<Vec<StoredRow>, ImportError> {
    let place = path.display().to_string();
    let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) else {
        // A server that refuses the request answers with a message.
        let said = page["message"].as_str().or(page["detail"].as_str());
        let said = said.map(|said| format!("; it says `{}`", shown(said))).unwrap_or_default();
        return Err(ImportError::malformed(place, format!("a page with `items`{said}")));
    };
    let row = |(index, value): (usize, Value)| {
        let place = format!("{place}, item {}", index + 1);
        if value.is_object() { Ok(StoredRow { place, value }) } else { Err(ImportError::malformed(place, "a map")) }
    };
    found.into_iter().enumerate().map(row).collect()
}
