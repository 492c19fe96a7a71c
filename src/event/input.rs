//! Inputs of the control plane.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::outside::Outside;
use super::served::ServiceReport;
use super::wire::Wire;
use dryrack_fleet::{FleetSpec, Foreign, GpuState, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, FleetId, GpuId, JobId, NodeId};
use dryrack_objects::ClusterObjects;
use dryrack_units::{Bytes, Permille, SimTime};
use dryrack_workload::{Demand, Ending, JobSpec};

/// A fact about one attempt. Late and repeated facts are ordinary inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Lifecycle {
    Analysed,
    AnalysisFailed,
    /// The attempt's nodes have accepted the attempt. They pull an image or load weights.
    Preparing,
    /// The attempt's nodes are ready and wait for the command to begin.
    Prepared,
    Started,
    StartFailed,
    /// The attempt ended by itself.
    Exited(Ending),
    /// The attempt ended because one of its GPUs failed.
    GpuFailed,
    /// The attempt ended because its node failed. The node reports it after coming back, or another node of the attempt
    /// reports it.
    NodeFailed,
    /// The attempt ended because it was told to stop.
    Stopped,
    /// The attempt was told to stop, and its part on this node ended. Its parts on other nodes may still be running.
    StoppedOn {
        node: NodeId,
    },
    /// The external scheduler took the attempt off its nodes, to give them to another job or to queue the attempt
    /// again.
    Preempted,
    /// The external scheduler ended the attempt at its time limit.
    TimedOut,
}

impl Lifecycle {
    /// Whether the attempt is over on all of its nodes after this fact.
    pub fn is_end(self) -> bool {
        match self {
            Lifecycle::StartFailed
            | Lifecycle::Exited(_)
            | Lifecycle::GpuFailed
            | Lifecycle::NodeFailed
            | Lifecycle::Stopped
            | Lifecycle::Preempted
            | Lifecycle::TimedOut => true,
            Lifecycle::Analysed
            | Lifecycle::AnalysisFailed
            | Lifecycle::Preparing
            | Lifecycle::Prepared
            | Lifecycle::Started
            | Lifecycle::StoppedOn { .. } => false,
        }
    }
}

/// An input: something that happened, by class. All inputs of one instant are applied, one class after the other, before
/// anything is decided.
///
/// Logs do not have the classes: `wire.rs` has the form of an input there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub enum Input {
    Fleet(FleetFact),
    /// A fact about an attempt.
    Attempt {
        attempt: AttemptId,
        fact: Lifecycle,
    },
    Usage(UsageFact),
    User(UserRequest),
    /// A job is submitted.
    Submit {
        job: JobId,
        spec: Arc<JobSpec>,
    },
    External(External),
    /// A query: would the scheduler place this demand in the current state? Nothing is placed. `name` is the name of a
    /// job, which need not have been submitted.
    Evaluate {
        name: Arc<str>,
        demand: Arc<Demand>,
        /// The job, if the answer depends on more than its demand: in a Slurm cluster, or if filters or scorers of the
        /// profile read other fields of the job.
        spec: Option<Arc<JobSpec>>,
    },
    /// Only time has passed: a timer or a pass is due.
    Wakeup,
}

/// A fact about the fleet, or a change of the profile that applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetFact {
    /// A fleet is declared. This comes before its instances.
    FleetDeclared {
        fleet: FleetId,
        spec: Arc<FleetSpec>,
    },
    NodeDeclared {
        node: NodeId,
        state: NodeState,
        spec: NodeSpec,
    },
    /// Objects of a Kubernetes cluster are declared, besides its nodes and pods. This comes before its nodes.
    ObjectsDeclared {
        objects: Arc<ClusterObjects>,
    },
    /// Objects of Kueue are created or changed: a JSON list of manifests. The first such input comes before the nodes.
    KueueApplied {
        objects: Arc<str>,
    },
    NodeReported {
        node: NodeId,
        state: NodeState,
    },
    /// Heartbeats of a node arrive, for the first time or again after silence. Other heartbeats change nothing, so they
    /// are not inputs.
    HeartbeatBack {
        node: NodeId,
    },
    /// A heartbeat was due and did not arrive. The last heartbeat arrived at `last`.
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
    /// A cloud now has capacity for this many instances of an offer at the same time. Existing instances stay.
    CapacityReported {
        fleet: FleetId,
        offer: u32,
        available: u32,
    },
    /// Another profile applies from now on. `profile` is its JSON, with its bases merged in. Decisions, policies of
    /// running attempts and timers of the previous profile stay in force.
    Reconfigure {
        profile: Arc<str>,
    },
}

