//! `dryrack import`: the database of a server, as a scenario and recordings.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::{Done, Exit, Failure};
use super::output::{WholeFile, say, warn};
use crate::report::some;
use crate::scenario::{Names, import_dstack};

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// The SQLite file of a dstack server: its instances, runs and the GPU utilization of every job
    DstackDb(ImportArgs),
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Such as ~/.dstack/server/data/sqlite.db; it is opened for reading alone
    file: PathBuf,
    /// The folder to write: scenario.yaml, and usage/RUN.csv
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number runs, fleets and instances in place of their names
    #[arg(long)]
    anonymize: bool,
}

pub fn import(command: &ImportCommand) -> Done {
    let ImportCommand::DstackDb(args) = command;
    if !args.file.is_file() {
        return Err(Failure::file(&args.file, "is not there; expected the SQLite file of a dstack server"));
    }
    let names = if args.anonymize { Names::Numbered } else { Names::Kept };
    let imported = import_dstack(&args.file, names).map_err(|error| Failure::file(&args.file, error))?;
    let usage = args.out.join("usage");
    std::fs::create_dir_all(&usage).map_err(|error| Failure::file(&usage, format!("cannot be made: {error}")))?;
    for (path, text) in &imported.recordings {
        WholeFile::write(&args.out.join(path), text.as_bytes())?;
    }
    // Last, so that a scenario that is there has all that it names.
    let scenario = args.out.join("scenario.yaml");
    WholeFile::write(&scenario, imported.scenario.as_bytes())?;
    for note in &imported.notes {
        warn(&format!("note: {note}\n"));
    }
    say(&format!("{}, with {}\n", scenario.display(), some(imported.recordings.len(), "recording")))?;
    Ok(Exit::Fine)
}
