//! Imports of damaged server data. Each either produces a scenario that `check` accepts, or reports the faults of the
//! source by table, row and column (for the interface: by file and item).

use std::fs;
use std::path::{Path, PathBuf};

use dryrack_import::{
    ImportError, Imported, Names, SCENARIO, import_dstack, import_gpustack_pages, import_gpustack_store,
};
use dryrack_scenario::{Options, check};
use rusqlite::Connection;
use rusqlite::types::{Value as Cell, ValueRef};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{dryrack, empty};
use crate::imports::{DATA, unpacked};

trials! {
    Nothing: [
        what_is_imported_of_damaged_records_is_accepted_or_its_fault_is_named,
        a_column_whose_name_is_no_text_is_named,
        a_value_that_no_scenario_can_hold_is_told_by_its_column,
    ]
    Time: [
        slow_what_is_imported_of_1000_damaged_records_is_accepted_or_its_fault_is_named,
    ]
}

fn what_is_imported_of_damaged_records_is_accepted_or_its_fault_is_named() {
    damaged(40);
}

fn slow_what_is_imported_of_1000_damaged_records_is_accepted_or_its_fault_is_named() {
    damaged(1_000);
}

/// Tests `cases` cases of each importer and each kind of damage.
fn damaged(cases: u64) {
    let doors =
        [("dstack-0.22.5", Door::Dstack), ("gpustack-0.7.1", Door::Gpustack), ("gpustack-0.4.1", Door::Gpustack)];
    let mut accepted = 0;
    for (name, door) in doors {
        let (dir, file) = unpacked(name);
        let whole = fs::read(&file).expect("it is there");
        for case in 0..cases {
            let mut draw = Draw(case * 1_000 + door as u64);
            for is_by_value in [true, false] {
                fs::write(&file, &whole).expect("a folder of our own");
                let what = if is_by_value { alter(&file, &mut draw) } else { flip(&file, &mut draw) };
                accepted +=
                    u64::from(ends_well(door, dir.path(), &file, &format!("{name} {case}: {what}"), is_by_value));
            }
        }
    }
    let pages = Path::new(DATA).join("gpustack-2.3.0");
    let dir = empty();
    for case in 0..cases {
        let mut draw = Draw(case * 1_000 + 77);
        let folder = dir.path().join("pages");
        fs::create_dir_all(&folder).expect("a folder of our own");
        let names = ["workers.json", "models.json", "model-instances.json"];
        for name in names {
            fs::copy(pages.join(name), folder.join(name)).expect("it is carried");
        }
        let path = folder.join(*draw.one_of(&names));
        let mut page: Value = serde_json::from_slice(&fs::read(&path).expect("copied")).expect("JSON");
        let mut what = String::new();
        for _ in 0..1 + draw.below(3) {
            what.push_str(&alter_leaf(&mut page, &mut draw));
        }
        fs::write(&path, serde_json::to_vec(&page).expect("JSON")).expect("a folder of our own");
        let what = format!("{} {case}: {what}", path.display());
        accepted += u64::from(ends_well(Door::Pages, dir.path(), &folder, &what, true));
    }
    // With fewer accepted cases, `check` would hardly be tested.
    assert!(accepted > cases, "{accepted} were accepted");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Dstack = 1,
    Gpustack = 2,
    Pages = 3,
}

/// Returns whether it was accepted. A fault of a value must name its place.
fn ends_well(door: Door, dir: &Path, source: &Path, what: &str, names_place: bool) -> bool {
    let names = if what.len().is_multiple_of(2) { Names::Kept } else { Names::Numbered };
    let imported = match door {
        Door::Dstack => import_dstack(source, names),
        Door::Gpustack => import_gpustack_store(source, names),
        Door::Pages => import_gpustack_pages(source, names),
    };
    match imported {
        Ok(imported) => {
            is_accepted(dir, &imported, what);
            true
        }
        Err(error @ (ImportError::Unchecked(_) | ImportError::NoTable { .. })) => {
            assert!(!names_place || matches!(error, ImportError::NoTable { .. }), "{what}\n{error}");
            false
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 10_000, "{what}\n{said}");
            let place = if door == Door::Pages { ".json" } else { "table `" };
            let is_of_all =
                ["last date of all rows", "dates of the models' instances"].iter().any(|all| said.contains(all));
            assert!(!names_place || is_of_all || said.contains(place), "{what}\n{said}");
            false
        }
    }
}

fn is_accepted(dir: &Path, imported: &Imported, what: &str) {
    let out = dir.join("out");
    let _fresh = fs::remove_dir_all(&out);
    fs::create_dir_all(out.join("usage")).expect("a folder of our own");
    for (path, text) in &imported.recordings {
        fs::write(out.join(path), text).expect("a folder of our own");
        dryrack_trace::read_usage_csv(&out.join(path)).unwrap_or_else(|error| panic!("{what}\n{error}"));
    }
    let path = out.join(SCENARIO);
    fs::write(&path, &imported.scenario).expect("a folder of our own");
    let said = check(&path, &Options::default());
    assert!(!said.has_errors(), "{what}\n{said}\n{}", imported.scenario);
}

