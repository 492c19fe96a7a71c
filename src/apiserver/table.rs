//! The objects of one kind, with the changes that watches replay.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::key::ObjectKey;
use super::resource::Resource;

/// An object at one version.
#[derive(Debug)]
pub(crate) struct Stored {
    pub value: Arc<Value>,
    /// The JSON text of `value`.
    pub text: Arc<str>,
    pub version: u64,
    /// Whether a client created it.
    pub is_created: bool,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub version: u64,
    pub old: Option<Arc<Stored>>,
    /// `None` if the object was removed.
    pub new: Option<Arc<Stored>>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table {
    pub resource: Arc<Resource>,
    pub objects: BTreeMap<ObjectKey, Arc<Stored>>,
    pub created: usize,
    changes: VecDeque<Change>,
    /// A watch cannot start from an earlier version.
    oldest: u64,
    /// The version of the last change.
    pub newest: u64,
    news: watch::Sender<u64>,
    /// The version at which each open watch started, by its number.
    open: BTreeMap<u64, u64>,
    /// Watches that have delivered all changes up to this version end, so that the client states what it has received.
    end_at: u64,
    /// The watches that have not been opened again since.
    awaited: usize,
}

impl Table {
    pub(crate) fn new(resource: Resource) -> Table {
        Table {
            resource: Arc::new(resource),
            objects: BTreeMap::new(),
            created: 0,
            changes: VecDeque::new(),
            oldest: 0,
            newest: 0,
            news: watch::Sender::new(0),
            open: BTreeMap::new(),
            end_at: 0,
            awaited: 0,
        }
    }

    /// Stores or removes an object.
    pub(crate) fn change(&mut self, key: ObjectKey, version: u64, new: Option<Stored>, kept: usize) {
        let new = new.map(Arc::new);
        self.created += usize::from(new.as_ref().is_some_and(|new| new.is_created));
        let old = match &new {
            Some(new) => self.objects.insert(key, Arc::clone(new)),
            None => self.objects.remove(&key),
        };
        self.created -= usize::from(old.as_ref().is_some_and(|old| old.is_created));
        self.changes.push_back(Change { version, old, new });
        self.newest = version;
        while self.changes.len() > kept {
            self.oldest = self.changes.pop_front().map_or(self.oldest, |change| change.version);
        }
        self.news.send_replace(version);
    }

    /// Whether a watch can start from this version.
    pub(crate) fn reaches(&self, version: u64) -> bool {
        version >= self.oldest
    }

    /// The changes after a version, at most `most`.
    pub(crate) fn after(&self, version: u64, most: usize) -> Vec<Change> {
        let first = self.changes.partition_point(|change| change.version <= version);
        self.changes.range(first..).take(most).cloned().collect()
    }

    /// The objects after a key, in their order.
    pub(crate) fn from(&self, after: Option<&ObjectKey>) -> impl Iterator<Item = (&ObjectKey, &Arc<Stored>)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.objects.range::<ObjectKey, _>((start, Bound::Unbounded))
    }

    /// Notes an open watch, and returns what wakes it.
    pub(crate) fn open(&mut self, number: u64, start: u64) -> watch::Receiver<u64> {
        self.open.insert(number, start);
        self.acknowledge(start);
        self.news.subscribe()
    }

    pub(crate) fn close(&mut self, number: u64) {
        self.open.remove(&number);
    }

    pub(crate) fn watches(&self) -> usize {
        self.open.len()
    }

    /// A client states that it has everything up to this version.
    pub(crate) fn acknowledge(&mut self, version: u64) {
        if version >= self.end_at {
            self.awaited = self.awaited.saturating_sub(1);
        }
    }

    /// Ends each watch that started before the last change, after it has delivered that change.
    pub(crate) fn ask_for_acknowledgement(&mut self) {
        if self.newest > self.end_at {
            self.end_at = self.newest;
            self.awaited = self.open.values().filter(|start| **start < self.end_at).count();
            self.news.send_replace(self.newest);
        }
    }

    pub(crate) fn is_acknowledged(&self) -> bool {
        self.awaited == 0
    }

    /// Whether a watch that started at one version and has delivered another ends.
    pub(crate) fn ends(&self, start: u64, delivered: u64) -> bool {
        start < self.end_at && delivered >= self.end_at
    }
}
