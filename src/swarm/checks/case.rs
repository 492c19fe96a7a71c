//! What a check is given, and what it answers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use dryrack_engine::{MOST_RECORDS_OF_A_WORLD, Records, Rehearsal, RunOptions, Runaway, run};
use dryrack_event::Record;

/// A random world with its log.
pub struct Case<'a> {
    pub world: &'a Rehearsal,
    pub log: &'a [Record],
}

/// Whether a check has judged a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Holds,
    /// The check says nothing about worlds like this one.
    DoesNotApply,
}

/// The answer of a check. `Err` says what it found.
pub type CheckResult = Result<Judged, String>;

/// The log of a world, with no more checks than a normal run has.
pub(super) fn log_of(world: &Rehearsal) -> Vec<Record> {
    match log_up_to_limit(world) {
        (log, None) => log,
        (_, Some(stopped)) => resume_unwind(stopped),
    }
}

/// Like [`log_of`], but a run that does not end gives the log up to its limit of records, and how it was stopped.
pub(super) fn log_up_to_limit(world: &Rehearsal) -> (Vec<Record>, Option<Box<dyn Any + Send>>) {
    let mut records = Records::default();
    let options = RunOptions { most_records: MOST_RECORDS_OF_A_WORLD, ..RunOptions::default() };
    let done = catch_unwind(AssertUnwindSafe(|| run(world, options, &mut [&mut records])));
    match done {
        Err(stopped) if !stopped.is::<Runaway>() => resume_unwind(stopped),
        done => (records.0, done.err()),
    }
}
