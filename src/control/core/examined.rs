//! Decisions about a job that is being explained. While a decision is made, it is recorded with all its reasons. The
//! record is kept until the caller takes it.

use std::sync::Arc;

use super::Core;
use super::parts::examined::Watched;
use super::store::{Replica, ReplicaIndex};
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_ids::NodeId;
use dryrack_scheduler::{Candidate, GangPart, NodeFinding, SchedulerView, Verdict};
use dryrack_workload::Demand;

impl Core {
    pub(crate) fn is_watched(&self, index: ReplicaIndex) -> bool {
        self.deciding.examined.is_watched(self.store[index].job)
    }

    /// The data on which a decision about this replica is based. The demand is the replica's own, unless the decision
    /// covers only a part of it.
    pub(crate) fn sight(
        &self,
        index: ReplicaIndex,
        part: Option<(Arc<Demand>, GangPart)>,
        fleet: &Fleet,
        keep: usize,
    ) -> SchedulerView {
        let replica = &self.store[index];
        let whole = || (Arc::clone(self.store.demand(replica.demand)), GangPart::Whole);
        let (demand, gang_part) = part.unwrap_or_else(whole);
        SchedulerView { fleet: fleet.clone(), demand, context: self.context(replica.attempt_id()), gang_part, keep }
    }

    fn examined(
        &self,
        index: ReplicaIndex,
        part: Option<(Arc<Demand>, GangPart)>,
        fleet: &Fleet,
        keep: usize,
    ) -> Watched {
        let sight = self.sight(index, part, fleet, keep);
        let examination = sight.examine(&self.profile.scheduler);
        Watched {
            at: self.now,
            attempt: self.store[index].attempt_id(),
            sight,
            examination,
            closed: Vec::new(),
            is_by_promise: false,
        }
    }

    /// Examines and keeps a decision for one candidate about this replica, if the replica is watched. `fleet` returns
    /// the fleet that the decision sees; `None` means the current fleet.
    pub(crate) fn examine_if_watched(&mut self, index: ReplicaIndex, fleet: impl FnOnce(&Core) -> Option<Fleet>) {
        self.examine_several_if_watched(index, 1, fleet);
    }

    /// Like [`Core::examine_if_watched`], for a decision that can use only some nodes. In the fleet that `fleet` returns,
    /// all others are not ready. `why_closed` says why a node cannot be used; `None` if it can.
    pub(crate) fn examine_within_if_watched(
        &mut self,
        index: ReplicaIndex,
        fleet: impl FnOnce(&Core) -> Fleet,
        why_closed: impl Fn(NodeId) -> Option<Reason>,
    ) {
        if !self.is_watched(index) {
            return;
        }
        let mut watched = self.examined(index, None, &fleet(self), 1);
        let of_all = self.examined(index, None, &self.fleet, 1).examination.nodes;
        let closed = of_all.into_iter().filter_map(|finding| {
            let reason = why_closed(finding.node)?;
            let is_fit = finding.verdict.is_fit();
            Some(if is_fit { NodeFinding::of(finding.node, Verdict::Unfit(reason)) } else { finding })
        });
        watched.closed = closed.collect();
        self.deciding.examined.keep(watched);
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
            self.deciding.examined.keep(watched);
        }
    }

    /// Like [`Core::examine_if_watched`], for a demand other than the replica's own.
    pub(crate) fn examine_part_if_watched(&mut self, index: ReplicaIndex, demand: &Arc<Demand>, gang_part: GangPart) {
        if self.is_watched(index) {
            let watched = self.examined(index, Some((Arc::clone(demand), gang_part)), &self.fleet, 1);
            self.deciding.examined.keep(watched);
        }
    }

    /// Keeps the last decision about a replica as the one that places it. Call this just before the replica is placed,
    /// while the ledger is unchanged. A replica that is placed without a separate decision is examined here.
    pub(crate) fn keep_examination(&mut self, index: ReplicaIndex) {
        if !self.is_watched(index) {
            return;
        }
        let attempt = self.store[index].attempt_id();
        let decided = self.deciding.examined.take_decided((attempt.job, attempt.replica));
        let watched = decided.unwrap_or_else(|| self.examined(index, None, &self.fleet, 1));
        self.deciding.examined.placed_by(attempt, watched);
    }

    /// The decision that was just made about this replica, if it is watched.
    pub(crate) fn last_examination(&self, index: ReplicaIndex) -> Option<Box<Watched>> {
        self.deciding.examined.last().filter(|_| self.is_watched(index)).cloned().map(Box::new)
    }

    /// Keeps an earlier decision as the one that places a replica. The decision may have been made about another
    /// replica.
    pub(crate) fn keep_examination_of(&mut self, index: ReplicaIndex, decided: Option<Box<Watched>>) {
        self.place_by(index, decided.map(|decided| *decided));
    }

    /// Records the examination of a replica that is placed together with other replicas of its job. Their common decision is
    /// the last decision about any replica of the job.
    pub(crate) fn keep_shared_examination(&mut self, index: ReplicaIndex) {
        let job = self.store[index].job;
        let decided = self.deciding.examined.last().filter(|last| last.attempt.job == job).cloned();
        self.place_by(index, decided);
        self.keep_examination(index);
    }

    /// Changes the candidate of the last decision about a replica. The replica goes to the decided node, where other GPUs
    /// are free by now.
    pub(crate) fn change_candidate(&mut self, index: ReplicaIndex, candidate: &Candidate) {
        let Replica { job, number, .. } = self.store[index];
        self.deciding.examined.change_candidate((job, number), candidate);
    }

    /// Lets the last decision about a replica, if it is a refusal, take the place that was promised to the replica.
    pub(crate) fn take_promise(&mut self, index: ReplicaIndex, candidate: &Candidate) {
        let Replica { job, number, .. } = self.store[index];
        self.deciding.examined.take_promise((job, number), candidate);
    }

    fn place_by(&mut self, index: ReplicaIndex, decided: Option<Watched>) {
        if let (true, Some(decided)) = (self.is_watched(index), decided) {
            let Replica { job, number, .. } = self.store[index];
            self.deciding.examined.set_decided((job, number), decided);
        }
    }
}
