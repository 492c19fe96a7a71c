//! The options for loading a scenario: what the caller chooses in place of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_outside::Command;
use dryrack_profile::ComparedBase;
use dryrack_trace::Roots;
use dryrack_units::SimTime;
use dryrack_yaml::{Diagnostics, Report, Span, read_foreign_text};

/// Settings from the command line. Each text is checked like the file, and diagnostics show it as the user typed it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Overrides of the form `PATH=VALUE`, in the order given.
    pub set: Vec<String>,
    pub seed: Option<String>,
    /// A profile's name, or its path relative to the working directory.
    pub profile: Option<String>,
    pub until: Option<String>,
    /// An option of the profile to reset, such as `scheduler.filters.ready.unless`, and the base from which its value
    /// comes.
    pub as_in_base: Option<(String, ComparedBase)>,
    /// The complete profile in a log. It replaces the profile that the scenario text names.
    pub recorded: Option<Arc<Profile>>,
    /// A model to evaluate without running it, in the form of a job: `{model: qwen3-32b, replicas: 2}`.
    pub asked: Option<String>,
    /// A list of tasks that takes the place of the jobs of the file and of its trace.
    pub list: Option<ListFile>,
    /// One more workload from another file.
    pub added: Option<AddedWorkload>,
    /// The plan of which this scenario is an alternative, and the places of the values that it sets.
    pub plan: Option<Varying>,
    /// The folders in which the files of traces are looked for.
    pub roots: Roots,
    /// Whether jobs are created during the run instead of before it: see [`Loaded::streamed`](crate::Loaded::streamed).
    pub streamed: bool,
    /// Whether to leave out the jobs of the trace, for a caller that looks only at the nodes.
    pub only_nodes: bool,
    /// Whether to say what Kubernetes manifests hold that has no meaning in a rehearsal.
    pub tells_unused: bool,
    /// Whether schedulers in other processes may decide: see [`Loaded::outside`](crate::Loaded::outside).
    pub outside: Outside,
}

/// A list of tasks in a file of its own.
#[derive(Clone, Debug)]
pub struct ListFile {
    /// The full path.
    pub file: String,
    /// The name of its format.
    pub format: String,
}

/// A workload in a file of its own: a manifest, or a job in the words of a scenario.
#[derive(Clone, Debug)]
pub struct AddedWorkload {
    /// The path, relative to the working directory.
    pub path: PathBuf,
    /// The text of the file, which is read once, because a pipe gives it only once.
    pub text: Arc<str>,
    /// When it is submitted, unless the file says so itself.
    pub at: Option<SimTime>,
}

impl AddedWorkload {
    /// Reads the file. `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read, with the reason.
    pub fn read(path: &Path, at: Option<SimTime>) -> Result<AddedWorkload, Diagnostics> {
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        let mut report = Report::default();
        match read_foreign_text(path, None, &mut report) {
            Some((_, text)) => Ok(AddedWorkload { path: path.to_path_buf(), text, at }),
            None => Err(report.finish()),
        }
    }
}

/// What to do with a scheduler in another process that the file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// An error, because this command cannot start such a scheduler.
    #[default]
    Refused,
    /// The scheduler decides, unless the command line names a profile in its place.
    Allowed,
    /// This command starts the scheduler in this folder, whether or not the file names one.
    Command(Command, PathBuf),
}

/// A plan, which lets diagnostics of its alternatives point into its text.
#[derive(Clone, Debug)]
pub struct Varying {
    /// The file's path as the user typed it, and the file's text.
    pub name: Arc<str>,
    pub text: Arc<str>,
    /// The places of the path and the value of each entry of [`Options::set`]; `None` for one of the command line.
    pub places: Vec<Option<(Span, Span)>>,
}
