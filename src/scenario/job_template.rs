//! A job as the file states it, before it has its place among the arrivals.

use std::sync::Arc;

use super::arrays::JobArray;
use super::dependencies::NamedDependency;
use super::{kueue, pods};
use dryrack_rng as rng;
use dryrack_rng::{Lengths, Stream};
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, JobBehavior, JobSpec};
use dryrack_yaml::Span;

/// A job before all jobs are sorted, with the data that sorting and checks need.
pub(super) struct Draft {
    pub arrival: Arrival,
    pub cancel_at: Option<SimTime>,
    /// The name of a job that must have started first, if it arrives earlier or stands before this one.
    pub after_start_of: Option<Arc<str>>,
    /// The place of the job's name in the file.
    pub span: Span,
}

/// The jobs of one entry. They differ only in their names, their times and, if lengths are drawn, in their lengths.
#[derive(Clone, Debug)]
pub(super) struct JobTemplate {
    pub(super) name: Arc<str>,
    /// The number of digits in the number after the name; `None` for a single job without a number.
    pub(super) width: Option<usize>,
    /// The job array, if the entry is one. Its tasks are named `sweep_1` and so on, as in Slurm.
    pub(super) array: Option<JobArray>,
    /// Submission times, in order.
    pub(super) times: Vec<SimTime>,
    /// The specification that all jobs share; each job adds its name.
    pub(super) spec: JobSpec,
    pub(super) behavior: Arc<JobBehavior>,
    pub(super) run: Option<Lengths>,
    pub(super) seed: u64,
    pub cancel_at: Option<SimTime>,
    /// The dependencies of these jobs, as named in the file.
    pub after: Vec<NamedDependency>,
    pub span: Span,
}

impl JobTemplate {
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The name of the entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn name_of(&self, index: usize) -> Arc<str> {
        match (&self.array, self.width) {
            (Some(array), _) => Arc::from(format!("{}_{}", self.name, array.numbers[index])),
            (None, Some(width)) => Arc::from(format!("{}-{index:0width$}", self.name)),
            (None, None) => Arc::clone(&self.name),
        }
    }

    /// The number in its array of the job at this index; `None` if the entry is no array.
    pub fn number_in_array(&self, index: usize) -> Option<u32> {
        self.array.as_ref().map(|array| array.numbers[index])
    }

    /// Whether the entry states the usage of its GPUs.
    pub fn is_used(&self) -> bool {
        self.behavior.usage.is_some()
    }

    pub fn time_of(&self, index: usize) -> SimTime {
        self.times[index]
    }

    /// Whether the two entries may contain jobs with the same name.
    pub fn may_share_a_name_with(&self, other: &JobTemplate) -> bool {
        let numbered = |of: &JobTemplate, name: &str| {
            let separator = if of.array.is_some() { '_' } else { '-' };
            let number = name.strip_prefix(&*of.name).and_then(|rest| rest.strip_prefix(separator));
            (of.width.is_some() || of.array.is_some())
                && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.name == other.name || numbered(self, &other.name) || numbered(other, &self.name)
    }

    pub fn arrival(&self, index: usize) -> Arrival {
        let name = self.name_of(index);
        // Each job draws its length from its own random stream, so an additional job does not change the other jobs.
        let behavior = match self.run {
            None | Some(Lengths::Fixed(_)) => Arc::clone(&self.behavior),
            Some(lengths) => {
                let run = lengths.draw(&mut Stream::new(self.seed, "durations", rng::entity(&[&name])));
                Arc::new(JobBehavior { run: Some(run), ..(*self.behavior).clone() })
            }
        };
        let queued = self.spec.queued.as_ref().map(|part| kueue::renamed(part, &name));
        let pod = pods::named(self.spec.pod.as_ref(), &name);
        let spec = Arc::new(JobSpec { name, pod, queued, ..self.spec.clone() });
        Arrival { at: self.times[index], spec, behavior, recorded_wait: None }
    }

    pub(super) fn drafts(&self) -> impl Iterator<Item = Draft> {
        let draft = |index| Draft {
            arrival: self.arrival(index),
            cancel_at: self.cancel_at,
            after_start_of: None,
            span: self.span,
        };
        (0..self.times.len()).map(draft)
    }
}
