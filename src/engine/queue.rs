//! The event queue. It returns events in order of time, one whole instant at a time. Events of the same instant come in
//! order of insertion.
//!
//! It is a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, J. ACM 37,
//! 1990). The heap relies on time that never decreases. An event is kept in the bucket of the highest bit in which its
//! time differs from the time that was taken last. It only ever moves to lower buckets, so at most 64 times, and in
//! practice a few times. Events of equal time are always in the same bucket, and moving them keeps their order. So ties
//! come out in order of insertion without a sequence number, and bucket 0 is always one whole instant.
//! `benches/queue.rs` compares the queue with a binary heap and with the engine of `simcore`.

use dryrack_units::{SimDuration, SimTime};

const BUCKETS: usize = 65;

/// A queue of future events. No event may be added before the instant that was taken last.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    /// Bucket 0 holds the events at time `last`. An event in bucket b > 0 differs from `last` in bit b - 1 and in no
    /// higher bit.
    buckets: Vec<Bucket<T>>,
    /// Bit b is set if bucket b is not empty, so the lowest non-empty bucket is found at once.
    filled: u128,
    last: u64,
    len: usize,
}

#[derive(Clone, Debug)]
struct Bucket<T> {
    events: Vec<(u64, T)>,
    /// The time of the earliest event in the bucket, or `u64::MAX` if the bucket is empty.
    earliest: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        let buckets = (0..BUCKETS).map(|_| Bucket { events: Vec::new(), earliest: u64::MAX }).collect();
        EventQueue { buckets, filled: 0, last: 0, len: 0 }
    }
}

impl<T> EventQueue<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. Panics if the queue has already passed `at`.
    pub fn push(&mut self, at: SimTime, event: T) {
        let at = at.as_nanos();
        assert!(at >= self.last, "an event at {at} ns, but the queue has reached {} ns", self.last);
        self.put(bucket_of(at, self.last), at, event);
        self.len += 1;
    }

    fn put(&mut self, index: usize, at: u64, event: T) {
        let bucket = &mut self.buckets[index];
        bucket.events.push((at, event));
        bucket.earliest = bucket.earliest.min(at);
        self.filled |= 1 << index;
    }

    /// The lowest non-empty bucket, which contains the next instant.
    fn lowest(&self) -> Option<usize> {
        (self.filled != 0).then(|| self.filled.trailing_zeros() as usize)
    }

    /// Adds an event after a delay. Drops the event if its time would overflow.
    pub fn push_after(&mut self, now: SimTime, length: SimDuration, event: T) {
        if let Some(at) = now.checked_add(length) {
            self.push(at, event);
        }
    }

    /// The time of the next instant.
    pub fn next_time(&self) -> Option<SimTime> {
        self.lowest().map(|index| SimTime::from_nanos(self.buckets[index].earliest))
    }

    /// Takes all events of the next instant and appends them to `events` in order of insertion. An event that is added
    /// later at the same time is returned by the next call.
    pub fn take_instant(&mut self, events: &mut Vec<T>) -> Option<SimTime> {
        let index = self.lowest()?;
        let bucket = &mut self.buckets[index];
        let next = std::mem::replace(&mut bucket.earliest, u64::MAX);
        let mut taken = std::mem::take(&mut bucket.events);
        self.filled &= !(1 << index);
        self.last = next;
        let before = events.len();
        for (at, event) in taken.drain(..) {
            match bucket_of(at, next) {
                0 => events.push(event),
                lower => self.put(lower, at, event),
            }
        }
        // Put the emptied list back, so that its allocation is reused.
        self.buckets[index].events = taken;
        self.len -= events.len() - before;
        Some(SimTime::from_nanos(next))
    }
}

fn bucket_of(at: u64, last: u64) -> usize {
    (u64::BITS - (at ^ last).leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_rng::Stream;
    use std::collections::BTreeMap;

    /// Compares the queue with a simple model of it, an ordered map of lists.
    #[test]
    fn instants_come_in_order_and_whole_and_ties_in_order_of_insertion() {
        for seed in 0..200 {
            let mut draws = Stream::new(seed, "event queue test", 0);
            let mut queue = EventQueue::default();
            let mut plain: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            let (mut now, mut number) = (0, 0);
            for _ in 0..300 {
                for _ in 0..draws.between(0, 4) {
                    let far = [0, 3, 1_000, 1 << 40][draws.index(4)];
                    let at = now + draws.between(0, far);
                    queue.push(SimTime::from_nanos(at), number);
                    plain.entry(at).or_default().push(number);
                    number += 1;
                }
                assert_eq!(queue.len(), plain.values().map(Vec::len).sum::<usize>());
                assert_eq!(queue.next_time().map(SimTime::as_nanos), plain.keys().next().copied());
                if draws.chance(700) {
                    let mut events = Vec::new();
                    let at = queue.take_instant(&mut events);
                    match plain.pop_first() {
                        Some((time, expected)) => {
                            assert_eq!((at, events), (Some(SimTime::from_nanos(time)), expected));
                            now = time;
                        }
                        None => assert_eq!((at, events), (None, Vec::new())),
                    }
                }
            }
        }
    }

    #[test]
    fn looking_ahead_does_not_close_the_time_before() {
        let mut queue = EventQueue::default();
        queue.push(SimTime::from_secs(10), 'b');
        assert_eq!(queue.next_time(), Some(SimTime::from_secs(10)));
        queue.push(SimTime::from_secs(5), 'a');
        let mut events = Vec::new();
        assert_eq!(queue.take_instant(&mut events), Some(SimTime::from_secs(5)));
        assert_eq!(events, ['a']);
    }

    #[test]
    #[should_panic(expected = "the queue has reached")]
    fn the_past_cannot_be_changed() {
        let mut queue = EventQueue::default();
        queue.push(SimTime::from_secs(10), ());
        queue.take_instant(&mut Vec::new());
        queue.push(SimTime::from_secs(9), ());
    }
}
