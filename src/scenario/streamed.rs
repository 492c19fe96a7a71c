//! Jobs that are created or read one by one during a run.
//!
//! They arrive in the same order as if all were created before the run: by time, then in the order of the file, and
//! jobs of a trace last. Some features need a job before it arrives, or need all jobs at once. They are not available
//! in such a run, and using them is reported as an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::job_template::JobTemplate;
use super::trace_source::{TaskList, TaskStream};
use super::world::World;
use dryrack_control::Profile;
use dryrack_trace::TraceError;
use dryrack_units::SimTime;
use dryrack_workload::Arrival;
use dryrack_yaml::{Fields, Report};

/// The jobs of a run that are created later, when they arrive.
#[derive(Clone, Debug)]
pub struct Streamed {
    entries: Vec<JobTemplate>,
    list: Option<TaskList>,
}

impl Streamed {
    /// Checks that these entries can be streamed under this profile. Also returns one job of each entry, which
    /// represents the entry in checks.
    pub(super) fn checked(
        entries: Vec<JobTemplate>,
        list: Option<TaskList>,
        (file, profile): (&Fields<'_>, &Profile),
        world: &mut World,
        report: &mut Report,
    ) -> (Streamed, Vec<Arrival>) {
        let mut refuse = |span, what: &str| {
            report.error_with_help(span, format!("a streamed run {what}"), "leave it out, or leave `--stream` out");
        };
        if profile.flow.may_go_on_forever() {
            refuse(file.key_span("profile"), "cannot use a profile that keeps rows of ended jobs");
        }
        if profile.scheduler.needs_target() && profile.scheduler.target.is_empty() {
            refuse(file.key_span("profile"), "does not know its jobs in advance, but this profile places jobs by them");
        }
        for (index, entry) in entries.iter().enumerate() {
            if entry.cancel_at.is_some() {
                refuse(entry.span, "cannot cancel jobs before their submission");
            }
            if !entry.after.is_empty() {
                refuse(entry.span, "cannot have dependencies between jobs");
            }
            if entry.is_used() {
                refuse(entry.span, "does not simulate GPU usage");
            }
            if entries[..index].iter().any(|other| other.may_share_a_name_with(entry)) {
                refuse(entry.span, "cannot have two entries whose jobs could have the same name");
            }
        }
        let firsts = entries.iter().filter(|entry| entry.len() > 0);
        let firsts: Vec<Arrival> = firsts.map(|entry| (world.job_spans.push(entry.span), entry.arrival(0)).1).collect();
        (Streamed { entries, list }, firsts)
    }

    /// The number of jobs that will arrive.
    pub fn count(&self) -> usize {
        self.entries.iter().map(JobTemplate::len).sum::<usize>() + self.list.as_ref().map_or(0, |list| list.tasks)
    }

    /// All jobs in the order of their arrival.
    pub fn arrivals(&self) -> Result<StreamedArrivals<'_>, TraceError> {
        let mut arrivals =
            StreamedArrivals { streamed: self, due: BinaryHeap::new(), tasks: None, next_task: None, fault: None };
        for (source, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.len() > 0) {
            arrivals.due.push(Reverse((entry.time_of(0), source, 0)));
        }
        if let Some(list) = &self.list {
            arrivals.tasks = Some(list.open()?);
            arrivals.read_task();
        }
        Ok(arrivals)
    }
}

/// An iterator that creates each job when it is requested.
pub struct StreamedArrivals<'a> {
    streamed: &'a Streamed,
    /// The next job of each source, keyed by time, source and index. The tasks of a list are the last source.
    due: BinaryHeap<Reverse<(SimTime, usize, usize)>>,
    tasks: Option<TaskStream>,
    next_task: Option<Arrival>,
    fault: Option<TraceError>,
}

impl StreamedArrivals<'_> {
    /// Why the jobs ended early: a file has changed since it was first read.
    pub fn fault(&self) -> Option<&TraceError> {
        self.fault.as_ref()
    }

    fn read_task(&mut self) {
        let Some(tasks) = &mut self.tasks else { return };
        match tasks.next_arrival() {
            Ok(next) => self.next_task = next,
            Err(fault) => (self.fault, self.tasks) = (Some(fault), None),
        }
        if let Some(task) = &self.next_task {
            self.due.push(Reverse((task.at, self.streamed.entries.len(), 0)));
        }
    }
}

impl Iterator for StreamedArrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let Reverse((_, source, index)) = self.due.pop()?;
        let Some(entry) = self.streamed.entries.get(source) else {
            let task = self.next_task.take();
            self.read_task();
            return task;
        };
        if index + 1 < entry.len() {
            self.due.push(Reverse((entry.time_of(index + 1), source, index + 1)));
        }
        Some(entry.arrival(index))
    }
}
