//! `dryrack doctor`: which folders and programs are here, and what each is for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use super::exit::{Exit, ExitResult};
use super::output::{Format, print, print_json};
use super::recorded_runs::RECORD_VERSION;
use super::roots::roots;
use dryrack_event::FORMAT_VERSION;
use dryrack_report::table;

/// Something that dryrack looks for.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    is: Standing,
    /// The path and the version, or why it is not used.
    found: String,
    is_for: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    Here,
    /// It is not here, and nothing fails without it but what it is for.
    Absent,
    /// It is here or was named, and cannot be used.
    Unusable,
}

/// Programs, the arguments that print their versions, and what they are for.
const PROGRAMS: [(&str, &[&str], &str); 9] = [
    ("curl", &["--version"], "`trace get`, and probes of GPUStack, dstack and metrics"),
    ("python3", &["--version"], "`outside install`: released schedulers"),
    ("nvidia-smi", &["--version"], "`probe`, `record` and `watch` of NVIDIA GPUs here"),
    ("sinfo", &["--version"], "`probe --from slurm`"),
    ("sbatch", &["--version"], "`live --on slurm`, `plan submit --on slurm`"),
    ("kubectl", &["version", "--client"], "`probe --from kubernetes`, `plan submit --on kubernetes`"),
    ("git", &["--version"], "the action for changes on GitHub"),
    ("chromium", &["--version"], "`--picture` of a report (so are Chrome, Edge and Brave)"),
    ("man", &["--version"], "the pages that `dryrack man` writes"),
];

pub fn doctor(format: Format) -> ExitResult {
    let findings: Vec<Finding> = folders().into_iter().chain(PROGRAMS.iter().map(program)).collect();
    match format {
        Format::Json => print_json(&serde_json::json!({
            "dryrack": env!("CARGO_PKG_VERSION"), "log_format": FORMAT_VERSION, "record_format": RECORD_VERSION,
            "found": findings,
        }))?,
        Format::Human => print(&human(&findings))?,
    }
    let is_unusable = findings.iter().any(|finding| finding.is == Standing::Unusable);
    Ok(if is_unusable { Exit::Failed } else { Exit::Fine })
}

fn human(findings: &[Finding]) -> String {
    let word = |is: Standing| match is {
        Standing::Here => "yes",
        Standing::Absent => "no",
        Standing::Unusable => "UNUSABLE",
    };
    let row = |finding: &Finding| {
        vec![finding.what.to_string(), word(finding.is).to_string(), finding.is_for.to_string(), finding.found.clone()]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    let version = env!("CARGO_PKG_VERSION");
    let formats =
        format!("reads logs of the formats 1 to {FORMAT_VERSION} and records of the formats 1 to {RECORD_VERSION}");
    let unusable = rows.iter().filter(|row| row[1] == "UNUSABLE").count();
    let last = match unusable {
        0 => "Scenarios need none of these; each is only for what it says.".to_string(),
        1 => "1 of these is named and cannot be used.".to_string(),
        _ => format!("{unusable} of these are named and cannot be used."),
    };
    format!("dryrack {version} {formats}\n\n{}\n{last}\n", table(&["what", "here", "for", "found"], &rows))
}

fn folders() -> Vec<Finding> {
    let roots = roots(None);
    let folder = |what, path: Option<PathBuf>, absent: &str, is_for| {
        let (is, found) = match path {
            None => (Standing::Absent, absent.to_string()),
            Some(path) if path.is_dir() => (Standing::Here, path.display().to_string()),
            Some(path) => (Standing::Unusable, format!("{} is not a folder", path.display())),
        };
        Finding { what, is, found, is_for }
    };
    let data = roots.data.as_ref().map(|data| data.join("traces"));
    vec![
        folder(
            "traces here",
            roots.carried.clone(),
            "no folder `traces` with an index",
            "traces that may be passed on",
        ),
        folder("DRYRACK_DATA", data, "not set", "other public traces"),
        cache(roots.cache),
    ]
}

fn cache(path: Option<PathBuf>) -> Finding {
    let (what, is_for) = ("cache", "traces and programs that were fetched, failures of the last test");
    let (is, found) = match path {
        None => (Standing::Absent, "set DRYRACK_CACHE or HOME".to_string()),
        Some(path) => match is_writable(&path) {
            true => (Standing::Here, path.display().to_string()),
            false => (Standing::Unusable, format!("{} cannot be written", path.display())),
        },
    };
    Finding { what, is, found, is_for }
}

/// Whether a file can be made in the folder or, if it does not exist, in the nearest folder above it.
fn is_writable(path: &Path) -> bool {
    let nearest = path.ancestors().find(|folder| folder.exists());
    nearest.is_some_and(|folder| tempfile::tempfile_in(folder).is_ok())
}

fn program((what, version, is_for): &(&'static str, &'static [&'static str], &'static str)) -> Finding {
    let said = Command::new(what).args(*version).stdin(Stdio::null()).output();
    let (is, found) = match said {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().next().unwrap_or_default();
            // Some programs go on with the versions of their libraries.
            let version = line.split(" (").next().unwrap_or(line).trim();
            (Standing::Here, version.to_string())
        }
        Ok(output) => (Standing::Unusable, format!("`{what} {}` ended with {}", version.join(" "), output.status)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Standing::Absent, String::new()),
        Err(error) => (Standing::Unusable, error.to_string()),
    };
    Finding { what, is, found, is_for }
}
