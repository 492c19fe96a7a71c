//! Stops runs that do not end. A run is stopped if it has more records than any run should have, or if the code that
//! watches it requests a stop.
//!
//! A stopped run has no result. It unwinds with a [`Runaway`] to the guard of the run, so no caller can take a partial
//! run for a result.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rehearsal::Rehearsal;
use dryrack_event::{Event, Input, Sink};
use dryrack_ids::JobId;
use dryrack_units::SimTime;

/// The default limit of records. Each submitted job adds 1,000 to it.
pub const MOST_RECORDS: u64 = 20_000_000;
const RECORDS_PER_JOB: u64 = 1000;

/// How many of the last records are counted by kind and by job.
const LAST: u64 = 100_000;

static LIMIT: AtomicU64 = AtomicU64::new(MOST_RECORDS);

/// Sets the default limit of records for all runs of this process.
pub fn limit_records(most: u64) {
    LIMIT.store(most, Ordering::Relaxed);
}

pub(super) fn most_records() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Records,
    /// The code that watches the run requested the stop, for example because of a time limit.
    Patience,
}

/// Describes a run that was stopped before its end.
#[derive(Clone, Debug)]
pub struct Runaway {
    pub bound: Bound,
    pub at: SimTime,
    pub step: u64,
    pub records: u64,
    /// How many of the last records were counted, their kinds with the most frequent first, and the job with the most
    /// of these records.
    last: u64,
    kinds: Vec<(String, u64)>,
    job: Option<(String, u64)>,
}

impl fmt::Display for Runaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Runaway { at, step, records, last, .. } = self;
        let why = match self.bound {
            Bound::Records => "it does not end",
            Bound::Patience => "it takes too long",
        };
        write!(f, "the run was stopped because {why}: {records} records by {at} in simulated time, in step {step}")?;
        if let Some((kind, count)) = self.kinds.first() {
            write!(f, "\n  of the last {last} records, {count} are `{kind}`")?;
            if let Some((kind, count)) = self.kinds.get(1) {
                write!(f, " and {count} `{kind}`")?;
            }
        }
        match &self.job {
            Some((job, count)) => write!(f, "; {count} are about `{job}`"),
            None => Ok(()),
        }
    }
}

/// Counts the records of a run. Shortly before the limit, also counts them by kind and by job.
pub(super) struct Bounds<'a> {
    rehearsal: &'a Rehearsal,
    most: Cell<u64>,
    records: Cell<u64>,
    about: RefCell<LastRecord>,
}

#[derive(Default)]
struct LastRecord {
    looked_at: u64,
    kinds: BTreeMap<String, u64>,
    jobs: BTreeMap<JobId, u64>,
}

impl<'a> Bounds<'a> {
    pub fn new(rehearsal: &'a Rehearsal, most: u64) -> Bounds<'a> {
        Bounds { rehearsal, most: Cell::new(most), records: Cell::new(0), about: RefCell::default() }
    }

    /// Stops the run if it has too many records.
    pub fn check(&self, step: u64, at: SimTime) {
        if self.records.get() > self.most.get() {
            self.stop(Bound::Records, step, at);
        }
    }

    pub fn stop(&self, bound: Bound, step: u64, at: SimTime) -> ! {
        let about = self.about.take();
        let mut kinds: Vec<(String, u64)> = about.kinds.into_iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), kind.clone()));
        let job = about.jobs.into_iter().max_by_key(|(job, count)| (*count, std::cmp::Reverse(*job)));
        let name = |job: JobId| match self.rehearsal.arrivals.get(job.index()) {
            Some(arrival) => arrival.spec.name.to_string(),
            None => format!("job {}", job.index()),
        };
        let job = job.map(|(job, count)| (name(job), count));
        let records = self.records.get();
        resume_unwind(Box::new(Runaway { bound, at, step, records, last: about.looked_at, kinds, job }));
    }

    #[inline]
    fn count(&self, what: &impl fmt::Debug, job: impl FnOnce() -> Option<JobId>) {
        let records = self.records.get() + 1;
        self.records.set(records);
        if records + LAST > self.most.get() {
            self.diagnose(what, job());
        }
    }

    #[cold]
    fn diagnose(&self, what: &impl fmt::Debug, job: Option<JobId>) {
        let mut about = self.about.borrow_mut();
        about.looked_at += 1;
        *about.kinds.entry(kind_of(what)).or_default() += 1;
        if let Some(job) = job {
            *about.jobs.entry(job).or_default() += 1;
        }
    }
}

/// The name of an input or event as the log writes it: the variant in snake case.
fn kind_of(what: &impl fmt::Debug) -> String {
    let debugged = format!("{what:?}");
    let variant = debugged.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    let mut name = String::with_capacity(variant.len() + 4);
    for letter in variant.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

impl Sink for &Bounds<'_> {
    fn input(&mut self, _: u64, _: SimTime, input: &Input) {
        if matches!(input, Input::Submit { .. }) {
            self.most.set(self.most.get().saturating_add(RECORDS_PER_JOB));
        }
        self.count(input, || input.job());
    }

    fn event(&mut self, _: u64, _: SimTime, event: &Event) {
        self.count(event, || event.job());
    }
}
