//! Decisions about a job that is being explained. Each is examined while it is made, and kept until it is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Control;
use super::store::{Replica, ReplicaIndex, Wait};
use dryrack_event::Phase;
use dryrack_fleet::Fleet;
use dryrack_ids::{JobId, RunId};
use dryrack_scheduler::{Examination, Seats, Sight};
use dryrack_units::SimTime;
use dryrack_workload::{Demand, JobSpec};

/// What a decision saw, and the same decision made by the plain computation.
#[derive(Clone)]
pub struct Watched {
    pub at: SimTime,
    /// The run decided about; if nodes are decided about together, the first.
    pub run: RunId,
    pub sight: Sight,
    pub examination: Examination,
}

/// The runs before a replica that waits to be analysed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysedBefore {
    /// Runs that are being analysed.
    pub now: Vec<RunId>,
    /// Entries of the queue before its own, in order: `wanted` those of runs that go on, `unwanted` those of runs
    /// that have ended.
    pub wanted: Vec<RunId>,
    pub unwanted: Vec<RunId>,
}

/// The jobs whose decisions are examined.
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
    /// The last decision of all. `decided` has the last decision about each replica that has not been placed yet.
    last: Option<Watched>,
    decided: BTreeMap<(JobId, u32), Watched>,
    /// All decisions, until they are taken.
    decisions: Vec<Watched>,
    /// The decisions that placed something, until they are taken.
    placed: BTreeMap<RunId, Watched>,
}

impl Control {
    /// Examines each decision about this job, or about every job, while it is made. The caller takes each decision
    /// that placed something with [`Control::take_watched`].
    pub fn watch(&mut self, whose: Watch) {
        self.watching.whose = whose;
    }

    /// Takes the decision that placed this run.
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

