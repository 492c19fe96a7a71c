//! The queue of entries and its only consumer, which computes an entry and writes the result.

use std::sync::Arc;

use super::options::{DeadEntries, OwnClaim, Reads, Unplaced, Writes};
use super::row::Carried;
use super::{ReplicaIndex, Scanned};
use crate::Watched;
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::Wait;
use crate::scan::Computation;
use crate::scan::entries::{Entry, RowRead};
use dryrack_event::{Command, Event, Histogram, Lifecycle, Outcome, Phase, Reason, Refusal};
use dryrack_ids::AttemptId;
use dryrack_scheduler::{Candidate, Decision, GangPart};

impl Scanned {
    /// Adds an entry for a row, unless the queue already holds an equal entry.
    pub(super) fn enqueue(&mut self, core: &mut Core, id: u64) {
        let row = &self.rows[&id];
        let replica = &core.store[row.replica];
        let entry = Entry {
            row: id,
            serial: row.serial,
            carried: row.carried.as_ref().map(|carried| carried.placement.clone()),
            last_restart: replica.last_restart,
            replica: row.replica,
            attempt: replica.attempt_id(),
            demand: replica.demand,
        };
        let is_computed = self.options.writes == Writes::Checked
            && self.computing.as_ref().is_some_and(|computing| computing.entry.is_as(&entry));
        if !self.queue.has_one_as(&entry) && !is_computed {
            self.queue.push_back(entry);
        }
    }

    /// Drops the entries of a replica that is no longer wanted.
    pub(super) fn drop_entries(&mut self, core: &mut Core, index: ReplicaIndex) {
        if self.options.dead_entries != DeadEntries::Removed {
            return;
        }
        self.queue.drop_of(index);
        if let Some(computing) = self.computing.take_if(|computing| computing.entry.replica == index) {
            core.timers.computation_is_over();
            core.command(Command::AbandonAnalysis { attempt: computing.entry.attempt });
        }
    }

    /// The attempt whose entry is being computed, and the attempts whose entries come before that of a replica. `None`
    /// if the replica has no entry.
    pub(super) fn entries_before(&self, index: ReplicaIndex) -> Option<(Vec<AttemptId>, Vec<AttemptId>)> {
        let place = self.queue.iter().position(|entry| entry.replica == index)?;
        let now = self.computing.iter().map(|computing| computing.entry.attempt).collect();
        Some((now, self.queue.iter().take(place).map(|entry| entry.attempt).collect()))
    }

    /// Takes entries until one of them takes time to compute, or the queue is empty.
    pub(super) fn take_next(&mut self, core: &mut Core) {
        while self.computing.is_none() {
            let Some(entry) = self.queue.pop_front() else { return };
            let read = self.read_row(core, &entry);
            if read.is_none() && self.options.dead_entries != DeadEntries::Computed {
                continue;
            }
            let attempt = entry.attempt;
            let takes_time = core.store[attempt.job].spec.analyse;
            let early = self.options.reads == Reads::Early || !takes_time;
            let decision = early.then(|| self.decide_for(core, &entry, read.as_ref()));
            let computation = Computation { entry, read, decision };
            if takes_time {
                core.emit(Event::AnalysisStarted { attempt });
                core.command(Command::Analyse { attempt });
                self.computing = Some(computation);
                self.computations += 1;
                let expires = core.now.saturating_add(core.profile.deadlines.analysing);
                core.timers.await_computation(expires, self.computations);
            } else {
                self.write(core, computation, false);
            }
        }
    }

    /// Reads the row that an entry names, if it exists. If dead entries are computed, the row must belong to the same
    /// job.
    fn read_row(&self, core: &Core, entry: &Entry) -> Option<RowRead> {
        let row = self.rows.get(&entry.row)?;
        let replica = &core.store[row.replica];
        if self.options.dead_entries == DeadEntries::Computed && replica.job != entry.attempt.job {
            return None;
        }
        Some(self.row_as_it_is(core, entry.row))
    }

    fn row_as_it_is(&self, core: &Core, id: u64) -> RowRead {
        let row = &self.rows[&id];
        let replica = &core.store[row.replica];
        let placement = replica.placement.clone().or(row.carried.as_ref().map(|carried| carried.placement.clone()));
        RowRead { serial: row.serial, version: row.version, phase: replica.phase, placement }
    }

    /// Applies the world's answer to a computation.
    pub(super) fn computed(&mut self, core: &mut Core, attempt: AttemptId, fact: Lifecycle) {
        let Some(mut computation) = self.computing.take_if(|computing| computing.entry.attempt == attempt) else {
            return;
        };
        core.timers.computation_is_over();
        if computation.decision.is_none() {
            computation.decision = Some(self.decide_for(core, &computation.entry, computation.read.as_ref()));
        }
        self.write(core, computation, fact == Lifecycle::AnalysisFailed);
    }

    /// Handles a computation that the world has not answered in time. It counts as failed, so no placement is found.
    pub(super) fn computation_expired(&mut self, core: &mut Core) {
        let attempt = self.computing.as_ref().expect("only one under way has a deadline").entry.attempt;
        core.command(Command::AbandonAnalysis { attempt });
        self.computed(core, attempt, Lifecycle::AnalysisFailed);
    }

