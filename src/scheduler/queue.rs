//! The wait queue: which job is judged next.
//!
//! Waiting entries with equal demands form a group. Only the head of a group is judged, because if it does not fit, no
//! other entry of the group fits. A refused group is judged again only after the fleet has gained free resources;
//! placing jobs frees no resources. Both rules are exact for every pipeline whose verdicts depend only on the demand
//! and the fleet.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

use smallvec::SmallVec;

use super::entry::Entry;
use super::options::Discipline;
use super::order::{Moment, OrderKey};
use dryrack_ids::OrderedSet;
use dryrack_planted::planted;
use dryrack_units::SimTime;

/// Sort key of an entry in the queue. It contains the number of the submission, so it is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    tier: Reverse<u32>,
    priority: Reverse<i32>,
    /// For each key of the order, a number that sorts in the same way.
    ranks: [u64; MOST_KEYS],
    submitted: u64,
    replica: u32,
    /// The line in which the entry waits. It does not affect the sort order.
    line: u32,
}

/// Maximum number of keys in one order. Priority does not count.
pub const MOST_KEYS: usize = 2;

impl QueueKey {
    /// Makes the key of an entry. If the order changes with time, the key does not say where the entry is now. Only
    /// [`WaitQueue`] knows that.
    pub fn new(order: &[OrderKey], entry: &Entry) -> QueueKey {
        let Entry { submitted, replica, line, .. } = *entry;
        let priority = if order.contains(&OrderKey::Priority) { entry.priority } else { 0 };
        let mut ranks = [0; MOST_KEYS];
        for (place, key) in ranks.iter_mut().zip(ranked(order)) {
            *place = key.fixed_rank(entry);
        }
        let is_reversed = planted!(EqualEstimatesLastFirst) && order.contains(&OrderKey::Estimate);
        let submitted = if is_reversed { u64::MAX - submitted } else { submitted };
        QueueKey { tier: Reverse(entry.tier), priority: Reverse(priority), ranks, submitted, replica, line }
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

/// The keys of an order that have a rank in [`QueueKey`].
fn ranked(order: &[OrderKey]) -> impl Iterator<Item = OrderKey> {
    order.iter().copied().filter(|key| *key != OrderKey::Priority)
}

/// Waiting entries with the same demand.
#[derive(Clone, Debug, Default)]
struct Group {
    count: u32,
    /// The entries in order. Kept only if the queue skips entries that do not fit.
    waiting: OrderedSet<QueueKey>,
    /// The lines whose head is in this group. Kept only if no entry may start before the head of its line, and if the
    /// heads do not change with time.
    leads: SmallVec<[u32; 2]>,
    /// The fleet's growth when the group was last refused.
    refused_at: Option<u64>,
}

/// The entry at the head of a line, with the number of its demand. `None` if the line is empty.
type Head = Option<(QueueKey, u32)>;

/// Entries that wait in one line. No entry may start before the head of the line.
#[derive(Clone, Debug, Default)]
struct Line {
    /// All entries except the head. If the order changes with time, all entries.
    waiting: OrderedSet<(QueueKey, u32)>,
    /// The entries by user. Kept only if places change because of the users' charged usage alone: then the entries of
    /// one user keep their order.
    by_user: BTreeMap<u32, OrderedSet<(QueueKey, u32)>>,
    /// The entry that stays the head until it fits.
    committed: Option<(QueueKey, u32)>,
    /// The head, if places change but not with time, and the number of the queue's changes for which it was found.
    moved_head: Cell<Option<(u64, Head)>>,
    /// The head, if the order does not change with time. It is stored separately because most entries come to an empty
    /// line and leave it at once.
    head: Head,
}

impl Line {
    /// The entries in order of their keys.
    fn iter(&self) -> impl Iterator<Item = (QueueKey, u32)> {
        // If the head is committed, other entries may sort before it.
        let before = self.head.into_iter().flat_map(|head| self.waiting.range(..head));
        let behind = self.waiting.range((self.head.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded));
        before.chain(self.head).chain(behind)
    }
}

/// The waiting entries, sorted by place and grouped by demand.
#[derive(Clone, Debug)]
pub struct WaitQueue {
    discipline: Discipline,
    len: usize,
    changes: u64,
    /// All entries, if the discipline has no lines.
    all: OrderedSet<(QueueKey, u32)>,
    /// The lines by number, if the discipline has lines.
    lines: Vec<Line>,
    /// Lines whose head changed or was refused since [`WaitQueue::restless_heads`] was last called.
    restless: Vec<u32>,
    /// The keys of the order that change while entries wait, each with its index among the ranks. `None` if there are
    /// none.
    moving: Option<SmallVec<[(usize, OrderKey); MOST_KEYS]>>,
    /// Whether places change because time passes.
    moves_with_time: bool,
    /// Whether places change only because of the users' charged usage.
    moves_by_user: bool,
    entries: BTreeMap<u32, Entry>,
    /// For each account, the usage that is charged to its user.
    charged: Vec<f64>,
    /// Number of pending replicas; 0 if no key of the order reads it.
    pending: u32,
    /// The groups, by the number of their demand.
    groups: Vec<Group>,
    /// The entries that may be judged: heads of groups or of lines that were not refused since the fleet last grew. Not
    /// used if the order changes with time.
    open: OrderedSet<(QueueKey, u32)>,
    /// Groups that were refused since the fleet last grew.
    refused: Vec<u32>,
    /// The fleet's growth when refused groups were last reopened. `is_stale` says whether a group was refused at
    /// another growth since then.
    reopened_at: u64,
    is_stale: bool,
}

/// A walk in order over all waiting entries, or over the heads of their lines. The caller can leave out a demand during
/// the walk without visiting each of its entries.
pub struct Walk {
    /// The remaining entries, if they were sorted before the walk. `None` if the walk takes the lowest of `next`.
    in_order: Option<std::vec::IntoIter<(QueueKey, u32)>>,
    /// The next entry of each demand that is not left out.
    next: BinaryHeap<Reverse<(QueueKey, u32)>>,
    /// The last entry that was returned.
    last: Option<(QueueKey, u32)>,
    out: BTreeSet<u32>,
}

impl Walk {
    /// Returns the next entry. The queue must not have changed since the walk began.
    pub fn next(&mut self, queue: &WaitQueue) -> Option<(QueueKey, u32)> {
        if let Some(in_order) = &mut self.in_order {
            return in_order.find(|(_, demand)| !self.out.contains(demand));
        }
        if let Some((key, demand)) = self.last.take().filter(|(_, demand)| !self.out.contains(demand)) {
            self.push_next(queue, key, demand);
        }
        self.last = self.next.pop().map(|Reverse(entry)| entry);
        self.last
    }

    /// Leaves out all further entries of this demand, until `take_in_again` is called.
    pub fn leave_out(&mut self, demand: u32) {
        self.out.insert(demand);
    }

    /// Stops leaving out demands. Their entries after the last returned entry are visited again.
    pub fn take_in_again(&mut self, queue: &WaitQueue) {
        let out = std::mem::take(&mut self.out);
        let Some((last, own)) = self.last else { return };
        out.into_iter().filter(|demand| *demand != own).for_each(|demand| self.push_next(queue, last, demand));
    }

    fn push_next(&mut self, queue: &WaitQueue, behind: QueueKey, demand: u32) {
        let waiting = &queue.groups[demand as usize].waiting;
        let next = waiting.range((Bound::Excluded(behind), Bound::Unbounded)).next();
        self.next.extend(next.map(|key| Reverse((key, demand))));
    }
}

impl WaitQueue {
    pub fn new(discipline: Discipline, order: &[OrderKey]) -> WaitQueue {
        let moving: SmallVec<_> = ranked(order).enumerate().take(MOST_KEYS).filter(|(_, key)| key.moves()).collect();
        WaitQueue {
            discipline,
            len: 0,
            changes: 0,
            all: OrderedSet::default(),
            lines: Vec::new(),
            restless: Vec::new(),
            moving: Some(moving).filter(|moving| !moving.is_empty()),
            moves_with_time: ranked(order).any(OrderKey::moves_with_time),
            moves_by_user: order.iter().all(|key| !key.moves() || *key == OrderKey::FairShare),
            entries: BTreeMap::new(),
            charged: Vec::new(),
            pending: 0,
            groups: Vec::new(),
            open: OrderedSet::default(),
            refused: Vec::new(),
            reopened_at: 0,
            is_stale: false,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether places can change while entries wait.
    pub fn moves(&self) -> bool {
        self.moving.is_some()
    }

    /// Whether places can change because time passes, so that [`WaitQueue::changes`] does not count it.
    pub fn moves_with_time(&self) -> bool {
        self.moves_with_time
    }

    /// How often the queue has changed: entries that came or left, and changes of places.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn has_lines(&self) -> bool {
        self.discipline != Discipline::Skipping
    }

    /// All waiting entries in their current order.
    pub fn iter(&self, now: SimTime) -> Box<dyn Iterator<Item = QueueKey> + '_> {
        match (self.lines.as_slice(), &self.moving) {
            ([], None) => Box::new(self.all.iter().map(|(key, _)| key)),
            ([line], None) => Box::new(line.iter().map(|(key, _)| key)),
            (lines, _) => {
                let in_lines = lines.iter().flat_map(Line::iter);
                let mut keys: Vec<QueueKey> = in_lines.chain(self.all.iter()).map(|(key, _)| key).collect();
                keys.sort_by_cached_key(|key| self.place_of(*key, now));
                Box::new(keys.into_iter())
            }
        }
    }

    /// The key of the entry's current place. If the order does not change with time, this is the entry's own key.
    pub fn place_of(&self, key: QueueKey, now: SimTime) -> QueueKey {
        let Some((moving, entry)) = self.moving.as_ref().zip(self.entries.get(&key.replica)) else { return key };
        let moment = Moment { now, pending: self.pending, charged: &self.charged };
        let mut moved = key;
        moving.iter().for_each(|(place, key)| moved.ranks[*place] = key.rank_at(entry, &moment));
        moved
    }

    /// The current head of each line, in order of the lines.
    pub fn heads(&self, now: SimTime) -> impl Iterator<Item = (QueueKey, u32)> + '_ {
        self.lines.iter().filter_map(move |line| self.head_of(line, now))
    }

    /// The current heads of those lines whose head changed or was refused since the last call. If the order changes
    /// with time, the heads of all lines.
    pub fn restless_heads(&mut self, now: SimTime) -> Vec<(QueueKey, u32)> {
        if self.moving.is_some() {
            return self.heads(now).collect();
        }
        let mut lines = std::mem::take(&mut self.restless);
        lines.sort_unstable();
        lines.dedup();
        let heads = lines.iter().filter_map(|line| self.lines[*line as usize].head).collect();
        lines.clear();
        self.restless = lines;
        heads
    }

    fn head_of(&self, line: &Line, now: SimTime) -> Head {
        if let Some(head) = line.committed {
            return Some(head);
        }
        match &self.moving {
            None => line.head,
            Some(_) if self.moves_with_time => self.foremost(line.waiting.iter(), now),
            Some(_) => {
                if let Some((changes, head)) = line.moved_head.get()
                    && changes == self.changes
                {
                    return head;
                }
                let head = match self.moves_by_user {
                    true => self.foremost(line.by_user.values().filter_map(OrderedSet::first), now),
                    false => self.foremost(line.waiting.iter(), now),
                };
                line.moved_head.set(Some((self.changes, head)));
                head
            }
        }
    }

    /// The entry with the first place. Places are computed only if there is a choice.
    fn foremost(&self, mut entries: impl Iterator<Item = (QueueKey, u32)>, now: SimTime) -> Option<(QueueKey, u32)> {
        let first = entries.next()?;
        let Some(second) = entries.next() else { return Some(first) };
        [first, second].into_iter().chain(entries).min_by_key(|(key, _)| self.place_of(*key, now))
    }

    /// Whether the entry waits behind the head of its line.
    pub fn is_behind(&self, key: QueueKey, now: SimTime) -> bool {
        let line = self.lines.get(key.line as usize);
        line.and_then(|line| self.head_of(line, now)).is_none_or(|(head, _)| head != key)
    }

    /// Sets the usage that is charged to users from now on, by account number.
    pub fn charge(&mut self, charged: Vec<f64>) {
        self.changes += u64::from(self.charged != charged);
        self.charged = charged;
    }

    /// Sets the number of pending replicas that the order reads from now on.
    pub fn count_pending(&mut self, pending: u32) {
        self.changes += u64::from(self.pending != pending);
        self.pending = pending;
    }

    /// Fixes the entry as the head of its line, if the discipline is [`Discipline::Committed`].
    pub fn commit(&mut self, key: QueueKey, demand: u32) {
        if self.discipline != Discipline::Committed {
            return;
        }
        let line = &mut self.lines[key.line as usize];
        self.changes += u64::from(line.committed != Some((key, demand)));
        line.committed = Some((key, demand));
        if self.moving.is_none() && line.head != Some((key, demand)) {
            line.waiting.remove(&(key, demand));
            line.waiting.extend(line.head);
            self.set_head(key.line, Some((key, demand)));
        }
    }

    /// All entries of this demand in order. Empty unless the queue skips entries that do not fit.
    pub fn of_demand(&self, demand: u32) -> impl Iterator<Item = QueueKey> + '_ {
        self.groups.get(demand as usize).into_iter().flat_map(|group| group.waiting.iter())
    }