    /// Takes every decision since the last call, in order.
    pub fn take_decisions(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watching.decisions)
    }

    /// What a decision about this replica would see now, whether or not one is due.
    pub fn sight_of(&self, job: JobId, replica: u32) -> Option<Sight> {
        let index = self.jobs.get(job.index())?.replica(replica)?;
        let waits = self.replicas[index as usize].wait == Wait::Queue;
        let left = if waits { self.left_to(index) } else { None };
        let (part, fleet) = (self.part_of_run(index), left.as_ref().unwrap_or(&self.fleet));
        let keep = if part.is_some() { 1 } else { self.candidates_wanted() };
        Some(self.sight(index, part, fleet, keep))
    }

    /// The same for a job that is not submitted yet.
    pub fn sight_before(&self, job: JobId, spec: &JobSpec) -> Sight {
        let demand = Arc::clone(&spec.demand);
        let run = RunId { job, replica: 0, attempt: 1 };
        let one_by_one = self.runs.is_some() && !self.places_whole() && demand.requirements.is_some();
        let seats = if one_by_one { Seats::One { master: None } } else { Seats::All };
        let (fleet, context, keep) = (self.fleet.clone(), self.context_for(run, spec, None), self.candidates_wanted());
        Sight { fleet, demand, context, seats, keep }
    }

    /// The first replica that has no place. For a job that has all its places, replica 0, which stands for another
    /// one like it. `None` for a job that is not submitted yet.
    pub fn next_to_place(&self, job: JobId) -> Option<u32> {
        let record = self.jobs.get(job.index())?;
        let waits =
            |index: &ReplicaIndex| matches!(self.replicas[*index as usize].phase, Phase::Pending | Phase::Analysing);
        Some(record.replicas().find(waits).map_or(0, |index| self.replicas[index as usize].number))
    }

    /// Uses the replica's own demand, unless the decision is about a part of it.
    fn sight(&self, index: ReplicaIndex, part: Option<(Arc<Demand>, Seats)>, fleet: &Fleet, keep: usize) -> Sight {
        let replica = &self.replicas[index as usize];
        let whole = || (Arc::clone(&self.demands[replica.demand as usize].demand), Seats::All);
        let (demand, seats) = part.unwrap_or_else(whole);
        Sight { fleet: fleet.clone(), demand, context: self.context(replica.run()), seats, keep }
    }

    fn examined(&self, index: ReplicaIndex, part: Option<(Arc<Demand>, Seats)>, fleet: &Fleet, keep: usize) -> Watched {
        let sight = self.sight(index, part, fleet, keep);
        let examination = sight.examine(&self.profile.scheduler);
        Watched { at: self.now, run: self.replicas[index as usize].run(), sight, examination }
    }

    fn keep_decision(&mut self, watched: Watched) {
        self.watching.last = Some(watched.clone());
        self.watching.decided.insert((watched.run.job, watched.run.replica), watched.clone());
        self.watching.decisions.push(watched);
    }

    /// Examines and keeps a decision for one candidate about this replica, if the replica is watched. `fleet` gives
    /// the fleet that the decision sees, if that is not the current fleet.
    pub(super) fn examine_if_watched(&mut self, index: ReplicaIndex, fleet: impl FnOnce(&Control) -> Option<Fleet>) {
        self.examine_several_if_watched(index, 1, fleet);
    }

    /// The same for a decision with several candidates.
    pub(super) fn examine_several_if_watched(
        &mut self,
        index: ReplicaIndex,
        keep: usize,
        fleet: impl FnOnce(&Control) -> Option<Fleet>,
    ) {
        if self.is_watched(index) {
            let fleet = fleet(self);
            let watched = self.examined(index, None, fleet.as_ref().unwrap_or(&self.fleet), keep);
            self.keep_decision(watched);
        }
    }

    /// The same, with a demand other than the replica's own.
    pub(super) fn examine_part_if_watched(&mut self, index: ReplicaIndex, demand: &Arc<Demand>, seats: Seats) {
        if self.is_watched(index) {
            let watched = self.examined(index, Some((Arc::clone(demand), seats)), &self.fleet, 1);
            self.keep_decision(watched);
        }
    }

    /// Keeps the last decision about a replica as the one that places it. Called before the ledger changes, when the
    /// replica is about to be placed. A replica that is placed without a decision of its own is examined at this
    /// point.
    pub(super) fn keep_examination(&mut self, index: ReplicaIndex) {
        if !self.is_watched(index) {
            return;
        }
        let run = self.replicas[index as usize].run();
        let decided = self.watching.decided.remove(&(run.job, run.replica));
        let watched = decided.unwrap_or_else(|| self.examined(index, None, &self.fleet, 1));
        self.watching.placed.insert(run, watched);
    }

    /// The decision that was just made about this replica, if it is watched.
    pub(super) fn last_examination(&self, index: ReplicaIndex) -> Option<Box<Watched>> {
        self.watching.last.clone().filter(|_| self.is_watched(index)).map(Box::new)
    }

    /// Keeps an earlier decision as the one that places a replica. It may have been made about another replica.
    pub(super) fn keep_examination_of(&mut self, index: ReplicaIndex, decided: Option<Box<Watched>>) {
        self.place_by(index, decided.map(|decided| *decided));
    }

    /// Keeps the last decision of all as the one that places a replica together with others.
    pub(super) fn keep_shared_examination(&mut self, index: ReplicaIndex) {
        let job = self.replicas[index as usize].job;
        let decided = self.watching.last.clone().filter(|last| last.run.job == job);
        self.place_by(index, decided);
        self.keep_examination(index);
    }

    fn place_by(&mut self, index: ReplicaIndex, decided: Option<Watched>) {
        if let (true, Some(decided)) = (self.is_watched(index), decided) {
            let Replica { job, number, .. } = self.replicas[index as usize];
            self.watching.decided.insert((job, number), decided);
        }
    }

    /// The runs that are analysed before this replica; `None` if it does not wait for its analysis.
    pub fn analysed_before(&self, job: JobId, replica: u32) -> Option<AnalysedBefore> {
        let index = self.jobs.get(job.index())?.replica(replica)?;
        let (now, before) = match &self.scan {
            Some(_) => self.entries_before(index)?,
            None => {
                let is_it = |(other, version): &(ReplicaIndex, u64)| {
                    let replica = &self.replicas[index as usize];
                    *other == index && replica.wait == Wait::Analysis && replica.version == *version
                };
                let place = self.analysis_queue.iter().position(is_it)?;
                let before = self.analysis_queue.iter().take(place);
                (self.analysing.iter().copied().collect(), before.map(|(other, _)| self.run_of(*other)).collect())
            }
        };
        let is_wanted = |run: &RunId| {
            let replica = self.replica_of(*run).map(|index| &self.replicas[index as usize]);
            replica.is_some_and(|replica| replica.phase != Phase::Ended && replica.attempt == run.attempt)
        };
        let (wanted, unwanted) = before.into_iter().partition(is_wanted);
        Some(AnalysedBefore { now, wanted, unwanted })
    }

    fn run_of(&self, index: ReplicaIndex) -> RunId {
        self.replicas[index as usize].run()
    }
}
