//! `dryrack conform`: checks the decisions of profiles against recorded decisions of released programs.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json};
use dryrack_conform::{Account, AgreementCount, Profiles, conform as conform_file};
use dryrack_profile::load_profile;
use dryrack_report::table;
use dryrack_units::{Permille, counted};

#[derive(Debug, Args)]
pub struct ConformArgs {
    /// Files of recorded decisions, one JSON object to a line, plain or gzip
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Compare the answers with this profile instead of the profile of each version; if it is the profile of one
    /// version, compare only the answers of that version
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Share of the answers that must be identical
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    at_least: Permille,
    /// Show each difference
    #[arg(long, short)]
    verbose: bool,
}

/// Exits with 1 if fewer answers are identical than `--at-least` asks for, and with 4 if no profile exists for any of
/// the recorded versions.
pub fn conform(args: &ConformArgs, format: Format) -> ExitResult {
    if args.at_least > Permille::new(1000) {
        return Err(Failure::Input(format!("error: --at-least {}: expected 100% or less", args.at_least)));
    }
    let mut profiles = match &args.profile {
        None => Profiles::default(),
        Some(name) => {
            let loaded = load_profile(name, Path::new(""));
            Profiles::fixed(loaded.map_err(|diagnostics| Failure::Input(diagnostics.to_string()))?)
        }
    };
    let mut account = Account::default();
    let mut faults = String::new();
    for file in &args.files {
        if let Err(fault) = conform_file(file, &mut profiles, &mut account) {
            faults.push_str(&format!("error: {}: {fault}\n", file.display()));
        }
    }
    // If any file is faulty, report no share at all: a share of the readable part would look like a share of
    // everything.
    if !faults.is_empty() {
        return Err(Failure::Input(faults));
    }
    match format {
        Format::Human => print(&human(&account, args.verbose))?,
        Format::Json => print_json(&json(&account, args.verbose))?,
    }
    Ok(match account.all.asked {
        0 => Exit::NothingSelected,
        _ if account.all.is_at_least(args.at_least) => Exit::Fine,
        _ => Exit::Failed,
    })
}

fn share_text(share: AgreementCount) -> String {
    share.permille().map_or("-".to_string(), |share| share.to_string())
}

fn human(account: &Account, verbose: bool) -> String {
    let row = |what: [&str; 3], share: AgreementCount| {
        let mut row: Vec<String> = what.map(str::to_string).to_vec();
        row.extend([share.asked.to_string(), share.identical.to_string(), share_text(share)]);
        row
    };
    let mut rows: Vec<Vec<String>> =
        (account.classes.iter()).map(|((kind, class, version), share)| row([kind, class, version], *share)).collect();
    rows.push(row(["all", "", ""], account.all));
    let mut text = table(&["records", "class", "version", "asked", "identical", "share"], &rows);
    if !account.kinds.is_empty() {
        let rows: Vec<Vec<String>> = (account.kinds.iter())
            .map(|((kind, difference), (count, first))| {
                let first = &account.differences[*first];
                let place = format!("{} in {}, line {}", first.id, first.file, first.line);
                vec![kind.to_string(), difference.to_string(), count.to_string(), place]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(&["records", "difference", "count", "first"], &rows));
    }
    if verbose && !account.differences.is_empty() {
        let rows: Vec<Vec<String>> = (account.differences.iter())
            .map(|found| {
                let place = format!("{}:{}", found.file, found.line);
                vec![found.id.clone(), found.version.clone(), found.kind.to_string(), found.text.clone(), place]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(&["record", "version", "difference", "", "at"], &rows));
    }
    for (profile, count) in &account.not_asked {
        text.push_str(&format!(
            "skipped: {}, because there is no profile {profile}\n",
            counted(*count as usize, "answer")
        ));
    }
    text
}

fn json(account: &Account, verbose: bool) -> serde_json::Value {
    let classes: Vec<_> = (account.classes.iter())
        .map(|((kind, class, version), share)| {
            json!({"records": kind, "class": class, "version": version, "asked": share.asked,
                   "identical": share.identical, "share": share_text(*share)})
        })
        .collect();
    let kinds: Vec<_> = (account.kinds.iter())
        .map(|((kind, difference), (count, first))| {
            json!({"records": kind, "difference": difference, "count": count, "first": account.differences[*first]})
        })
        .collect();
    let mut said = json!({
        "records": account.records,
        "asked": account.all.asked,
        "identical": account.all.identical,
        "share": share_text(account.all),
        "classes": classes,
        "differences": kinds,
        "not_asked": account.not_asked,
    });
    if verbose {
        said["each"] = json!(account.differences);
    }
    said
}
