//! The queue: who is looked at next.
//!
//! Waiting entries of equal demand form a group, and only the head of a group is judged: where it does not fit, nobody
//! behind it does. A group that was refused is not judged again before the fleet has grown, because taking never makes
//! room. Both are exact for every pipeline whose verdicts depend on the demand and the fleet alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::options::{Discipline, OrderKey};
use crate::units::{SimDuration, SimTime};

/// The place of an entry in the queue. The sequence number of its submission makes it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    priority: Reverse<i32>,
    /// Of each key of the order, a number that rises with it.
    ranks: [u64; MOST_KEYS],
    submitted: u64,
    replica: u32,
    /// The line it waits in, which is no part of its place.
    line: u32,
}

/// Sort keys of one order, besides the priority.
pub const MOST_KEYS: usize = 2;

/// What an order can look at.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub priority: i32,
    pub at: SimTime,
    pub estimate: Option<SimDuration>,
    /// What it has run with effect.
    pub ran: SimDuration,
    /// The number of its user's account, where there are accounts.
    pub user: u32,
    pub tasks: u32,
    /// Counts submissions.
    pub submitted: u64,
    /// The entry's own number, and what the queue gives back.
    pub replica: u32,
    pub line: u32,
}

impl QueueKey {
    pub fn new(order: &[OrderKey], entry: Entry) -> QueueKey {
        let Entry { submitted, replica, line, .. } = entry;
        let priority = if order.contains(&OrderKey::Priority) { entry.priority } else { 0 };
        let mut ranks = [0; MOST_KEYS];
        let keys = order.iter().filter(|key| **key != OrderKey::Priority);
        for (rank, key) in ranks.iter_mut().zip(keys) {
            *rank = rank_of(*key, &entry);
        }
        QueueKey { priority: Reverse(priority), ranks, submitted, replica, line }
    }

    pub fn priority(self) -> Reverse<i32> {
        self.priority
    }

    pub fn replica(self) -> u32 {
        self.replica
    }

    pub fn line(self) -> u32 {
        self.line
    }
}

fn rank_of(key: OrderKey, entry: &Entry) -> u64 {
    let seconds = entry.at.as_nanos() as f64 / 1e9;
    let estimate = entry.estimate.map_or(f64::INFINITY, SimDuration::as_secs_f64);
    let tasks = f64::from(entry.tasks);
    // A job that waits has not started, and RLScheduler's start time is -1 then.
    let waited_as_there = -1.0 - seconds;
    match key {
        OrderKey::Priority => 0,
        OrderKey::Submitted => entry.submitted,
        // Their place is not known before they are looked at.
        OrderKey::Wfp3 | OrderKey::Unicef | OrderKey::FairShare => 0,
        OrderKey::Remaining => {
            entry.estimate.map_or(u64::MAX, |estimate| estimate.saturating_sub(entry.ran).as_nanos())
        }
        OrderKey::Estimate => entry.estimate.map_or(u64::MAX, SimDuration::as_nanos),
        OrderKey::Tasks => u64::from(entry.tasks),
        OrderKey::F1 => {
            // Neither has a logarithm where it is nothing; the program takes a tenth of a second.
            let positive = |value: f64| if value > 0.0 { value } else { 0.1 };
            let (estimate, seconds) = (positive(estimate), positive(seconds));
            ascending(libm::log10(estimate) * tasks + 870.0 * libm::log10(seconds))
        }
        OrderKey::Wfp3Rlscheduler => ascending(-libm::pow(waited_as_there / estimate, 3.0) * tasks),
        OrderKey::UnicefRlscheduler => ascending(-(waited_as_there + 1e-15) / (libm::log2(tasks + 1e-15) * estimate)),
    }
}

/// What moves two that wait past each other: less is earlier.
fn moving_rank(key: OrderKey, entry: &Entry, now: SimTime, charged: &[f64]) -> u64 {
    let waited = now.since(entry.at).as_secs_f64();
    let estimate = entry.estimate.map_or(f64::INFINITY, SimDuration::as_secs_f64);
    let tasks = f64::from(entry.tasks);
    match key {
        OrderKey::Wfp3 => ascending(-libm::pow(waited / estimate, 3.0) * tasks),
        OrderKey::Unicef => ascending(-waited / (libm::log2(tasks.max(2.0)) * estimate)),
        OrderKey::FairShare => ascending(charged.get(entry.user as usize).copied().unwrap_or(0.0)),
        OrderKey::Priority
        | OrderKey::Submitted
        | OrderKey::Estimate
        | OrderKey::Remaining
        | OrderKey::Tasks
        | OrderKey::F1
        | OrderKey::Wfp3Rlscheduler
        | OrderKey::UnicefRlscheduler => 0,
    }
}

