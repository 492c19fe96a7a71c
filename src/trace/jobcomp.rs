//! The file of Slurm's plugin jobcomp/filetxt.

use std::io::BufRead;
use std::path::Path;

use super::error::TraceError;
use super::overlap::Counted;
use super::row::TraceTask;
use super::rows::{RowResult, Rows, Seen};
use super::slurm::{Advance, LineRows, into_trace_error, next};
use super::slurm_job::Job;
use super::slurm_resources::known;
use super::tally::Tally;
use super::text::{Lines, quoted};

/// Iterates over the jobs of a jobcomp/filetxt file. Each line has one job as `Key=value` pairs, separated by spaces.
pub(super) struct JobcompRows<R> {
    lines: Lines<R>,
    seen: Seen,
}

/// The keys of such a line. A value may contain spaces, so a word that does not begin with one of these keys belongs to
/// the previous value.
const KEYS: [&str; 27] = [
    "JobId",
    "UserId",
    "GroupId",
    "Name",
    "JobState",
    "Partition",
    "TimeLimit",
    "StartTime",
    "EndTime",
    "NodeList",
    "NodeCnt",
    "ProcCnt",
    "WorkDir",
    "ReservationName",
    "Tres",
    "Account",
    "QOS",
    "WcKey",
    "Cluster",
    "SubmitTime",
    "EligibleTime",
    "ArrayJobId",
    "ArrayTaskId",
    "HetJobId",
    "HetJobOffset",
    "DerivedExitCode",
    "ExitCode",
];

impl<R: BufRead> JobcompRows<R> {
    /// Opens the list. `file` is the name of the input in error messages.
    pub(super) fn new(file: &Path, input: R) -> JobcompRows<R> {
        JobcompRows { lines: Lines::new(file, input), seen: Seen::default() }
    }

    fn read(&self) -> Result<RowResult, TraceError> {
        let text = std::str::from_utf8(self.lines.bytes());
        let text = text.map_err(|_| self.lines.malformed(0, "a line of UTF-8", "other bytes"))?;
        let starts = |key: &&str| text == *key || text.starts_with(&format!("{key}="));
        if !KEYS.iter().any(starts) {
            return Err(self.lines.malformed(0, "a job, which begins with JobId=", &quoted(text.as_bytes())));
        }
        let value = |key: &str| {
            let from = match text.strip_prefix(&format!("{key}=")) {
                Some(_) => key.len() + 1,
                None => text.find(&format!(" {key}="))? + key.len() + 2,
            };
            let rest = &text[from..];
            let ends = KEYS.iter().filter_map(|key| rest.find(&format!(" {key}=")));
            // If the value is empty, the text begins with the space before the next key.
            Some(rest[..ends.min().unwrap_or(rest.len())].trim_end())
        };
        let get = |key: &str| value(key).unwrap_or("");
        let array = value("ArrayJobId").zip(value("ArrayTaskId")).map(|(job, task)| format!("{job}_{task}"));
        // As sacct writes the number of a component.
        let component = value("HetJobId").zip(value("HetJobOffset")).map(|(job, offset)| format!("{job}+{offset}"));
        let user = get("UserId");
        let (user_name, user) =
            user.rsplit_once('(').map_or((user, ""), |(name, number)| (name, number.trim_end_matches(')')));
        let job = Job {
            id: array.as_deref().or(component.as_deref()).unwrap_or(get("JobId")),
            name: get("Name"),
            submit: get("SubmitTime"),
            eligible: get("EligibleTime"),
            start: get("StartTime"),
            end: get("EndTime"),
            elapsed: "",
            state: get("JobState"),
            cpus: get("ProcCnt"),
            allocated: "",
            memory: "",
            resources: get("Tres"),
            gres: "",
            nodes: get("NodeCnt"),
            limit: get("TimeLimit"),
            partition: get("Partition"),
            user: known(user).and_then(|user| user.parse().ok()),
            user_name,
            account: get("Account"),
            qos: get("QOS"),
        };
        into_trace_error(job.task(self.lines.number()), &self.lines, &[])
    }
}
impl<R: BufRead> LineRows for JobcompRows<R> {
    fn lines(&mut self) -> &mut dyn Advance {
        &mut self.lines
    }

    fn read_line(&mut self) -> Result<Option<Counted>, TraceError> {
        Ok(Some((self.read()?, 1)))
    }

    fn rest(&mut self) -> Option<Counted> {
        None
    }

    fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }
}

impl<R: BufRead> Iterator for JobcompRows<R> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        next(self)
    }
}

impl<R: BufRead> Rows for JobcompRows<R> {
    fn tally(&self) -> &Tally {
        &self.seen.tally
    }
}
