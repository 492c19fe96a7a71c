//! `dryrack import`: converts the data of a server or a cluster into a scenario.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::exit::{Exit, ExitResult, Failure};
use super::output::{WholeFile, print, warn};
use dryrack_import::{ImportError, Imported, Names, import_dstack, import_gpustack_pages, import_gpustack_store};
use dryrack_units::counted;

#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Import the SQLite file of a dstack server: its instances, runs and the GPU utilization of every job
    DstackDb(ImportArgs),
    /// Import the SQLite file of a GPUStack server before 2.0: its workers, its models and the places of their
    /// instances
    GpustackDb(ImportArgs),
    /// Import a Kubernetes cluster from the output of kubectl, or from manifests
    Kubernetes(super::import_kubernetes::KubernetesArgs),
    /// Import a folder with the answers of a GPUStack server: workers.json, models.json and model-instances.json
    GpustackRest(ImportArgs),
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File or folder to import, such as ~/.dstack/server/data/sqlite.db or /var/lib/gpustack/database.db; it is only
    /// read
    file: PathBuf,
    /// Folder for scenario.yaml, with the recordings in its subfolder usage
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the names of runs, models, fleets, machines and labels with numbers
    #[arg(long)]
    anonymize: bool,
}

/// An import function, whether it takes a folder, and a description of the expected input for error messages.
type Importer = (fn(&Path, Names) -> Result<Imported, ImportError>, bool, &'static str);

pub fn import(command: &ImportCommand) -> ExitResult {
    let (args, (read, is_folder, expected)): (_, Importer) = match command {
        ImportCommand::Kubernetes(args) => return super::import_kubernetes::import(args),
        ImportCommand::DstackDb(args) => (args, (import_dstack, false, "the SQLite file of a dstack server")),
        ImportCommand::GpustackDb(args) => {
            (args, (import_gpustack_store, false, "the SQLite file of a GPUStack server before 2.0"))
        }
        ImportCommand::GpustackRest(args) => {
            (args, (import_gpustack_pages, true, "a folder with workers.json, models.json and model-instances.json"))
        }
    };
    let is_kind = if is_folder { args.file.is_dir() } else { args.file.is_file() };
    if !is_kind {
        let is = match (args.file.exists(), is_folder) {
            (false, _) => "does not exist",
            (true, true) => "is not a folder",
            (true, false) => "is not a file",
        };
        return Err(Failure::file(&args.file, format!("{is}; expected {expected}")));
    }
    let names = if args.anonymize { Names::Numbered } else { Names::Kept };
    let imported = read(&args.file, names).map_err(|error| Failure::file(&args.file, error))?;
    let usage = args.out.join("usage");
    let folder = if imported.recordings.is_empty() { &args.out } else { &usage };
    std::fs::create_dir_all(folder).map_err(|error| Failure::uncreated(folder, &error))?;
    for (path, text) in &imported.recordings {
        WholeFile::write(&args.out.join(path), text.as_bytes())?;
    }
    // The scenario is written last: if it exists, every file that it names exists too.
    let scenario = args.out.join("scenario.yaml");
    WholeFile::write(&scenario, imported.scenario.as_bytes())?;
    for note in &imported.notes {
        warn(&format!("note: {note}\n"));
    }
    let mut holds = imported.holds;
    holds.push(counted(imported.recordings.len(), "recording"));
    print(&format!("{}: {}\n", scenario.display(), holds.join(", ")))?;
    Ok(Exit::Fine)
}
