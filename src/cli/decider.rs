//! The command-line flags for a scheduler in another process, and the messages about it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::exit::Failure;
use super::output::warn;
use dryrack_control::Profile;
use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::{OutsideProgram, Sink};
use dryrack_expect::Expectation;
use dryrack_outside::{self as outside, ProgramName, Setup, quoted};
use dryrack_plan::open_locked;
use dryrack_rehearse::{Rehearsed, rehearse, rehearse_decided};
use dryrack_scenario::Outside;
use dryrack_scheduler::Caching;
use dryrack_units::{SimTime, printable};

/// The flags for a scheduler in another process.
#[derive(Debug, Args)]
pub struct OutsideArgs {
    /// Command line of a scheduler that decides in place of the profile, such as "python3 first_fit.py", or a
    /// kube-scheduler and its flags, as in kube-scheduler=PATH; or unix:SOCKET, where a program listens already
    #[arg(long, value_name = "CMD", conflicts_with_all = ["stream", "paranoid", "plain"])]
    pub outside: Option<String>,
    /// Write every message from and to that scheduler to FILE
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
    /// Print how long that scheduler took to answer
    #[arg(long)]
    timings: bool,
}

impl OutsideArgs {
    /// Refuses these flags if no scheduler in another process decides (`session` is `None`).
    pub fn check(&self, session: Option<&Started>) -> Result<(), Failure> {
        let flags = [("--transcript", self.transcript.is_some()), ("--timings", self.timings)];
        match flags.iter().find(|(_, is_given)| *is_given && session.is_none()) {
            Some((flag, _)) => {
                let help = "add `--outside CMD`, or `outside:` to the file";
                let why = "no scheduler in another process decides in this scenario";
                Err(Failure::Input(format!("error: {flag}: {why}\n  = help: {help}\n")))
            }
            None => Ok(()),
        }
    }
}

/// A scheduler in another process that was started.
pub type Started = Box<dyn OutsideProgram>;

/// Whether a scheduler in another process decides, and which.
#[derive(Clone, Debug, Default)]
pub struct OutsideChoice {
    outside: Outside,
    /// The text after `--outside`, as the user typed it.
    typed: Option<String>,
}

impl OutsideChoice {
    pub fn lower(&self) -> Outside {
        self.outside.clone()
    }

    /// Whether the user gave `--outside`.
    pub fn is_typed(&self) -> bool {
        self.typed.is_some()
    }

    /// The choice that `--outside` makes; without the flag, the choice of the scenario file.
    pub fn of(typed: Option<&str>) -> Result<OutsideChoice, Failure> {
        let command = |text: &str| {
            outside::Command::read(text).map_err(|error| Failure::Input(format!("error: --outside: {error}\n")))
        };
        // A path on the command line is relative to the working directory.
        let decides = |command| Outside::Command(command, PathBuf::new());
        let outside = typed.map(command).transpose()?.map_or(Outside::Allowed, decides);
        Ok(OutsideChoice { outside, typed: typed.map(str::to_string) })
    }

    /// The choice of a program that the user did not type, started in `folder`.
    pub fn started_in(folder: &Path, command: outside::Command) -> OutsideChoice {
        OutsideChoice { outside: Outside::Command(command, folder.to_path_buf()), typed: None }
    }

    /// The flag that repeats this choice in a printed command.
    pub fn flag(&self) -> String {
        self.typed.as_ref().map_or(String::new(), |typed| format!(" --outside {}", quoted(typed)))
    }
}

/// Starts the scheduler in another process, with a transcript if asked for. Refuses flags that need a decision by the
/// profile.
pub fn decider(
    args: &OutsideArgs,
    setup: Setup,
    rehearsal: &Rehearsal,
    flags: &[(&str, bool)],
) -> Result<Started, Failure> {
    if let Some((flag, _)) = flags.iter().find(|(_, is_given)| *is_given) {
        let why = "a scheduler in another process decides in this file";
        return Err(Failure::Input(format!("error: --{flag}: {why}\n")));
    }
    let mut session = start(setup, rehearsal)?;
    let Some(file) = &args.transcript else { return Ok(session) };
    session.write_transcript(Box::new(Transcript::create(file)?));
    Ok(session)
}

