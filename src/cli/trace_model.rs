//! `dryrack trace lublin` and `trace fit`: draws lists of tasks from a model, and fits the model to a list.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, WholeFile, print, print_json};
use super::trace_source::Source;
use super::trace_target::{Target, put};
use dryrack_trace::{self as trace, BadModel, Fitted, Kinds, SwfHeader, TraceTask};

#[derive(Debug, Args)]
pub struct LublinArgs {
    /// Processors of the machine, at least 32 [default: 128, like the machine that the model was fitted to]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(trace::LEAST_PROCESSORS as i64..))]
    size: Option<u32>,
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    jobs: u64,
    /// Draw interactive jobs and batch jobs in queues 0 and 1, each with its own parameters and arrivals
    #[arg(long)]
    two_kinds: bool,
    /// Model file of `dryrack trace fit`; its size and parameters are used
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["size", "two_kinds"])]
    model: Option<PathBuf>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub struct FitArgs {
    #[command(flatten)]
    source: Source,
    /// Processors of the machine [default: number in the swf header, or else the width of the widest job]
    #[arg(long, value_name = "N")]
    size: Option<u32>,
    /// Random seed of the list that is drawn to compare the model with the original list
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the model to FILE.json, for `dryrack trace lublin --model`
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
}

pub fn fit(args: &FitArgs, format: Format) -> ExitResult {
    let (file, mut tasks) = (args.source.name(), Vec::new());
    let mut stream = args.source.open()?;
    stream.each(file, |task| -> Result<(), Failure> {
        tasks.push(task);
        Ok(())
    })?;
    let size = args.size.or(stream.rows.header().and_then(|header| header.max_procs));
    let fitted = trace::fit(&tasks, size, args.seed).map_err(|why| Failure::file(file, why))?;
    if let Some(path) = &args.out {
        let mut out = WholeFile::create(path)?;
        let text = serde_json::to_string_pretty(&fitted).expect("our own values have a JSON form");
        let written = writeln!(out, "{text}");
        out.keep(written)?;
    }
    match format {
        Format::Json => print_json(&fitted)?,
        Format::Human => print(&format!("{}: {}\n", file.display(), fitted.lines().join("\n")))?,
    }
    Ok(Exit::Fine)
}

pub fn lublin(args: &LublinArgs) -> ExitResult {
    let fitted = args.model.as_deref().map(read).transpose()?;
    let size = fitted.as_ref().map_or(args.size.unwrap_or(MODEL_SIZE), |fitted| fitted.size);
    let about = |key: &str, value: String| (key.to_owned(), value);
    let note = match &args.model {
        None => format!("the model of Lublin and Feitelson, drawn by dryrack with the seed {}", args.seed),
        Some(_) => format!(
            "the model of Lublin and Feitelson as fitted to a list, drawn by dryrack with the seed {}",
            args.seed
        ),
    };
    let header = SwfHeader {
        max_nodes: Some(size),
        max_procs: Some(size),
        about: vec![about("Version", "2.2".to_owned()), about("Note", note)],
        ..SwfHeader::default()
    };
    let kinds = if args.two_kinds { Kinds::InteractiveAndBatch } else { Kinds::One };
    let tasks: Box<dyn Iterator<Item = TraceTask>> = match &fitted {
        Some(fitted) => Box::new(fitted.draw(args.jobs, args.seed)),
        None => Box::new(trace::lublin(kinds, size, args.jobs, args.seed)),
    };
    put(&args.target, Path::new("the model"), Some(&header), |write| {
        { tasks }.try_for_each(write)?;
        Ok(Vec::new())
    })
}

/// The number of processors of the machine that the model was fitted to.
const MODEL_SIZE: u32 = 128;

fn read(path: &Path) -> Result<Fitted, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::unreadable(path, &error, "parameters that `dryrack trace fit` wrote"))?;
    Fitted::read(&text).map_err(|error| match error {
        BadModel::Json(error) => {
            let (said, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
            let said = said.strip_suffix(&place).unwrap_or(&said);
            Failure::Input(format!("error: {}:{}:{}: {said}", path.display(), error.line(), error.column()))
        }
        fault @ BadModel::Value { .. } => Failure::file(path, fault),
    })
}
