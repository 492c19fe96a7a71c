//! Slurm's records of jobs, as `sacct --parsable2` prints them.
//!
//! The columns JobID, Submit, Start and End are required. The columns JobName, State,
//! AllocCPUS, NCPUS, ReqCPUS, ReqMem, AllocTRES, ReqTRES, AllocGRES, ReqGRES, NNodes, Elapsed or
//! ElapsedRaw, Timelimit or TimelimitRaw, Eligible, Partition, UID and User are read if they are present. Other columns
//! are ignored. A job that became eligible to start after its submission, because of `--begin` or a dependency, counts as
//! submitted at that time.
//! Without a UID column, users are numbered from 1 in the order in which they appear. A step of a job (`7.batch`) is
//! counted as a part of its job. Dates are in the cluster's local time. A job that never started is left out, because its
//! run time is unknown. A job that was still running is kept with the time that it ran so far, or if this is zero, with the time until the
//! last date in the list. The readers were checked
//! against records of Slurm 22.05.8 in `tests/data/slurm`.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

use dryrack_planted::planted;
use dryrack_units::SimDuration;

use super::error::TraceError;
use super::overlap::{Counted, Overlap};
use super::row::{RunBasis, TraceTask};
use super::rows::{Rows, Seen};
use super::slurm_job::{BadJob, Job};
use super::slurm_resources::{is_unknown, known};
use super::tally::{Oddity, Tally};
use super::text::{Lines, quoted};

/// Whether a first line is of `sacct` without `--parsable2`: the names of columns of fixed width, or the dashes below.
pub(super) fn is_in_columns(line: &str) -> bool {
    const NAMES: [&str; 14] = [
        "JobID",
        "JobIDRaw",
        "JobName",
        "User",
        "Account",
        "Partition",
        "Submit",
        "Start",
        "End",
        "Elapsed",
        "State",
        "AllocCPUS",
        "AllocTRES",
        "ExitCode",
    ];
    let line = line.trim();
    let is_ruler = line.starts_with("---") && line.bytes().all(|byte| byte == b'-' || byte == b' ');
    let known = line.split_whitespace().filter(|word| NAMES.contains(word)).count();
    is_ruler || (known >= 2 && !line.contains(['|', ',']))
}

/// The columns that a list needs.
pub(super) const NEEDED: [&str; 4] = ["JobID", "Submit", "Start", "End"];

/// Iterates over the jobs in the output of `sacct --parsable2`.
pub(super) struct SacctRows<R> {
    lines: Lines<R>,
    header: String,
    overlap: Overlap,
    columns: Vec<String>,
    /// The latest date at which a job was submitted, started or ended, as written. Dates in this form are in the order
    /// of their texts.
    latest: String,
    /// The numbers given to users, if the table has only their names.
    users: HashMap<String, u64>,
    seen: Seen,
}

impl<R: BufRead> SacctRows<R> {
    /// Reads the header line. `file` is the name of the input in error messages.
    pub(super) fn new(file: &Path, input: R) -> Result<SacctRows<R>, TraceError> {
        let mut lines = Lines::new(file, input);
        lines.advance()?;
        let header = String::from_utf8_lossy(lines.bytes()).into_owned();
        let columns: Vec<String> = header.split('|').map(str::to_string).collect();
        match NEEDED.iter().find(|needed| !columns.iter().any(|column| column == *needed)) {
            None => Ok(SacctRows {
                lines,
                header,
                overlap: Overlap::default(),
                columns,
                latest: String::new(),
                users: HashMap::new(),
                seen: Seen::default(),
            }),
            Some(_) if is_in_columns(&header) => Err(TraceError::SacctColumns { file: file.to_path_buf() }),
            Some(missing) => {
                let (file, line, name) = (file.to_path_buf(), 1, missing.to_string());
                Err(TraceError::MissingColumn { file, line, name, valid: NEEDED.join(", ") })
            }
        }
    }

