//! What preemption keeps from pass to pass.

use std::collections::{BTreeMap, BTreeSet};

use super::freeable::Freeable;
use super::shadow::Shadow;
use crate::core::store::ReplicaIndex;
use dryrack_fleet::Placement;

/// Replicas that wait for promised room, each with its promised place.
pub type Nominations = BTreeMap<ReplicaIndex, Placement>;

/// State of preemption that is kept from pass to pass.
#[derive(Default)]
pub struct Preempting {
    /// Replicas that have been told to stop and have not stopped yet.
    pub stopping: BTreeSet<ReplicaIndex>,
    /// For each waiting replica, those that were stopped for it. Kept only if a filter may refuse a node that becomes emptier
    /// ([`may_placing_make_room`](dryrack_scheduler::SchedulerOptions::may_placing_make_room)).
    /// Each placement walks all of these pairs. Beside such filters, it makes all refused jobs be judged again anyway.
    pub stopped_for: BTreeSet<(ReplicaIndex, ReplicaIndex)>,
    pub shadow: Option<Box<Shadow>>,
    pub freeable: Freeable,
}

impl Preempting {
    /// Whether replicas were stopped for this one that may not be stopped for it again.
    pub fn has_stopped_some(&self, head: ReplicaIndex) -> bool {
        self.stopped_for.range((head, ReplicaIndex::MIN)..=(head, ReplicaIndex::MAX)).next().is_some()
    }

    /// Discards everything that depends on the profile.
    pub fn begin_anew(&mut self) {
        (self.shadow, self.freeable, self.stopped_for) = (None, Freeable::default(), BTreeSet::new());
    }
}
