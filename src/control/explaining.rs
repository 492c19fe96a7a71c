//! Decisions about a job that is being explained: each is examined while it is made, and kept until it is asked for.

use std::collections::BTreeMap;

use super::Control;
use super::store::ReplicaIndex;
use crate::fleet::Fleet;
use crate::ids::{JobId, RunId};
use crate::scheduler::{Examination, examine};
use crate::units::SimTime;
use crate::workload::Demand;

/// What a decision saw.
#[derive(Clone)]
pub struct Watched {
    pub at: SimTime,
    pub run: RunId,
    pub examination: Examination,
}

/// Whose decisions are examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    #[default]
    Nobody,
    Job(JobId),
    Everybody,
}

#[derive(Default)]
pub(super) struct Watching {
    whose: Watch,
    /// The last decision that was examined.
    decided: Option<Watched>,
    /// The decisions that placed something, until they are taken.
    placed: BTreeMap<RunId, Watched>,
}

impl Control {
    /// Examines each decision about this job, or about every job, while it is made. Whoever asks for that takes each that
    /// placed something with [`Control::take_watched`].
    pub fn watch(&mut self, whose: Watch) {
        self.watching.whose = whose;
    }

    /// What the decision saw that placed this run.
    pub fn take_watched(&mut self, run: RunId) -> Option<Watched> {
        self.watching.placed.remove(&run)
    }

    pub(super) fn is_watched(&self, index: ReplicaIndex) -> bool {
        match self.watching.whose {
            Watch::Nobody => false,
            Watch::Job(job) => job == self.replicas[index as usize].job,
            Watch::Everybody => true,
        }
    }

    /// A decision is made about this replica on this fleet: by its own demand, unless a part of that is decided alone.
    pub(super) fn examined(&self, index: ReplicaIndex, demand: Option<&Demand>, fleet: &Fleet) -> Watched {
        let replica = &self.replicas[index as usize];
        let demand = demand.unwrap_or(&self.demands[replica.demand as usize].demand);
        Watched { at: self.now, run: replica.run(), examination: examine(&self.profile.scheduler, demand, fleet) }
    }

    /// The same, kept where the replica is watched. `fleet` gives the fleet that the decision sees, if that is not the
    /// fleet as it is.
    pub(super) fn examine_if_watched(&mut self, index: ReplicaIndex, fleet: impl FnOnce(&Control) -> Option<Fleet>) {
        if self.is_watched(index) {
            let fleet = fleet(self);
            self.watching.decided = Some(self.examined(index, None, fleet.as_ref().unwrap_or(&self.fleet)));
        }
    }

    /// The same for a part of a demand.
    pub(super) fn examine_part_if_watched(&mut self, index: ReplicaIndex, demand: &Demand) {
        if self.is_watched(index) {
            self.watching.decided = Some(self.examined(index, Some(demand), &self.fleet));
        }
    }

    /// It is about to be placed, by the last decision about it. Called before the ledger changes: what was placed without a
    /// decision of its own is examined now.
    pub(super) fn keep_examination(&mut self, index: ReplicaIndex) {
        if !self.is_watched(index) {
            return;
        }
        let run = self.replicas[index as usize].run();
        let is_of_it = |decided: &Watched| (decided.run.job, decided.run.replica) == (run.job, run.replica);
        let decided = self.watching.decided.take().filter(is_of_it);
        let watched = decided.unwrap_or_else(|| self.examined(index, None, &self.fleet));
        self.watching.placed.insert(run, Watched { run, ..watched });
    }

    /// It is about to be placed together with others, by one decision about all of them.
    pub(super) fn keep_shared_examination(&mut self, index: ReplicaIndex) {
        if let (true, Some(decided)) = (self.is_watched(index), self.watching.decided.clone()) {
            let run = self.replicas[index as usize].run();
            self.watching.placed.insert(run, Watched { run, ..decided });
        } else {
            self.keep_examination(index);
        }
    }
}
