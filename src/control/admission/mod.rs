//! Admission: Kueue decides which jobs may have pods at all, before the flow places them.
//!
//! ```text
//!   submitted ──> waits for quota ──admitted──> the flow ──> placed, runs, ends
//!                      ^                           │
//!                      └── stopped <── evicted ────┘
//! ```
//!
//! A job with a part in a workload ([`QueuedPart`]) is set aside until its workload is admitted. The rules are those of
//! `dryrack-kueue`. This module keeps the workloads ([`workload`]), reads the objects ([`objects`]), and carries out
//! what a cycle decides ([`carry_out`]): it lets replicas go with the flavor's node labels and tolerations, tells the
//! attempts of an evicted workload to stop, and releases quota once they have stopped.
//!
//! The order within an instant: changed objects, then ended and stopped workloads in the order of their submission,
//! then new workloads, then scheduling cycles until one changes nothing, then the passes of the flow. An evicted
//! workload releases its quota one second after the decision at the earliest. Otherwise two workloads that preempt each
//! other would do so for ever within one instant.
//!
//! Owns the quota of Kueue. Must never place anything.

mod carry_out;
mod evict;
mod held;
mod objects;
mod queues;
mod state;
mod view;
mod waiting;
mod workload;

pub(crate) use carry_out::settle;
pub use dryrack_kueue::Behind;
pub(crate) use queues::apply_objects;
pub(crate) use state::Admission;
pub use view::{AdmissionState, AdmissionView, StandsBehind};
pub(crate) use workload::Terms;

use super::core::Core;
use super::core::store::{ReplicaIndex, Wait};
use objects::Objects;

/// Reads a list of objects. An error if it cannot be read.
pub(crate) fn check_objects(text: &str) -> Result<(), &'static str> {
    Objects::read(text).map(|_| ()).ok_or("objects of Kueue that cannot be read")
}

/// Sets a replica aside if its workload is not admitted, or if the replica is beyond the admitted number of pods.
/// Returns whether it was set aside.
pub(crate) fn wait_for_admission(core: &mut Core, index: ReplicaIndex) -> bool {
    let job = core.store[index].job;
    let Some(part) = core.store[job].spec.queued.clone() else { return false };
    if !core.waits_for_admission(index) {
        return false;
    }
    core.admission.join(job, &part, core.store[job].replicas(), core.now);
    core.store[index].wait = Wait::Admission;
    core.admission.untold.push(index);
    true
}
