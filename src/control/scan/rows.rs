//! The rows of the store, one for each wanted replica, and which of them a scan would take.

use super::options::{RowIds, ScanOptions};
use super::{Control, ReplicaIndex};
use crate::store::Wait;
use dryrack_event::Phase;
use dryrack_fleet::Placement;
use dryrack_ids::{NodeId, RunId};
use dryrack_policy::RetryState;
use dryrack_units::{SimDuration, SimTime};

/// One row. Its state is its replica's phase.
pub struct Row {
    pub id: u64,
    pub replica: ReplicaIndex,
    /// Unique among all rows there ever were.
    pub serial: u64,
    pub created: SimTime,
    pub updated: SimTime,
    /// Increases with every change.
    pub version: u64,
    pub carried: Option<Carried>,
}

/// What a row has of a former attempt.
#[derive(Clone)]
pub struct Carried {
    pub run: RunId,
    /// The first node of its placement.
    pub node: NodeId,
    /// What it claimed there, and still claims if `claims`.
    pub placement: Placement,
    pub claims: bool,
}

/// A row as it may be seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowView {
    pub id: u64,
    pub run: RunId,
    pub phase: Phase,
    /// It failed, and is to start again.
    pub failed: bool,
    /// Where it is, or is recorded to be.
    pub placement: Option<Placement>,
}

/// The date that a store whose clock has this tick gives to what happens now.
pub fn dated(now: SimTime, tick: SimDuration) -> SimTime {
    match tick.as_nanos() {
        0 => now,
        tick => SimTime::from_nanos(now.as_nanos() / tick * tick),
    }
}

impl Control {
    /// The rows of a scanned flow, in order of their ids.
    pub fn rows(&self) -> Vec<RowView> {
        let Some(scan) = &self.scan else { return Vec::new() };
        let view = |row: &Row| {
            let replica = &self.replicas[row.replica as usize];
            let carried = row.carried.as_ref().map(|carried| carried.placement.clone());
            RowView {
                id: row.id,
                run: replica.run(),
                phase: replica.phase,
                failed: replica.wait == Wait::BackOff,
                placement: replica.placement.clone().or(carried),
            }
        };
        scan.rows.values().map(view).collect()
    }

    /// The ids of the rows that the entries of the queue name, in the order of the queue.
    pub fn row_queue(&self) -> Vec<u64> {
        self.scan.iter().flat_map(|scan| scan.queue.iter().map(|entry| entry.row)).collect()
    }

    /// Notes that a replica is wanted and has no row. It gets one once everything about this instant is known.
    pub(crate) fn want_row(&mut self, index: ReplicaIndex) {
        self.replicas[index as usize].wait = Wait::Scan;
        let scan = self.scan.as_mut().expect("only a scanned flow has rows");
        if !scan.wanted.contains(&index) {
            scan.wanted.push(index);
        }
    }

    /// Creates rows for all wanted replicas: those of one job together, in the order in which the first of each was
    /// wanted.
    pub(super) fn create_rows(&mut self) {
        let scan = self.scan.as_mut().expect("only a scanned flow has rows");
        let wanted = std::mem::take(&mut scan.wanted);
        let mut jobs = Vec::new();
        for index in &wanted {
            let job = self.replicas[*index as usize].job;
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        for job in jobs {
            for index in &wanted {
                let replica = &self.replicas[*index as usize];
                // It may no longer be wanted.
                if replica.job == job && replica.phase == Phase::Pending && replica.wait == Wait::Scan {
                    self.create_row(*index);
                }
            }
        }
    }

    fn create_row(&mut self, index: ReplicaIndex) {
        let options = self.scan_options();
        let at = dated(self.now, options.dated_to);
        self.replicas[index as usize].last_restart = None;
        let scan = self.scan.as_mut().expect("only a scanned flow has rows");
        let id = match options.row_ids {
            RowIds::New => scan.serial + 1,
            RowIds::AboveHighest => scan.rows.keys().next_back().map_or(1, |highest| highest + 1),
        };
        scan.serial += 1;
        let serial = scan.serial;
        scan.rows.insert(id, Row { id, replica: index, serial, created: at, updated: at, version: 0, carried: None });
        scan.row_of.insert(index, id);
        scan.created.push(id);
        self.watch_row(id);
    }

    /// A row counts its failures, and is made anew without them, unless what failed had no place to stay in.
    pub(crate) fn forget_failures(&mut self, index: ReplicaIndex) {
        if self.scan.is_some() {
            self.replicas[index as usize].retry = RetryState::default();
        }
    }

    pub(super) fn scan_options(&self) -> ScanOptions {
        self.profile.scan.expect("only a scanned flow asks")
    }

    /// Notes that a replica's row has changed.
    pub(crate) fn row_changed(&mut self, index: ReplicaIndex) {
        let Some(scan) = &mut self.scan else { return };
        let Some(id) = scan.row_of.get(&index).copied() else { return };
        let tick = self.profile.scan.expect("it has state").dated_to;
        let row = scan.rows.get_mut(&id).expect("the index names it");
        (row.updated, row.version) = (dated(self.now, tick), row.version + 1);
        self.watch_row(id);
    }

    /// Deletes a replica's row, and frees what it carried.
    pub(crate) fn delete_row(&mut self, index: ReplicaIndex) {
        self.release_carried(index);
        let Some(scan) = &mut self.scan else { return };
        if let Some(id) = scan.row_of.remove(&index) {
            scan.rows.remove(&id);
            scan.watched.remove(&id);
            scan.created.retain(|created| *created != id);
        }
    }

    pub(crate) fn carried(&self, index: ReplicaIndex) -> Option<&Carried> {
        let scan = self.scan.as_ref()?;
        scan.rows[scan.row_of.get(&index)?].carried.as_ref()
    }

    pub(super) fn carry(&mut self, index: ReplicaIndex, carried: Option<Carried>) {
        let scan = self.scan.as_mut().expect("only a scanned flow has rows");
        let id = scan.row_of[&index];
        scan.rows.get_mut(&id).expect("the index names it").carried = carried;
        self.watch_row(id);
    }

    /// Frees and forgets what a row carries of a former attempt.
    pub(crate) fn release_carried(&mut self, index: ReplicaIndex) {
        let Some(carried) = self.carried(index).cloned() else { return };
        self.carry(index, None);
        if carried.claims {
            self.free_kept(carried.run, |_| true);
        }
    }

    /// Keeps track of the rows that a scan may ever take. The others need no scan.
    fn watch_row(&mut self, id: u64) {
        let scan = self.scan.as_mut().expect("only a scanned flow has rows");
        let row = &scan.rows[&id];
        let replica = &self.replicas[row.replica as usize];
        let open = match replica.phase {
            Phase::Pending => replica.wait == Wait::Scan && row.carried.is_none(),
            Phase::Analysing => row.carried.is_none(),
            Phase::Scheduled => self.profile.scan.is_some_and(|options| options.stale_after.is_some()),
            Phase::Preparing | Phase::Running | Phase::Stopping | Phase::Ended => false,
        };
        match open {
            true => scan.watched.insert(id),
            false => scan.watched.remove(&id),
        };
    }

    /// Whether a scan takes this row now. Times are told apart only to the tick of the store's clock.
    pub(super) fn is_to_be_scheduled(&self, id: u64) -> bool {
        let (options, scan) = (self.scan_options(), self.scan.as_ref().expect("a scan is going on"));
        let row = &scan.rows[&id];
        let replica = &self.replicas[row.replica as usize];
        let unchanged = self.now.since(row.updated);
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