    /// Begins a walk over the heads of all lines, or over all entries if there are no lines.
    pub fn walk(&self, now: SimTime) -> Walk {
        let is_plain = !self.has_lines() && self.moving.is_none();
        let first = |(demand, group): (usize, &Group)| Some(Reverse((group.waiting.first()?, demand as u32)));
        let next =
            if is_plain { self.groups.iter().enumerate().filter_map(first).collect() } else { BinaryHeap::new() };
        let in_order = (!is_plain).then(|| self.heads_or_all(now).into_iter());
        Walk { in_order, next, last: None, out: BTreeSet::new() }
    }

    /// The heads of all lines, or all entries if there are no lines, in their current order.
    fn heads_or_all(&self, now: SimTime) -> Vec<(QueueKey, u32)> {
        let mut entries: Vec<(QueueKey, u32)> = match self.has_lines() {
            true => self.heads(now).collect(),
            false => self.all.iter().collect(),
        };
        entries.sort_by_cached_key(|(key, _)| self.place_of(*key, now));
        entries
    }

    /// Adds an entry. The key must have been made from `entry`.
    pub fn insert_entry(&mut self, key: QueueKey, demand: u32, entry: Entry) {
        let user = entry.user;
        if self.moving.is_some() {
            self.entries.insert(key.replica, entry);
        }
        self.insert(key, demand);
        if self.moving.is_some() && self.moves_by_user && self.has_lines() {
            self.lines[key.line as usize].by_user.entry(user).or_default().insert((key, demand));
        }
    }

