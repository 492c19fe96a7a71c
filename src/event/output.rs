//! Outputs of the control plane: its commands to the world, and the events that it reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::phase::Phase;
use super::reason::{Histogram, Reason};
use dryrack_fleet::{GpuState, InstanceState, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{Permille, Score, SimDuration, SimTime};
use dryrack_workload::{Coverage, PolicyMode, PolicySource, SampleFault, UtilizationPolicy};

/// A request to the world. Only an input confirms that the world has carried it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Analyse {
        attempt: AttemptId,
    },
    /// Ends the analysis of an attempt, because its result is no longer needed.
    AbandonAnalysis {
        attempt: AttemptId,
    },
    /// Hands an attempt to an external scheduler, which decides where to place the attempt.
    Submit {
        attempt: AttemptId,
    },
    /// Takes an attempt back from the external scheduler, because the attempt no longer waits.
    Withdraw {
        attempt: AttemptId,
    },
    Start {
        attempt: AttemptId,
        placement: Placement,
    },
    /// Like `Start`, but the prepared attempt waits for `Begin`.
    Prepare {
        attempt: AttemptId,
        placement: Placement,
    },
    /// Starts a prepared attempt.
    Begin {
        attempt: AttemptId,
    },
    Stop {
        attempt: AttemptId,
    },
    /// Requests an instance for this place from its cloud.
    Provision {
        node: NodeId,
    },
    /// Asks the cloud to terminate the instance.
    Terminate {
        node: NodeId,
    },
    /// Samples the attempt's GPUs at this interval until the attempt ends.
    Sample {
        attempt: AttemptId,
        interval: SimDuration,
    },
}

/// How an attempt or a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
    /// The attempt lost its node or its GPU, or was preempted for another attempt.
    Lost,
    NeverFits,
    /// The attempt ended at a limit of time, of retries or of waiting.
    Expired,
    /// The job was rejected. Its hand pick was not allowed, or it fits nowhere now and does not wait.
    Refused,
}

impl Outcome {
    pub const ALL: [Outcome; 7] = [
        Outcome::Completed,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Lost,
        Outcome::NeverFits,
        Outcome::Expired,
        Outcome::Refused,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Lost => "lost",
            Outcome::NeverFits => "never_fits",
            Outcome::Expired => "expired",
            Outcome::Refused => "refused",
        }
    }
}

/// Whether a refusal is temporary or final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The demand does not fit at the moment.
    Unfit,
    /// The demand will never fit, even if all resources are free and all nodes are back.
    Never,
}

/// A safety rule that a placement breaks. Code outside the scheduler checks these rules at commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// The placement uses a node or a GPU that is not ready.
    NotReady,
    /// The placement takes more resources than there are.
    Overcommit,
    /// The placement holds only a part of a gang.
    GangTorn,
    /// The node does not meet a requirement of the job.
    RequirementUnmet,
}

impl Safety {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Safety::NotReady => "not_ready",
            Safety::Overcommit => "overcommit",
            Safety::GangTorn => "gang_torn",
            Safety::RequirementUnmet => "requirement_unmet",
        }
    }
}

