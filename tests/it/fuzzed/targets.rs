//! What is read from outside, each with a function that reads it. The fuzzer (`.ci/fuzz`) compiles this file too, and
//! calls the same functions.
//!
//! Each function panics if the reader is at fault: if it panics itself, or if a diagnostic names a place outside the
//! input. An input is text, except for traces and logs. It must be read within a second (the fuzzer's limit is ten,
//! because its build is slower) and within 2 GB.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use dryrack_apiserver::{Limits, Server};
use dryrack_engine::{Progress, Runaway};
use dryrack_expression::{Expression, Type, Value};
use dryrack_import::{
    ClusterSource, Names, import_dstack, import_gpustack_pages, import_gpustack_store, import_kubernetes,
};
use dryrack_live::clock::Clock;
use dryrack_live::probe::{AnswersOf, gpu_indices, host_list, read_answers};
use dryrack_profile::{check_profile, load_profile};
use dryrack_rehearse::rehearse;
use dryrack_report::{LogReader, read_log};
use dryrack_scenario::{Loaded, Options, load_plan, load_text};
use dryrack_scheduler::{Caching, order_variables, placement_variables};
use dryrack_trace::{Format, read_nodes, read_requests, read_tasks, read_usage_csv};
use dryrack_units::SimTime;
use dryrack_workload::Arrival;
use dryrack_yaml::Diagnostics;
use tempfile::TempDir;

/// A format from outside.
pub struct Target {
    /// The name of its folder of inputs in `tests/data/corpus`.
    pub name: &'static str,
    /// Reads an input. Panics if the reader is at fault.
    pub read: fn(&[u8]),
    /// The longest input, in bytes, that the fuzzer makes.
    pub longest: usize,
}

pub const TARGETS: [Target; 12] = [
    Target { name: "scenario", read: scenario, longest: 4096 },
    Target { name: "run", read: run, longest: 4096 },
    Target { name: "profile", read: profile, longest: 4096 },
    Target { name: "plan", read: plan, longest: 2048 },
    Target { name: "expression", read: expression, longest: 512 },
    Target { name: "trace", read: trace, longest: 4096 },
    Target { name: "log", read: log, longest: 8192 },
    Target { name: "protocol", read: protocol, longest: 2048 },
    Target { name: "manifest", read: manifest, longest: 4096 },
    Target { name: "request", read: request, longest: 4096 },
    Target { name: "probe", read: probe, longest: 4096 },
    Target { name: "database", read: database, longest: 1024 },
];

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The input as text; `None` if it is not text. A reader of files reports that by itself.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// Each place of a diagnostic about this file must be within its text.
pub fn check_places(file: &str, text: &str, diagnostics: &Diagnostics) {
    let lines: Vec<&str> = text.split('\n').collect();
    for diagnostic in diagnostics.iter().filter(|diagnostic| &*diagnostic.file == file) {
        let line = lines.get(diagnostic.line as usize - 1).unwrap_or_else(|| panic!("{diagnostic}"));
        let end = diagnostic.column as usize - 1 + diagnostic.length as usize;
        assert!(end <= line.chars().count(), "{diagnostic}");
    }
    // Rendering must not fail either.
    assert!(diagnostics.to_string().len() < 1_000_000 || diagnostics.iter().count() > 100);
}

/// The text of a YAML file as its reader sees it: a lone carriage return ends a line.
fn lines_ended(input: &[u8]) -> String {
    let mut bytes = input.to_vec();
    for at in 0..bytes.len() {
        if bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
            bytes[at] = b'\n';
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A folder of this process, which is kept until it ends, and a file in it with this text.
fn file(name: &str, input: &[u8]) -> PathBuf {
    thread_local!(static FOLDER: TempDir = tempfile::tempdir().expect("a folder of our own"));
    FOLDER.with(|folder| {
        let path = folder.path().join(name);
        let mut file = std::fs::File::create(&path).expect("a folder of our own");
        file.write_all(input).expect("a folder of our own");
        path
    })
}

/// A scenario, followed by arguments of `--set`, each after a NUL.
fn scenario(input: &[u8]) {
    let Some(whole) = text(input) else { return };
    let mut parts = whole.split('\0');
    let text = parts.next().unwrap_or_default();
    let options = Options { set: parts.map(str::to_string).collect(), ..Options::default() };
    match load_text("fuzzed.yaml", text, Path::new("nowhere"), &options) {
        Ok(loaded) => check_places("fuzzed.yaml", text, &loaded.warnings),
        Err(diagnostics) => {
            assert!(diagnostics.has_errors());
            check_places("fuzzed.yaml", text, &diagnostics);
        }
    }
}

/// Runs a scenario that its reader accepts, if it is small, and computes all metrics.
fn run(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let loaded = load_text("fuzzed.yaml", text, Path::new("nowhere"), &Options::default());
    let Ok(Loaded { mut rehearsal, expectations, outside: None, streamed: None, .. }) = loaded else { return };
    let tasks = |arrival: &Arrival| u64::from(arrival.spec.demand.tasks) * u64::from(arrival.spec.replicas);
    let all = rehearsal.arrivals.iter().map(tasks).fold(0, u64::saturating_add);
    if rehearsal.nodes.len() > 100 || rehearsal.arrivals.len() > 500 || all > 2000 {
        return;
    }
    rehearsal.until = Some(rehearsal.until.map_or(LATEST, |until| until.min(LATEST)));
    let progress = Progress::default();
    let (end, has_ended) = mpsc::channel::<()>();
    let ran = std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || {
            if has_ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                progress.stop();
            }
        });
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let rehearsed = rehearse(&rehearsal, expectations, progress, Caching::On, Vec::new());
            rehearsed.run_metrics.metrics();
        }));
        drop(end);
        ran
    });
    // A run that was stopped is no fault.
    if let Err(cause) = ran
        && !cause.is::<Runaway>()
    {
        resume_unwind(cause);
    }
}

