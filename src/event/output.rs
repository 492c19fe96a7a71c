//! Outputs of the control plane: what it asks for, and what it reports about itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::input::Phase;
use super::reason::{Histogram, Reason};
use dryrack_fleet::{GpuState, InstanceState, NodeState, Placement};
use dryrack_ids::{GpuId, JobId, NodeId, RunId};
use dryrack_units::{Permille, Score, SimDuration, SimTime};
use dryrack_workload::{Coverage, PolicyMode, PolicySource, SampleFault, UtilizationPolicy};

/// A request to the world. Only an input makes it a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Analyse {
        run: RunId,
    },
    /// The analysis of a run is no longer needed.
    AbandonAnalysis {
        run: RunId,
    },
    /// Hands a run to an external scheduler, which decides its placement.
    Submit {
        run: RunId,
    },
    /// The run no longer waits: takes it back from the external scheduler.
    Withdraw {
        run: RunId,
    },
    Start {
        run: RunId,
        placement: Placement,
    },
    /// Like `Start`, but it waits for `Begin`.
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
    /// Makes an instance in this place.
    Provision {
        node: NodeId,
    },
    /// Gives the instance back.
    Terminate {
        node: NodeId,
    },
    /// Samples its GPUs at this interval until it ends.
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
    /// Its node or GPU was lost, or was preempted for another run.
    Lost,
    NeverFits,
    /// A limit ended it: of time, of retries or of waiting.
    Expired,
    /// Rejected: its pick could not be selected, or it fitted nowhere and does not wait.
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
    /// It does not fit at the moment.
    Unfit,
    /// No change that this scheduler could wait for would help.
    Never,
}

/// The rule that a commit would violate, as checked by code outside the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// Work on a node or a GPU that is not ready.
    NotReady,
    /// More resources taken than there are.
    Overcommit,
    /// A gang that was not placed as a whole.
    GangTorn,
    /// A requirement of the job that the node does not satisfy.
    RequirementUnmet,
}

/// An event: something that was decided.
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
    /// A change of an instance that its fleet's cloud makes and takes back.
    InstanceChanged {
        node: NodeId,
        from: InstanceState,
        to: InstanceState,
        because: Reason,
    },
    /// Why a waiting replica waits; reported again when the set of reasons changes.
    Held {
        run: RunId,
        refusal: Refusal,
        reasons: Histogram,
    },
    /// The transition from pending or analysing to scheduled.
    Placed {
        run: RunId,
        score: Score,
        placement: Placement,
    },
    /// The chosen candidate could not be committed. `fallback` says whether the next best one was taken instead.
    CommitRefused {
        run: RunId,
        because: Reason,
        fallback: bool,
    },
    /// The world was asked to analyse a run.
    AnalysisStarted {
        run: RunId,
    },
    /// Every other transition of the lifecycle except the last.
    Moved {
        run: RunId,
        from: Phase,
        to: Phase,
        because: Option<Reason>,
    },
    /// The last transition. What the run held is free again, except on the nodes that cannot confirm that it has
    /// stopped (`kept`).
    Ended {
        run: RunId,
        from: Phase,
        outcome: Outcome,
        because: Reason,
        kept: SmallVec<[NodeId; 1]>,
    },
    /// A claim that outlasted its run is released.
    ClaimFreed {
        run: RunId,
        node: NodeId,
    },
    /// Another attempt follows, not before `at`.
    Retry {
        run: RunId,
        at: SimTime,
        because: Reason,
    },
    /// A state that is not final outlasted its deadline.
    DeadlineExpired {
        run: RunId,
        phase: Phase,
    },
    SafetyBroken {
        run: RunId,
        node: NodeId,
        what: Safety,
    },
    /// A run has started, and a utilization policy applies to it until it ends.
    PolicyBound {
        run: RunId,
        source: PolicySource,
        values: UtilizationPolicy,
    },
    /// The policy fired in observe or enforce mode; in enforce mode the run is ended.
    PolicyFired {
        run: RunId,
        mode: PolicyMode,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// The policy fired in warn mode.
    PolicyWarned {
        run: RunId,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// A sample is odd. Reported for the first of each kind for each run. `at` is the sample's time.
    SampleOdd {
        run: RunId,
        at: SimTime,
        fault: SampleFault,
    },
    /// A replica was added; it is pending.
    ReplicaAdded {
        run: RunId,
    },
    /// All replicas have ended for good.
    JobEnded {
        job: JobId,
        outcome: Outcome,
        because: Reason,
    },
    /// The answer to an evaluation: the demand fits, or why it does not.
    Evaluated {
        name: Arc<str>,
        refusal: Option<Refusal>,
        reasons: Histogram,
    },
    /// The run is about to be told to stop, so that `by` gets its place. This variant is last, so that other records
    /// keep their compact form.
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
    /// The job it concerns, if any.
    pub fn job(&self) -> Option<JobId> {
        if let Event::JobEnded { job, .. } = self { Some(*job) } else { self.run().map(|run| run.job) }
    }

    /// The run it concerns, if any.
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
