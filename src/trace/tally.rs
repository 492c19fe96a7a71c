//! Counts the odd rows of a trace, by reason.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Whether a row with an oddity is kept or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowFate {
    Kept,
    LeftOut,
}

/// A reason why a row is left out or changed, or is unusual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// The run time is negative, so the real run time is unknown.
    NegativeRun,
    /// The time of submission is unknown.
    NoSubmitTime,
    /// The end is unknown, so the run time is unknown.
    NoEnd,
    /// The task was never given a node, so its run time is unknown.
    NeverStarted,
    /// The task still waited when the row was written, so its run time is unknown.
    StillPending,
    /// The steps per second of the job's type are not recorded, so its run time is unknown.
    NoThroughput,
    /// Neither the allocated nor the requested number of processors is greater than zero.
    NoProcessors,
    /// The row is a part of the job in the previous row, which already contains the totals. It has the status 2, 3 or 4
    /// and the same job number.
    PartOfJobBefore,
    /// Another row states the same job, because lists that overlap were joined.
    Repeated,
    /// The run time is zero.
    ZeroRun,
    /// The task ran longer than requested. The request is only an estimate, so the recorded time is kept.
    LongerThanRequested,
    /// The task was submitted before the task in the row above.
    OutOfOrder,
    /// No processors were allocated, so the requested number is used.
    ProcessorsAsRequested,
    /// A measured value is negative but not -1, and is treated as unknown.
    NegativeMeasurement,
    /// The outcome is a number that the format does not define, and is treated as unknown.
    UndefinedStatus,
    /// The row names a job for which this job waits; the dependency is ignored.
    FollowsAnother,
    /// The row has more fields than the format defines; the additional fields are ignored.
    ExtraFields,
    /// The pod was never given a node. Its length is the whole time from creation to deletion.
    NeverScheduled,
    /// The task requests more than the whole of each GPU. The share is capped at the whole.
    ShareCapped,
    /// The task requests a share of each GPU but no GPU. It gets no GPU.
    ShareWithoutGpu,
    /// The task had GPUs of several models. It accepts any of them for each GPU.
    SeveralModels,
    /// The task was still running when the row was written. Its length is the time until then.
    StillRunning,
    /// The task was submitted before it was eligible to start. It is taken as submitted when it became eligible.
    EligibleLater,
    /// The row does not state when the task became eligible to start. It is taken as eligible from its submission on.
    EligibleUnknown,
    /// The row is a component of a heterogeneous job, whose components start together. It is taken as a job of its own.
    ComponentOfJob,
    /// The task had shards or MPS of GPUs. The row does not say how many of them are a GPU, so it is taken without GPUs.
    PartsOfGpus,
    /// The task started before it was submitted. How long it waited is taken as unknown.
    StartedBeforeSubmit,
    /// The time limit of the task is `UNLIMITED`, so it had none, and that of a partition does not apply to it.
    NoTimeLimit,
}

impl Oddity {
    pub fn fate(self) -> RowFate {
        match self {
            Oddity::NegativeRun
            | Oddity::NoSubmitTime
            | Oddity::NoEnd
            | Oddity::NeverStarted
            | Oddity::StillPending
            | Oddity::NoThroughput
            | Oddity::NoProcessors
            | Oddity::PartOfJobBefore
            | Oddity::Repeated => RowFate::LeftOut,
            Oddity::ZeroRun
            | Oddity::LongerThanRequested
            | Oddity::OutOfOrder
            | Oddity::ProcessorsAsRequested
            | Oddity::NegativeMeasurement
            | Oddity::UndefinedStatus
            | Oddity::FollowsAnother
            | Oddity::ExtraFields
            | Oddity::NeverScheduled
            | Oddity::ShareCapped
            | Oddity::ShareWithoutGpu
            | Oddity::SeveralModels
            | Oddity::StillRunning
            | Oddity::EligibleLater
            | Oddity::EligibleUnknown
            | Oddity::ComponentOfJob
            | Oddity::PartsOfGpus
            | Oddity::StartedBeforeSubmit
            | Oddity::NoTimeLimit => RowFate::Kept,
        }
    }

    /// A text that says what was done with such rows.
    pub fn describe(self) -> &'static str {
        match self {
            Oddity::NegativeRun => "run time negative",
            Oddity::NoSubmitTime => "submit time unknown",
            Oddity::NoEnd => "end unknown",
            Oddity::NeverStarted => "never started, length unknown",
            Oddity::StillPending => "still pending, length unknown",
            Oddity::NoThroughput => "no throughput recorded of its type and number of GPUs",
            Oddity::NoProcessors => "number of processors unknown",
            Oddity::PartOfJobBefore => "part of the job in a row before",
            Oddity::Repeated => "a job that another row states too",
            Oddity::ZeroRun => "run for no time",
            Oddity::LongerThanRequested => "ran longer than requested",
            Oddity::OutOfOrder => "submitted before the row above",
            Oddity::ProcessorsAsRequested => "processors as requested, none allocated",
            Oddity::NegativeMeasurement => "a measured value negative, taken as unknown",
            Oddity::UndefinedStatus => "status not defined by the format, taken as unknown",
            Oddity::FollowsAnother => "waits for another job, which is not read",
            Oddity::ExtraFields => "further fields, which are not read",
            Oddity::NeverScheduled => "never scheduled, length is the whole stay",
            Oddity::ShareCapped => "more than all of a GPU, capped",
            Oddity::ShareWithoutGpu => "a share but no GPU, has none",
            Oddity::SeveralModels => "GPUs of several models, taken as any of them",
            Oddity::StillRunning => "still running, length so far",
            Oddity::EligibleLater => "eligible later than submitted, taken as submitted then",
            Oddity::EligibleUnknown => "not known when eligible, taken as eligible when submitted",
            Oddity::ComponentOfJob => "component of a heterogeneous job, taken as a job of its own",
            Oddity::PartsOfGpus => "shards or MPS of a GPU, of unknown size, taken as no GPU",
            Oddity::StartedBeforeSubmit => "started before submission, wait unknown",
            Oddity::NoTimeLimit => "no time limit (UNLIMITED)",
        }
    }
}