/// An event: something that the control plane decided or noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    NodeChanged {
        node: NodeId,
        from: NodeState,
        to: NodeState,
        because: Reason,
    },
    GpuChanged {
        gpu: GpuId,
        from: GpuState,
        to: GpuState,
    },
    /// The state of a cloud instance changed.
    InstanceChanged {
        node: NodeId,
        from: InstanceState,
        to: InstanceState,
        because: Reason,
    },
    /// A replica waits for these reasons. The event is repeated when the set of reasons changes.
    Held {
        #[serde(rename = "run")]
        attempt: AttemptId,
        refusal: Refusal,
        reasons: Histogram,
    },
    /// An attempt was placed: it moved from pending or analysing to scheduled.
    Placed {
        #[serde(rename = "run")]
        attempt: AttemptId,
        score: Score,
        placement: Placement,
    },
    /// The chosen candidate could not be committed. If `fallback` is true, the next candidate is tried.
    CommitRefused {
        #[serde(rename = "run")]
        attempt: AttemptId,
        because: Reason,
        fallback: bool,
    },
    /// The world was asked to analyse an attempt.
    AnalysisStarted {
        #[serde(rename = "run")]
        attempt: AttemptId,
    },
    /// An attempt moved to another phase. `Placed` and `Ended` report their own transitions.
    Moved {
        #[serde(rename = "run")]
        attempt: AttemptId,
        from: Phase,
        to: Phase,
        because: Option<Reason>,
    },
    /// An attempt ended. Its claims are released, except on the nodes in `kept`, which cannot confirm that the attempt
    /// has stopped.
    Ended {
        #[serde(rename = "run")]
        attempt: AttemptId,
        from: Phase,
        outcome: Outcome,
        because: Reason,
        kept: SmallVec<[NodeId; 1]>,
    },
    /// A claim that was kept after its attempt had ended is released.
    ClaimFreed {
        #[serde(rename = "run")]
        attempt: AttemptId,
        node: NodeId,
    },
    /// Another attempt follows, at `at` or later.
    Retry {
        #[serde(rename = "run")]
        attempt: AttemptId,
        at: SimTime,
        because: Reason,
    },
    /// An attempt stayed in a phase longer than the deadline of that phase.
    DeadlineExpired {
        #[serde(rename = "run")]
        attempt: AttemptId,
        phase: Phase,
    },
    SafetyBroken {
        #[serde(rename = "run")]
        attempt: AttemptId,
        node: NodeId,
        what: Safety,
    },
    /// An attempt has started, and this utilization policy applies to the attempt until it ends.
    PolicyBound {
        #[serde(rename = "run")]
        attempt: AttemptId,
        source: PolicySource,
        values: UtilizationPolicy,
    },
    /// The policy fired in observe or enforce mode. In enforce mode, the attempt is ended.
    PolicyFired {
        #[serde(rename = "run")]
        attempt: AttemptId,
        mode: PolicyMode,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// The policy fired in warn mode. The attempt continues.
    PolicyWarned {
        #[serde(rename = "run")]
        attempt: AttemptId,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// A sample is odd. Reported only for the first sample of each kind of fault in each attempt. `at` is the time of
    /// the sample itself.
    SampleOdd {
        #[serde(rename = "run")]
        attempt: AttemptId,
        at: SimTime,
        fault: SampleFault,
    },
    /// A replica was added to a job. It is pending.
    ReplicaAdded {
        #[serde(rename = "run")]
        attempt: AttemptId,
    },
    /// All replicas of the job have ended for good.
    JobEnded {
        job: JobId,
        outcome: Outcome,
        because: Reason,
    },
    /// The answer to an evaluation. If the demand does not fit, `refusal` and `reasons` say why.
    Evaluated {
        name: Arc<str>,
        refusal: Option<Refusal>,
        reasons: Histogram,
    },
    /// The attempt will be told to stop, so that the attempt `by` gets its resources. New variants must follow this
    /// one, because variant indexes are part of the compact form.
    Preempted {
        #[serde(rename = "run")]
        attempt: AttemptId,
        by: AttemptId,
    },
    /// Kueue admitted the workload of a job. The event names the first job of the workload.
    Admitted {
        job: JobId,
        /// The ClusterQueue whose quota the workload holds.
        queue: Arc<str>,
        pod_sets: Vec<AdmittedPodSet>,
    },
    /// Kueue judged the workload of a job and did not admit it. The event is repeated when the reason or the text
    /// changes.
    NotAdmitted {
        job: JobId,
        because: Reason,
        /// The message of Kueue.
        text: Arc<str>,
    },
    /// The workload of a job must release its quota. Its attempts are told to stop.
    Evicted {
        job: JobId,
        because: Reason,
        /// The job for which it is preempted.
        by: Option<JobId>,
        /// The message of Kueue.
        text: Arc<str>,
    },
}

/// The flavors and the count with which a pod set was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmittedPodSet {
    pub name: Arc<str>,
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: BTreeMap<Arc<str>, Arc<str>>,
    /// The domains of a topology, each with the values of its labels and its number of pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<(Vec<Arc<str>>, u32)>,
}

/// One output of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Command(Command),
    Event(Event),
}

impl Event {
    /// The job that the event is about, if any.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Event::JobEnded { job, .. }
            | Event::Admitted { job, .. }
            | Event::NotAdmitted { job, .. }
            | Event::Evicted { job, .. } => Some(*job),
            _ => self.attempt().map(|attempt| attempt.job),
        }
    }

    /// The attempt that the event is about, if any.
    pub fn attempt(&self) -> Option<AttemptId> {
        match self {
            Event::Held { attempt, .. }
            | Event::Placed { attempt, .. }
            | Event::CommitRefused { attempt, .. }
            | Event::AnalysisStarted { attempt }
            | Event::Moved { attempt, .. }
            | Event::Ended { attempt, .. }
            | Event::ClaimFreed { attempt, .. }
            | Event::Retry { attempt, .. }
            | Event::DeadlineExpired { attempt, .. }
            | Event::ReplicaAdded { attempt }
            | Event::PolicyBound { attempt, .. }
            | Event::PolicyFired { attempt, .. }
            | Event::PolicyWarned { attempt, .. }
            | Event::SampleOdd { attempt, .. }
            | Event::SafetyBroken { attempt, .. }
            | Event::Preempted { attempt, .. } => Some(*attempt),
            Event::NodeChanged { .. }
            | Event::GpuChanged { .. }
            | Event::InstanceChanged { .. }
            | Event::JobEnded { .. }
            | Event::Admitted { .. }
            | Event::NotAdmitted { .. }
            | Event::Evicted { .. }
            | Event::Evaluated { .. } => None,
        }
    }
}
