//! What a check is given, and what it answers.

use dryrack_engine::{MOST_RECORDS_OF_A_WORLD, Records, Rehearsal, RunOptions, run};
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
    let mut records = Records::default();
    let options = RunOptions { most_records: MOST_RECORDS_OF_A_WORLD, ..RunOptions::default() };
    run(world, options, &mut [&mut records]);
    records.0
}
