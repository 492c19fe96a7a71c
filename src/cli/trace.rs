//! `dryrack trace`: lists and fetches public traces, and works with lists of tasks.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json};
use super::roots::roots;
use super::trace_file::{
    CheckArgs, ConvertArgs, InfoArgs, ResampleArgs, SampleArgs, ScaleArgs, check, convert, info, resample, sample,
    scale,
};
use super::trace_model::{FitArgs, LublinArgs, fit, lublin};
use dryrack_trace::{Checked, FileState, Index, TraceError, get, list, verify};

#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// List the known traces, and how many files of each are on this machine
    List,
    /// Fetch a trace from its public address or from a folder
    Get {
        /// Name of the trace, as `list` prints it
        name: String,
        /// Copy the trace from DIR instead of downloading it
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
    },
    /// Compare the fetched files with the checksums of the index
    Verify {
        /// Name of one trace [default: all]
        name: Option<String>,
    },
    /// Summarize a list of tasks: arrivals, durations, sizes and irregular rows
    Info(InfoArgs),
    /// Check a list of tasks before use: offered load against capacity, and tasks that could never run
    Check(CheckArgs),
    /// Convert the tasks to another format
    Convert(ConvertArgs),
    /// Take a random sample of the tasks
    Sample(SampleArgs),
    /// Change the gaps between submissions of the same tasks
    Scale(ScaleArgs),
    /// Draw any number of tasks similar to those of a list, by resampling its tasks and gaps by hour of day
    Resample(ResampleArgs),
    /// Draw jobs from the parallel-machine model of Lublin and Feitelson, or with parameters fitted to a list
    Lublin(LublinArgs),
    /// Fit the model of Lublin and Feitelson to a list by maximum likelihood, and report how well it fits
    Fit(FitArgs),
}

pub fn trace(command: &TraceCommand, format: Format) -> ExitResult {
    let (index, roots) = (Index::built_in(), roots(None));
    let failure = |error: TraceError| Failure::Input(format!("error: {error}"));
    match command {
        TraceCommand::Info(args) => info(args, format),
        TraceCommand::Check(args) => check(args, format),
        TraceCommand::Convert(args) => convert(args),
        TraceCommand::Sample(args) => sample(args),
        TraceCommand::Scale(args) => scale(args),
        TraceCommand::Resample(args) => resample(args),
        TraceCommand::Lublin(args) => lublin(args),
        TraceCommand::Fit(args) => fit(args, format),
        TraceCommand::List => {
            let listed = list(&index, &roots);
            match format {
                Format::Json => {
                    let row = |trace: &dryrack_trace::Listed| {
                        json!({
                            "trace": trace.trace, "description": trace.description, "licence": trace.licence,
                            "source": trace.source, "bytes": trace.size.get(), "files": trace.files, "here": trace.here,
                        })
                    };
                    print_json(&listed.iter().map(row).collect::<Vec<_>>())?;
                }
                Format::Human => {
                    let lines: Vec<String> = listed.iter().map(|trace| format!("{trace}\n")).collect();
                    print(&lines.join("\n"))?;
                }
            }
            Ok(Exit::Fine)
        }
        TraceCommand::Get { name, from } => {
            let got = get(&index, &roots, name, from.as_deref()).map_err(failure)?;
            match format {
                Format::Json => {
                    let file = |file: &dryrack_trace::GotFile| json!({"file": file.file, "path": file.path});
                    let files: Vec<_> = got.files.iter().map(file).collect();
                    print_json(&json!({"trace": got.trace, "files": files}))?;
                }
                Format::Human => print(&format!("{got}\n"))?,
            }
            Ok(Exit::Fine)
        }
        TraceCommand::Verify { name } => {
            let names: Vec<&str> = match name {
                Some(name) => vec![name],
                None => index.traces.iter().map(|trace| trace.name.as_str()).collect(),
            };
            let checked = names.into_iter().map(|name| verify(&index, &roots, name));
            print_verified(&checked.collect::<Result<Vec<_>, _>>().map_err(failure)?, format)
        }
    }
}

/// A wrong checksum exits with 1. If there was no file to check, the exit code is that of an empty selection.
fn print_verified(checked: &[Checked], format: Format) -> ExitResult {
    let state = |state: &FileState| match state {
        FileState::Right { .. } => "right",
        FileState::Wrong { .. } => "wrong",
        FileState::Missing => "missing",
    };
    let rows: Vec<_> = (checked.iter())
        .flat_map(|trace| trace.files.iter().map(move |file| (trace, file)))
        .map(|(trace, file)| json!({"trace": trace.trace, "file": file.file, "state": state(&file.state)}))
        .collect();
    match format {
        Format::Json => print_json(&rows)?,
        Format::Human => print(&checked.iter().map(|trace| format!("{trace}\n")).collect::<String>())?,
    }
    let nothing_here = rows.iter().all(|row| row["state"] == "missing");
    Ok(match checked.iter().all(Checked::nothing_wrong) {
        false => Exit::Failed,
        true if nothing_here => Exit::NothingSelected,
        true => Exit::Fine,
    })
}