    /// Reads a row. Returns `None` if the row is held back, or is the header of another list that was joined.
    fn read(&mut self) -> Result<Option<Counted>, TraceError> {
        let SacctRows { lines, header, overlap, columns, latest, users, .. } = self;
        let text = std::str::from_utf8(lines.bytes());
        let text = text.map_err(|_| lines.malformed(0, "a line of UTF-8", "other bytes"))?;
        if text == header {
            return Ok(None);
        }
        let fields: Vec<&str> = text.split('|').collect();
        if fields.contains(&"JobID") && fields.contains(&"Submit") {
            let expected = "a job, or the same header again (join only lists with the same `--format`)";
            return Err(lines.malformed(0, expected, "another header"));
        }
        if fields.len() != columns.len() {
            let expected = format!(
                "{} fields, as the header has (a `|` or a line end in a text, such as a Comment or a SubmitLine, is one too \
                 many: leave such columns out of `sacct --format`)",
                columns.len()
            );
            return Err(lines.malformed(0, expected, &fields.len().to_string()));
        }
        let mut job = Job::default();
        let [mut asked, mut asked_gres, mut uid, mut cluster] = [""; 4];
        for (column, field) in columns.iter().zip(fields) {
            if column == "AllocCPUS" {
                job.allocated = field;
            }
            let place = match column.as_str() {
                "JobID" => &mut job.id,
                "JobName" => &mut job.name,
                "Submit" => &mut job.submit,
                "Eligible" => &mut job.eligible,
                "Start" => &mut job.start,
                "End" => &mut job.end,
                "Elapsed" | "ElapsedRaw" => &mut job.elapsed,
                "State" => &mut job.state,
                "AllocCPUS" | "NCPUS" | "ReqCPUS" => &mut job.cpus,
                "ReqMem" => &mut job.memory,
                "AllocTRES" => &mut job.resources,
                "ReqTRES" => &mut asked,
                "AllocGRES" => &mut job.gres,
                "ReqGRES" => &mut asked_gres,
                "NNodes" => &mut job.nodes,
                "Timelimit" | "TimelimitRaw" => &mut job.limit,
                "Partition" => &mut job.partition,
                "Account" => &mut job.account,
                "QOS" => &mut job.qos,
                "UID" => &mut uid,
                "Cluster" => &mut cluster,
                "User" => &mut job.user_name,
                _ => continue,
            };
            // Keep the first known value. Columns of allocated resources come before columns of requested resources if
            // both are present.
            if is_unknown(place) || *place == "0" {
                *place = field;
            }
        }
        if is_unknown(job.resources) || planted!(RequestedTresFirst) && !is_unknown(asked) {
            job.resources = asked;
        }
        if is_unknown(job.gres) {
            job.gres = asked_gres;
        }
        job.user = known(uid).and_then(|uid| uid.parse().ok());
        // If there is a UID column, do not number users, because a number could be the id of another user.
        if let Some(name) = known(job.user_name).filter(|_| !columns.iter().any(|column| column == "UID")) {
            let next = users.len() as u64 + 1;
            job.user = Some(*users.entry(name.to_string()).or_insert(next));
        }
        let row = into_trace_error(job.task(lines.number()), lines, columns)?;
        // Some releases state when a pending job is expected to start.
        let dates = [job.submit, if job.state == "PENDING" { "" } else { job.start }, job.end];
        if let Some(date) = dates.into_iter().filter_map(known).max().filter(|date| *date > latest.as_str()) {
            latest.replace_range(.., date);
        }
        Ok(match row {
            Err(Oddity::PartOfJobBefore) => Some((row, 1)),
            _ => overlap.next([cluster, job.id, job.submit], [job.start, job.end], row),
        })
    }
}

