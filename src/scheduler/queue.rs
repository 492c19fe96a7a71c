//! The queue: who is looked at next.
//!
//! Waiting entries of equal demand form a group, and only the head of a group is judged: where it does not fit, nobody
//! behind it does. A group that was refused is not judged again before the fleet has grown, because taking never makes
//! room. Both are exact for every pipeline whose verdicts depend on the demand and the fleet alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::options::{Discipline, OrderKey};

/// The place of an entry in the queue. The sequence number of its submission makes it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    priority: Reverse<i32>,
    submitted: u64,
    replica: u32,
}

impl QueueKey {
    /// `submitted` counts submissions; `replica` is the entry's own number, and what the queue gives back.
    pub fn new(order: &[OrderKey], priority: i32, submitted: u64, replica: u32) -> QueueKey {
        let priority = if order.contains(&OrderKey::Priority) { priority } else { 0 };
        QueueKey { priority: Reverse(priority), submitted, replica }
    }

    pub fn priority(self) -> Reverse<i32> {
        self.priority
    }

    pub fn replica(self) -> u32 {
        self.replica
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    waiting: BTreeSet<QueueKey>,
    /// The fleet's growth when its head was last refused.
    refused_at: Option<u64>,
}

/// Entries that wait, by place and by demand.
#[derive(Clone, Debug)]
pub struct WaitQueue {
    discipline: Discipline,
    all: BTreeSet<(QueueKey, u32)>,
    groups: BTreeMap<u32, Group>,
    /// Heads of the groups that may be judged.
    open: BTreeSet<(QueueKey, u32)>,
    /// Groups refused since the fleet last grew.
    refused: Vec<u32>,
}

impl WaitQueue {
    pub fn new(discipline: Discipline) -> WaitQueue {
        WaitQueue {
            discipline,
            all: BTreeSet::new(),
            groups: BTreeMap::new(),
            open: BTreeSet::new(),
            refused: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Everyone who waits, in order.
    pub fn iter(&self) -> impl Iterator<Item = QueueKey> + '_ {
        self.all.iter().map(|(key, _)| *key)
    }

    pub fn head(&self) -> Option<QueueKey> {
        self.all.first().map(|(key, _)| *key)
    }

    /// Everyone of this demand, in order.
    pub fn of_demand(&self, demand: u32) -> impl Iterator<Item = QueueKey> + '_ {
        self.groups.get(&demand).into_iter().flat_map(|group| group.waiting.iter().copied())
    }

    pub fn insert(&mut self, key: QueueKey, demand: u32) {
        self.all.insert((key, demand));
        let group = self.groups.entry(demand).or_default();
        let old_head = group.waiting.first().copied();
        group.waiting.insert(key);
        if group.refused_at.is_none() && old_head.is_none_or(|head| key < head) {
            old_head.map(|head| self.open.remove(&(head, demand)));
            self.open.insert((key, demand));
        }
    }

    pub fn remove(&mut self, key: QueueKey, demand: u32) {
        self.all.remove(&(key, demand));
        let Some(group) = self.groups.get_mut(&demand) else { return };
        let was_head = group.waiting.first() == Some(&key);
        group.waiting.remove(&key);
        if was_head && group.refused_at.is_none() {
            self.open.remove(&(key, demand));
            if let Some(head) = group.waiting.first() {
                self.open.insert((*head, demand));
            }
        }
        if group.waiting.is_empty() {
            if group.refused_at.is_some() {
                self.refused.retain(|other| *other != demand);
            }
            self.groups.remove(&demand);
        }
    }

    /// The next entry to judge, with its demand, given how far the fleet has grown.
    pub fn next(&mut self, growth: u64) -> Option<(QueueKey, u32)> {
        self.reopen(growth);
        match self.discipline {
            Discipline::Skipping => self.open.first().copied(),
            Discipline::Strict => {
                let head = self.all.first().copied()?;
                (self.groups[&head.1].refused_at.is_none()).then_some(head)
            }
        }
    }

    /// The group's head does not fit while the fleet has grown no further than this.
    pub fn refuse(&mut self, demand: u32, growth: u64) {
        let Some(group) = self.groups.get_mut(&demand) else { return };
        if group.refused_at.is_none() {
            if let Some(head) = group.waiting.first() {
                self.open.remove(&(*head, demand));
            }
            self.refused.push(demand);
        }
        group.refused_at = Some(growth);
    }

    /// Whether this demand was refused since the fleet last grew.
    pub fn is_refused(&self, demand: u32, growth: u64) -> bool {
        self.groups.get(&demand).is_some_and(|group| group.refused_at == Some(growth))
    }

    fn reopen(&mut self, growth: u64) {
        let mut still_refused = Vec::new();
        for demand in std::mem::take(&mut self.refused) {
            let group = self.groups.get_mut(&demand).expect("a refused group has members");
            if group.refused_at == Some(growth) {
                still_refused.push(demand);
                continue;
            }
            group.refused_at = None;
            let head = group.waiting.first().expect("a group has members");
            self.open.insert((*head, demand));
        }
        self.refused = still_refused;
    }
}