/// The messages of a scheduler in another process. They are written in place, because they are of use if the run does
/// not end. The first failed write is reported, and nothing is written after it, so no message is missing in the middle.
struct Transcript {
    path: PathBuf,
    /// `None` after a failed write.
    out: Option<BufWriter<File>>,
}

impl Transcript {
    fn create(path: &Path) -> Result<Transcript, Failure> {
        let unwritable = |error: io::Error| Failure::file(path, format!("cannot be created: {error}"));
        // A pipe or a device has no lock, and cannot be cleared.
        let is_file = std::fs::metadata(path).map_or(true, |found| found.is_file());
        let file = match is_file {
            true => {
                let file = open_locked(path).map_err(unwritable)?;
                let file = file.ok_or_else(|| Failure::file(path, "is being written by another dryrack"))?;
                file.set_len(0).map_err(unwritable)?;
                file
            }
            false => OpenOptions::new().append(true).open(path).map_err(unwritable)?,
        };
        Ok(Transcript { path: path.to_path_buf(), out: Some(BufWriter::new(file)) })
    }

    /// Runs a write. After a failed one, nothing is written.
    fn unless_failed<T>(&mut self, otherwise: T, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> T {
        let Some(out) = &mut self.out else { return otherwise };
        match write(out) {
            Ok(done) => done,
            Err(error) => {
                warn(&format!(
                    "note: {}: cannot be written: {error}; it lacks the last messages\n",
                    self.path.display()
                ));
                // Do not write what is still buffered.
                drop(self.out.take().map(BufWriter::into_parts));
                otherwise
            }
        }
    }
}

impl Write for Transcript {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.unless_failed(bytes.len(), |out| out.write_all(bytes).map(|()| bytes.len())))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_failed((), BufWriter::flush);
        Ok(())
    }
}

/// Starts the scheduler in another process for this rehearsal.
pub fn start(setup: Setup, rehearsal: &Rehearsal) -> Result<Started, Failure> {
    dryrack_rehearse::start(setup, rehearsal).map_err(|error| Failure::Input(format!("error: {error}\n")))
}

/// Runs the rehearsal. If there is a session, the scheduler in the other process decides.
pub fn with_decider(
    session: &mut Option<Started>,
    rehearsal: &Rehearsal,
    expectations: Vec<Expectation>,
    progress: &Progress,
    caching: Caching,
    sinks: Vec<&mut dyn Sink>,
) -> Rehearsed {
    match session {
        None => rehearse(rehearsal, expectations, progress, caching, sinks),
        Some(session) => rehearse_decided(rehearsal, expectations, progress, sinks, session.as_decider()),
    }
}

/// The message about a scheduler in another process that failed and was given up.
pub fn failure_text(failure: &outside::Failure, at: SimTime) -> String {
    let outside::Failure { fault, text, errors } = failure;
    let (name, what, text) = (fault.name(), fault.text(), printable(text));
    let mut said = format!("{name}: the outside scheduler {what} at {at}: {text}\n");
    if !errors.is_empty() {
        said.push_str("  the last lines of its standard error:\n");
        let lines: Vec<&str> = errors.lines().collect();
        for line in &lines[lines.len().saturating_sub(SHOWN_ERRORS)..] {
            said.push_str(&format!("  | {}\n", printable(line)));
        }
    }
    said
}

/// The number of lines shown from the end of the failed scheduler's stderr.
const SHOWN_ERRORS: usize = 40;

/// The same rehearsal, with the name of the scheduler that decided in the name of its profile.
pub fn named_after(rehearsal: &Rehearsal, who: &ProgramName) -> Rehearsal {
    let mut profile = Profile::clone(&rehearsal.profile);
    profile.name = profile.name.replace("decided outside", &format!("decided by {who}"));
    Rehearsal { profile: Arc::new(profile), ..rehearsal.clone() }
}

/// Ends the scheduler's process, and prints its timings and its failure if there are any. Returns whether it failed.
pub fn farewell(session: Option<&mut Started>, args: &OutsideArgs, at: SimTime) -> bool {
    let Some(session) = session else { return false };
    session.end();
    if args.timings {
        warn(&format!("outside: {}\n", session.timings()));
    }
    for remark in session.remarks() {
        warn(&format!("note: {}\n", printable(&remark)));
    }
    if let Some(failure) = session.failure() {
        warn(&failure_text(failure, at));
    }
    session.failure().is_some()
}
