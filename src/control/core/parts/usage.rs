//! Which replicas have usage samples to judge, and since when the policies of the profile apply.

use std::collections::BTreeSet;

use super::store::ReplicaIndex;
use dryrack_units::SimTime;

#[derive(Default)]
pub struct Usage {
    /// Replicas with a sample at this instant.
    sampled: BTreeSet<ReplicaIndex>,
    /// When the profile last changed.
    reconfigured: Option<SimTime>,
}

impl Usage {
    /// Notes that a replica has a sample at this instant.
    pub fn note_sample(&mut self, index: ReplicaIndex) {
        self.sampled.insert(index);
    }

    /// Takes the next replica with a sample, in order of their numbers.
    pub fn next_sampled(&mut self) -> Option<ReplicaIndex> {
        self.sampled.pop_first()
    }

    /// From now on, attempts that begin have the policies of another profile.
    pub fn reconfigured(&mut self, now: SimTime) {
        self.reconfigured = Some(now);
    }

    /// Whether an attempt that began at this time has the policies of the current profile.
    pub fn has_current_policies(&self, since: SimTime) -> bool {
        self.reconfigured.is_none_or(|at| since >= at)
    }
}
