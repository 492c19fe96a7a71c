//! `dryrack check`: scenario files read and not run, all faults at once.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::exit::{Done, Exit};
use super::output::{Format, say, say_json, warn};
use super::seam::{LoadFailure, LoadOptions, load};
use super::select::scenario_files;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Scenario files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub fn check(args: &CheckArgs, format: Format) -> Done {
    let files = scenario_files(&args.paths)?;
    if files.is_empty() {
        warn("no scenario files there: folders are searched for *.yaml\n");
        return Ok(Exit::NothingSelected);
    }
    let (mut text, mut reports, mut invalid) = (String::new(), Vec::new(), 0);
    for file in &files {
        let (status, said, data) = match load(file, &LoadOptions::default()) {
            Ok(loaded) => ("valid", loaded.warnings, serde_json::Value::Null),
            Err(LoadFailure::Invalid(said, data)) => ("invalid", said, data),
            // What the file itself says was found to be right.
            Err(LoadFailure::TraceMissing(said)) => ("trace_missing", said, serde_json::Value::Null),
        };
        invalid += usize::from(status == "invalid");
        reports.push(json!({"file": file, "status": status, "text": said, "diagnostics": data}));
        text.push_str(&said);
    }
    match format {
        Format::Json => say_json(&reports)?,
        Format::Human => {
            warn(&text);
            say(&format!("{} files, {invalid} invalid\n", files.len()))?;
        }
    }
    Ok(if invalid > 0 { Exit::BadInput } else { Exit::Fine })
}
