//! The flags of `dryrack test`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rerun {
    Failed,
}

#[derive(Debug, Default, Args)]
pub struct TestArgs {
    /// Scenario files, and folders of them
    #[arg(required_unless_present = "rerun", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Run under this profile instead of the file's own; `reproduces` entries are then skipped
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Command line of a scheduler that decides in place of the profile; `reproduces` entries are then skipped
    #[arg(long, value_name = "CMD", conflicts_with = "each_profile")]
    pub outside: Option<String>,
    /// Run under every profile that accepts the scenario; check only that each run ends and that jobs can be explained,
    /// and do not judge expectations
    #[arg(long, conflicts_with_all = ["profile", "options", "junit", "json", "baseline", "slowest", "quiet"])]
    pub each_profile: bool,
    /// Override a field or a parameter in every file, as in params.gpus=8; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Run only scenarios with this tag; if repeated, with any of the tags
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Run only scenarios whose path or title contains this text, ignoring case; a text with `*` or `?` is a pattern
    /// for the whole path or title; if repeated, any of them may match
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Number of threads [default: the number of cores]
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Fail if a historic profile has an option that no scenario distinguishes from its base
    #[arg(long)]
    pub options: bool,
    /// File of recorded decisions, as `conform` reads them, that can also distinguish options; may be repeated
    #[arg(long, value_name = "FILE", requires = "options")]
    pub records: Vec<PathBuf>,
    /// List the expectations that never fail; fail if there are any. Such an expectation may check nothing. Each is judged
    /// under every profile that accepts its scenario, with each fault of `--fault`, and then with one part of the scenario
    /// left out, moved or replaced
    #[arg(long, conflicts_with_all = [
        "profile", "outside", "each_profile", "options", "junit", "json", "baseline", "slowest", "marks", "record",
    ])]
    pub unfailing: bool,
    /// In a build with planted faults (docs/src/planted.md), a fault with which `--unfailing` also runs each scenario; may
    /// be repeated; `all` means every fault
    #[arg(long, value_name = "NAME", requires = "unfailing", hide = true)]
    pub fault: Vec<String>,
    /// List the N slowest runs at the end, instead of only those that took over a second
    #[arg(long, allow_hyphen_values = true, value_name = "N")]
    pub slowest: Option<usize>,
    /// Do not list runs that passed
    #[arg(short, long)]
    pub quiet: bool,
    /// List each run that passed, which a terminal otherwise shows as one line for each folder; for each scenario that
    /// was not run, say which data is missing
    #[arg(short, long)]
    pub verbose: bool,
    /// Write a JUnit report to FILE, in addition to the usual output
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a JSON report to FILE, in addition to the usual output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Compare the decisions of each scenario with those stored in DIR
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Store the decisions of each scenario in the baseline
    #[arg(long, requires = "baseline")]
    pub update_baseline: bool,
    /// Write to FILE how many runs reached each reason, kind of event, lifecycle edge and profile option
    #[arg(long, value_name = "FILE")]
    pub marks: Option<PathBuf>,
    /// Write the scenario, profile and log of each run to one file, which `dryrack replay` runs anywhere
    #[arg(long, value_name = "FILE.zip", conflicts_with = "each_profile")]
    pub record: Option<PathBuf>,
    /// Run only the files that failed in the last test in this folder
    #[arg(long, value_name = "WHICH", value_enum, conflicts_with = "paths")]
    pub rerun: Option<Rerun>,
    /// Run again whenever a file changes, until interrupted
    #[arg(long)]
    pub watch: bool,
}
