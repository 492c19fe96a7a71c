//! `dryrack check`: reads scenario files without running them, and reports all faults at once.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult};
use super::output::{Format, print, print_json, warn};
use super::roots::options;
use super::select::{is_part, is_profile, refuse_others, scenario_files};
use dryrack_profile::check_profile;
use dryrack_scenario::{self as scenario, Options, Outside};
use dryrack_units::counted;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Scenario files, folders of scenario files, and files of profiles
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub fn check(args: &CheckArgs, format: Format) -> ExitResult {
    let files = scenario_files(&args.paths)?;
    if files.is_empty() {
        warn("no scenario files found; in folders, *.yaml files are used\n");
        return Ok(Exit::NothingSelected);
    }
    let (mut text, mut reports, mut invalid, mut unchecked) = (String::new(), Vec::new(), 0, 0);
    for file in &files {
        if is_part(file) {
            refuse_others(std::slice::from_ref(file))?;
        }
        let diagnostics = match is_profile(file) {
            true => check_profile(file),
            false => {
                let options = Options { outside: Outside::Allowed, ..options(file) };
                scenario::check(file, &options)
            }
        };
        let status = match (diagnostics.has_errors(), diagnostics.lacks_only_a_trace()) {
            (false, _) => "valid",
            // The file itself has no error; only its trace is missing.
            (true, true) => "trace_missing",
            (true, false) => "invalid",
        };
        invalid += usize::from(status == "invalid");
        unchecked += usize::from(status == "trace_missing");
        reports.push(json!({"file": file, "status": status, "diagnostics": diagnostics.to_json()}));
        text.push_str(&diagnostics.to_string());
    }
    match format {
        Format::Json => print_json(&reports)?,
        Format::Human => {
            warn(&text);
            let unchecked = match unchecked {
                0 => String::new(),
                _ => format!(", {unchecked} not fully checked because a trace is missing"),
            };
            print(&format!("{}, {invalid} invalid{unchecked}\n", counted(files.len(), "file")))?;
        }
    }
    Ok(if invalid > 0 { Exit::BadInput } else { Exit::Fine })
}
