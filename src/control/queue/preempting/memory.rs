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
    pub shadow: Option<Box<Shadow>>,
    pub freeable: Freeable,
}

impl Preempting {
    /// Discards everything that depends on the profile.
    pub fn begin_anew(&mut self) {
        (self.shadow, self.freeable) = (None, Freeable::default());
    }
}
