//! When attempts are expected to end.

use std::collections::BTreeSet;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_fleet::Placement;
use dryrack_planted::planted;
use dryrack_units::{SimDuration, SimTime};

/// The shortest possible time span.
pub const MOMENT: SimDuration = SimDuration::from_nanos(1);

/// A placement with the time at which it ends.
pub struct HeldPlacement {
    pub replica: ReplicaIndex,
    pub until: SimTime,
    pub placement: Placement,
}

/// Whether the expected end of an attempt in this phase is counted from the beginning of the phase.
pub fn is_timed(phase: Phase) -> bool {
    match phase {
        Phase::Running | Phase::Scheduled => true,
        Phase::Pending | Phase::Analysing | Phase::Preparing | Phase::Stopping | Phase::Ended => false,
    }
}

/// When a replica with a place ends, according to its estimate. The estimate counts from the beginning of the phase if
/// the replica is scheduled or running, and from now otherwise.
pub fn said_end(core: &Core, index: ReplicaIndex) -> SimTime {
    let replica = &core.store[index];
    let is_counted = is_timed(replica.phase) && !planted!(EstimateFromTheStart);
    ends_if_started(core, index, if is_counted { replica.since } else { core.now })
}

/// When a replica would end, according to its estimate, if it starts at this time; never if it has no estimate.
pub fn ends_if_started(core: &Core, index: ReplicaIndex, at: SimTime) -> SimTime {
    let job = core.store[index].job;
    core.store[job].spec.estimate.map_or(SimTime::MAX, |estimate| at.saturating_add(estimate))
}

/// All replicas that hold resources, in order of their expected ends.
pub fn held_until(core: &Core) -> Vec<HeldPlacement> {
    let mut seen = BTreeSet::new();
    for node in core.nodes.iter() {
        seen.extend(node.replicas.iter().copied());
    }
    let held = |index: ReplicaIndex| {
        let placement = core.store[index].placement.clone().unwrap_or_default();
        HeldPlacement { replica: index, until: said_end(core, index), placement }
    };
    let mut held: Vec<HeldPlacement> = seen.into_iter().map(held).collect();
    held.sort_by_key(|held| held.until);
    held
}