/// Says where in the current line the text is that cannot be read.
pub(super) fn into_trace_error<T, R: BufRead>(
    read: Result<T, BadJob<'_>>,
    lines: &Lines<R>,
    columns: &[String],
) -> Result<T, TraceError> {
    read.map_err(|BadJob(expected, found)| {
        let start = (found.as_ptr().addr()).checked_sub(lines.bytes().as_ptr().addr());
        // An empty text may lie outside the line.
        let start = start.filter(|start| start + found.len() <= lines.bytes().len() && !found.is_empty()).unwrap_or(0);
        let before = lines.bytes()[..start].iter().filter(|byte| **byte == b'|').count();
        let column = columns.get(before).filter(|_| !found.is_empty());
        let column = column.map_or(String::new(), |column| format!(" in column `{column}`"));
        lines.malformed(start, format!("{expected}{column}"), &quoted(found.as_bytes()))
    })
}

/// The common part of both readers, each of which reads one line at a time.
pub(super) trait LineRows {
    fn lines(&mut self) -> &mut dyn Advance;
    /// The content of the line; `None` if it has no row of its own.
    fn read_line(&mut self) -> Result<Option<Counted>, TraceError>;
    /// The rows that were held back until the end of the file.
    fn rest(&mut self) -> Option<Counted>;
    fn seen(&mut self) -> &mut Seen;
}

pub(super) trait Advance {
    fn next_line(&mut self) -> Result<bool, TraceError>;
}

impl<R: BufRead> Advance for Lines<R> {
    /// Moves to the next line that is not empty.
    fn next_line(&mut self) -> Result<bool, TraceError> {
        while self.advance()? {
            if !self.bytes().trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(super) fn next(rows: &mut impl LineRows) -> Option<Result<TraceTask, TraceError>> {
    loop {
        let row = match rows.lines().next_line() {
            Ok(true) => rows.read_line(),
            Ok(false) => Ok(Some(rows.rest()?)),
            Err(fault) => Err(fault),
        };
        match row {
            Ok(None) => {}
            Ok(Some((Ok(task), _))) => {
                rows.seen().keep(&task);
                if task.gpu_models.len() > 1 {
                    rows.seen().tally.add(Oddity::SeveralModels);
                }
                return Some(Ok(task));
            }
            Ok(Some((Err(why), tasks))) => rows.seen().leave_out_tasks(why, tasks),
            Err(fault) => return Some(Err(fault)),
        }
    }
}

impl<R: BufRead> LineRows for SacctRows<R> {
    fn lines(&mut self) -> &mut dyn Advance {
        &mut self.lines
    }

    fn read_line(&mut self) -> Result<Option<Counted>, TraceError> {
        self.read()
    }

    fn rest(&mut self) -> Option<Counted> {
        let mut row = self.overlap.rest()?;
        // Of a job that runs, some lists state no time so far.
        if let Ok(task) = &mut row.0
            && task.run_basis == RunBasis::SoFar
            && task.run.is_zero()
        {
            let start = task.submit.saturating_add(task.recorded_wait.unwrap_or(SimDuration::ZERO));
            let latest = dryrack_units::date::parse(&self.latest);
            task.run = latest.and_then(|latest| latest.checked_since(start)).unwrap_or(SimDuration::ZERO);
        }
        Some(row)
    }

    fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }
}

impl<R: BufRead> Iterator for SacctRows<R> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        next(self)
    }
}

