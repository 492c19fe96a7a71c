//! Future events of the simulated world, as its queue holds them.

use super::clouds::InstanceTurn;
use dryrack_event::Lifecycle;
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_units::SimTime;

/// A future event. It is void if its subject has changed since, which `epoch` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Fact {
        run: RunId,
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
    /// A report about a run arrives.
    Ack {
        run: RunId,
        fact: Lifecycle,
    },
    Evaluate(JobId),
    /// The GPUs of a run are sampled.
    Sample {
        run: RunId,
        epoch: u32,
    },
    /// A sample arrives, by its index among those in transit.
    SampleHeard(u32),
    Instance {
        node: NodeId,
        epoch: u32,
        becomes: InstanceTurn,
    },
    /// The capacity of an offer changes, by its index in the list of changes.
    Capacity(u32),
    /// The run branches off.
    Branch,
    Leave(NodeId),
    /// The requests to a service are counted; `counts` counts came before.
    Requests {
        job: JobId,
        counts: u64,
    },
}