/// The oddities that a reader states with the task, because they do not follow from its fields.
const STATED: [Oddity; 7] = [
    Oddity::EligibleLater,
    Oddity::EligibleUnknown,
    Oddity::ComponentOfJob,
    Oddity::PartsOfGpus,
    Oddity::StartedBeforeSubmit,
    Oddity::UndefinedStatus,
    Oddity::NoTimeLimit,
];

/// The oddities of one row that is kept, except those that follow from the fields of its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities(u64);

impl Oddities {
    /// These oddities, and another one if the row has it.
    pub(super) fn with(self, oddity: Oddity, is_so: bool) -> Oddities {
        Oddities(self.0 | u64::from(is_so) << (oddity as u8))
    }

    pub fn has(self, oddity: Oddity) -> bool {
        self.0 & 1 << (oddity as u8) != 0
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.describe())
    }
}

/// The number of rows that were read, and the number of rows with each oddity.
///
/// A row that is left out is counted for one oddity only. A row that is kept may be counted for several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    rows: u64,
    odd: BTreeMap<Oddity, u64>,
    /// The tasks with each oddity beyond one for each row: a row states all tasks of a job array that wait.
    more_tasks: BTreeMap<Oddity, u64>,
}

impl Tally {
    pub(super) fn add_row(&mut self) {
        self.rows += 1;
    }

    /// Counts the oddities of a row that is kept.
    pub(super) fn add_each(&mut self, odd: Oddities) {
        STATED.into_iter().filter(|oddity| odd.has(*oddity)).for_each(|oddity| self.add(oddity));
    }

    pub(super) fn add(&mut self, oddity: Oddity) {
        *self.odd.entry(oddity).or_default() += 1;
    }

    pub(super) fn add_tasks(&mut self, oddity: Oddity, more: u32) {
        if more > 0 {
            *self.more_tasks.entry(oddity).or_default() += u64::from(more);
        }
    }

    /// The number of well-formed rows in the file, both kept and left out.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn left_out(&self) -> u64 {
        self.odd.iter().filter(|(oddity, _)| oddity.fate() == RowFate::LeftOut).map(|(_, count)| count).sum()
    }

    pub fn kept(&self) -> u64 {
        self.rows - self.left_out()
    }

    pub fn count(&self, oddity: Oddity) -> u64 {
        self.odd.get(&oddity).copied().unwrap_or(0)
    }

    /// The number of tasks with this oddity. A row may state several tasks of a job array.
    pub fn tasks(&self, oddity: Oddity) -> u64 {
        self.count(oddity) + self.more_tasks.get(&oddity).copied().unwrap_or(0)
    }

    /// The oddities that occurred, in the order of [`Oddity`].
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, u64)> + '_ {
        self.odd.iter().map(|(oddity, count)| (*oddity, *count))
    }
}

impl Tally {
    /// One line about the rows that are left out, and one about the odd rows that are kept; each is omitted if there
    /// are no such rows.
    pub fn lines(&self) -> Vec<String> {
        let line = |(fate, title)| {
            let counts: Vec<String> = self.of(fate).map(|(odd, count)| self.text_of(odd, count)).collect();
            (!counts.is_empty()).then(|| format!("{title}: {}", counts.join(", ")))
        };
        [(RowFate::LeftOut, "left out"), (RowFate::Kept, "kept, but odd")].into_iter().filter_map(line).collect()
    }

    /// Text such as `1 still pending, length unknown (10 tasks)`.
    fn text_of(&self, odd: Oddity, count: u64) -> String {
        match self.tasks(odd) {
            tasks if tasks == count => format!("{count} {odd}"),
            tasks => format!("{count} {odd} ({tasks} tasks)"),
        }
    }

    fn of(&self, fate: RowFate) -> impl Iterator<Item = (Oddity, u64)> + '_ {
        self.iter().filter(move |(odd, _)| odd.fate() == fate)
    }
}

impl fmt::Display for Tally {
    /// Formats the tally, as in
    /// `51987 rows, 51959 kept; left out: 28 run time negative; kept, but odd: 100 run for no time, …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} kept", self.rows, self.kept())?;
        self.lines().iter().try_for_each(|line| write!(f, "; {line}"))
    }
}

impl Serialize for Tally {
    /// Serializes the tally, as in
    /// `{"rows": 51987, "kept": 51959, "left_out": {"negative_run": 28}, "odd": {"zero_run": 100, …}}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by_name = |fate| self.of(fate).collect::<BTreeMap<Oddity, u64>>();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("rows", &self.rows)?;
        map.serialize_entry("kept", &self.kept())?;
        map.serialize_entry("left_out", &by_name(RowFate::LeftOut))?;
        map.serialize_entry("odd", &by_name(RowFate::Kept))?;
        map.end()
    }
}
