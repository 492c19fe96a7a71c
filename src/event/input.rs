//! Inputs of the control plane.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use dryrack_fleet::{FleetSpec, Foreign, GpuState, NodeSpec, NodeState, Placement};
use dryrack_ids::{FleetId, GpuId, JobId, NodeId, RunId, declared};
use dryrack_units::{Bytes, Permille, SimTime};
use dryrack_workload::{Demand, Ending, JobSpec};

/// The phases that every profile's states map to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Pending,
    Analysing,
    Scheduled,
    Preparing,
    Running,
    Stopping,
    Ended,
}

impl Phase {
    pub const ALL: [Phase; 7] = [
        Phase::Pending,
        Phase::Analysing,
        Phase::Scheduled,
        Phase::Preparing,
        Phase::Running,
        Phase::Stopping,
        Phase::Ended,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Pending => "pending",
            Phase::Analysing => "analysing",
            Phase::Scheduled => "scheduled",
            Phase::Preparing => "preparing",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
            Phase::Ended => "ended",
        }
    }

    /// Whether a run in this phase holds a claim in the ledger.
    pub fn holds_claim(self) -> bool {
        matches!(self, Phase::Scheduled | Phase::Preparing | Phase::Running | Phase::Stopping)
    }
}

/// A fact about one run. A late, lost or repeated one is handled as an ordinary input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Lifecycle {
    Analysed,
    AnalysisFailed,
    /// Accepted by its nodes, which pull an image or load weights.
    Preparing,
    /// Its nodes are ready and wait for the command to begin.
    Prepared,
    Started,
    StartFailed,
    /// Ended by itself.
    Exited(Ending),
    /// Ended because a GPU under it failed.
    GpuFailed,
    /// Ended with its node, which has come back and reports it.
    NodeFailed,
    /// Ended because it was told to stop.
    Stopped,
    /// Its part on this node ended because it was told to stop; nothing is known about its other parts.
    StoppedOn {
        node: NodeId,
    },
    /// The external scheduler took its place away, for another job or to queue it again.
    Preempted,
    /// The external scheduler ended it at its time limit.
    TimedOut,
}

/// An input: something that happened. All inputs of one instant are applied, class by class, before anything is
/// decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// A fleet, declared before its instances.
    FleetDeclared {
        #[serde(with = "declared")]
        fleet: FleetId,
        spec: Arc<FleetSpec>,
    },
    NodeDeclared {
        #[serde(with = "declared")]
        node: NodeId,
        state: NodeState,
        spec: NodeSpec,
    },
    NodeReported {
        node: NodeId,
        state: NodeState,
    },
    /// Heartbeats arrive, for the first time or again after silence. Those in between carry no news and are not
    /// inputs.
    HeartbeatBack {
        node: NodeId,
    },
    /// A heartbeat did not arrive when it was due; the last one arrived at `last`.
    HeartbeatMissed {
        node: NodeId,
        last: SimTime,
    },
    GpuReported {
        gpu: GpuId,
        state: GpuState,
    },
    ForeignUse {
        gpu: GpuId,
        foreign: Foreign,
    },
    /// A cloud has capacity for this many instances of an offer at the same time; existing instances stay.
    CapacityReported {
        fleet: FleetId,
        offer: u32,
        available: u32,
    },
    Run {
        run: RunId,
        fact: Lifecycle,
    },
    /// A sample of the GPUs of a run, in the order of its placement.
    UsageSample {
        run: RunId,
        /// The time at which it was taken, by the sampler's clock.
        at: SimTime,
        /// `None` where a GPU could not be read.
        utilization: SmallVec<[Option<Permille>; 8]>,
        /// The same for the memory of each GPU; may be empty.
        memory: SmallVec<[Option<Bytes>; 0]>,
    },
    Cancel {
        job: JobId,
    },
    /// The number of requests that a service received in the window of its scaling.
    RequestsCounted {
        job: JobId,
        requests: u64,
    },
    /// A job should have this many replicas from this time on.
    Scale {
        job: JobId,
        replicas: u32,
    },
    Submit {
        #[serde(with = "declared")]
        job: JobId,
        spec: Arc<JobSpec>,
    },
    /// Only time passed: a timer or a pass is due.
    Wakeup,
    /// A query: what would the scheduler answer to this demand in the current state? Nothing is placed. The name is
    /// that of a job, which need not have been submitted.
    Evaluate {
        name: Arc<str>,
        demand: Arc<Demand>,
    },
    /// Another profile applies from this time on. It is JSON, with its bases merged in. What was decided, bound or
    /// timed under the previous profile stays.
    Reconfigure {
        profile: Arc<str>,
    },
    /// An external scheduler decided about a run that was handed to it: its placement, or that it will never be
    /// placed.
    Decided {
        run: RunId,
        placement: Option<Placement>,
    },
}

/// The order in which the inputs of one instant are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputClass {
    FleetFact,
    Exit,
    Usage,
    /// Includes other changes that users request.
    Cancellation,
    Arrival,
    /// A decision of an external scheduler; it comes after everything that frees resources.
    Decision,
    Question,
    Timer,
}

impl Input {
    /// The job it concerns, if any.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Input::Run { run, .. } | Input::UsageSample { run, .. } | Input::Decided { run, .. } => Some(run.job),
            Input::RequestsCounted { job, .. }
            | Input::Cancel { job }
            | Input::Scale { job, .. }
            | Input::Submit { job, .. } => Some(*job),
            Input::FleetDeclared { .. }
            | Input::NodeDeclared { .. }
            | Input::NodeReported { .. }
            | Input::HeartbeatBack { .. }
            | Input::HeartbeatMissed { .. }
            | Input::GpuReported { .. }
            | Input::ForeignUse { .. }
            | Input::CapacityReported { .. }
            | Input::Reconfigure { .. }
            | Input::Evaluate { .. }
            | Input::Wakeup => None,
        }
    }

    pub fn class(&self) -> InputClass {
        match self {
            Input::FleetDeclared { .. }
            | Input::NodeDeclared { .. }
            | Input::NodeReported { .. }
            | Input::HeartbeatBack { .. }
            | Input::HeartbeatMissed { .. }
            | Input::GpuReported { .. }
            | Input::ForeignUse { .. }
            | Input::CapacityReported { .. }
            | Input::Reconfigure { .. } => InputClass::FleetFact,
            Input::Run { .. } => InputClass::Exit,
            Input::UsageSample { .. } | Input::RequestsCounted { .. } => InputClass::Usage,
            Input::Cancel { .. } | Input::Scale { .. } => InputClass::Cancellation,
            Input::Submit { .. } => InputClass::Arrival,
            Input::Decided { .. } => InputClass::Decision,
            Input::Evaluate { .. } => InputClass::Question,
            Input::Wakeup => InputClass::Timer,
        }
    }
}
