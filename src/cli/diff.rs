//! `dryrack diff`: finds the first record in which two logs differ.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::logs::open;
use super::output::{Format, print, print_json};
use dryrack_event::LogHeader;
use dryrack_report::LogLine;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A log that `run --out` wrote
    left: PathBuf,
    /// The other log
    right: PathBuf,
}

/// Prints nothing and exits with 0 if every record is the same. Otherwise prints the first difference and exits with 1.
pub fn diff(args: &DiffArgs, format: Format) -> ExitResult {
    let (mut left, mut right) = (open(&args.left)?, open(&args.right)?);
    let headers = header_differences(left.header(), right.header());
    loop {
        let next_left = left.next_line().map_err(|error| Failure::file(&args.left, error))?;
        let next_right = right.next_line().map_err(|error| Failure::file(&args.right, error))?;
        if next_left.is_none() && next_right.is_none() {
            return Ok(Exit::Fine);
        }
        let text = |line: &Option<LogLine>| line.as_ref().map(|line| line.text.clone());
        if text(&next_left) != text(&next_right) {
            report(args, format, &headers, (next_left, next_right))?;
            return Ok(Exit::Failed);
        }
    }
}

/// The differences between the headers. They are printed first, because they often explain a difference in the records.
fn header_differences(left: &LogHeader, right: &LogHeader) -> Vec<String> {
    let mut found = Vec::new();
    for (what, a, b) in [
        ("dryrack", &left.dryrack, &right.dryrack),
        ("scenario", &left.scenario, &right.scenario),
        ("profile", &left.profile, &right.profile),
        ("seed", &left.seed.to_string(), &right.seed.to_string()),
    ] {
        if a != b {
            found.push(format!("{what}: {a} and {b}"));
        }
    }
    if left.source != right.source {
        found.push("the scenario files differ".to_string());
    }
    if left.profile == right.profile && left.profile_data != right.profile_data {
        found.push("the profiles have the same name but differ".to_string());
    }
    found
}

fn report(
    args: &DiffArgs,
    format: Format,
    headers: &[String],
    (left, right): (Option<LogLine>, Option<LogLine>),
) -> Result<(), Failure> {
    let number = left.as_ref().or(right.as_ref()).map_or(0, |line| line.number);
    let shown = |line: &Option<LogLine>| line.as_ref().map(|line| line.text.clone());
    match format {
        Format::Json => print_json(&json!({
            "line": number, "left": shown(&left), "right": shown(&right), "headers": headers,
        }))?,
        Format::Human => {
            let mut text: String = headers.iter().map(|line| format!("{line}\n")).collect();
            text.push_str(&format!("line {number} is the first that differs\n"));
            let side = |path: &Path, line: &Option<LogLine>| {
                let line = shown(line).unwrap_or_else(|| "(the log has ended)".to_string());
                format!("{}\n  {line}\n", path.display())
            };
            text.push_str(&side(&args.left, &left));
            text.push_str(&side(&args.right, &right));
            print(&text)?;
        }
    }
    Ok(())
}
