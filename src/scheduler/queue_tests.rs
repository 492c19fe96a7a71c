//! The wait queue is compared with a plain list of the same entries, while jobs come, go, are refused and are committed at
//! random.

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::Entry;
use crate::options::Discipline;
use crate::order::OrderKey;
use crate::own::OwnKey;
use crate::queue::{QueueKey, WaitQueue};
use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};

/// The same queue, as a list.
struct Plain {
    discipline: Discipline,
    waiting: Vec<(QueueKey, u32)>,
    committed: BTreeMap<u32, (QueueKey, u32)>,
    /// The growth of the fleet at which a demand was refused.
    refused: BTreeMap<u32, u64>,
    restless: BTreeSet<u32>,
}

impl Plain {
    fn sorted(&self, queue: &WaitQueue, now: SimTime) -> Vec<(QueueKey, u32)> {
        let mut sorted = self.waiting.clone();
        sorted.sort_by_key(|(key, _)| queue.place_of(*key, now));
        sorted
    }

    /// The head of each line: the committed entry, or else the first.
    fn heads(&self, queue: &WaitQueue, now: SimTime) -> BTreeMap<u32, (QueueKey, u32)> {
        if self.discipline == Discipline::Skipping {
            return BTreeMap::new();
        }
        let mut heads = BTreeMap::new();
        for entry in self.sorted(queue, now) {
            heads.entry(entry.0.line()).or_insert(entry);
        }
        heads.extend(&self.committed);
        heads
    }

    /// The entries that may be judged, in order.
    fn judged(&self, queue: &WaitQueue, now: SimTime) -> Vec<(QueueKey, u32)> {
        let heads = self.heads(queue, now);
        let is_judged = |(key, _): &(QueueKey, u32)| match self.discipline {
            Discipline::Skipping => true,
            Discipline::Strict | Discipline::Committed => heads[&key.line()].0 == *key,
        };
        self.sorted(queue, now).into_iter().filter(is_judged).collect()
    }

    fn is_refused(&self, demand: u32, growth: u64) -> bool {
        self.refused.get(&demand) == Some(&growth)
    }

    fn remove(&mut self, (key, demand): (QueueKey, u32)) {
        self.waiting.retain(|(other, _)| *other != key);
        self.committed.retain(|_, (committed, _)| *committed != key);
        if self.waiting.iter().all(|(_, other)| *other != demand) {
            self.refused.remove(&demand);
        }
    }
}

fn drawn(draws: &mut Stream, number: u64, now: SimTime) -> Entry {
    Entry {
        priority: draws.between(0, 1) as i32,
        at: now,
        estimate: draws.chance(800).then(|| SimDuration::from_secs(draws.between(1, 5))),
        ran: SimDuration::ZERO,
        tier: draws.between(0, 1) as u32,
        multifactor: 0,
        level: 0,
        turn: 0,
        user: draws.between(0, 2) as u32,
        tasks: 1,
        submitted: number,
        replica: number as u32,
        line: draws.between(0, 2) as u32,
        fields: None,
    }
}

/// A walk leaves out the demand of its first entry, and takes it in again after its fourth entry.
fn check_walk(queue: &WaitQueue, judged: &[(QueueKey, u32)], takes_in_again: bool, now: SimTime) {
    let (mut out, mut walk) = (None, queue.walk(now));
    let mut expected = judged.iter().copied();
    for place in 0.. {
        let next = walk.next(queue);
        let is_left_out = |demand: u32| (1..4).contains(&place) && out == Some(demand);
        assert_eq!(next, expected.find(|(_, demand)| !is_left_out(*demand)), "entry {place} of a walk");
        let Some((_, demand)) = next else { break };
        match place {
            0 => {
                walk.leave_out(demand);
                out = Some(demand);
            }
            3 if takes_in_again => walk.take_in_again(queue),
            3 => break,
            _ => {}
        }
    }
}

