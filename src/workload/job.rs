//! A job: what a user submits to the control plane, and how the job really behaves.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::demand::Demand;
use super::dependency::Dependency;
use super::launch::Launch;
use super::queued::QueuedPart;
use super::random_faults::RandomFaults;
use super::run_limit::RunLimit;
use super::sampling::Sampling;
use super::scaling::{Requests, Scaling};
use super::serving::Serving;
use super::shared_deadline::SharedDeadline;
use super::shared_retry::SharedRetry;
use super::slurm_terms::SlurmTerms;
use super::terms::RunTerms;
use super::usage::Usage;
use super::utilization::UtilizationOverrides;
use dryrack_objects::Pod;
use dryrack_units::{Permille, SimDuration, SimTime};

/// The specification of a job, as the control plane gets it at submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    pub name: Arc<str>,
    /// Jobs with equal demands share one value.
    pub demand: Arc<Demand>,
    /// The number of replicas. Each replica is placed separately, and the control plane keeps this number of replicas
    /// running.
    pub replicas: u32,
    /// How the number of replicas follows the number of requests. If set, `replicas` is the initial number. Used only
    /// by a profile with multi-node runs.
    #[serde(default)]
    pub scaling: Option<Box<Scaling>>,
    /// A job with a higher number goes first.
    pub priority: i32,
    pub queue: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
    /// The project whose quota the job counts against.
    #[serde(default)]
    pub project: Option<Arc<str>>,
    /// The user's estimate of the run time. It is a hint for planning and is never enforced.
    pub estimate: Option<SimDuration>,
    /// An attempt that takes longer than this is ended.
    pub time_limit: Option<SimDuration>,
    /// Whether the job must be analysed before it is placed.
    pub analyse: bool,
    pub restart: Restart,
    /// The job's own retry policy, which replaces the profile's.
    pub retry: Option<Box<RetryPolicy>>,
    /// What happens if the job's hand pick is not allowed at submission.
    pub unselectable: Unselectable,
    /// Whether the job declares that it writes checkpoints, so that a preempted attempt resumes its work.
    #[serde(default)]
    pub checkpoints: bool,
    /// How the nodes of a multi-node run are started, ended and retried. Used only by a profile with multi-node runs.
    #[serde(default)]
    pub terms: Arc<RunTerms>,
    /// The job's own settings of the utilization policy. They override the profile's.
    pub utilization: Arc<UtilizationOverrides>,
    /// The dependencies that must be met before the job waits for a placement. This field and those after it must stay
    /// last, and are left out if empty, so that digests of jobs without them do not change.
    #[serde(default, skip_serializing_if = "<[Dependency]>::is_empty")]
    pub after: Arc<[Dependency]>,
    /// The group of jobs with a limit on the number of jobs that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_limit: Option<Box<RunLimit>>,
    /// The job's terms in a Slurm cluster that has partitions or other such rules. Left out if absent, like `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<Arc<SlurmTerms>>,
    /// The pod of each replica in a Kubernetes cluster. The demand holds what the pod requests. A pod without a name
    /// is named after the job and the replica. Left out if absent, like `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<Pod>>,
    /// The job's part in a workload that waits for Kueue. Left out if absent, like `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Arc<QueuedPart>>,
    /// The time limit that the job shares with others. Left out if absent, like `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_deadline: Option<Arc<SharedDeadline>>,
    /// The jobs with which it shares its limit of retries. It must be the group of `shared_deadline`, if both are stated.
    /// Left out if absent, like `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_retry: Option<Arc<SharedRetry>>,
    /// The name of the jobs with which it starts again: if one of their attempts ends and another follows, so do those of all
    /// the others, once all have ended. Left out if absent, like `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts_with: Option<Arc<str>>,
}

impl JobSpec {
    /// How long the pod of the job may take to stop, if it says so.
    pub fn grace_period(&self) -> Option<SimDuration> {
        let seconds = self.pod.as_ref()?.spec.termination_grace_period_seconds?;
        u64::try_from(seconds).ok().map(SimDuration::saturating_from_secs)
    }

