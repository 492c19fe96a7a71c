//! What the control plane asks for, and what it says of itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::input::Phase;
use super::reason::{Histogram, Reason};
use dryrack_fleet::{GpuState, InstanceState, NodeState, Placement};
use dryrack_ids::{GpuId, JobId, NodeId, RunId};
use dryrack_units::{Permille, Score, SimDuration, SimTime};
use dryrack_workload::{Coverage, PolicyMode, PolicySource, SampleFault, UtilizationPolicy};

/// Please do. Only an input makes it a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Analyse {
        run: RunId,
    },
    /// Its analysis is wanted no more.
    AbandonAnalysis {
        run: RunId,
    },
    /// A scheduler outside is to decide where it goes.
    Submit {
        run: RunId,
    },
    /// It waits no more: what is outside of it is to be taken back.
    Withdraw {
        run: RunId,
    },
    Start {
        run: RunId,
        placement: Placement,
    },
    /// As `Start`, but it is to wait for the word before it begins.
    Prepare {
        run: RunId,
        placement: Placement,
    },
    /// What is prepared begins.
    Begin {
        run: RunId,
    },
    Stop {
        run: RunId,
    },
    /// An instance is to be made in this place.
    Provision {
        node: NodeId,
    },
    /// And is to be given back.
    Terminate {
        node: NodeId,
    },
    /// Its GPUs are to be sampled at this pace until it ends.
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
    /// Its node or GPU was lost, or was taken from it for another.
    Lost,
    NeverFits,
    /// A limit ended it: of time, of retries, of patience.
    Expired,
    /// Turned away: what it picks could not be selected, or it fitted nowhere and does not wait.
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

/// Three kinds of no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Something may change.
    Unfit,
    /// Nothing that this scheduler could wait for would change it.
    Never,
}

/// What a commit would break, judged by code that is not the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// Work on a node or a GPU that is not ready.
    NotReady,
    /// More taken than there is.
    Overcommit,
    /// Not all tasks of a gang.
    GangTorn,
    /// A requirement of the job that the node does not meet.
    RequirementUnmet,
}

/// What was decided.
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
    /// Of an instance that its fleet's cloud makes and takes back.
    InstanceChanged {
        node: NodeId,
        from: InstanceState,
        to: InstanceState,
        because: Reason,
    },
    /// Why a waiting replica waits; said again when the set of reasons changes.
    Held {
        run: RunId,
        refusal: Refusal,
        reasons: Histogram,
    },
    /// Pending or analysing to scheduled.
    Placed {
        run: RunId,
        score: Score,
        placement: Placement,
    },
    /// The chosen candidate could not be committed; `fallback` says whether the next best was taken instead.
    CommitRefused {
        run: RunId,
        because: Reason,
        fallback: bool,
    },
    /// The world was asked to analyse a run.
    AnalysisStarted {
        run: RunId,
    },
    /// Every other edge of the lifecycle but the last.
    Moved {
        run: RunId,
        from: Phase,
        to: Phase,
        because: Option<Reason>,
    },
    /// The last edge. What it held is free again, but on the nodes that cannot confirm that it has stopped (`kept`).
    Ended {
        run: RunId,
        from: Phase,
        outcome: Outcome,
        because: Reason,
        kept: SmallVec<[NodeId; 1]>,
    },
    /// A claim kept beyond the end of its run is free now.
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
    /// A state that is not final lasted longer than its deadline.
    DeadlineExpired {
        run: RunId,
        phase: Phase,
    },
    SafetyBroken {
        run: RunId,
        node: NodeId,
        what: Safety,
    },
    /// A run has started, and a utilization policy binds it until it ends.
    PolicyBound {
        run: RunId,
        source: PolicySource,
        values: UtilizationPolicy,
    },
    /// The policy holds, and its mode is to observe, or to enforce: then the run is ended.
    PolicyFired {
        run: RunId,
        mode: PolicyMode,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// The policy holds, and its mode is to warn.
    PolicyWarned {
        run: RunId,
        min_gpu_utilization: Permille,
        time_window: SimDuration,
        covered: Coverage,
    },
    /// Something is odd about a sample; said of the first of its kind of each run. `at` is the sample's time.
    SampleOdd {
        run: RunId,
        at: SimTime,
        fault: SampleFault,
    },
    /// A replica more than before, pending.
    ReplicaAdded {
        run: RunId,
    },
    /// All replicas have ended for good.
    JobEnded {
        job: JobId,
        outcome: Outcome,
        because: Reason,
    },
    /// The answer to an evaluation: it fits, or why not.
    Evaluated {
        name: Arc<str>,
        refusal: Option<Refusal>,
        reasons: Histogram,
    },
    /// It is about to be told to stop, so that `by` gets its place. Last, so that other records keep their compact form.
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
    /// The job it is about, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        if let Event::JobEnded { job, .. } = self { Some(*job) } else { self.run().map(|run| run.job) }
    }

    /// The run it is about, if it is about one.
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
