//! The list of tasks that a command reads from a file or a pipe.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::Failure;
use dryrack_trace::{self as trace, TaskStream, TraceError};

#[derive(Debug, Args)]
pub struct Source {
    /// List of tasks, plain, gzip or zstd; `-` is standard input
    file: PathBuf,
    /// Format of the list [default: detected from its first line]
    #[arg(long, value_name = "FORMAT", value_parser = format_named)]
    from: Option<trace::Format>,
}

fn format_named(text: &str) -> Result<trace::Format, String> {
    let known = trace::Format::ALL;
    known.into_iter().find(|format| format.name() == text).ok_or_else(|| {
        let names = known.map(trace::Format::name);
        match dryrack_nearest::nearest(text, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of {}", names.join(", ")),
        }
    })
}

/// Whether this is the name of a scenario.
pub fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

impl Source {
    /// The name of the source in messages.
    pub fn name(&self) -> &Path {
        if self.is_standard_input() { Path::new("standard input") } else { &self.file }
    }

    /// The file, if its name is that of a scenario.
    pub fn scenario(&self) -> Option<&Path> {
        let is_scenario = self.from.is_none() && is_scenario(&self.file);
        is_scenario.then_some(self.file.as_path())
    }

    fn is_standard_input(&self) -> bool {
        self.file == Path::new("-")
    }

    /// The full path of the file; a pipe has none.
    pub fn file(&self) -> Result<PathBuf, Failure> {
        if self.is_standard_input() || self.file.metadata().is_ok_and(|found| !found.is_file()) {
            let message = format!("error: {} can be read only once; write it to a file first\n", self.name().display());
            return Err(Failure::Input(message));
        }
        std::fs::canonicalize(&self.file).map_err(|error| Failure::file(&self.file, error))
    }

    pub fn open(&self) -> Result<TaskStream, TraceError> {
        match self.is_standard_input() {
            true => TaskStream::read(self.name(), io::stdin().lock(), self.from),
            false => TaskStream::open(&self.file, self.from),
        }
    }

    /// Keeps the list for reading it more than once. A pipe is copied to a temporary file, which disappears with the
    /// process.
    pub fn keep(&self) -> Result<TaskSource<'_>, TraceError> {
        let unopened = |source| TraceError::Unopened { file: self.name().to_path_buf(), source };
        let is_lasting = || self.file.metadata().map(|found| found.is_file() || found.is_dir());
        if !self.is_standard_input() && is_lasting().map_err(unopened)? {
            return Ok(TaskSource { source: self, copy: None });
        }
        let mut copy = tempfile::tempfile().map_err(unopened)?;
        match self.is_standard_input() {
            true => io::copy(&mut io::stdin().lock(), &mut copy),
            false => File::open(&self.file).and_then(|mut pipe| io::copy(&mut pipe, &mut copy)),
        }
        .map_err(unopened)?;
        Ok(TaskSource { source: self, copy: Some(copy) })
    }
}

/// A list of tasks that can be opened several times.
pub struct TaskSource<'s> {
    source: &'s Source,
    copy: Option<File>,
}

impl TaskSource<'_> {
    pub fn open(&self) -> Result<TaskStream, TraceError> {
        let Some(copy) = &self.copy else { return self.source.open() };
        let name = self.source.name();
        let again = copy.try_clone().and_then(|mut again| again.rewind().map(|()| again));
        let again = again.map_err(|source| TraceError::Unopened { file: name.to_path_buf(), source })?;
        TaskStream::read(name, again, self.source.from)
    }
}
