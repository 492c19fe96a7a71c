//! The table of time slots as bit sets, with one bit for each node. It holds the same content as the table of
//! [`super::plain`]. The flat layout keeps the memory of many slots compact.

use super::bits::{common, insert, nodes_of, word_count};
use super::plain;
use dryrack_ids::NodeId;
use dryrack_scheduler::{Outlook, SlotOptions};
use dryrack_units::{SimDuration, SimTime};

/// The result of a search in the table from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotSearch {
    /// No job can begin before this time, at which other nodes are free.
    TooEarly(SimTime),
    /// The set of free nodes is complete. The time is the next one to try if these nodes are not enough.
    Free(Option<SimTime>),
}

/// The table: slots in order, without gaps.
pub struct Table {
    pub now: SimTime,
    pub options: SlotOptions,
    words: usize,
    all: Vec<u64>,
    /// Beginning and end of each slot.
    slots: Vec<(SimTime, SimTime)>,
    /// The free nodes of each slot, `words` words each.
    free: Vec<u64>,
}

impl Table {
    pub fn new(now: SimTime, options: SlotOptions, nodes: usize) -> Table {
        let words = word_count(nodes);
        let mut all = vec![0; words];
        (0..nodes).for_each(|node| insert(&mut all, NodeId::new(node)));
        let free = all.clone();
        Table { now, options, words, all, slots: vec![(now, now.saturating_add(options.window))], free }
    }

    /// Converts this table for the plain computation. Some replicas can only be planned there.
    pub fn plainly(&self) -> plain::Table {
        let nodes = self.all.iter().map(|word| word.count_ones() as usize).sum();
        let slots = self.slots.iter().enumerate().map(|(place, slot)| (*slot, nodes_of(self.free_in(place))));
        plain::Table::of(self.now, self.options, nodes, slots)
    }

    pub fn words(&self) -> usize {
        self.words
    }

    fn free_in(&self, place: usize) -> &[u64] {
        &self.free[place * self.words..(place + 1) * self.words]
    }

    /// Finds the nodes of `usable` that are free from this time on for the whole length, and the next time to try if
    /// these nodes are not enough. `usable` is `None` if all nodes are. `ready_by` gives the nodes that have had room by
    /// that next time. The search stops as soon as fewer than `least` of the free nodes are among them.
    pub fn search<'s>(
        &self,
        (from, length): (SimTime, SimDuration),
        usable: Option<&[u64]>,
        free: &mut [u64],
        least: u32,
        ready_by: impl Fn(SimTime) -> &'s [u64],
    ) -> SlotSearch {
        let until = from.max(self.now).saturating_add(length);
        let usable = usable.unwrap_or(&self.all);
        free.copy_from_slice(usable);
        let mut later: Option<(SimTime, &[u64])> = None;
        let first = self.slots.partition_point(|(_, until)| *until <= from);
        for place in first..self.slots.len() {
            let here = self.free_in(place);
            if later.is_none() && place + 1 < self.slots.len() {
                let next = self.free_in(place + 1);
                let has_others =
                    (0..self.words).any(|word| next[word] & usable[word] & !(free[word] & here[word]) != 0);
                later = has_others.then(|| (self.slots[place].1, ready_by(self.slots[place].1)));
            }
            if self.slots[place].0 > until {
                if later.is_none() && self.options.outlook == Outlook::FromStart {
                    continue;
                }
                break;
            }
            free.iter_mut().zip(here).for_each(|(free, here)| *free &= here);
            if let Some((later, ready)) = later
                && common(free, ready, least) < least
            {
                return SlotSearch::TooEarly(later);
            }
        }
        SlotSearch::Free(later.map(|(later, _)| later))
    }

    /// The start of the first slot with which too few of these nodes are free from now on. `MAX` if there is no such
    /// slot. A job that lasts until then or longer does not begin now.
    pub fn free_until(&self, nodes: &[u64], are_enough: impl Fn(&[u64]) -> bool) -> SimTime {
        let mut free = nodes.to_vec();
        let first = self.slots.partition_point(|(_, until)| *until <= self.now);
        for place in first..self.slots.len() {
            let here = self.free_in(place);
            if free.iter().zip(here).all(|(free, here)| free & !here == 0) {
                continue;
            }
            free.iter_mut().zip(here).for_each(|(free, here)| *free &= here);
            if !are_enough(&free) {
                return self.slots[place].0;
            }
        }
        SimTime::MAX
    }

    pub fn is_taken(&self, from: SimTime, length: SimDuration, nodes: &[u64]) -> bool {
        let (from, until) = self.options.span(from, length);
        let first = self.slots.partition_point(|(_, end)| *end <= from);
        let mut within = (first..self.slots.len()).take_while(|place| self.slots[*place].0 < until);
        within.any(|place| nodes.iter().zip(self.free_in(place)).any(|(node, free)| node & !free != 0))
    }

    pub fn reserve(&mut self, from: SimTime, length: SimDuration, nodes: &[u64]) {
        let (from, until) = self.options.span(from, length);
        let from = from.max(self.now);
        let until = until.max(from.saturating_add(self.options.resolution));
        let before = self.cut(from);
        self.cut(until);
        let first = self.slots.partition_point(|(start, _)| *start < from);
        for place in first..self.slots.len() {
            let (start, end) = self.slots[place];
            if end > until {
                break;
            }
            if start < end {
                let free = &mut self.free[place * self.words..(place + 1) * self.words];
                free.iter_mut().zip(nodes).for_each(|(free, taken)| *free &= !taken);
            }
        }
        self.merge(before.saturating_sub(1), until);
    }

    /// Splits a slot so that one slot ends at this time. Returns the place of that slot.
    fn cut(&mut self, at: SimTime) -> usize {
        let past = self.slots.len() - 1;
        let place = self.slots.partition_point(|(_, until)| *until < at).min(past);
        let (_, until) = self.slots[place];
        if until > at {
            self.slots[place].1 = at;
            self.slots.insert(place + 1, (at, until));
            let (from, to) = (place * self.words, (place + 1) * self.words);
            let old = self.free.len();
            self.free.resize(old + self.words, 0);
            self.free.copy_within(from..old, to);
        }
        place
    }

    /// Merges the first two neighbours with equal free nodes, among the slots from `from` to the first slot that begins
    /// at `until`. Only one pair is merged, so the table depends on the order of the reservations. This matters because
    /// a job is planned again at the end of a slot.
    fn merge(&mut self, from: usize, until: SimTime) {
        for place in from..self.slots.len() - 1 {
            if place > from && self.slots[place].0 >= until {
                return;
            }
            if self.free_in(place) == self.free_in(place + 1) {
                self.slots[place].1 = self.slots[place + 1].1;
                self.slots.remove(place + 1);
                self.free.drain((place + 1) * self.words..(place + 2) * self.words);
                return;
            }
        }
    }
}
