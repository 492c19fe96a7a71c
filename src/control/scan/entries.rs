//! The queue of rows to compute, and the computation in progress.

use std::collections::{BTreeMap, VecDeque};

use crate::Watched;
use crate::core::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_fleet::Placement;
use dryrack_ids::AttemptId;
use dryrack_scheduler::Decision;
use dryrack_units::SimTime;

/// An entry of the queue. It holds the state of its row at the time when the entry was added.
pub struct Entry {
    pub row: u64,
    pub(super) serial: u64,
    /// The placement that the row carried when it was added. A scan changes neither this placement nor the id of the
    /// row.
    pub(super) carried: Option<Placement>,
    pub(super) last_restart: Option<SimTime>,
    pub(super) replica: ReplicaIndex,
    pub(super) attempt: AttemptId,
    pub(super) demand: u32,
}

impl Entry {
    /// Whether computations of both entries would give the same result.
    pub(super) fn is_as(&self, other: &Entry) -> bool {
        (self.serial, &self.carried, self.last_restart) == (other.serial, &other.carried, other.last_restart)
    }
}

/// The queue of entries, in order of arrival.
#[derive(Default)]
pub struct Entries {
    pub(super) queue: VecDeque<Entry>,
    /// Number of entries for each row serial. Most rows have no other entry when one is added.
    pub(super) of_row: BTreeMap<u64, u32>,
}

impl Entries {
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.queue.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.queue.iter_mut()
    }

    pub(super) fn has_one_as(&self, entry: &Entry) -> bool {
        self.of_row.contains_key(&entry.serial) && self.queue.iter().any(|other| other.is_as(entry))
    }

    pub(super) fn push_back(&mut self, entry: Entry) {
        *self.of_row.entry(entry.serial).or_default() += 1;
        self.queue.push_back(entry);
    }

    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.queue.pop_front()?;
        self.count_out(entry.serial);
        Some(entry)
    }

    pub(super) fn drop_of(&mut self, index: ReplicaIndex) {
        let gone: Vec<u64> =
            self.queue.iter().filter(|entry| entry.replica == index).map(|entry| entry.serial).collect();
        if !gone.is_empty() {
            self.queue.retain(|entry| entry.replica != index);
            gone.into_iter().for_each(|serial| self.count_out(serial));
        }
    }

    pub(super) fn count_out(&mut self, serial: u64) {
        let count = self.of_row.get_mut(&serial).expect("each entry is counted");
        *count -= 1;
        if *count == 0 {
            self.of_row.remove(&serial);
        }
    }
}

/// The computation in progress.
pub struct Computation {
    pub(super) entry: Entry,
    pub(super) read: Option<RowRead>,
    /// The decision, if the fleet is read when the computation begins. The examination for an explanation is kept with
    /// it, because the same replica may start again before the decision is written.
    pub(super) decision: Option<(Decision, Option<Box<Watched>>)>,
}

/// The columns of a row as a computation has read them.
#[derive(Clone)]
pub(super) struct RowRead {
    pub(super) serial: u64,
    pub(super) version: u64,
    pub(super) phase: Phase,
    pub(super) placement: Option<Placement>,
}