    /// A job with one replica and no other settings. It waits until it is placed, runs once, and has no limits.
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
            after: Arc::default(),
            run_limit: None,
            slurm: None,
            pod: None,
            queued: None,
            shared_deadline: None,
            shared_retry: None,
            restarts_with: None,
        }
    }
}

/// What happens to a hand pick that is not allowed, and that a front end would not have offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unselectable {
    /// The job waits until it can be placed as picked.
    #[default]
    Wait,
    /// The job ends at once.
    Refuse,
}

/// When an attempt is started again after it has ended by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    #[default]
    Never,
    OnFailure,
    /// The attempt is always started again. This suits a deployment that should run until it is cancelled.
    Always,
}

/// How often a failed attempt is retried, and how long to wait before each retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The number of retries after the first attempt. `None` means no limit.
    pub limit: Option<u32>,
    pub backoff: Backoff,
}

/// A pause that grows with each retry: first `first`, then `factor` times the previous pause, but at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    pub first: SimDuration,
    /// The growth in thousandths: 2000‰ doubles the pause.
    pub factor: Permille,
    pub max: SimDuration,
}

/// How each attempt of a job really behaves. Only the world knows this, never the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobBehavior {
    /// The run time. `None` if the job runs until it is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<SimDuration>,
    /// The recorded run time, if it was recorded on another GPU than the reference of the job's speeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_run: Option<SimDuration>,
    /// The number of replicas that must run before any of them makes progress. `None` if each works by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<u32>,
    /// The run time of the first node of each replica, if it differs from `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_run: Option<SimDuration>,
    pub ending: Ending,
    /// The time from placement to start, for example to pull an image or load weights.
    pub prepare: SimDuration,
    /// The duration of the analysis. `None` if the analysis never answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<SimDuration>,
    pub analysis_fails: bool,
    /// How many of the first attempts fail to start.
    pub failing_starts: u32,
    /// The time that the attempt needs to stop after it is told to.
    pub stop: SimDuration,
    /// How the job saves its progress. Without checkpoints, an interrupted attempt loses all of its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Probabilities of random faults. Most jobs have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_faults: Option<Box<RandomFaults>>,
    /// The usage of the attempt's GPUs. `None` if the GPUs are never sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Arc<Usage>>,
    /// The requests that the job receives if it is a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Arc<Requests>>,
    /// How each replica serves the requests of a language model, if the job is such a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<Arc<Serving>>,
    pub sampling: Arc<Sampling>,
    /// The program to execute if the world is a real machine. The other fields are then only a prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<Arc<Launch>>,
}

/// How a job saves its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checkpoint {
    /// The amount of work between two checkpoints. Zero means that the job writes a checkpoint only when it is told to
    /// stop.
    pub every: SimDuration,
    /// The time that a resumed attempt needs before it does new work.
    pub restart: SimDuration,
}

/// The result of an attempt that ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    #[default]
    Completed,
    Failed,
}

impl Default for JobBehavior {
    /// A job that starts at once, runs until it is stopped, and then stops at once.
    fn default() -> JobBehavior {
        JobBehavior {
            run: None,
            recorded_run: None,
            together: None,
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
            serving: None,
            sampling: Arc::default(),
            launch: None,
        }
    }
}

/// A job with its arrival time and its real behavior.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: SimTime,
    pub spec: Arc<JobSpec>,
    pub behavior: Arc<JobBehavior>,
    /// The wait that the trace recorded. It is used only for comparison.
    pub recorded_wait: Option<SimDuration>,
}

impl Arrival {
    /// The behavior of one replica. The replicas with the lowest numbers are the masters, which may have their own run
    /// time.
    pub fn course_of(&self, replica: u32) -> Arc<JobBehavior> {
        match self.behavior.master_run.filter(|_| replica < self.spec.replicas) {
            Some(length) => Arc::new(JobBehavior { run: Some(length), ..JobBehavior::clone(&self.behavior) }),
            None => Arc::clone(&self.behavior),
        }
    }
}
