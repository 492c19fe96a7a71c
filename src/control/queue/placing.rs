//! The decision about one replica of the queue, its commit, and what follows a refusal.

use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::{Replica, ReplicaIndex, Wait};
use crate::core::timer::Timer;
use crate::flow::Held;
use crate::pass_options::Trigger;
use crate::queue::Queue;
use crate::queue::open_decision::OpenDecision;
use dryrack_event::{Event, Outcome, Reason, Refusal};
use dryrack_scheduler::{Decision, Discipline, NeverFits, Unfit};

impl Queue {
    /// Decides about one replica of the queue. The decision is committed at once, or after the decision time of the
    /// profile.
    pub(super) fn consider(&mut self, core: &mut Core, index: ReplicaIndex) {
        let options = core.profile.commit;
        let takes_time = !options.decision_time.is_zero();
        let keep = core.candidates_wanted();
        core.examine_several_if_watched(index, keep, |core| self.left_beside_nominations(core, index));
        let decision = match self.decide_beside_nominations(core, index, keep) {
            Some(decision) => decision,
            None => core.decide_now(index, keep),
        };
        let decision = match decision {
            Decision::Place(_) => decision,
            Decision::Refuse { .. } => match self.promised_candidate(core, index) {
                Some(candidate) => {
                    self.examine_promise_if_watched(core, index, &candidate);
                    Decision::Place([candidate].into_iter().collect())
                }
                None => decision,
            },
        };
        if !takes_time {
            self.conclude(core, index, decision, core.growth());
            return;
        }
        let read = match &decision {
            Decision::Place(candidates) => core.versions_of(candidates),
            Decision::Refuse { .. } => Vec::new(),
        };
        self.leave_queue(core, index, Wait::Decision);
        let version = core.store[index].version;
        self.deciding = Some(OpenDecision { replica: index, version, decision, growth: core.growth(), read });
        let at = core.now.saturating_add(options.decision_time);
        core.timers.set(at, Timer::CommitDue { replica: index, version });
    }

    /// Commits the decision in progress once its time is over, unless the nodes that it read have changed.
    pub(super) fn commit_due(&mut self, core: &mut Core) {
        let deciding = self.deciding.take().expect("only the decision under way sets this timer");
        let index = deciding.replica;
        assert_eq!(core.store[index].version, deciding.version, "a void decision must not be committed");
        let Decision::Place(candidates) = deciding.decision else {
            self.enter_queue(core, index);
            // If the project has taken resources in the meantime, the replica waits for its quota instead of waiting in
            // the queue.
            if !core.store.waits_in_queue(index) {
                return;
            }
            self.conclude(core, index, deciding.decision, deciding.growth);
            // An event has already said why this replica waits.
            self.forget_fresh(core, index);
            return;
        };
        let count = candidates.len();
        for (rank, candidate) in candidates.into_iter().enumerate() {
            if core.may_commit(index, &candidate, &deciding.read) {
                self.forget_nomination(core, index);
                if !self.is_over_quota(core, index, &candidate.placement) {
                    self.place(core, index, candidate);
                }
                return;
            }
            let fallback = rank + 1 < count;
            let attempt = core.store[index].attempt_id();
            core.emit(Event::CommitRefused { attempt, because: Reason::StaleRead, fallback });
        }
        self.enter_queue(core, index);
    }

    fn conclude(&mut self, core: &mut Core, index: ReplicaIndex, decision: Decision, growth: u64) {
        match decision {
            Decision::Place(mut candidates) => {
                let candidate = candidates.swap_remove(0);
                if !self.is_over_quota(core, index, &candidate.placement) {
                    self.leave_queue(core, index, Wait::Nothing);
                    self.place(core, index, candidate);
                }
            }
            Decision::Refuse { refusal: Refusal::Never, reasons }
                if core.profile.scheduler.never_fits == NeverFits::End =>
            {
                core.hold(index, (Refusal::Never, reasons));
                self.leave_queue(core, index, Wait::Nothing);
                self.end(core, index, Outcome::NeverFits, Reason::NeverFits);
            }
            // The replica entered the queue only to look for a cheaper place. It continues to wait for its quota.
            Decision::Refuse { .. }
                if core.profile.scheduler.unfit == Unfit::End && self.is_set_aside_again(core, index) => {}
            Decision::Refuse { refusal, reasons } if core.profile.scheduler.unfit == Unfit::End => {
                core.hold(index, (refusal, reasons));
                self.leave_queue(core, index, Wait::Nothing);
                self.end(core, index, Outcome::Refused, Reason::NoRoom);
            }
            Decision::Refuse { refusal, reasons } => {
                let Replica { demand, key, .. } = core.store[index];
                self.queue.refuse(demand, growth);
                self.note_refusal(core, index, growth);
                self.queue.commit(key, demand);
                let record = &mut core.store.demands[demand as usize];
                let held = (refusal, reasons);
                let same = (record.held.as_ref())
                    .is_some_and(|(refusal, reasons)| *refusal == held.0 && reasons.has_same_reasons(&held.1));
                record.held = Some(held.clone());
                if !same {
                    self.emit_reasons_of_demand(core, demand, &held);
                }
                self.hold_with_own(core, index, held);
            }
        }
    }

    /// Holds a replica for reasons of its own, and not because it is behind another.
    pub(super) fn hold_with_own(&mut self, core: &mut Core, index: ReplicaIndex, held: Held) {
        if self.is_held_as_head(core) {
            self.held_as_head.insert(index, self.room_changes(core));
        }
        core.hold(index, held);
    }

    /// Whether a replica that is held for reasons of its own is told when it is behind another one again.
    pub(super) fn is_held_as_head(&self, core: &Core) -> bool {
        // A pass over each replica judges those behind a head too.
        let is_of_each = matches!(core.profile.passes.place.trigger, Trigger::EachAfter(_));
        core.profile.scheduler.discipline != Discipline::Skipping && !is_of_each
    }

    /// Emits the reasons for waiting for all replicas of one demand, because they share the reasons. This happens only
    /// if the queue skips refused replicas. Under another discipline, some of these replicas may wait only for the head
    /// of the queue.
    fn emit_reasons_of_demand(&mut self, core: &mut Core, demand: u32, held: &Held) {
        if core.profile.scheduler.discipline != Discipline::Skipping {
            return;
        }
        let waiting: Vec<ReplicaIndex> = self.queue.of_demand(demand).map(|key| key.replica()).collect();
        for index in waiting {
            core.hold(index, held.clone());
        }
    }
}
