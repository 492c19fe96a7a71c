//! Future events of the simulated world. The event queue holds them.

use super::cloud_models::InstanceTurn;
use dryrack_event::Lifecycle;
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_units::SimTime;

/// A future event. Events with an `epoch` are void if the epoch of their node or attempt has increased since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Fact {
        attempt: AttemptId,
        epoch: u32,
        fact: Lifecycle,
    },
    HeartbeatMissed {
        node: NodeId,
        epoch: u32,
        last: SimTime,
    },
    Fault(u32),
    Cancel(JobId),
    Scale(JobId, u32),
    /// A report about an attempt arrives at the control plane.
    Ack {
        attempt: AttemptId,
        fact: Lifecycle,
    },
    Evaluate(JobId),
    /// The tasks of a job that work together have done their work.
    WorkDone {
        job: JobId,
        round: u32,
    },
    /// The GPUs of an attempt are sampled.
    Sample {
        attempt: AttemptId,
        epoch: u32,
    },
    /// A sample arrives at the control plane. The number is its index among the samples in transit.
    SampleHeard(u32),
    Instance {
        node: NodeId,
        epoch: u32,
        becomes: InstanceTurn,
    },
    /// The capacity of an offer changes. The number is the index in the list of changes.
    Capacity(u32),
    /// Objects of Kueue change. The number is the index in the list of changes.
    Kueue(u32),
    /// The simulated run branches off: nodes join and leave, and the profile changes.
    Branch,
    Leave(NodeId),
    /// The requests to a service are counted. `counts` is the number of earlier counts.
    Requests {
        job: JobId,
        counts: u64,
    },
    /// A report about the requests of a service for language models is due.
    ServiceReport(JobId),
}
