//! A scheduler in another process, as commands start it, ask for its name, and end it.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use super::decider::Decider;
use super::outside::OutsideFault;
use super::timings::Timings;
use dryrack_units::printable;

/// The name and version that the program states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramName {
    pub name: Arc<str>,
    pub version: Arc<str>,
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", printable(&self.name), printable(&self.version))
    }
}

/// A failure after which the program is not started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFailure {
    pub fault: OutsideFault,
    pub text: String,
    /// The last part of its stderr.
    pub errors: String,
}

/// A scheduler in another process, whichever protocol it speaks.
pub trait OutsideProgram: Decider + Send {
    /// Its name and version. `None` before it has stated them.
    fn who(&self) -> Option<ProgramName>;

    /// The failure, if the program has failed for good.
    fn failure(&self) -> Option<&ProgramFailure>;

    /// Ends the process and its group.
    fn end(&mut self);

    /// How long its answers took.
    fn timings(&self) -> &Timings;

    /// What a user should know about the run, one sentence each, such as what the program asked for in vain.
    fn remarks(&self) -> Vec<String>;

    /// Writes every message from now on: after `> ` if it goes to the program, and after `< ` if it comes from it.
    fn write_transcript(&mut self, out: Box<dyn Write + Send>);

    /// The program as the world drives it.
    fn as_decider(&mut self) -> &mut dyn Decider;
}
