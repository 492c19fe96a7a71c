//! Outputs of the control plane: its commands to the world, and the events that it reports.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::input::Phase;
use super::reason::{Histogram, Reason};
use dryrack_fleet::{GpuState, InstanceState, NodeState, Placement};
use dryrack_ids::{GpuId, JobId, NodeId, RunId};
use dryrack_units::{Permille, Score, SimDuration, SimTime};
use dryrack_workload::{Coverage, PolicyMode, PolicySource, SampleFault, UtilizationPolicy};

/// A request to the world. Only an input confirms that the world has carried it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Analyse {
        run: RunId,
    },
    /// Ends the analysis of a run, because its result is no longer needed.
    AbandonAnalysis {
        run: RunId,
    },
    /// Hands a run to an external scheduler, which decides where to place the run.
    Submit {
        run: RunId,
    },
    /// Takes a run back from the external scheduler, because the run no longer waits.
    Withdraw {
        run: RunId,
    },
    Start {
        run: RunId,
        placement: Placement,
    },
    /// Like `Start`, but the prepared run waits for `Begin`.
    Prepare {
        run: RunId,
        placement: Placement,
    },
    /// Starts a prepared run.
    Begin {
        run: RunId,
    },
    Stop {
        run: RunId,
    },
    /// Requests an instance for this place from its cloud.
    Provision {
        node: NodeId,
    },
    /// Asks the cloud to terminate the instance.
    Terminate {
        node: NodeId,
    },
    /// Samples the run's GPUs at this interval until the run ends.
    Sample {
        run: RunId,
        interval: SimDuration,
    },
}

/// How a run or a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
    /// The run lost its node or its GPU, or was preempted for another run.
    Lost,
    NeverFits,
    /// The run ended at a limit of time, of retries or of waiting.
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
        run: RunId,
        refusal: Refusal,
        reasons: Histogram,
    },
    /// A run was placed: it moved from pending or analysing to scheduled.
    Placed {
        run: RunId,
        score: Score,
        placement: Placement,
    },
    /// The chosen candidate could not be committed. If `fallback` is true, the next candidate is tried.
    CommitRefused {
        run: RunId,
        because: Reason,
        fallback: bool,
    },
    /// The world was asked to analyse a run.
    AnalysisStarted {
        run: RunId,
    },
    /// A run moved to another phase. `Placed` and `Ended` report their own transitions.
    Moved {
        run: RunId,
        from: Phase,
        to: Phase,
        because: Option<Reason>,
    },
    /// An attempt ended. Its claims are released, except on the nodes in `kept`, which cannot confirm that the attempt
    /// has stopped.
    Ended {
        run: RunId,
        from: Phase,
        outcome: Outcome,
        because: Reason,
        kept: SmallVec<[NodeId; 1]>,
    },
    /// A claim that was kept after its run had ended is released.
    ClaimFreed {
        run: RunId,
        node: NodeId,
    },
    /// Another attempt follows, at `at` or later.
    Retry {
        run: RunId,
        at: SimTime,
        because: Reason,
    },
    /// A run stayed in a phase longer than the deadline of that phase.
    DeadlineExpired {
        run: RunId,
        phase: Phase,
    },
    SafetyBroken {
        run: RunId,
        node: NodeId,
        what: Safety,
    },
    /// A run has started, and this utilization policy applies to the run until it ends.
    PolicyBound {
        run: RunId,
        source: PolicySource,
        values: UtilizationPolicy,
    },
    /// The policy fired in observe or enforce mode. In enforce mode, the run is ended.
    PolicyFired {
        run: RunId,
        mode: PolicyMode,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// The policy fired in warn mode. The run continues.
    PolicyWarned {
        run: RunId,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// A sample is odd. Reported only for the first sample of each kind of fault in each run. `at` is the time of the
    /// sample itself.
    SampleOdd {
        run: RunId,
        at: SimTime,
        fault: SampleFault,
    },
    /// A replica was added to a job. It is pending.
    ReplicaAdded {
        run: RunId,
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
    /// The run will be told to stop, so that the run `by` gets its resources. This variant must stay last, because
    /// variant indexes are part of the compact form.
    Preempted {
        run: RunId,
        by: RunId,
    },
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
        if let Event::JobEnded { job, .. } = self { Some(*job) } else { self.run().map(|run| run.job) }
    }

    /// The run that the event is about, if any.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Event::Held { run, .. }
            | Event::Placed { run, .. }
            | Event::CommitRefused { run, .. }
            | Event::AnalysisStarted { run }
            | Event::Moved { run, .. }
            | Event::Ended { run, .. }
            | Event::ClaimFreed { run, .. }
            | Event::Retry { run, .. }
            | Event::DeadlineExpired { run, .. }
            | Event::ReplicaAdded { run }
            | Event::PolicyBound { run, .. }
            | Event::PolicyFired { run, .. }
            | Event::PolicyWarned { run, .. }
            | Event::SampleOdd { run, .. }
            | Event::SafetyBroken { run, .. }
            | Event::Preempted { run, .. } => Some(*run),
            Event::NodeChanged { .. }
            | Event::GpuChanged { .. }
            | Event::InstanceChanged { .. }
            | Event::JobEnded { .. }
            | Event::Evaluated { .. } => None,
        }
    }
}