/// The bits of a double, so that they rise with it; what is no number comes last.
fn ascending(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
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
    /// The same, line by line: kept where nobody passes the head of one.
    lines: BTreeMap<u32, BTreeSet<(QueueKey, u32)>>,
    /// Of each line, who stays its head until it fits.
    committed: BTreeMap<u32, (QueueKey, u32)>,
    /// The key by which those that wait may change places, and what it looks at.
    moving: Option<OrderKey>,
    entries: BTreeMap<u32, Entry>,
    /// Of each account, what counts against its user.
    charged: Vec<f64>,
    groups: BTreeMap<u32, Group>,
    /// Heads of the groups that may be judged.
    open: BTreeSet<(QueueKey, u32)>,
    /// Groups refused since the fleet last grew.
    refused: Vec<u32>,
}

impl WaitQueue {
    pub fn new(discipline: Discipline, order: &[OrderKey]) -> WaitQueue {
        WaitQueue {
            discipline,
            all: BTreeSet::new(),
            lines: BTreeMap::new(),
            committed: BTreeMap::new(),
            moving: order.iter().copied().find(|key| key.moves()),
            entries: BTreeMap::new(),
            charged: Vec::new(),
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

    /// The head of each line now, in order of the lines.
    pub fn heads(&self, now: SimTime) -> impl Iterator<Item = (QueueKey, u32)> + '_ {
        self.lines.keys().filter_map(move |line| self.head_of(*line, now))
    }

    fn head_of(&self, line: u32, now: SimTime) -> Option<(QueueKey, u32)> {
        if let Some(head) = self.committed.get(&line) {
            return Some(*head);
        }
        let waiting = self.lines.get(&line)?;
        match self.moving {
            None => waiting.first().copied(),
            Some(key) => {
                let rank = |entry: &&(QueueKey, u32)| {
                    (entry.0.priority, moving_rank(key, &self.entries[&entry.0.replica], now, &self.charged), entry.0)
                };
                waiting.iter().min_by_key(rank).copied()
            }
        }
    }

    /// Whether somebody is before it in its line.
    pub fn is_behind(&self, key: QueueKey, now: SimTime) -> bool {
        self.head_of(key.line, now).is_none_or(|(head, _)| head != key)
    }

    /// What counts against users from now on, by the number of the account.
    pub fn charge(&mut self, charged: Vec<f64>) {
        self.charged = charged;
    }

    /// It stays the head of its line, where the discipline is that.
    pub fn commit(&mut self, key: QueueKey, demand: u32) {
        if self.discipline == Discipline::Committed {
            self.committed.insert(key.line, (key, demand));
        }
    }

    /// Everyone of this demand, in order.
    pub fn of_demand(&self, demand: u32) -> impl Iterator<Item = QueueKey> + '_ {
        self.groups.get(&demand).into_iter().flat_map(|group| group.waiting.iter().copied())
    }

    /// `entry` is what the key was made of.
    pub fn insert_entry(&mut self, key: QueueKey, demand: u32, entry: Entry) {
        if self.moving.is_some() {
            self.entries.insert(key.replica, entry);
        }
        self.insert(key, demand);
    }

    fn insert(&mut self, key: QueueKey, demand: u32) {
        self.all.insert((key, demand));
        if self.discipline != Discipline::Skipping {
            self.lines.entry(key.line).or_default().insert((key, demand));
        }
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
        self.entries.remove(&key.replica);
        if self.committed.get(&key.line).is_some_and(|(head, _)| *head == key) {
            self.committed.remove(&key.line);
        }
        if let Some(line) = self.lines.get_mut(&key.line) {
            line.remove(&(key, demand));
            if line.is_empty() {
                self.lines.remove(&key.line);
            }
        }
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

    /// The next entry to judge now, with its demand, given how far the fleet has grown.
    pub fn next(&mut self, growth: u64, now: SimTime) -> Option<(QueueKey, u32)> {
        self.reopen(growth);
        match self.discipline {
            Discipline::Skipping => self.open.first().copied(),
            Discipline::Strict | Discipline::Committed => {
                let heads = self.lines.keys().filter_map(|line| self.head_of(*line, now));
                heads.filter(|(_, demand)| self.groups[demand].refused_at.is_none()).min()
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
