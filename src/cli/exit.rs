//! The exit codes and failures of commands.

use std::io;
use std::process::ExitCode;

use super::whole_file::WriteError;
use dryrack_yaml::nearest_path;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    Fine = 0,
    /// An expectation failed, or two results that should be equal differ.
    Failed = 1,
    /// A file, a flag or a name cannot be used.
    BadInput = 2,
    /// An invariant broke.
    OurFault = 3,
    /// There was nothing to run.
    NothingSelected = 4,
    /// A run on a real machine differs from its forecast by more than the tolerance.
    Disagrees = 5,
}

impl Exit {
    pub const ALL: [Exit; 6] =
        [Exit::Fine, Exit::Failed, Exit::BadInput, Exit::OurFault, Exit::NothingSelected, Exit::Disagrees];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped before its end.
#[derive(Debug)]
pub enum Failure {
    /// An input error. It is printed on stderr unchanged; exit 2.
    Input(String),
    /// The program that reads our output has closed it, and output is all that the command makes. Nothing is printed,
    /// and this is not an error.
    BrokenPipe,
    /// An invariant broke. The message is printed on stderr; exit 3.
    Ours(String),
    /// The process that does the work was killed. The message is printed on stderr; exit 1, as for an interrupted
    /// command.
    Killed(String),
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Input(_) => Exit::BadInput,
            Failure::BrokenPipe => Exit::Fine,
            Failure::Ours(_) => Exit::OurFault,
            Failure::Killed(_) => Exit::Failed,
        }
    }

    /// Both failures, of two pieces of work.
    pub fn and(self, other: Failure) -> Failure {
        match (self, other) {
            (Failure::Input(one), Failure::Input(other)) => Failure::Input(format!("{}\n{other}", one.trim_end())),
            (one, _) => one,
        }
    }

    /// The text to print.
    pub fn text(&self) -> &str {
        match self {
            Failure::Input(text) | Failure::Ours(text) | Failure::Killed(text) => text,
            Failure::BrokenPipe => "",
        }
    }

    /// The error for a path that cannot be read. It suggests a similar path that exists, or else says what was
    /// `expected`.
    pub fn unreadable(path: &std::path::Path, error: &io::Error, expected: &str) -> Failure {
        match (error.kind(), nearest_path(path)) {
            (io::ErrorKind::NotFound, Some(near)) => {
                Failure::file(path, format!("does not exist; did you mean `{}`?", near.display()))
            }
            (io::ErrorKind::NotFound, None) => Failure::file(path, format!("does not exist; expected {expected}")),
            (io::ErrorKind::PermissionDenied, _) => Failure::file(path, "cannot be read: permission denied"),
            (io::ErrorKind::IsADirectory, _) => Failure::file(path, format!("is a folder; expected {expected}")),
            _ => Failure::file(path, format!("cannot be read: {error}")),
        }
    }

    /// The error for a folder that cannot be created.
    pub fn uncreated(path: &std::path::Path, error: &io::Error) -> Failure {
        match path.is_file() {
            true => Failure::file(path, "is a file; expected a folder, which is created if it does not exist"),
            false => Failure::file(path, format!("cannot be created: {error}")),
        }
    }

    /// An error about a file.
    pub fn file(path: &std::path::Path, why: impl std::fmt::Display) -> Failure {
        Failure::Input(format!("error: {}: {why}", path.display()))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let of_file = error.get_ref().and_then(|inner| inner.downcast_ref::<WriteError>());
        match (of_file, error.kind()) {
            (Some(unwritten), _) => Failure::Input(format!("error: {unwritten}")),
            (None, io::ErrorKind::BrokenPipe) => Failure::BrokenPipe,
            (None, _) => Failure::Input(format!("error: standard output cannot be written: {error}")),
        }
    }
}

pub type ExitResult = Result<Exit, Failure>;
