//! The waiting replicas of projects that have a quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_policy::Holding;
use dryrack_scheduler::QueueKey;

/// A project and a demand.
pub type GroupKey = (Arc<str>, u32);

/// The groups of all projects that have a quota.
#[derive(Default)]
pub struct Projects {
    pub groups: BTreeMap<GroupKey, Group>,
    /// Whether a replica has left the queue because of its quota since the last call of `take_has_left`.
    pub has_left: bool,
}

impl Projects {
    /// Whether a replica has left the queue because of its quota since the last call.
    pub fn take_has_left(&mut self) -> bool {
        std::mem::take(&mut self.has_left)
    }
}

/// The waiting replicas of one project that have one demand.
pub struct Group {
    /// The least that one replica of the group takes.
    pub least: Holding,
    /// What one replica would have taken at the place that was found for it. Set if the quota did not allow that place.
    pub too_expensive: Option<TooExpensive>,
    pub in_queue: BTreeSet<QueueKey>,
    pub set_aside: BTreeSet<QueueKey>,
}

/// The amounts that a replica would take at a place that its quota does not allow, and the version of the fleet when
/// that place was found.
#[derive(Clone, Copy)]
pub struct TooExpensive {
    pub wanted: Holding,
    pub version: u64,
}

impl Group {
    /// The amounts that one replica of the group takes, as far as is known.
    pub fn wanted(&self) -> Holding {
        self.too_expensive.map_or(self.least, |found| found.wanted)
    }
}
