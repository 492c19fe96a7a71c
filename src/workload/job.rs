//! A job: what the control plane is asked to run, and what will really happen to it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::demand::Demand;
use super::launch::Launch;
use super::random_faults::RandomFaults;
use super::sampling::Sampling;
use super::scaling::{Requests, Scaling};
use super::terms::RunTerms;
use super::usage::Usage;
use super::utilization::UtilizationOverrides;
use dryrack_units::{Permille, SimDuration, SimTime};

/// What the control plane is told at submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    pub name: Arc<str>,
    /// Shared by all jobs that ask for the same.
    pub demand: Arc<Demand>,
    /// The number of copies, which are placed independently and kept at this number.
    pub replicas: u32,
    /// Scales the number of replicas with the requests that arrive; `replicas` is the initial number. Used only in a
    /// profile that has runs.
    #[serde(default)]
    pub scaling: Option<Box<Scaling>>,
    /// Higher goes first.
    pub priority: i32,
    pub queue: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
    /// The project whose quota it counts against.
    #[serde(default)]
    pub project: Option<Arc<str>>,
    /// How long the user expects it to take; a hint for planning, never enforced.
    pub estimate: Option<SimDuration>,
    /// A run longer than this is ended.
    pub time_limit: Option<SimDuration>,
    /// Whether it must be analysed before it is placed.
    pub analyse: bool,
    pub restart: Restart,
    /// Overrides the profile's.
    pub retry: Option<Box<RetryPolicy>>,
    /// What happens if its manual pick cannot be selected when it is submitted.
    pub unselectable: Unselectable,
    /// Whether it claims to write checkpoints, so that a preempted run continues where it was.
    #[serde(default)]
    pub checkpoints: bool,
    /// How its nodes are started, ended and retried together. Used only in a profile that has runs.
    #[serde(default)]
    pub terms: Arc<RunTerms>,
    /// What its configuration says about the utilization policy; it overrides the profile.
    pub utilization: Arc<UtilizationOverrides>,
}

impl JobSpec {
    /// One replica with nothing else specified: it waits for what it asks for, runs once, and no limit ends it.
    pub fn of(name: Arc<str>, demand: impl Into<Arc<Demand>>) -> JobSpec {
        JobSpec {
            name,
            demand: demand.into(),
            replicas: 1,
            scaling: None,
            priority: 0,
            queue: None,
            user: None,
            project: None,
            estimate: None,
            time_limit: None,
            analyse: false,
            restart: Restart::Never,
            retry: None,
            unselectable: Unselectable::Wait,
            checkpoints: false,
            terms: Arc::default(),
            utilization: Arc::default(),
        }
    }
}

/// What happens to a pick that a front end would have greyed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unselectable {
    /// It waits until it can be placed as picked.
    #[default]
    Wait,
    /// It ends at once.
    Refuse,
}

/// When a run that ended by itself is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    #[default]
    Never,
    OnFailure,
    /// Always, for a deployment, which is meant to run until it is cancelled.
    Always,
}

/// How often a failed attempt is retried, and after what pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The number of attempts after the first; `None` means no limit.
    pub limit: Option<u32>,
    pub backoff: Backoff,
}

/// A growing pause: `first`, then each time `factor` times as long, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    pub first: SimDuration,
    /// 2000‰ doubles.
    pub factor: Permille,
    pub max: SimDuration,
}

/// What will really happen to each run of a job. Only the world knows it, never the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBehavior {
    /// How long it runs; `None`: until it is stopped.
    pub run: Option<SimDuration>,
    /// The length for the first node of each replica, if it differs.
    pub master_run: Option<SimDuration>,
    pub ending: Ending,
    /// The time from placement to start: pulling an image, loading weights.
    pub prepare: SimDuration,
    /// How long its analysis takes; `None`: the analysis never answers.
    pub analysis: Option<SimDuration>,
    pub analysis_fails: bool,
    /// The number of first attempts that fail to start.
    pub failing_starts: u32,
    /// The time from being told to stop until it has stopped.
    pub stop: SimDuration,
    /// The checkpoints that survive a run that is interrupted; without them nothing does.
    pub checkpoint: Option<Checkpoint>,
    /// Random faults; most jobs have none.
    pub random_faults: Option<Box<RandomFaults>>,
    /// What its GPUs do; `None`: they are never sampled.
    pub usage: Option<Arc<Usage>>,
    /// The requests that it receives as a service.
    pub requests: Option<Arc<Requests>>,
    pub sampling: Arc<Sampling>,
    /// What is executed if the world is a real machine; the rest is then a prediction.
    pub launch: Option<Arc<Launch>>,
}

/// How a job saves its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The amount of work between two checkpoints; zero: only when it is told to stop.
    pub every: SimDuration,
    /// The time that resuming from a checkpoint takes before new work is done.
    pub restart: SimDuration,
}

/// How a run that ends by itself ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    #[default]
    Completed,
    Failed,
}

impl Default for JobBehavior {
    /// Starts at once, runs until it is stopped, stops at once.
    fn default() -> JobBehavior {
        JobBehavior {
            run: None,
            master_run: None,
            ending: Ending::Completed,
            prepare: SimDuration::ZERO,
            analysis: Some(SimDuration::ZERO),
            analysis_fails: false,
            failing_starts: 0,
            stop: SimDuration::ZERO,
            checkpoint: None,
            random_faults: None,
            usage: None,
            requests: None,
            sampling: Arc::default(),
            launch: None,
        }
    }
}

/// A job, when it arrives, and what will really happen to it.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: SimTime,
    pub spec: Arc<JobSpec>,
    pub behavior: Arc<JobBehavior>,
    /// What the trace recorded, for comparison only.
    pub recorded_wait: Option<SimDuration>,
}

impl Arrival {
    /// The behavior of one replica. The masters of the replicas that a job begins with come first.
    pub fn course_of(&self, replica: u32) -> Arc<JobBehavior> {
        match self.behavior.master_run.filter(|_| replica < self.spec.replicas) {
            Some(length) => Arc::new(JobBehavior { run: Some(length), ..JobBehavior::clone(&self.behavior) }),
            None => Arc::clone(&self.behavior),
        }
    }
}
