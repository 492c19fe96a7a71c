//! The Standard Workload Format of the Parallel Workloads Archive, version 2.2. A file has a header of `;` lines, then
//! one job in each line. A job has 18 fields, and -1 means unknown.
//!
//! Source: S. Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999, and
//! the archive's page `swf.html`. Real files deviate from the format, and the reader accepts these deviations: decimals
//! in any time, additional fields, a missing header, and gzip. Every other deviation is an error that points at the
//! field.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use dryrack_planted::planted;
use dryrack_units::{Bytes, SimDuration, SimTime};

use super::decimal::{Decimal, NotDecimal};
use super::error::{Faults, TraceError};
use super::row::{Outcome, RunBasis, TaskTrace, TraceTask};
use super::rows::{Rows, collect};
use super::swf_header::SwfHeader;
use super::tally::{Oddity, Tally};
use super::text::{Lines, Span, open_lines};

const FIELDS: usize = 18;
/// A line with more fields than this is not in this format. The widest known SWF file has 28 fields.
const FIELDS_MAX: usize = 64;
const KIB: u64 = 1024;

/// Reads a whole file, plain or gzip. Reports all faults together.
pub fn read_file(path: &Path) -> Result<TaskTrace, TraceError> {
    read(path, open_lines(path)?)
}

/// Reads all of `input`. `file` is the name of the input in error messages.
pub fn read(file: &Path, input: impl BufRead) -> Result<TaskTrace, TraceError> {
    collect(file, SwfReader::new(file, input)?)
}

/// Iterates over the jobs of an SWF file in the order of the file. Keeps only one job in memory.
///
/// A fault in one row does not end the iteration. A read error does.
pub struct SwfReader<R> {
    lines: Lines<R>,
    header: SwfHeader,
    tally: Tally,
    /// Whether the current line is the first job, because the header ended just before it.
    at_first_job: bool,
    last_submit: SimTime,
    /// The number of the last job that was returned as a whole. Rows about its parts may follow.
    last_whole: Option<u64>,
}

impl SwfReader<BufReader<Box<dyn Read>>> {
    /// Opens a file, plain or gzip.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        SwfReader::new(path, open_lines(path)?)
    }
}

impl<R: BufRead> SwfReader<R> {
    /// Reads the header. `file` is the name of the input in error messages.
    pub fn new(file: &Path, input: R) -> Result<SwfReader<R>, TraceError> {
        let mut lines = Lines::new(file, input);
        let mut header = SwfHeader::default();
        let mut faults = Faults::default();
        let at_first_job = loop {
            match lines.advance() {
                Ok(true) => {}
                Ok(false) => break false,
                Err(fault) => {
                    faults.push(fault);
                    break false;
                }
            }
            if is_job(lines.bytes()) {
                break true;
            }
            if let Err(fault) = header.read_line(&lines) {
                faults.push(fault);
            }
        };
        if !faults.is_empty() {
            return Err(TraceError::from_faults(file, faults));
        }
        let last_submit = SimTime::ZERO;
        Ok(SwfReader { lines, header, tally: Tally::default(), at_first_job, last_submit, last_whole: None })
    }

    pub fn header(&self) -> &SwfHeader {
        &self.header
    }