fn compare(discipline: Discipline, order: &[OrderKey], draws: &mut Stream) {
    let (mut queue, mut growth) = (WaitQueue::new(discipline, order), 0);
    let mut plain = Plain {
        discipline,
        waiting: Vec::new(),
        committed: BTreeMap::new(),
        refused: BTreeMap::new(),
        restless: BTreeSet::new(),
    };
    for number in 0..150 {
        let now = SimTime::from_secs(number);
        let heads = plain.heads(&queue, now);
        match draws.between(0, 9) {
            0..5 => {
                let (entry, demand) = (drawn(draws, number, now), draws.between(0, 3) as u32);
                let key = QueueKey::new(order, &entry);
                queue.insert_entry(key, demand, entry);
                plain.waiting.push((key, demand));
            }
            5 | 6 if !plain.waiting.is_empty() => {
                let gone = *draws.pick(&plain.waiting);
                queue.remove(gone.0, gone.1);
                plain.remove(gone);
                // Again, without effect.
                queue.remove(gone.0, gone.1);
            }
            7 if !plain.waiting.is_empty() => {
                let (key, demand) = *draws.pick(&plain.waiting);
                queue.commit(key, demand);
                if discipline == Discipline::Committed {
                    plain.committed.insert(key.line(), (key, demand));
                }
            }
            8 => growth += draws.between(0, 1),
            _ => {
                let demand = draws.between(0, 3) as u32;
                // A decision that takes time may refuse for a fleet that has grown since.
                let judged_at = growth - draws.between(0, growth.min(1));
                queue.refuse(demand, judged_at);
                if plain.waiting.iter().any(|(_, other)| *other == demand) {
                    plain.refused.insert(demand, judged_at);
                    let led = heads.iter().filter(|(_, (_, head))| *head == demand);
                    plain.restless.extend(led.map(|(line, _)| *line));
                }
            }
        }
        if draws.chance(200) {
            queue.charge((0..3).map(|_| draws.between(0, 3) as f64).collect());
        }
        let after = plain.heads(&queue, now);
        plain.restless.extend(heads.keys().chain(after.keys()).filter(|line| heads.get(line) != after.get(line)));
        assert_eq!((queue.len(), queue.is_empty()), (plain.waiting.len(), plain.waiting.is_empty()));
        let sorted = plain.sorted(&queue, now);
        assert_eq!(queue.iter(now).collect::<Vec<_>>(), sorted.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        assert_eq!(queue.heads(now).collect::<Vec<_>>(), after.values().copied().collect::<Vec<_>>());
        let judged = plain.judged(&queue, now);
        let open = judged.iter().copied().find(|(_, demand)| !plain.is_refused(*demand, growth));
        assert_eq!(queue.next(growth, now), open, "{discipline:?} by {order:?} after {number} steps");
        for demand in 0..4 {
            assert_eq!(queue.is_refused(demand, growth), plain.is_refused(demand, growth));
            let of_demand = sorted.iter().filter(|(_, other)| *other == demand).map(|(key, _)| *key);
            if discipline == Discipline::Skipping && !queue.moves() {
                assert_eq!(queue.of_demand(demand).collect::<Vec<_>>(), of_demand.collect::<Vec<_>>());
            }
        }
        for (key, _) in &plain.waiting {
            let is_head = after.values().any(|(head, _)| head == key);
            assert!(discipline == Discipline::Skipping || queue.is_behind(*key, now) != is_head);
        }
        if draws.chance(300) {
            let restless = std::mem::take(&mut plain.restless);
            let lines = if queue.moves() { after.keys().copied().collect() } else { restless };
            let expected: Vec<_> = lines.iter().filter_map(|line| after.get(line).copied()).collect();
            assert_eq!(queue.restless_heads(now), expected);
        }
        check_walk(&queue, &judged, discipline == Discipline::Skipping && !queue.moves(), now);
    }
}

#[test]
fn the_queue_has_the_order_the_heads_and_the_open_entries_of_a_list() {
    let mut draws = Stream::new(6, "list test", 0);
    for discipline in [Discipline::Strict, Discipline::Committed, Discipline::Skipping] {
        for order in [
            &[OrderKey::Submitted][..],
            &[OrderKey::Priority, OrderKey::Estimate],
            &[OrderKey::FairShare, OrderKey::Submitted],
            &[OrderKey::Wfp3],
        ] {
            compare(discipline, order, &mut draws);
        }
    }
}

#[test]
fn the_queue_counts_what_changes_it() {
    let order = [OrderKey::FairShare];
    let mut queue = WaitQueue::new(Discipline::Committed, &order);
    assert!(queue.moves() && !queue.moves_with_time());
    assert!(WaitQueue::new(Discipline::Strict, &[OrderKey::Wfp3]).moves_with_time());
    assert!(!WaitQueue::new(Discipline::Strict, &[OrderKey::Tasks]).moves());
    let mut draws = Stream::new(6, "change test", 0);
    let entry = Entry { line: 0, ..drawn(&mut draws, 0, SimTime::ZERO) };
    let key = QueueKey::new(&order, &entry);
    queue.insert_entry(key, 0, entry);
    assert_eq!(queue.changes(), 1);
    type Step = fn(&mut WaitQueue, QueueKey);
    let steps: [(&str, Step); 4] = [
        ("what is charged", |queue, _| queue.charge(vec![1.0])),
        ("the pending replicas", |queue, _| queue.count_pending(3)),
        ("the committed head", |queue, key| queue.commit(key, 0)),
        ("the entries", |queue, key| queue.remove(key, 0)),
    ];
    for (number, (name, step)) in steps.into_iter().enumerate() {
        step(&mut queue, key);
        assert_eq!(queue.changes(), number as u64 + 2, "{name}");
        // Again, without effect.
        step(&mut queue, key);
        assert_eq!(queue.changes(), number as u64 + 2, "{name}");
    }
    assert!(queue.is_empty());
}

#[test]
fn the_head_follows_the_number_of_pending_replicas() {
    let own = |is| OrderKey::Own(OwnKey::of_expression("own", is).expect(is));
    let mut draws = Stream::new(6, "pending test", 0);
    let mut head = |order: &[OrderKey], pending| {
        let mut queue = WaitQueue::new(Discipline::Strict, order);
        for number in 0..2 {
            let (tasks, line) = (2 - number as u32, 0);
            let entry = Entry { tasks, line, tier: 0, priority: 0, ..drawn(&mut draws, number, SimTime::ZERO) };
            queue.insert_entry(QueueKey::new(order, &entry), number as u32, entry);
        }
        let mut found = Vec::new();
        for pending in pending {
            queue.count_pending(pending);
            found.extend(queue.heads(SimTime::ZERO).map(|(key, _)| key.replica()));
        }
        found
    };
    // With more than five pending, the job with fewer tasks comes first, which is the second.
    assert_eq!(head(&[own("queue.pending > 5 ? job.tasks : job.submitted")], [5, 6, 6, 5, 9]), [0, 1, 1, 0, 1]);
    // A key that reads neither the queue nor the time ranks a job for good.
    assert_eq!(head(&[own("job.tasks")], [0, 9, 0, 9, 0]), [1; 5]);
    assert_eq!(head(&[own("0 - job.tasks")], [0, 9, 0, 9, 0]), [0; 5]);
}
