//! What the jobs of a pass see of the future. A job that may preempt others sees a fleet without them.

use std::collections::BTreeMap;

use super::ahead::FutureEnds;
use super::trial::Trial;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::slurm::{InPartition, Preemptor};
use dryrack_units::SimTime;

/// For each demand, the time until which enough nodes that have room for it now have no reservation. The number is the
/// count of changes in the pass when this was computed.
type FreeUntil = BTreeMap<u32, (u32, SimTime)>;

/// The future as some jobs see it.
#[derive(Default)]
pub struct Future {
    pub ends: FutureEnds,
    pub trial: Option<Trial>,
    pub open: FreeUntil,
}

/// The future of jobs that may preempt others, and one of these jobs.
struct Preempting {
    future: Future,
    /// A job of this pass for which the preemptible jobs were found. `None` if they must be found again.
    found_for: Option<InPartition>,
}

/// All futures. They are kept from pass to pass.
#[derive(Default)]
pub struct Futures {
    plain: Future,
    preempting: BTreeMap<Preemptor, Preempting>,
}

impl Futures {
    /// Reads the current state at the beginning of a pass.
    pub fn begin(&mut self, core: &Core) {
        self.plain.trial = None;
        self.plain.open.clear();
        self.plain.ends.begin(core, Vec::new());
        self.preempting.values_mut().for_each(|preempting| preempting.found_for = None);
    }

    /// The plain future, and the one without the jobs that this one may preempt, if there are any. `preemptible` finds
    /// these jobs.
    pub fn of(
        &mut self,
        core: &Core,
        (own, preemptor): (InPartition, Option<Preemptor>),
        preemptible: impl FnOnce() -> Vec<ReplicaIndex>,
    ) -> (&mut Future, Option<&mut Future>) {
        let Some(preemptor) = preemptor else { return (&mut self.plain, None) };
        let preempting = self.preempting.entry(preemptor).or_insert_with(|| {
            let future = Future::default();
            Preempting { future, found_for: None }
        });
        let future = &mut preempting.future;
        if preempting.found_for.is_none() {
            preempting.found_for = Some(own);
            future.trial = None;
            future.open.clear();
            future.ends.begin(core, preemptible());
        }
        (&mut self.plain, (!future.ends.preempted().is_empty()).then_some(future))
    }

    /// Adds a replica that has just begun. `preempts` says whether a job may preempt it.
    pub fn enter(&mut self, core: &Core, index: ReplicaIndex, preempts: impl Fn(InPartition) -> bool) {
        self.plain.ends.enter(core, index);
        for preempting in self.preempting.values_mut() {
            match preempting.found_for {
                Some(own) if preempts(own) => preempting.found_for = None,
                Some(_) => preempting.future.ends.enter(core, index),
                None => {}
            }
        }
    }

    /// Reads the current state again, after jobs were preempted.
    pub fn after_preemption(&mut self, core: &Core) {
        self.plain.ends.begin(core, Vec::new());
        self.preempting.values_mut().for_each(|preempting| preempting.found_for = None);
    }
}