    /// The counts of odd rows read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn next_job_line(&mut self) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.at_first_job) {
            return Ok(true);
        }
        while self.lines.advance()? {
            if is_job(self.lines.bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the current line as a task. Returns `None` if the row is left out.
    fn read_row(&mut self) -> Result<Option<TraceTask>, TraceError> {
        let (row, extra) = Row::split(&self.lines)?;
        let mut odd = Vec::new();
        if extra {
            odd.push(Oddity::ExtraFields);
        }
        let job: u64 = row.whole(1, "a job number")?;
        let submit = row.seconds(2, "a submit time in seconds, or -1")?;
        let wait = row.measured(3, "a wait time in seconds, or -1", &mut odd)?;
        let run = row.decimal(4, "a run time in seconds, or -1")?;
        let allocated: Option<u32> = row.optional(5, "a number of allocated processors, or -1")?;
        let cpu_used = row.measured(6, "a CPU time in seconds, or -1", &mut odd)?;
        let used_kib = row.measured(7, "a used memory in KiB, or -1", &mut odd)?;
        let requested: Option<u32> = row.optional(8, "a number of requested processors, or -1")?;
        let estimate = row.seconds(9, "a requested time in seconds, or -1")?;
        let asked_kib = row.unknown_or(10, "a requested memory in KiB, or -1")?;
        let status: Option<u64> = row.optional(11, "a status, or -1")?;
        let user = row.optional(12, "a user number, or -1")?;
        let group = row.optional(13, "a group number, or -1")?;
        let executable = row.optional(14, "an executable number, or -1")?;
        let queue = row.optional(15, "a queue number, or -1")?;
        let partition = row.optional(16, "a partition number, or -1")?;
        let follows: Option<u64> = row.optional(17, "the number of the preceding job, or -1")?;
        row.unknown_or(18, "a think time in seconds, or -1")?;

        let is_part = matches!(status, Some(2..=4)) && !planted!(PartialRowsAreJobs);
        let outcome = status.and_then(outcome_of);
        let (allocated_first, otherwise) =
            if planted!(RequestedBeforeAllocated) { (requested, allocated) } else { (allocated, requested) };
        let processors = allocated_first.filter(|&n| n > 0).or(otherwise.filter(|&n| n > 0));
        let run_length = if run.negative { None } else { Some(row.duration(4, run)?) };
        let (submit, processors, run) = match (submit, processors, run_length) {
            _ if is_part && self.last_whole == Some(job) => return Ok(self.leave_out(Oddity::PartOfJobBefore)),
            (None, _, _) => return Ok(self.leave_out(Oddity::NoSubmitTime)),
            (_, _, None) => return Ok(self.leave_out(Oddity::NegativeRun)),
            (_, None, _) => return Ok(self.leave_out(Oddity::NoProcessors)),
            (Some(submit), Some(processors), Some(run)) => (SimTime::ZERO + submit, processors, run),
        };
        let oddities = [
            (run.is_zero(), Oddity::ZeroRun),
            (estimate.is_some_and(|estimate| run > estimate), Oddity::LongerThanRequested),
            (submit < self.last_submit, Oddity::OutOfOrder),
            (allocated.unwrap_or(0) == 0, Oddity::ProcessorsAsRequested),
            (status.is_some() && outcome.is_none(), Oddity::UndefinedStatus),
            (follows.is_some_and(|job| job > 0), Oddity::FollowsAnother),
        ];
        odd.extend(oddities.into_iter().filter(|(applies, _)| *applies).map(|(_, oddity)| oddity));
        let task = TraceTask {
            run_basis: RunBasis::Executed,
            recorded_wait: wait.map(|wait| row.duration(3, wait)).transpose()?,
            estimate,
            processors: Some(processors),
            ram: asked_kib.map(|kib| row.memory(10, kib, processors)).transpose()?,
            cpu_time_used: cpu_used.map(|used| row.duration(6, used)).transpose()?,
            ram_used: used_kib.map(|kib| row.memory(7, kib, processors)).transpose()?,
            outcome,
            user,
            group,
            executable,
            queue,
            partition,
            ..TraceTask::new(job.to_string(), self.lines.number(), submit, run)
        };
        self.keep(submit, job, is_part, odd);
        Ok(Some(task))
    }

    fn leave_out(&mut self, oddity: Oddity) -> Option<TraceTask> {
        self.tally.add_row();
        self.tally.add(oddity);
        None
    }

    fn keep(&mut self, submit: SimTime, job: u64, is_part: bool, odd: Vec<Oddity>) {
        self.tally.add_row();
        odd.into_iter().for_each(|oddity| self.tally.add(oddity));
        self.last_submit = submit;
        if !is_part {
            self.last_whole = Some(job);
        }
    }
}

impl<R: BufRead> Rows for SwfReader<R> {
    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn header(&self) -> Option<&SwfHeader> {
        Some(&self.header)
    }
}

impl<R: BufRead> Iterator for SwfReader<R> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_job_line() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
            match self.read_row() {
                Ok(Some(task)) => return Some(Ok(task)),
                Ok(None) => {}
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}

fn is_job(line: &[u8]) -> bool {
    line.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|first| *first != b';')
}

