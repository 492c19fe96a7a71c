//! Where a list of tasks is written, and in which format.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{WholeFile, warn};
use dryrack_trace::{OutputFormat, Processors, SwfHeader, TaskWriter, TraceTask, WriteError};
use dryrack_units::counted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// dryrack's own format, with a header line
    Csv,
    /// dryrack's own format, with an object on each line
    Jsonl,
    /// The Standard Workload Format
    Swf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProcessorMeaning {
    /// A processor is a GPU
    Gpus,
    /// A processor is a CPU core; parts of a core are rounded up
    Cores,
}

/// The destination of a list of tasks.
#[derive(Debug, Args)]
pub struct Target {
    /// Write to FILE, compressed if its name ends with .gz or .zst [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format to write [default: by the name of --out, or else csv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Form>,
    /// Unit that counts as an swf processor if the list has no processors
    #[arg(long, value_enum, value_name = "UNIT")]
    processors: Option<ProcessorMeaning>,
}

impl Target {
    pub fn written(&self) -> OutputFormat {
        let name = self.out.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        let named = [(".csv", Form::Csv), (".jsonl", Form::Jsonl), (".swf", Form::Swf)];
        let by_name = named.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| form);
        match self.to.or(by_name).unwrap_or(Form::Csv) {
            Form::Csv => OutputFormat::Csv,
            Form::Jsonl => OutputFormat::Jsonl,
            Form::Swf => OutputFormat::Swf(match self.processors {
                None => Processors::Unsaid,
                Some(ProcessorMeaning::Gpus) => Processors::Gpus,
                Some(ProcessorMeaning::Cores) => Processors::Cores,
            }),
        }
    }
}

/// Writes the tasks that `feed` passes on, all or none. `feed` returns a message for stderr. `file` is the source of
/// the tasks, for messages.
pub(super) fn put<F>(target: &Target, file: &Path, header: Option<&SwfHeader>, feed: F) -> ExitResult
where
    F: FnOnce(&mut dyn FnMut(TraceTask) -> Result<(), Failure>) -> Result<Vec<String>, Failure>,
{
    let form = target.written();
    let tasks = match &target.out {
        None => {
            let (mut out, tasks) = write(BufWriter::new(io::stdout().lock()), file, form, header, feed)?;
            out.flush()?;
            tasks
        }
        Some(path) if path.extension().is_some_and(|ending| ending == "gz") => {
            let out = GzEncoder::new(WholeFile::create(path)?, Compression::default());
            let (out, tasks) = write(out, file, form, header, feed)?;
            out.finish()?.keep(Ok(()))?;
            tasks
        }
        Some(path) if path.extension().is_some_and(|ending| ending == "zst") => {
            // Level 0 means the default level of the zstd program.
            let out = zstd::stream::write::Encoder::new(WholeFile::create(path)?, 0)?;
            let (out, tasks) = write(out, file, form, header, feed)?;
            out.finish()?.keep(Ok(()))?;
            tasks
        }
        Some(path) => {
            let (out, tasks) = write(WholeFile::create(path)?, file, form, header, feed)?;
            out.keep(Ok(()))?;
            tasks
        }
    };
    Ok(if tasks == 0 { Exit::NothingSelected } else { Exit::Fine })
}

fn write<W: Write>(
    out: W,
    file: &Path,
    form: OutputFormat,
    header: Option<&SwfHeader>,
    feed: impl FnOnce(&mut dyn FnMut(TraceTask) -> Result<(), Failure>) -> Result<Vec<String>, Failure>,
) -> Result<(W, u64), Failure> {
    let mut writer = TaskWriter::new(out, form, header)?;
    let mut lines = feed(&mut |task| {
        writer.write(&task).map_err(|error| match error {
            WriteError::Io(error) => Failure::from(error),
            fault => Failure::file(file, fault),
        })
    })?;
    let (out, tasks, lost) = writer.finish();
    lines.extend(
        lost.iter().map(|(what, count)| format!("not written of {}: {what}", counted(*count as usize, "task"))),
    );
    lines.iter().for_each(|line| warn(&format!("{line}\n")));
    Ok((out, tasks))
}