    fn decide_for(
        &mut self,
        core: &mut Core,
        entry: &Entry,
        read: Option<&RowRead>,
    ) -> (Decision, Option<Box<Watched>>) {
        let carried = read.and_then(|_| self.carried_by(entry.row)).filter(|carried| carried.claims);
        let own = carried.filter(|_| self.options.own_claim == OwnClaim::Free);
        let own = own.and_then(|carried| Some((carried.attempt, core.kept.claims.get(&carried.attempt).cloned()?)));
        let demand = Arc::clone(core.store.demand(entry.demand));
        if let Some((attempt, placement)) = &own {
            placement.claims().iter().for_each(|claim| core.fleet.release_of(*attempt, claim));
        }
        core.examine_part_if_watched(entry.replica, &demand, GangPart::Whole);
        let watched = core.last_examination(entry.replica);
        let decision = core.decide_of(entry.demand, entry.attempt, 1);
        if let Some((attempt, placement)) = &own {
            core.hold_placement(*attempt, demand.model().map(|model| &**model), placement);
        }
        if matches!(decision, Decision::Refuse { .. }) {
            core.store.demands[entry.demand as usize].refused_at = Some(core.growth());
            self.changes += 1;
        }
        (decision, watched)
    }

    fn carried_by(&self, row: u64) -> Option<Carried> {
        self.rows.get(&row)?.carried.clone()
    }

    /// Writes the result of a computation into the row that now has the entry's id.
    fn write(&mut self, core: &mut Core, computation: Computation, failed: bool) {
        let Computation { entry, read, decision } = computation;
        let (decision, watched) = decision.expect("decided before it is written");
        let Some(row) = self.rows.get(&entry.row) else { return };
        let index = row.replica;
        let read = read.unwrap_or_else(|| self.row_as_it_is(core, entry.row));
        let is_checked = self.options.writes == Writes::Checked;
        if is_checked && ((row.serial, row.version) != (read.serial, read.version) || read.phase != Phase::Analysing) {
            let attempt = core.store[index].attempt_id();
            core.emit(Event::CommitRefused { attempt, because: Reason::StaleRead, fallback: false });
            return;
        }
        match decision {
            // A row that now has a place, or that belongs to another replica, is not changed.
            _ if failed && index == entry.replica && core.store[index].phase == Phase::Analysing => {
                self.end(core, index, Outcome::Failed, Reason::AnalysisFailed);
            }
            _ if failed => {}
            Decision::Place(mut candidates) => {
                let candidate = candidates.swap_remove(0);
                let demand = core.store.demand(entry.demand);
                if is_checked && !core.still_fits(index, demand, &core.fleet, &candidate.placement) {
                    let attempt = core.store[index].attempt_id();
                    core.emit(Event::CommitRefused { attempt, because: Reason::StaleRead, fallback: false });
                    let reasons = Histogram::of(Reason::StaleRead, core.fleet.len() as u32);
                    self.write_refusal(core, index, &read, (Refusal::Unfit, reasons));
                    return;
                }
                if !core.is_within_quota(index, core.holding(&candidate.placement)) {
                    let reasons = Histogram::of(Reason::QuotaExceeded, core.fleet.len() as u32);
                    self.write_refusal(core, index, &read, (Refusal::Unfit, reasons));
                    return;
                }
                core.keep_examination_of(index, watched);
                self.write_placement(core, index, &read, candidate);
            }
            Decision::Refuse { refusal, reasons } => self.write_refusal(core, index, &read, (refusal, reasons)),
        }
    }

    /// Writes a placement. A column is not written if its new value equals the value that was read. So a row that was
    /// read as scheduled keeps the state that it has reached since.
    pub(super) fn write_placement(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        read: &RowRead,
        candidate: Candidate,
    ) {
        let replica = &core.store[index];
        let (phase, failed) = (replica.phase, replica.wait == Wait::BackOff);
        let state = if read.phase == Phase::Scheduled { phase } else { Phase::Scheduled };
        let same_place = read.placement.as_ref() == Some(&candidate.placement) && phase.holds_claim();
        if same_place && state == phase {
            return;
        }
        if phase.holds_claim() {
            self.begin_again_in_row(core, index, Reason::WrittenOver, false);
        }
        self.release_carried(core, index);
        if failed {
            begin_pending(core, index);
        }
        self.place(core, index, candidate);
        if matches!(state, Phase::Preparing | Phase::Running) {
            self.enter(core, index, Phase::Preparing, None);
        }
        if state == Phase::Running {
            self.enter(core, index, Phase::Running, None);
        }
        self.row_changed(core, index);
    }

    pub(super) fn write_refusal(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        read: &RowRead,
        held: (Refusal, Histogram),
    ) {
        let replica = &core.store[index];
        let phase = replica.phase;
        if !matches!(read.phase, Phase::Scheduled | Phase::Analysing) {
            return;
        }
        let unplaced = self.options.unplaced;
        if phase.holds_claim() {
            self.begin_again_in_row(core, index, Reason::WrittenOver, true);
        } else if phase == Phase::Analysing {
            self.enter(core, index, Phase::Pending, None);
        } else if core.store[index].wait == Wait::BackOff {
            begin_pending(core, index);
        }
        core.store[index].wait = Wait::Scan;
        match (self.carried(index).cloned(), unplaced) {
            (None, _) | (_, Unplaced::KeepsNodeAndClaim) => {}
            (Some(_), Unplaced::Released) => self.release_carried(core, index),
            (Some(carried), Unplaced::KeepsNode) => {
                self.release_carried(core, index);
                self.carry(core, index, Some(Carried { claims: false, ..carried }));
            }
        }
        core.hold(index, held);
        self.row_changed(core, index);
    }
}

/// Ends the pause of a replica between two attempts.
fn begin_pending(core: &mut Core, index: ReplicaIndex) {
    let replica = &mut core.store[index];
    (replica.wait, replica.held) = (Wait::Scan, None);
    // The new version makes the timer of the pause void.
    replica.version += 1;
}
