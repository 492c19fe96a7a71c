//! `dryrack outside`: manages released schedulers that are installed beside dryrack and can decide in its runs.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json, warn};
use super::progress::with_line;
use dryrack_released::{Release, ReleaseHealth, ReleasedError, Store, releases};

#[derive(Debug, Subcommand)]
pub enum OutsideCommand {
    /// Install releases from the package index, each package in a locked version
    Install {
        /// Releases, such as `gpustack==0.6.0`
        #[arg(required = true, value_name = "RELEASE")]
        names: Vec<String>,
    },
    /// List the releases that are installed, and their sizes
    List {
        /// Also list the releases that can be installed
        #[arg(long)]
        all: bool,
    },
    /// Remove releases, and the packages that no other release needs
    Remove {
        /// Releases, such as `gpustack==0.6.0`
        #[arg(required = true, value_name = "RELEASE")]
        names: Vec<String>,
    },
    /// Check whether Python is installed and whether each installed release works
    Doctor,
    /// Compare a release with decisions that were recorded from it
    Check {
        /// Release, such as `gpustack==0.6.0`
        name: String,
        /// Files of recorded decisions, as JSON lines, plain or gzip
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

pub fn outside(command: &OutsideCommand, format: Format) -> ExitResult {
    match command {
        OutsideCommand::Install { names } => install(names, format),
        OutsideCommand::List { all } => list(*all, format),
        OutsideCommand::Remove { names } => remove(names, format),
        OutsideCommand::Doctor => doctor(format),
        OutsideCommand::Check { name, files } => check(name, files, format),
    }
}

fn failure(error: ReleasedError) -> Failure {
    Failure::Input(format!("error: {error}"))
}

/// Checks all names before anything is installed or removed.
fn named(names: &[String]) -> Result<(Store, Vec<Release>), Failure> {
    let mut known = Vec::new();
    let mut wrong = Vec::new();
    for name in names {
        match Release::named(name) {
            Ok(release) if known.contains(&release) => {}
            Ok(release) => known.push(release),
            Err(error) => wrong.push(format!("error: {error}\n")),
        }
    }
    match wrong.is_empty() {
        true => Ok((Store::from_env().map_err(failure)?, known)),
        false => Err(Failure::Input(wrong.concat())),
    }
}

/// Does `work` and shows the latest message that `work` reports.
fn watched<T>(what: &str, work: impl FnOnce(&dyn Fn(&str)) -> T) -> T {
    let message = Mutex::new(String::new());
    let tell = |text: &str| {
        if let Ok(mut message) = message.lock() {
            text.clone_into(&mut message);
        }
    };
    let shown = || format!("{what}: {}", message.lock().map(|message| message.clone()).unwrap_or_default());
    with_line(shown, || work(&tell))
}

fn install(names: &[String], format: Format) -> ExitResult {
    let (store, wanted) = named(names)?;
    let mut rows: Vec<Value> = Vec::new();
    for release in wanted {
        #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
        let begun = Instant::now();
        let done = watched(&release.to_string(), |tell| {
            let done = store.install(&release, tell)?;
            tell("asking it for the first time");
            Ok((done, store.greet(&release)))
        });
        let (done, greeted) = done.map_err(failure)?;
        if let Err(ill) = greeted {
            return Err(Failure::Input(format!("error: {release} is installed, but {ill}")));
        }
        let took = begun.elapsed();
        match format {
            Format::Json => rows.push(json!({
                "release": release.to_string(), "was_here": done.was_here, "made_base": done.made_base, "base": release.base,
                "bytes": done.release_bytes, "base_bytes": done.base_bytes, "folder": done.folder,
                "seconds": took.as_secs_f64(),
            })),
            Format::Human if done.was_here => print(&format!("{release} is already installed\n"))?,
            Format::Human => {
                let base = if done.made_base { format!(", with {} of shared packages", size(done.base_bytes)) } else { String::new() };
                print(&format!("{release} installed in {:.0} s: {}{base}\n", took.as_secs_f64(), size(done.release_bytes)))?;
            }
        }
    }
    if format == Format::Json {
        print_json(&rows)?;
    }
    Ok(Exit::Fine)
}

fn list(all: bool, format: Format) -> ExitResult {
    let store = Store::from_env().map_err(failure)?;
    let here = store.list();
    let state = |release: &Release| match here.iter().find(|found| found.release == *release) {
        Some(found) if found.is_current => Some("installed"),
        Some(_) => Some("old: install it again"),
        None => None,
    };
    let bytes = |release: &Release| here.iter().find(|found| found.release == *release).map(|found| found.bytes);
    let shown: Vec<&Release> = releases().iter().filter(|release| all || state(release).is_some()).collect();
    match format {
        Format::Json => print_json(&json!({
            "folder": store.root(),
            "releases": shown.iter().map(|release| json!({
                "release": release.to_string(), "base": release.base, "state": state(release), "bytes": bytes(release),
            })).collect::<Vec<_>>(),
            "bases": store.bases().iter().map(|(name, bytes)| json!({"base": name, "bytes": bytes})).collect::<Vec<_>>(),
        }))?,
        Format::Human => {
            let mut text = String::new();
            for release in &shown {
                let size = bytes(release).map(size).unwrap_or_default();
                text += format!("{:<18} {:>8}  {}", release.to_string(), size, state(release).unwrap_or("")).trim_end();
                text += "\n";
            }
            for (name, bytes) in store.bases() {
                text += &format!("{:<18} {:>8}  packages shared by the releases on it\n", name, size(bytes));
            }
            if shown.is_empty() {
                text += "no release is installed; `dryrack outside list --all` lists all releases\n";
            }
            print(&text)?;
        }
    }
    Ok(Exit::Fine)
}

fn remove(names: &[String], format: Format) -> ExitResult {
    let (store, wanted) = named(names)?;
    if let Some(missing) = wanted.iter().find(|release| store.list().iter().all(|found| found.release != **release)) {
        return Err(failure(ReleasedError::NotInstalled { name: missing.to_string() }));
    }
    let mut rows: Vec<Value> = Vec::new();
    for release in wanted {
        let freed = store.remove(&release).map_err(failure)?;
        match format {
            Format::Json => rows.push(json!({"release": release.to_string(), "bytes": freed})),
            Format::Human => print(&format!("{release} removed: {} freed\n", size(freed)))?,
        }
    }
    if format == Format::Json {
        print_json(&rows)?;
    }
    Ok(Exit::Fine)
}

fn doctor(format: Format) -> ExitResult {
    let store = Store::from_env().map_err(failure)?;
    let found = watched("doctor", |tell| store.doctor(tell));
    let is_well = found.releases.iter().all(|health| health.ill.is_none());
    let said = |health: &ReleaseHealth| health.ill.as_ref().map(ToString::to_string);
    match format {
        Format::Json => print_json(&json!({
            "python": found.python.as_ref().ok().map(|python| json!({"path": python.path, "version": python.version})),
            "python_error": found.python.as_ref().err().map(ToString::to_string),
            "folder": store.root(),
            "releases": found.releases.iter().map(|health| json!({
                "release": health.release.to_string(), "answers": health.ill.is_none(), "error": said(health),
            })).collect::<Vec<_>>(),
        }))?,
        Format::Human => {
            let mut text = match &found.python {
                Ok(python) => format!("python    {} at {}\n", python.version, python.path.display()),
                Err(error) => format!("python    {error}\n"),
            };
            text += &format!("folder    {}\n", store.root().display());
            for health in &found.releases {
                text +=
                    &format!("{:<18} {}\n", health.release.to_string(), said(health).unwrap_or("answers".to_string()));
            }
            print(&text)?;
        }
    }
    Ok(if is_well && found.python.is_ok() { Exit::Fine } else { Exit::Failed })
}

/// Starts the driver of the release with the files. The driver prints one JSON object for each file.
fn check(name: &str, files: &[PathBuf], format: Format) -> ExitResult {
    let command = dryrack_released::command_of(name).map_err(failure)?;
    for file in files {
        std::fs::File::open(file).map_err(|error| Failure::unreadable(file, &error, "a file of recorded decisions"))?;
    }
    let mut driver = Command::new(&command[0]);
    driver.args(&command[1..]).arg("records").args(files).stdin(Stdio::null());
    let output = with_line(|| format!("{name}: repeating the recorded decisions"), || driver.output());
    let output =
        output.map_err(|error| Failure::Input(format!("error: the driver of {name} does not start: {error}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let last =
            message.lines().rev().find(|line| line.starts_with("fault: ")).unwrap_or("it ended without a message");
        warn(&message);
        return Err(Failure::Input(format!(
            "error: the driver of {name} failed: {}",
            last.trim_start_matches("fault: ")
        )));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let count = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0);
    match format {
        Format::Json => print_json(&rows)?,
        Format::Human => {
            for row in &rows {
                let (same, cases) = (count(row, "same"), count(row, "cases"));
                let file = row["file"].as_str().unwrap_or("");
                let mut text = format!("{name}  {file}: {same} of {cases} decisions are the same");
                if let Some(median) = row["median_ms"].as_f64().filter(|_| cases > 0) {
                    text += &format!(", {median:.1} ms each (median)");
                }
                text += "\n";
                for differs in row["differ"].as_array().into_iter().flatten() {
                    text += &format!("  {}: {}\n", differs["id"].as_str().unwrap_or("?"), differs["differs"]);
                }
                print(&text)?;
            }
        }
    }
    let cases: u64 = rows.iter().map(|row| count(row, "cases")).sum();
    Ok(match rows.iter().all(|row| count(row, "same") == count(row, "cases")) {
        false => Exit::Failed,
        true if cases == 0 => Exit::NothingSelected,
        true => Exit::Fine,
    })
}

fn size(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