    fn insert(&mut self, key: QueueKey, demand: u32) {
        self.len += 1;
        self.changes += 1;
        if self.groups.len() <= demand as usize {
            self.groups.resize_with(demand as usize + 1, Group::default);
        }
        self.groups[demand as usize].count += 1;
        if self.has_lines() {
            let line = key.line as usize;
            if self.lines.len() <= line {
                self.lines.resize_with(line + 1, Line::default);
            }
            let (line, new) = (&mut self.lines[line], (key, demand));
            let leads = self.moving.is_none() && line.head.is_none_or(|head| new < head && line.committed.is_none());
            if !leads {
                line.waiting.insert(new);
                return;
            }
            line.waiting.extend(line.head);
            return self.set_head(key.line, Some(new));
        }
        self.all.insert((key, demand));
        let group = &mut self.groups[demand as usize];
        let old_head = group.waiting.first();
        group.waiting.insert(key);
        if group.refused_at.is_none() && old_head.is_none_or(|head| key < head) {
            old_head.map(|head| self.open.remove(&(head, demand)));
            self.open.insert((key, demand));
        }
    }

    pub fn remove(&mut self, key: QueueKey, demand: u32) {
        let group = &mut self.groups[demand as usize];
        if self.discipline == Discipline::Skipping {
            if !self.all.remove(&(key, demand)) {
                return;
            }
            let was_head = group.waiting.first() == Some(key);
            group.waiting.remove(&key);
            if was_head && group.refused_at.is_none() {
                self.open.remove(&(key, demand));
                if let Some(head) = group.waiting.first() {
                    self.open.insert((head, demand));
                }
            }
        } else {
            let line = &mut self.lines[key.line as usize];
            let is_head = line.head == Some((key, demand));
            if !is_head && !line.waiting.remove(&(key, demand)) {
                return;
            }
            line.committed = line.committed.filter(|(head, _)| *head != key);
            if let Some(of_user) = self.entries.get(&key.replica).and_then(|entry| line.by_user.get_mut(&entry.user)) {
                of_user.remove(&(key, demand));
            }
            if is_head {
                let next = line.waiting.pop_first();
                self.set_head(key.line, next);
            }
        }
        self.len -= 1;
        self.changes += 1;
        self.entries.remove(&key.replica);
        let group = &mut self.groups[demand as usize];
        group.count -= 1;
        if group.count == 0 && group.refused_at.take().is_some() {
            self.refused.retain(|other| *other != demand);
        }
    }

