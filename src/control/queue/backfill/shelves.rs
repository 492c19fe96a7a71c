//! Waiting replicas by demand. A shelf holds the replicas of one demand in queue order, with their estimated lengths.
//! It finds the first replica that is short enough without visiting all replicas before it.

use std::collections::BTreeSet;

use dryrack_scheduler::QueueKey;
use dryrack_units::SimDuration;

/// The length of a replica without an estimate.
pub(super) const ENDLESS: SimDuration = SimDuration::MAX;

/// Maximum number of entries in a bucket. A bucket with more entries is split in two.
const MOST: usize = 128;

/// A waiting replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub key: QueueKey,
    pub length: SimDuration,
}

/// The waiting replicas of one demand.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    /// The buckets, in queue order. No bucket is empty.
    buckets: Vec<Bucket>,
}

#[derive(Clone, Debug)]
struct Bucket {
    shortest: SimDuration,
    entries: Vec<Waiting>,
}

impl Bucket {
    fn of(entries: Vec<Waiting>) -> Bucket {
        let shortest = entries.iter().map(|entry| entry.length).min().unwrap_or(ENDLESS);
        Bucket { shortest, entries }
    }

    fn last(&self) -> QueueKey {
        self.entries.last().expect("no bucket is empty").key
    }
}

impl Shelf {
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    fn insert(&mut self, new: Waiting) {
        let place = self.buckets.partition_point(|bucket| bucket.last() < new.key).min(self.buckets.len().max(1) - 1);
        let Some(bucket) = self.buckets.get_mut(place) else {
            self.buckets.push(Bucket::of(vec![new]));
            return;
        };
        let at = bucket.entries.partition_point(|entry| entry.key < new.key);
        bucket.entries.insert(at, new);
        bucket.shortest = bucket.shortest.min(new.length);
        if bucket.entries.len() > MOST {
            let upper = bucket.entries.split_off(MOST / 2);
            *bucket = Bucket::of(std::mem::take(&mut bucket.entries));
            self.buckets.insert(place + 1, Bucket::of(upper));
        }
    }

    fn remove(&mut self, key: QueueKey) {
        let place = self.buckets.partition_point(|bucket| bucket.last() < key);
        let Some(bucket) = self.buckets.get_mut(place) else { return };
        let Ok(at) = bucket.entries.binary_search_by_key(&key, |entry| entry.key) else { return };
        let gone = bucket.entries.remove(at);
        if bucket.entries.is_empty() {
            self.buckets.remove(place);
        } else if gone.length == bucket.shortest {
            *bucket = Bucket::of(std::mem::take(&mut bucket.entries));
        }
    }

    /// The first entry from `from` on that is no longer than `most`. With `Position::Behind`, the search begins after
    /// that key.
    pub fn first(&self, from: Position, most: SimDuration) -> Option<Waiting> {
        let place = self.buckets.partition_point(|bucket| !from.is_before(bucket.last()));
        let mut buckets = self.buckets[place..].iter().filter(|bucket| bucket.shortest <= most);
        buckets.find_map(|bucket| {
            let at = bucket.entries.partition_point(|entry| !from.is_before(entry.key));
            bucket.entries[at..].iter().find(|entry| entry.length <= most).copied()
        })
    }
}

/// A position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Start,
    At(QueueKey),
    Behind(QueueKey),
}

impl Position {
    fn is_before(self, key: QueueKey) -> bool {
        match self {
            Position::Start => true,
            Position::At(own) => own <= key,
            Position::Behind(own) => own < key,
        }
    }
}

/// All waiting replicas.
#[derive(Clone, Debug, Default)]
pub struct Shelves {
    by_demand: Vec<Shelf>,
    waiting: BTreeSet<u32>,
}

impl Shelves {
    pub fn insert(&mut self, demand: u32, new: Waiting) {
        if self.by_demand.len() <= demand as usize {
            self.by_demand.resize_with(demand as usize + 1, Shelf::default);
        }
        self.by_demand[demand as usize].insert(new);
        self.waiting.insert(demand);
    }

    pub fn remove(&mut self, demand: u32, key: QueueKey) {
        let Some(shelf) = self.by_demand.get_mut(demand as usize) else { return };
        shelf.remove(key);
        if shelf.is_empty() {
            self.waiting.remove(&demand);
        }
    }

    /// The demands of waiting replicas, in order of their numbers.
    pub fn demands(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().copied()
    }

    pub fn of(&self, demand: u32) -> &Shelf {
        &self.by_demand[demand as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_rng::Stream;
    use dryrack_scheduler::{Entry, OrderKey};

    fn key(number: u64) -> QueueKey {
        let entry = Entry { tasks: 1, submitted: number, replica: number as u32, ..Entry::default() };
        QueueKey::new(&[OrderKey::Submitted], &entry)
    }

    /// Compares with a list that is searched from its beginning.
    #[test]
    fn the_first_that_is_short_enough_is_found() {
        let mut draws = Stream::new(5, "shelves test", 0);
        let (mut shelf, mut plain) = (Shelf::default(), Vec::<Waiting>::new());
        for step in 0..6000 {
            let number = draws.between(0, 999);
            match plain.binary_search_by_key(&key(number), |entry| entry.key) {
                Ok(at) if step > 2000 => {
                    plain.remove(at);
                    shelf.remove(key(number));
                }
                Ok(_) => {}
                Err(at) => {
                    let new = Waiting { key: key(number), length: SimDuration::from_secs(draws.between(1, 1000)) };
                    plain.insert(at, new);
                    shelf.insert(new);
                }
            }
            let most = SimDuration::from_secs(draws.between(0, 1000) / draws.between(1, 100));
            let place = key(draws.between(0, 1000));
            for from in [Position::Start, Position::At(place), Position::Behind(place)] {
                let is_it = |entry: &&Waiting| from.is_before(entry.key) && entry.length <= most;
                assert_eq!(shelf.first(from, most), plain.iter().find(is_it).copied());
            }
        }
        assert_eq!(shelf.is_empty(), plain.is_empty());
    }
    #[test]
    fn each_demand_has_its_shelf_until_its_last_replica_is_gone() {
        let waiting = |number| Waiting { key: key(number), length: SimDuration::from_secs(number) };
        let mut shelves = Shelves::default();
        for (demand, number) in [(3, 1), (0, 2), (3, 4), (4, 5)] {
            shelves.insert(demand, waiting(number));
        }
        let first = |shelves: &Shelves, demand| shelves.of(demand).first(Position::Start, ENDLESS);
        assert_eq!(shelves.demands().collect::<Vec<_>>(), [0, 3, 4]);
        assert_eq!(
            [0, 1, 3, 4].map(|demand| first(&shelves, demand)),
            [Some(waiting(2)), None, Some(waiting(1)), Some(waiting(5))]
        );
        shelves.remove(3, key(1));
        shelves.remove(0, key(2));
        // What is not there is not removed.
        shelves.remove(4, key(4));
        shelves.remove(9, key(5));
        assert_eq!(shelves.demands().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(first(&shelves, 3), Some(waiting(4)));
    }
}