impl<R: BufRead> Rows for SacctRows<R> {
    fn tally(&self) -> &Tally {
        &self.seen.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskTrace;
    use crate::jobcomp::JobcompRows;
    use crate::row::Outcome;
    use crate::rows::collect;
    use crate::slurm_job::length;
    use dryrack_units::{Bytes, MilliCpu, SimTime};

    fn data(name: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/slurm").join(name))
            .unwrap()
    }

    fn sacct(text: &str) -> Result<TaskTrace, TraceError> {
        let file = Path::new("s.txt");
        collect(file, SacctRows::new(file, text.as_bytes())?)
    }

    /// Both files are about the same 16 jobs on the same cluster. One of these jobs never started. The output of
    /// `sacct` also has 15 steps. The `sbatch` commands are in `tests/data/slurm/README.md`.
    #[test]
    fn both_files_say_the_same_of_the_same_jobs() {
        let file = Path::new("slurm");
        let table = collect(file, SacctRows::new(file, data("sacct.txt").as_bytes()).unwrap()).unwrap();
        let written = collect(file, JobcompRows::new(file, data("jobcomp.txt").as_bytes())).unwrap();
        assert_eq!((table.tasks.len(), table.tally.rows()), (15, 31));
        let odd = [Oddity::PartOfJobBefore, Oddity::NeverStarted].map(|oddity| table.tally.count(oddity));
        assert_eq!(odd, [15, 1]);
        assert_eq!((written.tasks.len(), written.tally.count(Oddity::NeverStarted)), (15, 1));
        for task in &table.tasks {
            let other = written.tasks.iter().find(|other| other.name == task.name).unwrap();
            // This output of sacct has only the user's name, and there was one user. It has no QOS, and does not state when
            // jobs became eligible, which was a second later for the tasks of an array.
            assert_eq!((other.qos.as_deref(), task.account.as_deref()), (Some("normal"), Some("root")));
            assert!(task.odd.has(Oddity::EligibleUnknown) && !other.odd.has(Oddity::EligibleUnknown));
            let (submit, recorded_wait, odd) = (task.submit, task.recorded_wait, task.odd);
            assert_eq!(
                *task,
                TraceTask { line: task.line, user: Some(1), qos: None, submit, recorded_wait, odd, ..other.clone() }
            );
            let start = |task: &TraceTask| task.submit.saturating_add(task.recorded_wait.unwrap());
            assert_eq!(start(task), start(other), "{}", task.name);
        }
        let by_name = |name: &str| table.tasks.iter().find(|task| task.application.as_deref() == Some(name)).unwrap();
        let gang = by_name("gang");
        assert_eq!((gang.gpus, gang.nodes, gang.cpu), (Some(8), Some(4), Some(MilliCpu::from_cores(4))));
        assert_eq!((gang.run, gang.recorded_wait), (SimDuration::from_secs(3), Some(SimDuration::from_secs(9))));
        assert_eq!(gang.estimate, Some(SimDuration::from_secs(60)));
        assert_eq!((by_name("cpu").gpus, by_name("cpu").ram), (Some(0), Some(Bytes::from_mib(300))));
        let ends = [("small", Outcome::Completed), ("fails", Outcome::Failed), ("cancelled", Outcome::Cancelled)];
        ends.into_iter().for_each(|(name, outcome)| assert_eq!(by_name(name).outcome, Some(outcome), "{name}"));
        assert_eq!(table.tasks.iter().filter(|task| task.name.starts_with("6_")).count(), 8);
        assert_eq!(by_name("small").submit, SimTime::from_secs(1_795_281_025));
    }

    /// Slurm before 20.11 states GPUs in columns of their own, unless `AccountingStorageTRES` has them too.
    #[test]
    fn gpus_are_read_from_either_kind_of_column() {
        let rows = [
            ("||gpu:4|gpu:8|4Gn", Some(4), Some(8 << 30)),
            ("|||PER_NODE:gpu:a100:3|2Gc", Some(6), Some(16 << 30)),
            ("cpu=8,mem=1G|cpu=8,mem=1G|gpu:2||", Some(2), Some(1 << 30)),
            ("cpu=8,gres/gpu=1||gpu:2||", Some(1), None),
            ("cpu=8||||", Some(0), None),
            ("||||", None, None),
        ];
        for (fields, gpus, ram) in rows {
            let table = format!(
                "JobID|Submit|Start|End|NNodes|NCPUS|AllocTRES|ReqTRES|AllocGRES|ReqGRES|ReqMem\n\
                 7|2026-11-21T17:10:00|2026-11-21T17:10:05|2026-11-21T18:10:05|2|8|{fields}\n"
            );
            let read = sacct(&table).unwrap();
            let found = &read.tasks[0];
            assert_eq!((found.gpus, found.ram), (gpus, ram.map(Bytes::new)), "{fields}");
        }
    }

    /// The formats of Timelimit and Elapsed in sacct(1): `[DD-[HH:]]MM:SS`.
    #[test]
    fn times_are_read_as_they_are_printed_too() {
        let rows = [
            ("90", Some(5_400)),
            ("30:00", Some(1_800)),
            ("02:30:00", Some(9_000)),
            ("1-02:30:05", Some(95_405)),
            ("10-00:00:00", Some(864_000)),
            ("1-30:00", None),
            ("24:00:00", None),
            ("00:60", None),
            ("x", None),
            // Longer than 584 years.
            ("4294967295", None),
            ("300000-00:00:00", None),
        ];
        for (text, seconds) in rows {
            assert_eq!(length(text, 60), seconds.map(SimDuration::from_secs), "{text}");
        }
        let table = "JobID|Submit|Start|End|Elapsed|Timelimit\n\
                     7|2026-11-21T17:10:00|2026-11-21T17:10:05|2026-11-21T18:10:05|00:50:00|02:00:00\n";
        let read = sacct(table).unwrap();
        // The job was suspended for ten minutes of the hour.
        assert_eq!(read.tasks[0].run, SimDuration::from_secs(3_000));
        assert_eq!(read.tasks[0].estimate, Some(SimDuration::from_secs(7_200)));
    }

    #[test]
    fn a_job_that_still_runs_is_kept_with_its_time_so_far() {
        let rows = [
            ("RUNNING|2026-11-21T17:10:05|Unknown|50", Ok(50)),
            ("RUNNING|2026-11-21T17:10:05|2026-11-21T18:00:00|50", Ok(50)),
            ("|2026-11-21T17:10:05|Unknown|50", Ok(50)),
            ("RUNNING|2026-11-21T17:10:05|Unknown|", Err(Oddity::NoEnd)),
            ("COMPLETED|2026-11-21T17:10:05|Unknown|50", Err(Oddity::NoEnd)),
            ("PENDING|Unknown|Unknown|0", Err(Oddity::StillPending)),
            ("CANCELLED by 0|Unknown|2026-11-21T17:10:05|0", Err(Oddity::NeverStarted)),
        ];
        for (fields, expected) in rows {
            let table =
                format!("JobID|Timelimit|Submit|State|Start|End|ElapsedRaw\n7|60|2026-11-21T17:10:00|{fields}\n");
            let read = sacct(&table).unwrap();
            match expected {
                Ok(run) => {
                    assert_eq!(
                        (read.tasks[0].run, read.tasks[0].run_basis),
                        (SimDuration::from_secs(run), RunBasis::SoFar)
                    );
                    assert_eq!(read.tally.count(Oddity::StillRunning), 1, "{fields}");
                }
                Err(oddity) => assert_eq!((read.tasks.len(), read.tally.count(oddity)), (0, 1), "{fields}"),
            }
        }
    }

    /// Job 2 runs since 17:10:05, and the log knows what happened until 17:12:00.
    #[test]
    fn without_its_time_so_far_a_job_ran_until_the_last_date_of_the_log() {
        let table = "JobID|State|Submit|Start|End|ElapsedRaw\n\
                     2|RUNNING|2026-11-21T17:10:00|2026-11-21T17:10:05|Unknown|0\n\
                     3|COMPLETED|2026-11-21T17:10:00|2026-11-21T17:11:00|2026-11-21T17:12:00|60\n\
                     4|PENDING|2026-11-21T17:10:00|2026-11-21T19:00:00|Unknown|0\n";
        let read = sacct(table).unwrap();
        let runs: Vec<_> = read.tasks.iter().map(|task| (&*task.name, task.run, task.run_basis)).collect();
        let [so_far, whole] = [115, 60].map(SimDuration::from_secs);
        assert_eq!(runs, [("2", so_far, RunBasis::SoFar), ("3", whole, RunBasis::Executed)]);
    }

    /// Two dumps of the same cluster, one day apart. The second has ended what ran, has started what waited, and has a
    /// job of its own. A requeued job has another end, so it is a job again.
    #[test]
    fn lists_that_overlap_have_each_job_once() {
        let header = "JobID|State|Submit|Start|End|ElapsedRaw\n";
        let day = "2026-11-21T17:10";
        let first = format!(
            "1|COMPLETED|{day}:00|{day}:05|{day}:55|50\n2|RUNNING|{day}:00|{day}:05|Unknown|5\n\
             3|PENDING|{day}:00|Unknown|Unknown|0\n4|RUNNING|{day}:00|{day}:05|Unknown|5\n\
             1|COMPLETED|{day}:00|{day}:05|{day}:56|51\n1.batch|COMPLETED|{day}:00|{day}:05|{day}:55|50\n"
        );
        let second = format!(
            "1|COMPLETED|{day}:00|{day}:05|{day}:55|50\n2|COMPLETED|{day}:00|{day}:05|{day}:55|60\n\
             3|RUNNING|{day}:00|{day}:05|Unknown|7\n4|RUNNING|{day}:00|{day}:05|Unknown|70\n\
             5|COMPLETED|{day}:00|{day}:05|{day}:55|50\n"
        );
        for lists in [[&first, &second], [&second, &first]] {
            let table = format!("{header}{}{header}{}", lists[0], lists[1]);
            let read = sacct(&table).unwrap();
            let mut found: Vec<(&str, u64, RunBasis)> = read
                .tasks
                .iter()
                .map(|task| (&*task.name, task.run.as_nanos() / 1_000_000_000, task.run_basis))
                .collect();
            found.sort_unstable();
            let ended = |name, run| (name, run, RunBasis::Executed);
            let running = |name, run| (name, run, RunBasis::SoFar);
            let expected = [ended("1", 50), ended("1", 51), ended("2", 60), running("3", 7), running("4", 70)];
            assert_eq!(found, [&expected[..], &[ended("5", 50)]].concat());
            assert_eq!((read.tally.rows(), read.tally.count(Oddity::Repeated)), (11, 4));
        }
    }

    #[test]
    fn users_are_known_by_their_number_or_else_as_they_come() {
        let of = |columns: &str, named: &[&str]| {
            let mut table = format!("JobID|Submit|Start|End|{columns}\n");
            for (job, user) in named.iter().enumerate() {
                table.push_str(&format!("{job}|2026-11-21T17:10:00|2026-11-21T17:10:05|2026-11-21T18:10:05|{user}\n"));
            }
            let read = sacct(&table).unwrap();
            read.tasks.iter().map(|task| task.user).collect::<Vec<Option<u64>>>()
        };
        assert_eq!(of("User", &["ann", "bob", "ann", ""]), [Some(1), Some(2), Some(1), None]);
        assert_eq!(of("User|UID", &["ann|1", "bob|", "ann|1"]), [Some(1), None, Some(1)]);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        let read = |text: &str| sacct(text).unwrap_err().to_string();
        let header = "JobID|Submit|Start|End|AllocTRES\n";
        let rows = [
            ("JobID|Submit|Start\n", "s.txt:1: no column `End`; all of JobID, Submit, Start, End are needed"),
            (
                &*format!("{header}1|x|Unknown|Unknown|\n"),
                "s.txt:2:3: expected a date such as 2026-11-21T17:10:25 in column `Submit`, found `x`",
            ),
            (
                &format!("{header}1|2026-11-21T17:10:25|\n"),
                "s.txt:2:1: expected 5 fields, as the header has (a `|` or a line end in a text, such as a Comment or a \
                 SubmitLine, is one too many: leave such columns out of `sacct --format`), found 3",
            ),
            (
                &format!("{header}JobID|State|Submit|Start|End|AllocTRES\n"),
                "s.txt:2:1: expected a job, or the same header again (join only lists with the same `--format`), found \
                 another header",
            ),
            (
                &format!("{header}1|2026-11-21T17:10:25|2026-11-21T17:10:25|2026-11-21T17:10:26|cpu=x\n"),
                "s.txt:2:63: expected resources such as cpu=4,gres/gpu=2 in column `AllocTRES`, found `cpu=x`",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text), expected);
        }
    }
}
