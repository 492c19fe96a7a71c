//! What will happen in the simulated world, as its queue holds it.

use super::clouds::InstanceTurn;
use dryrack_event::Lifecycle;
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_units::SimTime;

/// Something that will happen. It is void if what it is about has changed since (`epoch`).
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
    /// What was said of a run arrives.
    Ack {
        run: RunId,
        fact: Lifecycle,
    },
    Evaluate(JobId),
    /// The GPUs of a run are looked at.
    Sample {
        run: RunId,
        epoch: u32,
    },
    /// A sample is heard, by its place among those on their way.
    SampleHeard(u32),
    Instance {
        node: NodeId,
        epoch: u32,
        becomes: InstanceTurn,
    },
    /// The capacity of an offer changes, by its place in the list of changes.
    Capacity(u32),
    /// The run leaves the one that it was until now.
    Branch,
    Leave(NodeId),
    /// What came to a service is counted, after so many counts.
    Requests {
        job: JobId,
        counts: u64,
    },
}
