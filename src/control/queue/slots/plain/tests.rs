//! The table of bit sets is compared with the plain one, and both with tables that were drawn by hand.

use super::super::bits::{common, contains, insert, nodes_of, word_count};
use super::super::table::{self, SlotSearch};
use super::*;
use dryrack_rng::Stream;
use dryrack_scheduler::Rounding;

const fn at(seconds: u64) -> SimTime {
    SimTime::from_nanos(seconds * 1_000_000_000)
}

const fn seconds(seconds: u64) -> SimDuration {
    SimDuration::from_secs(seconds)
}

fn options(rounding: Rounding, outlook: Outlook) -> SlotOptions {
    SlotOptions { resolution: seconds(60), window: seconds(3600), rounding, outlook, ..SlotOptions::default() }
}

fn ids(nodes: &[usize]) -> Vec<NodeId> {
    nodes.iter().copied().map(NodeId::new).collect()
}

fn bits(nodes: &[NodeId], of: usize) -> Vec<u64> {
    let mut set = vec![0; word_count(of)];
    nodes.iter().for_each(|node| insert(&mut set, *node));
    set
}

/// The slots: beginning, end and free nodes.
fn slots(table: &Table) -> Vec<(u64, u64, Vec<usize>)> {
    let time = |at: SimTime| at.as_nanos() / 1_000_000_000;
    let free = |slot: &Slot| slot.free.nodes().iter().map(|node| node.index()).collect();
    table.slots.iter().map(|slot| (time(slot.from), time(slot.until), free(slot))).collect()
}

/// Both tables, with the same reservations.
struct Both {
    plain: Table,
    flat: table::Table,
    nodes: usize,
}

impl Both {
    fn new(now: SimTime, options: SlotOptions, nodes: usize) -> Both {
        Both { plain: Table::new(now, options, nodes), flat: table::Table::new(now, options, nodes), nodes }
    }

    fn reserve(&mut self, from: u64, length: u64, nodes: &[usize]) {
        self.plain.reserve(at(from), seconds(length), &ids(nodes));
        self.flat.reserve(at(from), seconds(length), &bits(&ids(nodes), self.nodes));
        assert_eq!(slots(&self.flat.plainly()), slots(&self.plain));
    }

    /// The free nodes among these, and the next time to try.
    fn free_for(&self, from: u64, length: u64, usable: &[usize]) -> (Vec<usize>, Option<SimTime>) {
        let (free, later) =
            self.plain.free_for(at(from), seconds(length), &Nodes::of(ids(usable).into_iter(), self.nodes));
        let mut found = vec![0; word_count(self.nodes)];
        let all = bits(&ids(&(0..self.nodes).collect::<Vec<_>>()), self.nodes);
        let usable = bits(&ids(usable), self.nodes);
        let usable = (usable != all).then_some(&*usable);
        let search = self.flat.search((at(from), seconds(length)), usable, &mut found, 0, |_| &all);
        assert_eq!(search, SlotSearch::Free(later));
        assert_eq!(nodes_of(&found).collect::<Vec<_>>(), free.nodes());
        (free.nodes().iter().map(|node| node.index()).collect(), later)
    }

    fn is_taken(&self, from: u64, length: u64, nodes: &[usize]) -> bool {
        let plain = self.plain.is_taken(at(from), seconds(length), &Nodes::of(ids(nodes).into_iter(), self.nodes));
        assert_eq!(self.flat.is_taken(at(from), seconds(length), &bits(&ids(nodes), self.nodes)), plain);
        plain
    }

    fn free_until(&self, nodes: &[usize], least: u32) -> SimTime {
        let nodes = bits(&ids(nodes), self.nodes);
        self.flat.free_until(&nodes, |free| common(free, free, least) >= least)
    }
}

#[test]
fn a_reservation_takes_whole_slots_of_its_nodes() {
    let mut both = Both::new(at(30), options(Rounding::Down, Outlook::FromNow), 3);
    // From 90 s for 200 s, rounded down to 60 s and 240 s.
    both.reserve(90, 200, &[1]);
    assert_eq!(slots(&both.plain), [(30, 60, vec![0, 1, 2]), (60, 240, vec![0, 2]), (240, 3630, vec![0, 1, 2])]);
    // Not before now, and not shorter than a slot. A slot without length is left before it.
    both.reserve(31, 5, &[0]);
    assert_eq!(
        slots(&both.plain)[1..],
        [(30, 60, vec![1, 2]), (60, 90, vec![2]), (90, 240, vec![0, 2]), (240, 3630, vec![0, 1, 2])]
    );
    // The first two neighbours with equal nodes are merged.
    both.reserve(60, 60, &[1]);
    both.reserve(90, 150, &[0]);
    assert_eq!(slots(&both.plain)[2], (60, 240, vec![2]));
    let mut outwards = Both::new(at(30), options(Rounding::Outwards, Outlook::FromNow), 3);
    outwards.reserve(90, 200, &[1]);
    assert_eq!(slots(&outwards.plain)[1], (60, 300, vec![0, 2]));
}

/// The bits of 130 nodes are in three words.
#[test]
fn a_slot_that_is_split_keeps_the_free_nodes_of_all_words() {
    let mut both = Both::new(at(0), options(Rounding::Down, Outlook::FromNow), 130);
    both.reserve(0, 600, &[0, 64, 128]);
    both.reserve(300, 600, &[63, 127, 129]);
    both.reserve(120, 60, &[1, 65]);
    both.reserve(1200, 60, &[2, 66, 126]);
    assert_eq!(both.free_for(120, 60, &[0, 1, 63, 64, 65, 127, 128, 129]).0, [63, 127, 129]);
    assert_eq!(both.free_for(1200, 60, &[0, 2, 66, 126, 129]).0, [0, 129]);
}