fn outcome_of(status: u64) -> Option<Outcome> {
    match status {
        0 => Some(Outcome::Failed),
        1 => Some(Outcome::Completed),
        2 => Some(Outcome::ToBeContinued),
        3 => Some(Outcome::LastPartCompleted),
        4 => Some(Outcome::LastPartFailed),
        5 => Some(Outcome::Cancelled),
        _ => None,
    }
}

/// The fields of the current line. They are numbered from 1, as in the definition of the format.
struct Row<'a, R> {
    lines: &'a Lines<R>,
    fields: [Span; FIELDS],
}

impl<R: BufRead> Row<'_, R> {
    /// Splits the line into fields. Also returns whether the line has more fields than the format defines.
    fn split(lines: &Lines<R>) -> Result<(Row<'_, R>, bool), TraceError> {
        let line = lines.bytes();
        let mut fields = [Span::default(); FIELDS];
        let (mut count, mut at) = (0, 0);
        loop {
            while at < line.len() && line[at].is_ascii_whitespace() {
                at += 1;
            }
            if at == line.len() {
                break;
            }
            let start = at;
            while at < line.len() && !line[at].is_ascii_whitespace() {
                at += 1;
            }
            if let Some(field) = fields.get_mut(count) {
                *field = Span { start, end: at };
            } else if count == FIELDS_MAX {
                return Err(lines.malformed(start, format!("at most {FIELDS_MAX} fields"), "a further one"));
            }
            count += 1;
        }
        if count < FIELDS {
            let end = fields[..count].last().map_or(0, |last| last.end);
            return Err(lines.malformed(
                end,
                format!("{FIELDS} fields"),
                &format!("the end of the line after {count}"),
            ));
        }
        Ok((Row { lines, fields }, count > FIELDS))
    }

    fn decimal(&self, number: usize, expected: &str) -> Result<Decimal, TraceError> {
        self.lines.decimal(&self.fields[number - 1], expected)
    }

    fn whole<N: TryFrom<u64>>(&self, number: usize, expected: &str) -> Result<N, TraceError> {
        self.lines.whole(&self.fields[number - 1], expected)
    }

    /// Parses a whole number. Returns `None` for -1.
    fn optional<N: TryFrom<u64>>(&self, number: usize, expected: &str) -> Result<Option<N>, TraceError> {
        match self.decimal(number, expected)?.is_minus_one() {
            true => Ok(None),
            false => self.whole(number, expected).map(Some),
        }
    }

    /// Parses a value that must not be negative. Returns `None` for -1.
    fn unknown_or(&self, number: usize, expected: &str) -> Result<Option<Decimal>, TraceError> {
        let value = self.decimal(number, expected)?;
        match value.negative {
            false => Ok(Some(value)),
            true if value.is_minus_one() => Ok(None),
            true => Err(self.lines.wrong(&self.fields[number - 1], expected, NotDecimal::Malformed)),
        }
    }

    fn seconds(&self, number: usize, expected: &str) -> Result<Option<SimDuration>, TraceError> {
        self.unknown_or(number, expected)?.map(|value| self.duration(number, value)).transpose()
    }

    /// Parses a value that was measured and not requested. Negative values other than -1 occur in real files and have
    /// no meaning.
    fn measured(&self, number: usize, expected: &str, odd: &mut Vec<Oddity>) -> Result<Option<Decimal>, TraceError> {
        let value = self.decimal(number, expected)?;
        if value.negative && !value.is_minus_one() && !odd.contains(&Oddity::NegativeMeasurement) {
            odd.push(Oddity::NegativeMeasurement);
        }
        Ok(Some(value).filter(|value| !value.negative))
    }

    fn duration(&self, number: usize, seconds: Decimal) -> Result<SimDuration, TraceError> {
        let too_large = || self.lines.wrong(&self.fields[number - 1], "a time in seconds", NotDecimal::TooLarge);
        seconds.as_billionths().map(SimDuration::from_nanos).ok_or_else(too_large)
    }

    /// Computes the memory of all processors. The format states KiB for each processor.
    fn memory(&self, number: usize, kib: Decimal, processors: u32) -> Result<Bytes, TraceError> {
        let too_large = || self.lines.wrong(&self.fields[number - 1], "a memory in KiB", NotDecimal::TooLarge);
        kib.scaled(KIB * u64::from(processors)).map(Bytes::new).ok_or_else(too_large)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn jobs(text: &str) -> Result<TaskTrace, TraceError> {
        read(Path::new("log.swf"), text.as_bytes())
    }

    fn gaia() -> TaskTrace {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/unilu-gaia-2014/UniLu-Gaia-2014-2.swf.gz");
        read_file(&path).unwrap_or_else(|fault| panic!("{fault}"))
    }

    #[test]
    fn a_job_is_read_as_the_format_says() {
        let row = "    6   339299      1 214651   24 358.00  2560   24 432000    -1  1   5   7   6  2 -1 -1 -1";
        let trace = jobs(row).unwrap();
        let task = &trace.tasks[0];
        assert_eq!((task.name.as_str(), task.line), ("6", 1));
        assert_eq!((task.submit, task.run), (SimTime::from_secs(339_299), SimDuration::from_secs(214_651)));
        assert_eq!(task.recorded_wait, Some(SimDuration::from_secs(1)));
        assert_eq!(task.estimate, Some(SimDuration::from_secs(432_000)));
        assert_eq!((task.processors, task.ram), (Some(24), None));
        assert_eq!(task.cpu_time_used, Some(SimDuration::from_secs(358)));
        // 24 processors with 2560 KiB each have 60 MiB together.
        assert_eq!(task.ram_used, Some(Bytes::from_mib(60)));
        assert_eq!(task.outcome, Some(Outcome::Completed));
        assert_eq!((task.user, task.group, task.executable), (Some(5), Some(7), Some(6)));
        assert_eq!((task.queue, task.partition), (Some(2), None));
        // The format has no such fields.
        assert_eq!((task.cpu, task.gpus, task.gpu_share, task.qos.as_deref()), (None, None, None, None));
        assert_eq!((trace.tally.rows(), trace.tally.iter().count()), (1, 0));
    }

    #[test]
    fn odd_jobs_are_counted_by_reason() {
        let rows: [(&str, &[Oddity], usize); 14] = [
            ("1 0 1 -1 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::NegativeRun], 0),
            ("1 0 1 -7.5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::NegativeRun], 0),
            ("1 -1 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::NoSubmitTime], 0),
            ("1 0 1 5 -1 -1 -1 0 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::NoProcessors], 0),
            ("1 0 1 0 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::ZeroRun], 1),
            ("1 0 1 61 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::LongerThanRequested], 1),
            ("1 0 1 61 2 -1 -1 2 -1 -1 1 1 1 1 1 -1 -1 -1", &[], 1),
            ("1 0 1 5 0 -1 -1 2 60 -1 5 1 1 1 1 -1 -1 -1", &[Oddity::ProcessorsAsRequested], 1),
            ("1 0 -5 5 2 -3 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", &[Oddity::NegativeMeasurement], 1),
            ("1 0 1 5 2 -1 -1 2 60 -1 143 1 1 1 1 -1 -1 -1", &[Oddity::UndefinedStatus], 1),
            ("1 0 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 7 30", &[Oddity::FollowsAnother], 1),
            ("1 0 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1 9 9", &[Oddity::ExtraFields], 1),
            // Times with decimals, and minus zero, which can result from a difference of floats.
            ("2060 2754.556511 -0.0 140.95 2 -1 -1 2 212.0 -1 1 -1 -1 -1 -1 -1 -1 -1", &[], 1),
            // A row with status 2 is kept if it is the first row of its job.
            ("1 0 1 5 2 -1 -1 2 60 -1 2 1 1 1 1 -1 -1 -1", &[], 1),
        ];
        for (row, expected, kept) in rows {
            let trace = jobs(row).unwrap_or_else(|fault| panic!("{row}: {fault}"));
            let met: Vec<Oddity> = trace.tally.iter().map(|(oddity, _)| oddity).collect();
            assert_eq!(met, expected, "{row}");
            assert_eq!((trace.tasks.len(), trace.tally.kept(), trace.tally.rows()), (kept, kept as u64, 1), "{row}");
        }
    }

    #[test]
    fn the_parts_of_a_job_are_not_counted_as_further_jobs() {
        let text = "7 0 1 9 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1\n\
                    7 0 1 4 2 -1 -1 2 60 -1 2 1 1 1 1 -1 -1 -1\n\
                    7 0 1 5 2 -1 -1 2 60 -1 3 1 1 1 1 -1 -1 -1\n\
                    8 0 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1\n";
        let trace = jobs(text).unwrap();
        assert_eq!(trace.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["7", "8"]);
        assert_eq!((trace.tally.rows(), trace.tally.count(Oddity::PartOfJobBefore)), (4, 2));
    }

    #[test]
    fn jobs_come_by_submission_and_those_of_one_instant_in_order_of_the_file() {
        let tail = "1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1";
        let trace = jobs(&format!("1 50 {tail}\n2 9 {tail}\n; a note\n\n3 50 {tail}\n4 9.5 {tail}")).unwrap();
        assert_eq!(trace.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["2", "4", "1", "3"]);
        assert_eq!(trace.tally.count(Oddity::OutOfOrder), 2);
    }

    #[test]
    fn the_header_says_what_the_log_is_of() {
        let text = "; Version: 2.2\n;  Note: see http://example.org/\n; MaxNodes: 144 (of 8 processors)\n\
                    ;MaxProcs: 1152\n; UnixStartTime: 956703600\n; MaxJobs: -1\n; Queue: 1 - Normal\n\
                    ; Queue:  1  default\n; --- prose: yes\n";
        let reader = SwfReader::new(Path::new("log.swf"), text.as_bytes()).unwrap();
        let header = reader.header();
        assert_eq!((header.max_nodes, header.max_procs, header.max_jobs), (Some(144), Some(1152), None));
        assert_eq!(header.unix_start_time, Some(956_703_600));
        assert_eq!(header.queues, BTreeMap::from([(1, "Normal; default".to_string())]));
        let about = [("Version", "2.2"), ("Note", "see http://example.org/")];
        assert_eq!(header.about, about.map(|(key, value)| (key.to_string(), value.to_string())));
    }

    #[test]
    fn what_is_wrong_in_a_job_is_pointed_at() {
        let rows = [
            ("x 0 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1", "1:1: expected a job number, found `x`"),
            (
                "1 -2 1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1",
                "1:3: expected a submit time in seconds, or -1, found `-2`",
            ),
            (
                "  1 0 1 5e3 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1",
                "1:9: expected a run time in seconds, or -1, found `5e3`",
            ),
            (
                "1 0 1 5 2.5 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1",
                "1:9: expected a number of allocated processors, or -1, found `2.5`",
            ),
            (
                "1 0 1 5 2 -1 -1 4294967296 60 -1 1 1 1 1 1 -1 -1 -1",
                "1:17: expected a number of requested processors, or -1, found `4294967296`, which is too large",
            ),
            (
                "1 0 1 99999999999 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1",
                "1:7: expected a time in seconds, found `99999999999`, which is too large",
            ),
            ("1 0 1 5 2 NaN -1 2 60 -1 1 1 1 1 1 -1 -1 -1", "1:11: expected a CPU time in seconds, or -1, found `NaN`"),
            (
                "1 0 1 5 2 -1 -1 2 60 -1 1 1 1 1 default -1 -1 -1",
                "1:33: expected a queue number, or -1, found `default`",
            ),
            ("; a log\n1 0 1 5 2 -1 -1 2", "2:18: expected 18 fields, found the end of the line after 8"),
            ("; MaxProcs:  many\n", "1:14: expected a whole number as MaxProcs, found `many`"),
            ("# no comment", "1:13: expected 18 fields, found the end of the line after 3"),
        ];
        for (text, expected) in rows {
            let message = jobs(text).map_err(|fault| fault.to_string());
            assert_eq!(message, Err(format!("log.swf:{expected}")), "{text}");
        }
        let message = jobs(&"1 ".repeat(65)).unwrap_err().to_string();
        assert_eq!(message, "log.swf:1:129: expected at most 64 fields, found a further one");
        let message = jobs(&"1 ".repeat(40_000)).unwrap_err().to_string();
        assert_eq!(message, "log.swf:1:1: expected a line of at most 65536 bytes, found a longer one");
    }

    #[test]
    fn a_log_cut_short_in_its_compressed_form_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let whole = include_bytes!("../../traces/unilu-gaia-2014/UniLu-Gaia-2014-2.swf.gz");
        let path = folder.path().join("log.swf.gz");
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let message = read_file(&path).unwrap_err().to_string();
        assert!(message.contains("log.swf.gz:") && message.contains(": cannot be read: "), "{message}");
    }

    /// The expected values are from traces/unilu-gaia-2014/NOTICE. They were counted there by other means.
    #[test]
    fn the_gaia_log_is_read_with_its_odd_rows_counted() {
        let trace = gaia();
        assert_eq!((trace.tally.rows(), trace.tally.kept(), trace.tasks.len()), (51_987, 51_959, 51_959));
        let odd: Vec<(Oddity, u64)> = trace.tally.iter().collect();
        let expected = [(Oddity::NegativeRun, 28), (Oddity::ZeroRun, 100), (Oddity::LongerThanRequested, 1_500)];
        assert_eq!(odd, expected);
        let header = trace.header.as_ref().unwrap();
        assert_eq!((header.max_nodes, header.max_procs, header.max_jobs), (Some(151), Some(2004), Some(51_987)));
        assert_eq!(header.unix_start_time, Some(1_400_749_079));
        assert!(header.queues[&2].contains("preempt"), "{:?}", header.queues);
        assert!(trace.tasks.is_sorted_by_key(|task| task.submit));
        assert_eq!(
            trace.tally.to_string(),
            "51987 rows, 51959 kept; left out: 28 run time negative; \
             kept, but odd: 100 run for no time, 1500 ran longer than requested"
        );
    }

    /// The log has 35,222 default rows, 14,915 best-effort rows and 1,850 interactive rows. Of these, 17, 11 and none
    /// have no run time.
    #[test]
    fn the_gaia_log_has_its_queues() {
        let trace = gaia();
        let of = |queue| trace.tasks.iter().filter(|task| task.queue == Some(queue)).count();
        assert_eq!((of(1), of(2), of(0)), (35_222 - 17, 14_915 - 11, 1_850));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes: Vec<u8>,
            rows in "[-0-9.; \n]{0,400}",
            header in "; ?[A-Z][a-z]{0,8}: ?.{0,20}",
        ) {
            let _ = read(Path::new("any"), bytes.as_slice());
            let _ = jobs(&rows);
            let _ = jobs(&header);
            let _ = jobs(&format!("; MaxNodes: {header}"));
        }

        #[test]
        fn no_numbers_make_the_reader_panic(numbers in proptest::collection::vec(-2i128..=(u64::MAX as i128 + 1), 18)) {
            let row: Vec<String> = numbers.iter().map(i128::to_string).collect();
            let _ = jobs(&row.join(" "));
        }
    }
}
