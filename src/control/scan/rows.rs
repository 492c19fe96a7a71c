//! The rows of the store, one for each wanted replica, and which of them a scan may take.

use super::options::RowIds;
use super::{ReplicaIndex, Scanned};
use crate::RowView;
use crate::core::Core;
use crate::core::store::Wait;
use crate::scan::Row;
use crate::scan::row::Carried;
use dryrack_event::Phase;
use dryrack_units::{SimDuration, SimTime};

/// The date of the current instant on a clock with this tick.
pub fn dated(now: SimTime, tick: SimDuration) -> SimTime {
    match tick.as_nanos() {
        0 => now,
        tick => SimTime::from_nanos(now.as_nanos() / tick * tick),
    }
}

impl Scanned {
    /// The rows of a scanned flow, in order of their ids.
    pub(crate) fn row_views(&self, core: &Core) -> Vec<RowView> {
        let view = |row: &Row| {
            let replica = &core.store[row.replica];
            let carried = row.carried.as_ref().map(|carried| carried.placement.clone());
            RowView {
                id: row.id,
                attempt: replica.attempt_id(),
                phase: replica.phase,
                failed: replica.wait == Wait::BackOff,
                placement: replica.placement.clone().or(carried),
            }
        };
        self.rows.values().map(view).collect()
    }

    /// The row ids of the queue entries, in queue order.
    pub(crate) fn row_queue(&self) -> Vec<u64> {
        self.queue.iter().map(|entry| entry.row).collect()
    }

    /// Notes that a replica needs a row. The row is created when all inputs of this instant are applied.
    pub(super) fn want_row(&mut self, core: &mut Core, index: ReplicaIndex) {
        core.store[index].wait = Wait::Scan;
        if !self.wanted.contains(&index) {
            self.wanted.push(index);
        }
    }

    /// Creates rows for all wanted replicas. The rows of one job are created together. Jobs come in the order in which
    /// their first replica was wanted.
    pub(super) fn create_rows(&mut self, core: &mut Core) {
        let wanted = std::mem::take(&mut self.wanted);
        let mut jobs = Vec::new();
        for index in &wanted {
            let job = core.store[*index].job;
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        for job in jobs {
            for index in &wanted {
                let replica = &core.store[*index];
                // The replica may no longer need a row.
                if replica.job == job && replica.phase == Phase::Pending && replica.wait == Wait::Scan {
                    self.create_row(core, *index);
                }
            }
        }
    }

    fn create_row(&mut self, core: &mut Core, index: ReplicaIndex) {
        let options = self.options;
        let at = dated(core.now, options.dated_to);
        core.store[index].last_restart = None;
        let id = match options.row_ids {
            RowIds::New => self.serial + 1,
            RowIds::AboveHighest => self.rows.keys().next_back().map_or(1, |highest| highest + 1),
        };
        self.serial += 1;
        let serial = self.serial;
        self.rows.insert(id, Row { id, replica: index, serial, created: at, updated: at, version: 0, carried: None });
        self.row_of.insert(index, id);
        self.created.push(id);
        self.watch_row(core, id);
    }

    /// Notes that a replica's row has changed.
    pub(super) fn row_changed(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(id) = self.row_of.get(&index).copied() else { return };
        let tick = self.options.dated_to;
        let row = self.rows.get_mut(&id).expect("the index names it");
        (row.updated, row.version) = (dated(core.now, tick), row.version + 1);
        self.watch_row(core, id);
    }

    /// Deletes a replica's row, and frees the claims that it carries.
    pub(super) fn delete_row(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.release_carried(core, index);
        if let Some(id) = self.row_of.remove(&index) {
            self.rows.remove(&id);
            self.watched.remove(&id);
            self.changes += 1;
            self.created.retain(|created| *created != id);
        }
    }

    pub(super) fn carried(&self, index: ReplicaIndex) -> Option<&Carried> {
        self.rows[self.row_of.get(&index)?].carried.as_ref()
    }

    pub(super) fn carry(&mut self, core: &mut Core, index: ReplicaIndex, carried: Option<Carried>) {
        let id = self.row_of[&index];
        let row = self.rows.get_mut(&id).expect("the index names it");
        core.kept.carried.extend(carried.iter().map(|carried| carried.attempt));
        if let Some(before) = std::mem::replace(&mut row.carried, carried)
            && row.carried.as_ref().is_none_or(|carried| carried.attempt != before.attempt)
        {
            core.kept.carried.remove(&before.attempt);
        }
        self.watch_row(core, id);
    }

    /// Frees the claims that a row carries from an earlier attempt, and forgets them.
    pub(super) fn release_carried(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(carried) = self.carried(index).cloned() else { return };
        self.carry(core, index, None);
        if carried.claims {
            core.free_kept(carried.attempt, |_| true);
        }
    }

    /// Updates whether a scan may ever take this row. Scans skip all other rows.
    fn watch_row(&mut self, core: &Core, id: u64) {
        let row = &self.rows[&id];
        let replica = &core.store[row.replica];
        let open = match replica.phase {
            Phase::Pending => replica.wait == Wait::Scan && row.carried.is_none(),
            Phase::Analysing => row.carried.is_none(),
            Phase::Scheduled => self.options.stale_after.is_some(),
            Phase::Preparing | Phase::Running | Phase::Stopping | Phase::Ended => false,
        };
        self.changes += 1;
        match open {
            true => self.watched.insert(id),
            false => self.watched.remove(&id),
        };
    }

    /// Whether a scan takes this row now. Times are compared with the precision of the store's clock.
    pub(super) fn is_to_be_scheduled(&self, core: &Core, id: u64) -> bool {
        let options = self.options;
        let row = &self.rows[&id];
        let replica = &core.store[row.replica];
        let unchanged = core.now.since(row.updated);
        let is_stale = options.stale_after.is_some_and(|after| unchanged > after);
        match replica.phase {
            Phase::Pending if replica.wait == Wait::Scan && row.carried.is_none() => {
                let fresh = row.updated.since(row.created) < SimDuration::from_secs(1);
                fresh || options.pending_again.is_none_or(|after| unchanged > after)
            }
            Phase::Analysing => is_stale && row.carried.is_none(),
            Phase::Scheduled => is_stale,
            Phase::Pending | Phase::Preparing | Phase::Running | Phase::Stopping | Phase::Ended => false,
        }
    }
}