#[test]
fn a_job_gets_nodes_that_are_free_for_its_whole_length() {
    let mut both = Both::new(at(0), options(Rounding::Down, Outlook::FromNow), 3);
    both.reserve(60, 60, &[1]);
    both.reserve(180, 60, &[1, 2]);
    // Slots: 0 to 60, 60 to 120 without 1, 120 to 180, 180 to 240 without 1 and 2, and the rest.
    // From 120 s on, node 1 is free again.
    assert_eq!(both.free_for(0, 59, &[0, 1, 2]), (vec![0, 1, 2], Some(at(120))));
    assert_eq!(both.free_for(0, 60, &[0, 1, 2]), (vec![0, 2], Some(at(120))));
    assert_eq!(both.free_for(0, 60, &[0, 2]), (vec![0, 2], None));
    assert_eq!(both.free_for(60, 30, &[0, 1, 2]), (vec![0, 2], Some(at(120))));
    assert_eq!(both.free_for(120, 30, &[0, 1, 2]), (vec![0, 1, 2], Some(at(240))));
    assert_eq!(both.free_for(120, 60, &[0, 1, 2]), (vec![0], Some(at(240))));
    assert_eq!(both.free_for(240, 9000, &[0, 1, 2]), (vec![0, 1, 2], None));
    // With this outlook, a later time is looked for after the end of the job too.
    let mut later = Both::new(at(0), options(Rounding::Down, Outlook::FromStart), 3);
    later.reserve(60, 60, &[1]);
    later.reserve(180, 60, &[1, 2]);
    assert_eq!(later.free_for(0, 60, &[0, 2]), (vec![0, 2], Some(at(240))));
    assert!(both.is_taken(60, 60, &[0, 1]) && both.is_taken(119, 61, &[1]) && !both.is_taken(60, 60, &[0, 2]));
    assert!(!both.is_taken(120, 60, &[1]) && both.is_taken(120, 120, &[2]) && !both.is_taken(240, 60, &[1, 2]));
    // Three nodes are free until 60 s, two of them until 180 s, and one always.
    assert_eq!([3, 2, 1].map(|least| both.free_until(&[0, 1, 2], least)), [at(60), at(180), SimTime::MAX]);
}

#[test]
fn a_search_ends_once_too_few_nodes_are_left_that_had_room() {
    let mut both = Both::new(at(0), options(Rounding::Down, Outlook::FromNow), 3);
    both.reserve(0, 60, &[0]);
    let all = bits(&ids(&[0, 1, 2]), 3);
    let search = |least, ready: &[usize]| {
        let ready = bits(&ids(ready), 3);
        both.flat.search((at(0), seconds(30)), None, &mut [0], least, |_| &ready)
    };
    assert_eq!(search(2, &[0, 1, 2]), SlotSearch::Free(Some(at(60))));
    assert_eq!(search(3, &[0, 1, 2]), SlotSearch::TooEarly(at(60)));
    assert_eq!(search(2, &[0, 1]), SlotSearch::TooEarly(at(60)));
    assert_eq!(common(&all, &all, 9), 3);
}

#[test]
fn sets_of_nodes_have_a_bit_for_each_node() {
    assert_eq!([0, 1, 64, 65, 128, 129].map(word_count), [0, 1, 1, 2, 2, 3]);
    let nodes = ids(&[0, 3, 63, 64, 127, 128]);
    let set = bits(&nodes, 129);
    assert_eq!(set, [1 | 1 << 3 | 1 << 63, 1 | 1 << 63, 1]);
    assert_eq!(nodes_of(&set).collect::<Vec<_>>(), nodes);
    assert_eq!((0..129).filter(|node| contains(&set, NodeId::new(*node))).count(), 6);
    assert_eq!(common(&set, &[1 << 3, 1, 3], 9), 3);
    assert_eq!(common(&set, &[1 << 3, 1, 3], 1), 1);
}

#[test]
fn both_tables_say_the_same() {
    for seed in 0..8 {
        let mut draws = Stream::new(seed, "slots test", 0);
        let rounding = *draws.pick(&[Rounding::Down, Rounding::Outwards]);
        let outlook = *draws.pick(&[Outlook::FromNow, Outlook::FromStart]);
        let nodes = *draws.pick(&[3, 64, 70]);
        let mut both = Both::new(at(1_000_030), options(rounding, outlook), nodes);
        let some = |draws: &mut Stream| -> Vec<usize> { (0..nodes).filter(|_| draws.chance(600)).collect() };
        for _ in 0..40 {
            let time = |draws: &mut Stream| (1_000_000 + draws.between(30, 4_000), draws.between(1, 1_500));
            let ((from, length), taken) = (time(&mut draws), some(&mut draws));
            both.reserve(from, length, &taken);
            let ((from, length), usable) = (time(&mut draws), some(&mut draws));
            both.free_for(from, length, &usable);
            both.is_taken(from, length, &usable);
            let least = draws.between(0, usable.len() as u64) as u32;
            let mut free = Nodes::of(ids(&usable).into_iter(), nodes);
            let ends = |slot: &&Slot| {
                free = free.and(&slot.free);
                (free.nodes().len() as u32) < least
            };
            let first = both.plain.slots.iter().find(ends).map_or(SimTime::MAX, |slot| slot.from);
            assert_eq!(both.free_until(&usable, least), first);
        }
    }
}
