//! Decisions about a job that is being explained. While a decision is made, it is recorded with all its reasons. The
//! record is kept until the caller takes it.

use std::sync::Arc;

use super::Core;
use super::parts::examined::{Watch, Watched};
use super::store::{Replica, ReplicaIndex};
use dryrack_event::Phase;
use dryrack_fleet::Fleet;
use dryrack_ids::{AttemptId, JobId};
use dryrack_scheduler::{Candidate, SchedulerView, Seats};
use dryrack_workload::Demand;

impl Core {
    /// Examines each decision about this job, or about every job, while it is made. A caller takes the decision that
    /// placed a replica with [`Core::take_watched`].
    pub(crate) fn watch(&mut self, whose: Watch) {
        self.examined.watch(whose);
    }

    /// Takes the decision that placed this attempt.
    pub(crate) fn take_watched(&mut self, attempt: AttemptId) -> Option<Watched> {
        self.examined.take_placed(attempt)
    }

    pub(crate) fn is_watched(&self, index: ReplicaIndex) -> bool {
        self.examined.is_watched(self.replicas[index as usize].job)
    }

    /// Takes every decision since the last call, in order.
    pub(crate) fn take_decisions(&mut self) -> Vec<Watched> {
        self.examined.take_decisions()
    }

    /// The number of the first replica without a place. If all replicas of the job have places, returns replica 0,
    /// which stands for one more replica. `None` if the job is not submitted yet.
    pub(crate) fn next_to_place(&self, job: JobId) -> Option<u32> {
        let record = self.jobs.get(job.index())?;
        let waits =
            |index: &ReplicaIndex| matches!(self.replicas[*index as usize].phase, Phase::Pending | Phase::Analysing);
        Some(record.replicas().find(waits).map_or(0, |index| self.replicas[index as usize].number))
    }

    /// The data on which a decision about this replica is based. The demand is the replica's own, unless the decision
    /// covers only a part of it.
    pub(crate) fn sight(
        &self,
        index: ReplicaIndex,
        part: Option<(Arc<Demand>, Seats)>,
        fleet: &Fleet,
        keep: usize,
    ) -> SchedulerView {
        let replica = &self.replicas[index as usize];
        let whole = || (Arc::clone(&self.demands[replica.demand as usize].demand), Seats::All);
        let (demand, seats) = part.unwrap_or_else(whole);
        SchedulerView { fleet: fleet.clone(), demand, context: self.context(replica.attempt_id()), seats, keep }
    }

    fn examined(&self, index: ReplicaIndex, part: Option<(Arc<Demand>, Seats)>, fleet: &Fleet, keep: usize) -> Watched {
        let sight = self.sight(index, part, fleet, keep);
        let examination = sight.examine(&self.profile.scheduler);
        Watched { at: self.now, attempt: self.replicas[index as usize].attempt_id(), sight, examination }
    }

    pub(crate) fn keep_decision(&mut self, watched: Watched) {
        self.examined.keep(watched);
    }

    /// Keeps why a replica waits although the last decision about it found a place. That decision still is the one that
    /// places it.
    pub(crate) fn keep_wait(&mut self, watched: Watched) {
        self.examined.keep_wait(watched);
    }

    /// Examines and keeps a decision for one candidate about this replica, if the replica is watched. `fleet` returns
    /// the fleet that the decision sees; `None` means the current fleet.
    pub(crate) fn examine_if_watched(&mut self, index: ReplicaIndex, fleet: impl FnOnce(&Core) -> Option<Fleet>) {
        self.examine_several_if_watched(index, 1, fleet);
    }

    /// Like [`Core::examine_if_watched`], for a decision with several candidates.
    pub(crate) fn examine_several_if_watched(
        &mut self,
        index: ReplicaIndex,
        keep: usize,
        fleet: impl FnOnce(&Core) -> Option<Fleet>,
    ) {
        if self.is_watched(index) {
            let fleet = fleet(self);
            let watched = self.examined(index, None, fleet.as_ref().unwrap_or(&self.fleet), keep);
            self.keep_decision(watched);
        }
    }

    /// Like [`Core::examine_if_watched`], for a demand other than the replica's own.
    pub(crate) fn examine_part_if_watched(&mut self, index: ReplicaIndex, demand: &Arc<Demand>, seats: Seats) {
        if self.is_watched(index) {
            let watched = self.examined(index, Some((Arc::clone(demand), seats)), &self.fleet, 1);
            self.keep_decision(watched);
        }
    }

    /// Keeps the last decision about a replica as the one that places it. Call this just before the replica is placed,
    /// while the ledger is unchanged. A replica that is placed without a separate decision is examined here.
    pub(crate) fn keep_examination(&mut self, index: ReplicaIndex) {
        if !self.is_watched(index) {
            return;
        }
        let attempt = self.replicas[index as usize].attempt_id();
        let decided = self.examined.take_decided((attempt.job, attempt.replica));
        let watched = decided.unwrap_or_else(|| self.examined(index, None, &self.fleet, 1));
        self.examined.placed_by(attempt, watched);
    }

    /// The decision that was just made about this replica, if it is watched.
    pub(crate) fn last_examination(&self, index: ReplicaIndex) -> Option<Box<Watched>> {
        self.examined.last().filter(|_| self.is_watched(index)).cloned().map(Box::new)
    }

    /// Keeps an earlier decision as the one that places a replica. The decision may have been made about another
    /// replica.
    pub(crate) fn keep_examination_of(&mut self, index: ReplicaIndex, decided: Option<Box<Watched>>) {
        self.place_by(index, decided.map(|decided| *decided));
    }

    /// Records the examination of a replica that is placed together with other replicas of its job. Their common decision is
    /// the last decision about any replica of the job.
    pub(crate) fn keep_shared_examination(&mut self, index: ReplicaIndex) {
        let job = self.replicas[index as usize].job;
        let decided = self.examined.last().filter(|last| last.attempt.job == job).cloned();
        self.place_by(index, decided);
        self.keep_examination(index);
    }

    /// Changes the candidate of the last decision about a replica. The replica goes to the decided node, where other GPUs
    /// are free by now.
    pub(crate) fn change_candidate(&mut self, index: ReplicaIndex, candidate: &Candidate) {
        let Replica { job, number, .. } = self.replicas[index as usize];
        self.examined.change_candidate((job, number), candidate);
    }

    fn place_by(&mut self, index: ReplicaIndex, decided: Option<Watched>) {
        if let (true, Some(decided)) = (self.is_watched(index), decided) {
            let Replica { job, number, .. } = self.replicas[index as usize];
            self.examined.set_decided((job, number), decided);
        }
    }
}
