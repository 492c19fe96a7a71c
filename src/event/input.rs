//! What the control plane is told.

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

    /// Holds a claim in the ledger.
    pub fn holds_claim(self) -> bool {
        matches!(self, Phase::Scheduled | Phase::Preparing | Phase::Running | Phase::Stopping)
    }
}

/// A fact about one run. A late, lost or repeated one is an ordinary input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Lifecycle {
    Analysed,
    AnalysisFailed,
    /// Accepted by its nodes; they pull an image, load weights.
    Preparing,
    /// Its nodes have all they need, and wait for the word to begin.
    Prepared,
    Started,
    StartFailed,
    /// Ended by itself.
    Exited(Ending),
    /// Ended because a GPU under it failed.
    GpuFailed,
    /// Ended with its node, which has come back and says so.
    NodeFailed,
    /// Ended because it was told to.
    Stopped,
    /// Its part on this node has ended because it was told to; of another part nothing is known.
    StoppedOn {
        node: NodeId,
    },
    /// Whoever runs it took its place from it: for another, or to queue it again.
    Preempted,
    /// Whoever runs it ended it at its time limit.
    TimedOut,
}

/// What happened. All inputs of one instant are applied, class by class, before anything is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// A fleet, before its instances.
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
    /// Heartbeats come again: at first, or after silence. Those in between say nothing new and are not inputs.
    HeartbeatBack {
        node: NodeId,
    },
    /// One did not come when it was due; the last came at `last`.
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
    /// A cloud has capacity for so many instances of an offer at a time; what is there stays.
    CapacityReported {
        fleet: FleetId,
        offer: u32,
        available: u32,
    },
    Run {
        run: RunId,
        fact: Lifecycle,
    },
    /// A look at the GPUs of a run, in the order of its placement.
    UsageSample {
        run: RunId,
        /// By the clock of who took it.
        at: SimTime,
        /// Nothing where a GPU could not be read.
        utilization: SmallVec<[Option<Permille>; 8]>,
        /// Of each GPU likewise, or empty.
        memory: SmallVec<[Option<Bytes>; 0]>,
    },
    Cancel {
        job: JobId,
    },
    /// So many requests came to a service within the window that its scaling counts them over.
    RequestsCounted {
        job: JobId,
        requests: u64,
    },
    /// A job is to have so many replicas from now on.
    Scale {
        job: JobId,
        replicas: u32,
    },
    Submit {
        #[serde(with = "declared")]
        job: JobId,
        spec: Arc<JobSpec>,
    },
    /// Nothing but time: a timer or a pass is due.
    Wakeup,
    /// What would the scheduler say to this demand, as things stand? Nothing is placed. The name is a job's, which need
    /// not have been submitted.
    Evaluate {
        name: Arc<str>,
        demand: Arc<Demand>,
    },
    /// Another profile from now on, as JSON, its bases folded in. What was decided, bound or timed under the one before stays.
    Reconfigure {
        profile: Arc<str>,
    },
    /// A scheduler outside has decided on a run that was handed to it: where it goes, or that it never will.
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
    /// And other changes that users ask for.
    Cancellation,
    Arrival,
    /// Of a scheduler outside: after all that makes room.
    Decision,
    Question,
    Timer,
}

impl Input {
    /// The job it is about, if it is about one.
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