/// What a policy measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageFact {
    /// A sample of the attempt's GPUs. The GPUs are in the order of the attempt's placement.
    Sample {
        attempt: AttemptId,
        /// The time of the sample by the sampler's clock.
        at: SimTime,
        /// One entry for each GPU. `None` if the GPU could not be read.
        utilization: SmallVec<[Option<Permille>; 8]>,
        /// The used memory of each GPU. Empty if no GPU's memory was read.
        memory: SmallVec<[Option<Bytes>; 0]>,
    },
    /// The number of requests that a service received in the time window of its scaling.
    Requests { job: JobId, requests: u64 },
    /// What happened to the requests of a service for language models since its last report. It is only recorded:
    /// nothing is decided from it.
    Served { job: JobId, report: Arc<ServiceReport> },
}

/// A change that a user requests of a submitted job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRequest {
    Cancel {
        job: JobId,
    },
    /// A user changes the number of replicas of a job.
    Scale {
        job: JobId,
        replicas: u32,
    },
}

/// What a scheduler outside this program decides or says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// It decided about an attempt that was handed to it. `placement` is `None` if the attempt will never be placed.
    Decided { attempt: AttemptId, placement: Option<Placement> },
    /// Any other message of a scheduler in another process, or a failure of that scheduler.
    Said(Outside),
}

/// A declaration: the input that introduces a fleet, a node or a job. Later records refer to it by its name.
#[derive(Clone, Copy, Debug)]
pub enum Declaration<'a> {
    Fleet { fleet: FleetId, spec: &'a Arc<FleetSpec> },
    Node { node: NodeId, state: NodeState, spec: &'a NodeSpec },
    Job { job: JobId, spec: &'a Arc<JobSpec> },
}

/// The order in which the inputs of one instant are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputClass {
    FleetFact,
    Exit,
    Usage,
    /// Cancellations and other changes that users request.
    Cancellation,
    Arrival,
    /// Decisions of an external scheduler. They come after all inputs that free resources.
    Decision,
    Question,
    Timer,
}

impl Input {
    /// The question whether a job would be placed, if the answer depends only on what the job asks for and on its terms
    /// in a Slurm cluster.
    pub fn evaluate(spec: &Arc<JobSpec>) -> Input {
        let (name, demand) = (Arc::clone(&spec.name), Arc::clone(&spec.demand));
        Input::Evaluate { name, demand, spec: spec.slurm.is_some().then(|| Arc::clone(spec)) }
    }

    /// The question whether a job would be placed, with the whole job.
    pub fn evaluate_job(spec: &Arc<JobSpec>) -> Input {
        let (name, demand) = (Arc::clone(&spec.name), Arc::clone(&spec.demand));
        Input::Evaluate { name, demand, spec: Some(Arc::clone(spec)) }
    }

    /// The declaration, if the input is one. Code that follows only what exists needs no other input.
    pub fn declaration(&self) -> Option<Declaration<'_>> {
        match self {
            Input::Fleet(FleetFact::FleetDeclared { fleet, spec }) => Some(Declaration::Fleet { fleet: *fleet, spec }),
            Input::Fleet(FleetFact::NodeDeclared { node, state, spec }) => {
                Some(Declaration::Node { node: *node, state: *state, spec })
            }
            Input::Submit { job, spec } => Some(Declaration::Job { job: *job, spec }),
            Input::Fleet(_)
            | Input::Attempt { .. }
            | Input::Usage(_)
            | Input::User(_)
            | Input::External(_)
            | Input::Evaluate { .. }
            | Input::Wakeup => None,
        }
    }

    /// The job that the input is about, if any.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Input::Attempt { attempt, .. }
            | Input::Usage(UsageFact::Sample { attempt, .. })
            | Input::External(External::Decided { attempt, .. }) => Some(attempt.job),
            Input::External(External::Said(said)) => said.job(),
            Input::Usage(UsageFact::Requests { job, .. } | UsageFact::Served { job, .. })
            | Input::User(UserRequest::Cancel { job } | UserRequest::Scale { job, .. })
            | Input::Submit { job, .. } => Some(*job),
            Input::Fleet(_) | Input::Evaluate { .. } | Input::Wakeup => None,
        }
    }

    pub fn class(&self) -> InputClass {
        match self {
            Input::Fleet(_) => InputClass::FleetFact,
            Input::Attempt { .. } => InputClass::Exit,
            Input::Usage(_) => InputClass::Usage,
            Input::User(_) => InputClass::Cancellation,
            Input::Submit { .. } => InputClass::Arrival,
            Input::External(_) => InputClass::Decision,
            Input::Evaluate { .. } => InputClass::Question,
            Input::Wakeup => InputClass::Timer,
        }
    }
}
