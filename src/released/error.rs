//! Errors about the environment of a released program.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ReleasedError {
    #[error("no program is named {name}{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    UnknownProgram { name: String, hint: Option<String> },

    #[error("name a release of {name}, such as `{newest}`")]
    NoVersion { name: String, newest: String },

    #[error("there is no release {name} between {first} and {last}; the nearest is {nearest}")]
    UnknownRelease { name: String, nearest: String, first: String, last: String },

    #[error("{name} is not installed; install it with `dryrack outside install {name}`")]
    NotInstalled { name: String },

    #[error("there is no folder for environments: set DRYRACK_CACHE, XDG_CACHE_HOME or HOME to an absolute path")]
    NoCache,

    #[error(
        "Python {wanted} was not found: released programs run in Python {wanted}, for which their packages are \
         locked (searched: {}); install it, or set DRYRACK_PYTHON to its path", looked.join(", ")
    )]
    NoPython { wanted: &'static str, looked: Vec<String> },

    #[error("DRYRACK_PYTHON is {}, which is {is}; expected Python {wanted}", path.display())]
    WrongPython { path: PathBuf, is: String, wanted: &'static str },

    #[error("{} cannot create an environment: {detail}", python.display())]
    NoVenv { python: PathBuf, detail: String },

    #[error("the package index cannot be reached: {detail}")]
    NoNetwork { detail: String },

    #[error("{} is full: {what} needs more space", folder.display())]
    DiskFull { what: String, folder: PathBuf },

    #[error("a package of {what} does not match its lock, so nothing was installed: {detail}")]
    WrongSum { what: String, detail: String },

    #[error("a package of {what} is no longer in the package index: {detail}")]
    Withdrawn { what: String, detail: String },

    #[error("{what} cannot be installed: {detail}")]
    Pip { what: String, detail: String },

    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl ReleasedError {
    pub(crate) fn file(path: &std::path::Path, source: io::Error) -> ReleasedError {
        match source.kind() {
            io::ErrorKind::StorageFull => {
                ReleasedError::DiskFull { what: path.display().to_string(), folder: path.to_path_buf() }
            }
            _ => ReleasedError::File { path: path.to_path_buf(), source },
        }
    }
}