/// SplitMix64 (Steele and others, OOPSLA 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const TABLES: [&str; 9] = [
    "workers",
    "models",
    "model_instances",
    "model_files",
    "system_loads",
    "instances",
    "fleets",
    "jobs",
    "job_metrics_points",
];

/// Draws an unexpected value for a cell of a database.
fn odd_cell(draw: &mut Draw) -> Cell {
    let texts = [
        "",
        "null",
        "a: b",
        "- x",
        "{",
        "[]",
        "{}",
        "[1, null, \"x\"]",
        "\u{1}\n\u{85}\u{2028}",
        "  - {name: evil}\n",
        "2026-13-02 08:20:00",
        "9999-01-01 00:00:00",
        "1969-12-31 23:59:59",
        "2026-11-02T08:20:00.Z",
        "-1",
        "../../x",
        "ÿ/*?,[]{}\"'`",
    ];
    match draw.below(8) {
        0 => Cell::Null,
        1 => Cell::Integer(*draw.one_of(&[0, -1, 1, 1_000_000, i64::MAX, i64::MIN])),
        2 => Cell::Real(*draw.one_of(&[0.5, -1.0, 1e308, f64::INFINITY, 1e-300])),
        3 => Cell::Blob(vec![0xff, 0, 0xc3]),
        4 => Cell::Text("x".repeat(*draw.one_of(&[300, 70_000]))),
        _ => Cell::Text(draw.one_of(&texts).to_string()),
    }
}

/// Changes cells, columns and rows, as any client of SQLite can. Returns a description.
fn alter(file: &Path, draw: &mut Draw) -> String {
    let database = Connection::open(file).expect("a file of our own");
    let mut said = String::new();
    for _ in 0..1 + draw.below(3) {
        let is_there = |table: &&&str| columns(&database, table).len() > 1;
        let there: Vec<&str> = TABLES.iter().filter(is_there).copied().collect();
        let table = *draw.one_of(&there);
        let names = columns(&database, table);
        let column = draw.one_of(&names).clone();
        let count: i64 =
            database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a table");
        let row = 1 + draw.below(count.max(1) as usize) as i64;
        let at = format!("rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {})", row - 1);
        let change = match draw.below(10) {
            0 => format!("ALTER TABLE {table} RENAME COLUMN \"{column}\" TO \"x {}\"", draw.below(99)),
            1 => format!("ALTER TABLE {table} ADD COLUMN \"ö \"\"`; --\" TEXT DEFAULT 'x'"),
            2 => format!("DELETE FROM {table} WHERE {at}"),
            3 => format!("DELETE FROM {table}"),
            4..7 if leaf_of_json(&database, table, &column, &at, draw).is_some() => String::new(),
            _ => {
                let cell = odd_cell(draw);
                // A value that a key rejects is not written.
                let done =
                    database.execute(&format!("UPDATE {table} SET \"{column}\" = ?1 WHERE {at}"), [cell.clone()]);
                said.push_str(&format!("{table}.{column} row {row} = {:.60?} {done:?}; ", cell));
                continue;
            }
        };
        let done = if change.is_empty() { Ok(()) } else { database.execute_batch(&change) };
        said.push_str(&format!("{table}.{column} row {row} {change} {done:?}; "));
    }
    said
}

fn columns(database: &Connection, table: &str) -> Vec<String> {
    let mut statement = database.prepare("SELECT name FROM pragma_table_info(?1)").expect("SQL");
    let names = statement.query_map([table], |row| row.get(0)).expect("SQL");
    names.map(|name| name.expect("text")).collect()
}

/// Changes something within the JSON of a cell, if it has any.
fn leaf_of_json(database: &Connection, table: &str, column: &str, at: &str, draw: &mut Draw) -> Option<()> {
    let asked = format!("SELECT \"{column}\" FROM {table} WHERE {at}");
    let text: String = database
        .query_row(&asked, [], |row| match row.get_ref(0)? {
            ValueRef::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            _ => Ok(String::new()),
        })
        .ok()?;
    let mut value: Value =
        serde_json::from_str(&text).ok().filter(|value: &Value| value.is_object() || value.is_array())?;
    alter_leaf(&mut value, draw);
    database.execute(&format!("UPDATE {table} SET \"{column}\" = ?1 WHERE {at}"), [value.to_string()]).ok()?;
    Some(())
}