    /// Replaces the head of a line. The new head must not be in the set of entries behind it.
    fn set_head(&mut self, number: u32, head: Head) {
        let before = std::mem::replace(&mut self.lines[number as usize].head, head);
        if let Some((key, demand)) = before {
            let group = &mut self.groups[demand as usize];
            group.leads.retain(|line| *line != number);
            if group.refused_at.is_none() {
                self.open.remove(&(key, demand));
            }
        }
        if let Some((key, demand)) = head {
            let group = &mut self.groups[demand as usize];
            group.leads.push(number);
            if group.refused_at.is_none() {
                self.open.insert((key, demand));
            }
        }
        self.restless.push(number);
    }

    /// The next entry to judge, with its demand. `growth` is the current growth of the fleet.
    pub fn next(&mut self, growth: u64, now: SimTime) -> Option<(QueueKey, u32)> {
        self.reopen(growth);
        if self.moving.is_none() {
            return self.open.first();
        }
        let is_open = |(_, demand): &(QueueKey, u32)| self.groups[*demand as usize].refused_at.is_none();
        let heads = self.heads(now).chain(self.all.iter());
        self.foremost(heads.filter(is_open), now)
    }

    /// Records that the head of a group does not fit until the fleet grows further.
    pub fn refuse(&mut self, demand: u32, growth: u64) {
        let Some(group) = self.groups.get_mut(demand as usize).filter(|group| group.count > 0) else { return };
        if group.refused_at.is_none() {
            for line in &group.leads {
                let head = self.lines[*line as usize].head.expect("it leads the line");
                self.open.remove(&head);
            }
            if let Some(head) = group.waiting.first() {
                self.open.remove(&(head, demand));
            }
            self.refused.push(demand);
        }
        self.restless.extend(&group.leads);
        group.refused_at = Some(growth);
        self.is_stale |= growth != self.reopened_at;
    }

