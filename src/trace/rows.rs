//! Reads the tasks of a file one at a time, in any format.

use std::io::BufRead;
use std::path::Path;

use dryrack_units::SimTime;

use super::error::{Faults, TraceError};
use super::row::{RunBasis, TaskTrace, TraceTask};
use super::swf_header::SwfHeader;
use super::table::Table;
use super::tally::{Oddity, Tally};
use super::text::{Lines, Span};

/// Iterates over the tasks of a file in the order of the file. Keeps only one task in memory. An error in one row does
/// not end the iteration.
pub trait Rows: Iterator<Item = Result<TraceTask, TraceError>> {
    /// The counts of odd rows read so far.
    fn tally(&self) -> &Tally;

    /// The header of the file, if its format has one.
    fn header(&self) -> Option<&SwfHeader> {
        None
    }
}

/// Collects all tasks in order of submission, or returns all faults together. `file` is the name of the input in error
/// messages.
pub(super) fn collect(file: &Path, mut rows: impl Rows) -> Result<TaskTrace, TraceError> {
    let mut tasks = Vec::new();
    let mut faults = Faults::default();
    for row in rows.by_ref() {
        match row {
            Ok(task) => tasks.push(task),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(TraceError::from_faults(file, faults));
    }
    tasks.sort_by_key(|task| (task.submit, task.line));
    Ok(TaskTrace { tasks, tally: rows.tally().clone(), header: rows.header().cloned() })
}

impl<T: Rows + ?Sized> Rows for Box<T> {
    fn tally(&self) -> &Tally {
        (**self).tally()
    }

    fn header(&self) -> Option<&SwfHeader> {
        (**self).header()
    }
}

/// Keeps the tally of a reader for a format without special oddities.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) tally: Tally,
    last: SimTime,
}

impl Seen {
    pub(super) fn keep(&mut self, task: &TraceTask) {
        self.tally.add_row();
        match task.run_basis {
            RunBasis::SoFar => self.tally.add(Oddity::StillRunning),
            RunBasis::Executed | RunBasis::WholeStay if task.run.is_zero() => self.tally.add(Oddity::ZeroRun),
            RunBasis::Executed | RunBasis::WholeStay | RunBasis::NotRecorded => {}
        }
        self.tally.add_each(task.odd);
        if task.is_out_of_order() {
            return;
        }
        if task.submit < self.last {
            self.tally.add(Oddity::OutOfOrder);
        }
        self.last = task.submit;
    }

    pub(super) fn leave_out(&mut self, why: Oddity) {
        self.tally.add_row();
        self.tally.add(why);
    }

    /// Leaves out a row that states this many tasks.
    pub(super) fn leave_out_tasks(&mut self, why: Oddity, tasks: u32) {
        self.leave_out(why);
        self.tally.add_tasks(why, tasks.saturating_sub(1));
    }
}

/// The content of a row: a task, or the reason why the row is left out.
pub(super) type RowResult = Result<TraceTask, Oddity>;

/// Iterates over the tasks of a table, one in each row.
pub(super) struct TableRows<R, const N: usize> {
    table: Table<R, N>,
    read: fn(&Lines<R>, &[Span; N]) -> Result<RowResult, TraceError>,
    seen: Seen,
}

impl<R: BufRead, const N: usize> TableRows<R, N> {
    /// Reads the header line, which must have every column. `file` is the name of the input in error messages.
    pub(super) fn new(
        file: &Path,
        input: R,
        columns: [&'static str; N],
        read: fn(&Lines<R>, &[Span; N]) -> Result<RowResult, TraceError>,
    ) -> Result<TableRows<R, N>, TraceError> {
        Ok(TableRows::of(Table::new(file, input, columns)?, read))
    }

    pub(super) fn of(
        table: Table<R, N>,
        read: fn(&Lines<R>, &[Span; N]) -> Result<RowResult, TraceError>,
    ) -> TableRows<R, N> {
        TableRows { table, read, seen: Seen::default() }
    }
}

impl<R: BufRead, const N: usize> Iterator for TableRows<R, N> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.table.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
            match (self.read)(&self.table.lines, &self.table.fields) {
                Ok(Ok(task)) => {
                    self.seen.keep(&task);
                    return Some(Ok(task));
                }
                Ok(Err(why)) => self.seen.leave_out(why),
                Err(fault) => return Some(Err(self.table.with_column(fault))),
            }
        }
    }
}

impl<R: BufRead, const N: usize> Rows for TableRows<R, N> {
    fn tally(&self) -> &Tally {
        &self.seen.tally
    }
}
