//! A job: what is asked of the control plane, and the course it will really take.

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
    /// One for all jobs that ask for the same, where they are many.
    pub demand: Arc<Demand>,
    /// Copies that are placed apart from each other and kept at this number.
    pub replicas: u32,
    /// As many as the requests that come to it need; `replicas` is how many it begins with. Read where the profile has runs.
    #[serde(default)]
    pub scaling: Option<Box<Scaling>>,
    /// Higher goes first.
    pub priority: i32,
    pub queue: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
    /// Whose quota it counts against.
    #[serde(default)]
    pub project: Option<Arc<str>>,
    /// How long the user thinks it takes; a hint for planning, never enforced.
    pub estimate: Option<SimDuration>,
    /// A run longer than this is ended.
    pub time_limit: Option<SimDuration>,
    /// Whether it must be analysed before it is placed.
    pub analyse: bool,
    pub restart: Restart,
    /// Overrides the profile's.
    pub retry: Option<Box<RetryPolicy>>,
    /// What becomes of it if what it picks by hand could not be selected when it comes.
    pub unselectable: Unselectable,
    /// It is said to write checkpoints, so that what was preempted goes on where it was.
    #[serde(default)]
    pub checkpoints: bool,
    /// How its nodes are started, ended and tried again together; read where the profile has runs.
    #[serde(default)]
    pub terms: Arc<RunTerms>,
    /// What its configuration says of the utilization policy, over the profile.
    pub utilization: Arc<UtilizationOverrides>,
}

impl JobSpec {
    /// One replica of which nothing else is said: it waits for what it asks for, runs once, and no limit ends it.
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

/// What a pick leads to that a front end would have greyed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unselectable {
    /// Until it can be placed as it was picked.
    #[default]
    Wait,
    /// It ends at once.
    Refuse,
}

/// When a run that ended by itself is followed by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    #[default]
    Never,
    OnFailure,
    /// A deployment: it is meant to run until it is cancelled.
    Always,
}

/// How often, and after what pause, a failed attempt is followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Attempts after the first; without a limit if `None`.
    pub limit: Option<u32>,
    pub backoff: Backoff,
}

/// A pause that grows: `first`, then each time `factor` as long, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    pub first: SimDuration,
    /// 2000‰ doubles.
    pub factor: Permille,
    pub max: SimDuration,
}

/// What will really happen to each run of a job: the world's knowledge, never the control plane's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBehavior {
    /// `None`: runs until it is stopped.
    pub run: Option<SimDuration>,
    /// Of the first node of each replica, if it is otherwise.
    pub master_run: Option<SimDuration>,
    pub ending: Ending,
    /// From placement to start: pulling an image, loading weights.
    pub prepare: SimDuration,
    /// How long its analysis takes; `None`: the analysis never answers.
    pub analysis: Option<SimDuration>,
    pub analysis_fails: bool,
    /// The first so many attempts fail to start.
    pub failing_starts: u32,
    /// From being told to stop to having stopped.
    pub stop: SimDuration,
    /// What outlives a run that ends before its end; nothing if there is none.
    pub checkpoint: Option<Checkpoint>,
    /// What may go wrong by chance; of most jobs nothing.
    pub random_faults: Option<Box<RandomFaults>>,
    /// What its GPUs do; without it they are never sampled.
    pub usage: Option<Arc<Usage>>,
    /// That come to it as a service.
    pub requests: Option<Arc<Requests>>,
    pub sampling: Arc<Sampling>,
    /// What runs where the world is a real machine; the rest is what is predicted of it then.
    pub launch: Option<Arc<Launch>>,
}

/// How a job keeps what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// After so much work each time; no time: when it is told to stop, and then alone.
    pub every: SimDuration,
    /// What going on from one takes before there is new work done.
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

/// A job, when it comes, and the course it will take.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: SimTime,
    pub spec: Arc<JobSpec>,
    pub behavior: Arc<JobBehavior>,
    /// What the trace recorded, for comparison only.
    pub recorded_wait: Option<SimDuration>,
}

impl Arrival {
    /// The course of one replica. The masters of the replicas that a job begins with come first.
    pub fn course_of(&self, replica: u32) -> Arc<JobBehavior> {
        match self.behavior.master_run.filter(|_| replica < self.spec.replicas) {
            Some(length) => Arc::new(JobBehavior { run: Some(length), ..JobBehavior::clone(&self.behavior) }),
            None => Arc::clone(&self.behavior),
        }
    }
}