    /// Whether this demand was refused since the fleet last grew.
    pub fn is_refused(&self, demand: u32, growth: u64) -> bool {
        self.groups.get(demand as usize).is_some_and(|group| group.refused_at == Some(growth))
    }

    fn reopen(&mut self, growth: u64) {
        if growth == self.reopened_at && !self.is_stale {
            return;
        }
        (self.reopened_at, self.is_stale) = (growth, false);
        let mut refused = std::mem::take(&mut self.refused);
        refused.retain(|demand| {
            let group = &mut self.groups[*demand as usize];
            if group.refused_at == Some(growth) {
                return true;
            }
            group.refused_at = None;
            let led = group.leads.iter().map(|line| self.lines[*line as usize].head.expect("it leads the line"));
            self.open.extend(led);
            self.open.extend(group.waiting.first().map(|head| (head, *demand)));
            false
        });
        self.refused = refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::OwnKey;
    use dryrack_rng::Stream;
    use dryrack_units::SimDuration;

    /// Compares with all waiting entries, sorted in their current order.
    #[test]
    fn the_head_of_a_line_is_the_first_as_things_stand() {
        let by_queue = OwnKey::of_expression("by_queue", "queue.pending > 5 ? job.estimate : job.submitted");
        let by_queue = OrderKey::Own(by_queue.unwrap());
        let orders = [
            [OrderKey::FairShare, OrderKey::Submitted],
            [OrderKey::Priority, OrderKey::FairShare],
            [OrderKey::Estimate, OrderKey::FairShare],
            [OrderKey::Wfp3, OrderKey::FairShare],
            [by_queue, OrderKey::Submitted],
            [by_queue, OrderKey::FairShare],
        ];
        let mut draws = Stream::new(4, "queue test", 0);
        for order in orders {
            let mut queue = WaitQueue::new(Discipline::Strict, &order);
            let mut waiting = Vec::new();
            for number in 0..600 {
                let now = SimTime::from_secs(number);
                if waiting.is_empty() || draws.chance(550) {
                    let entry = Entry {
                        priority: draws.between(0, 1) as i32,
                        at: now,
                        estimate: Some(SimDuration::from_secs(draws.between(1, 5))),
                        ran: SimDuration::ZERO,
                        tier: 0,
                        multifactor: 0,
                        level: 0,
                        turn: 0,
                        user: draws.between(0, 3) as u32,
                        tasks: 1,
                        submitted: number,
                        replica: number as u32,
                        line: 0,
                        fields: None,
                    };
                    let key = QueueKey::new(&order, &entry);
                    queue.insert_entry(key, 0, entry);
                    waiting.push(key);
                } else {
                    let gone = waiting.swap_remove(draws.index(waiting.len()));
                    queue.remove(gone, 0);
                }
                if draws.chance(200) {
                    queue.charge((0..4).map(|_| draws.between(0, 3) as f64).collect());
                }
                if draws.chance(300) {
                    queue.count_pending(waiting.len() as u32);
                }
                let head = queue.heads(now).next().map(|(key, _)| key);
                assert_eq!(head, queue.iter(now).next(), "{order:?} after {number} steps");
            }
        }
    }
}