/// Replaces something with an odd value; returns where.
fn alter_leaf(value: &mut Value, draw: &mut Draw) -> String {
    let odd = [
        Value::Null,
        Value::from(-1),
        Value::from(0),
        Value::from(u64::MAX),
        Value::from(1_000_000),
        Value::from(1e300),
        Value::from(0.5),
        Value::from(true),
        Value::from(""),
        Value::from("a: b\n- x"),
        Value::from("null"),
        Value::from("x".repeat(300)),
        Value::from("\u{1}\u{85}\u{feff}"),
        serde_json::json!([]),
        serde_json::json!({}),
        serde_json::json!([[1], {"a": null}]),
        serde_json::json!({"min": -1, "max": "x"}),
    ];
    let goes_on = draw.below(8) > 0;
    match value {
        Value::Object(map) if goes_on && !map.is_empty() => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = draw.one_of(&keys);
            format!(".{key}{}", alter_leaf(map.get_mut(key).expect("its own key"), draw))
        }
        Value::Array(list) if goes_on && !list.is_empty() => {
            let at = draw.below(list.len());
            format!("[{at}]{}", alter_leaf(&mut list[at], draw))
        }
        other => {
            *other = draw.one_of(&odd).clone();
            format!(" = {:.60}; ", other.to_string())
        }
    }
}

/// Flips bits, and sometimes cuts off the end.
fn flip(file: &Path, draw: &mut Draw) -> String {
    let mut bytes = fs::read(file).expect("it is there");
    let mut said = String::new();
    for _ in 0..1 + draw.below(20) {
        let at = draw.below(bytes.len());
        bytes[at] ^= 1 << draw.below(8);
        said.push_str(&format!("{at} "));
    }
    if draw.below(10) == 0 {
        bytes.truncate(draw.below(bytes.len()));
    }
    fs::write(file, bytes).expect("a folder of our own");
    format!("bytes {said}")
}

/// A column's name may be bytes that are not text, which SQLite accepts. The importer reports this as a fault of the
/// file.
fn a_column_whose_name_is_no_text_is_named() {
    for (name, kind, from, to) in [
        ("gpustack-0.7.1", "gpustack-db", &b"system_reserved"[..], &b"system_\xeeeserved"[..]),
        ("dstack-0.22.5", "dstack-db", b"total_blocks INT", b"total\xffblocks INT"),
    ] {
        let (dir, file): (TempDir, PathBuf) = unpacked(name);
        let mut bytes = fs::read(&file).expect("it is there");
        let at = bytes.windows(from.len()).position(|window| window == from).expect("the schema names it");
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(&file, bytes).expect("a folder of our own");
        let path = file.display().to_string();
        let output = dryrack(dir.path(), &["import", kind, &path, "--out", "out"]).output().expect("it is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("table `") && said.contains(", column ") && said.contains("a name in text"), "{said}");
        assert!(!dir.path().join("out").exists());
    }
}

/// A value that a scenario cannot hold is reported with its row and column.
fn a_value_that_no_scenario_can_hold_is_told_by_its_column() {
    let rows = [
        (
            "gpustack-0.7.1",
            "gpustack-db",
            "UPDATE models SET replicas = 5000000 WHERE name = 'chat'",
            "table `models`, row 1, column `replicas`: ",
        ),
        (
            "gpustack-0.7.1",
            "gpustack-db",
            "UPDATE models SET replicas = 'many' WHERE name = 'chat'",
            "table `models`, row 1, column `replicas`: expected a number of replicas, found `\"many\"`",
        ),
        (
            "gpustack-0.7.1",
            "gpustack-db",
            "UPDATE models SET created_at = 'soon' WHERE name = 'chat'",
            "table `models`, row 1, column `created_at`: expected a date, not `soon`",
        ),
        (
            "gpustack-0.7.1",
            "gpustack-db",
            "UPDATE workers SET status = '{' WHERE name = 'desk'",
            "column `status`: expected JSON",
        ),
        (
            "dstack-0.22.5",
            "dstack-db",
            "UPDATE instances SET total_blocks = 9999999999 WHERE name = 'lab-0'",
            "table `instances`, row 1, column `total_blocks`: ",
        ),
        (
            "dstack-0.22.5",
            "dstack-db",
            "UPDATE jobs SET submitted_at = 7 WHERE run_name = 'train'",
            "column `submitted_at`: expected text, found `",
        ),
        (
            "dstack-0.22.5",
            "dstack-db",
            "UPDATE jobs SET job_spec_data = json_set(job_spec_data, '$.requirements.resources.cpu', 'x') WHERE run_name = 'train'",
            "column `job_spec_data`: ",
        ),
        (
            "dstack-0.22.5",
            "dstack-db",
            "UPDATE job_metrics_points SET timestamp_micro = -1000000 WHERE job_id IN (SELECT id FROM jobs)",
            "column `timestamp_micro`: expected a time between 1970 and 2500",
        ),
    ];
    for (name, kind, change, wanted) in rows {
        let (dir, file) = unpacked(name);
        let changed = Connection::open(&file).and_then(|database| database.execute(change, []));
        assert!(matches!(changed, Ok(1..)), "{change}: {changed:?}");
        let path = file.display().to_string();
        let output = dryrack(dir.path(), &["import", kind, &path, "--out", "out"]).output().expect("it is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{change}: {said}");
        assert!(said.contains(wanted), "{change}: {said}\ninstead of {wanted}");
        assert!(!dir.path().join("out").exists(), "{change}");
    }
}
