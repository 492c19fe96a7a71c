//! What the main loop of a live run needs of the place where jobs run.

use std::io;

use dryrack_event::{Command, Input};
use dryrack_units::SimTime;

/// The place where jobs really run: this machine or a Slurm cluster.
pub trait RunBackend {
    /// Observes everything that has happened until `now`, and adds it as inputs, in order of classes. Returns an error
    /// if the state of the jobs can no longer be known.
    fn happen(&mut self, now: SimTime, child_changed: bool, inputs: &mut Vec<Input>) -> io::Result<()>;

    fn obey(&mut self, now: SimTime, command: Command);

    /// The time of the next poll, even if no child process changes before.
    fn next_time(&self) -> Option<SimTime>;

    /// Whether nothing runs and no further input is scheduled.
    fn is_over(&self) -> bool;

    /// Starts nothing new, and cancels every submitted job.
    fn interrupt(&mut self, inputs: &mut Vec<Input>);

    fn kill_all(&mut self);

    /// Ends everything that was started, and waits until it is gone. Returns an error if that takes too long.
    fn end_all(&mut self) -> io::Result<()>;

    /// Remarks that are not in the log, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