/// The end of a run, and the longest time of the clock for it.
const LATEST: SimTime = SimTime::from_secs(30 * 86_400);
const PATIENCE: Duration = Duration::from_secs(2);

fn profile(input: &[u8]) {
    let path = file("profile.yaml", input);
    let name = path.display().to_string();
    let diagnostics = check_profile(&path);
    check_places(&name, &lines_ended(input), &diagnostics);
    assert_eq!(load_profile(&name, Path::new("")).is_err(), diagnostics.has_errors(), "{diagnostics}");
}

/// The scenario of the plans.
const PLANNED: &str = "\
scenario: planned
params: {gpus: 2}
nodes: [{name: alpha, machine: a100-80g-x8, count: 1}]
jobs: [{name: train, count: 3, gpus: \"${gpus}\", duration: 1h}]
";

fn plan(input: &[u8]) {
    let path = file("plan.yaml", input);
    file("planned.yaml", PLANNED.as_bytes());
    let found = load_plan(&path, &Options::default(), |_| ()).map_or_else(|faults| faults, |(_, warnings)| warnings);
    check_places(&path.display().to_string(), &lines_ended(input), &found);
}

/// An expression of an order or of a filter, with the same value for each variable of a type.
fn expression(input: &[u8]) {
    let Some(text) = text(input) else { return };
    for (variables, wanted) in [(order_variables(), Type::Number), (placement_variables(), Type::Bool)] {
        let read = match Expression::new(text, variables, wanted) {
            Ok(read) => read,
            Err(fault) => {
                assert!(fault.at.start <= fault.at.end && fault.at.end <= text.len(), "{fault:?}");
                assert!(text.is_char_boundary(fault.at.start) && text.is_char_boundary(fault.at.end), "{fault:?}");
                continue;
            }
        };
        let of = |path: &'static str, _: Option<&str>| {
            let variable = variables.iter().find(|variable| variable.path == path).expect("it is one of these");
            match variable.is {
                Type::Bool => Value::Bool(true),
                Type::Number => Value::Number(2.5),
                Type::Text | Type::Labels => Value::Text("a"),
                Type::Texts => Value::Texts(vec!["a", "b"]),
            }
        };
        match wanted {
            Type::Bool => drop(read.is_true(of)),
            _ => drop(read.number(of)),
        }
    }
}

/// A byte that chooses the format, and the list of tasks, of nodes or of readings.
fn trace(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    let path = file("trace.txt", rest);
    let which = usize::from(which.saturating_sub(b'a'));
    match Format::ALL.get(which) {
        Some(format) => {
            let _tasks = read_tasks(*format, &path);
            let _nodes = read_nodes(*format, &path);
        }
        None if which == Format::ALL.len() => drop(read_usage_csv(&path)),
        None if which == Format::ALL.len() + 1 => drop(read_requests(&path)),
        None => drop(text(rest).and_then(dryrack_units::date::parse)),
    }
}

fn log(input: &[u8]) {
    let Ok(reader) = LogReader::new(input) else { return };
    let _footer = read_log(reader, |_, _| ());
}

fn protocol(input: &[u8]) {
    if let Err(faults) = dryrack_outside::check_line(input) {
        assert!(faults.iter().all(|fault| !fault.text.is_empty() && fault.text.len() < 10_000), "{faults:?}");
    }
}

fn manifest(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let texts = [("fuzzed.yaml".to_string(), text.to_string())];
    let names = if text.len().is_multiple_of(2) { Names::Kept } else { Names::Numbered };
    match import_kubernetes(&ClusterSource::Texts(&texts), names) {
        Ok(imported) => assert!(!imported.files.is_empty(), "{:?}", imported.notes),
        Err(diagnostics) => check_places("fuzzed.yaml", text, &diagnostics),
    }
}

/// Requests, each on two lines: the method, the path and the media type; and the body.
fn request(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let server = Server::start(Limits::default(), "v1.35.0").expect("loopback");
    let lines: Vec<&str> = text.lines().collect();
    for request in lines.chunks(2).take(8) {
        let mut head = request[0].split(' ');
        let mut part = || head.next().unwrap_or_default();
        let (method, target, media_type) = (part(), part(), part());
        let body = request.get(1).copied().unwrap_or_default();
        if let Some((status, answer)) = server.ask(method, target, media_type, body.as_bytes()) {
            assert!((200..600).contains(&status), "{status}");
            assert_ne!(status, 500, "{answer}");
            assert!(answer.is_empty() || serde_json::from_str::<serde_json::Value>(&answer).is_ok(), "{answer}");
        }
    }
}

/// A letter that chooses the source, and its answers, each after a NUL.
fn probe(input: &[u8]) {
    let Some(whole) = text(input) else { return };
    let Some((which, rest)) = whole.split_at_checked(1) else { return };
    let answers: Vec<&str> = rest.split('\0').collect();
    match AnswersOf::ALL.get(usize::from(which.as_bytes()[0].saturating_sub(b'a'))) {
        Some(of) => {
            if let Err(missing) = read_answers(*of, &answers, Clock::start().now()) {
                assert!(missing.to_string().len() < 10_000, "{missing}");
            }
        }
        None => {
            assert!(host_list(rest).len() <= 1_000_000);
            let _indices = gpu_indices(rest);
        }
    }
}

/// The database of a server, and changes to it: on each line the table, the column, the number of the row, and the new
/// value in JSON, with tabs between them. The first letter chooses the server. The last ones read pages instead.
fn database(input: &[u8]) {
    let Some(whole) = text(input) else { return };
    let Some((which, changes)) = whole.split_at_checked(1) else { return };
    let (name, data) = match which {
        "a" => ("dstack", include_bytes!("../../data/probe/dstack-0.22.5.sqlite.gz").as_slice()),
        "b" => ("gpustack", include_bytes!("../../data/probe/gpustack-0.7.1.sqlite.gz").as_slice()),
        "c" => ("gpustack", include_bytes!("../../data/probe/gpustack-0.4.1.sqlite.gz").as_slice()),
        _ => return pages(changes),
    };
    let mut bytes = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(data), &mut bytes).expect("it is whole");
    let path = file("server.db", &bytes);
    let database = rusqlite::Connection::open(&path).expect("a file of our own");
    database.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").expect("SQL");
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    for line in changes.lines().take(16) {
        let cells: Vec<&str> = line.splitn(4, '\t').collect();
        let [table, column, row, value] = cells[..] else { continue };
        if !is_word(table) || !is_word(column) {
            continue;
        }
        let row: i64 = row.parse().unwrap_or(0);
        let value = match serde_json::from_str(value) {
            Ok(serde_json::Value::Null) => rusqlite::types::Value::Null,
            Ok(serde_json::Value::Bool(is)) => rusqlite::types::Value::Integer(i64::from(is)),
            Ok(serde_json::Value::Number(number)) => match number.as_i64() {
                Some(whole) => rusqlite::types::Value::Integer(whole),
                None => rusqlite::types::Value::Real(number.as_f64().unwrap_or(f64::INFINITY)),
            },
            Ok(serde_json::Value::String(text)) => rusqlite::types::Value::Text(text),
            Ok(json) => rusqlite::types::Value::Text(json.to_string()),
            Err(_) => rusqlite::types::Value::Blob(value.as_bytes().to_vec()),
        };
        let change = format!(
            "UPDATE \"{table}\" SET \"{column}\" = ?1 WHERE rowid = (SELECT rowid FROM \"{table}\" LIMIT 1 OFFSET ?2)"
        );
        // A table that is not there, or a value that a key rejects.
        let _refused = database.execute(&change, rusqlite::params![value, row]);
    }
    drop(database);
    let read = if name == "dstack" { import_dstack } else { import_gpustack_store };
    check_imported(read(&path, Names::Kept));
}

/// The pages of a server, each after a NUL: workers, models and instances of models.
fn pages(input: &str) {
    let mut folder = PathBuf::new();
    let mut pages = input.split('\0');
    for name in ["workers.json", "models.json", "model-instances.json"] {
        let path = file(name, pages.next().unwrap_or("{\"items\": []}").as_bytes());
        folder = path.parent().expect("it is in a folder").to_path_buf();
    }
    check_imported(import_gpustack_pages(&folder, Names::Kept));
}

/// What is imported is a scenario without errors.
fn check_imported(imported: Result<dryrack_import::Imported, dryrack_import::ImportError>) {
    match imported {
        Ok(imported) if imported.recordings.is_empty() => {
            let options = Options::default();
            if let Err(faults) = load_text("imported.yaml", &imported.scenario, Path::new("nowhere"), &options) {
                panic!("{faults}\n{}", imported.scenario);
            }
        }
        Ok(_) => {}
        Err(error) => assert!(error.to_string().len() < 10_000, "{error}"),
    }
}
