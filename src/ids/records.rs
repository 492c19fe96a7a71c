//! Keeps records by number. Finished records take almost no memory.

use std::ops::{Index, IndexMut};

/// Records with consecutive numbers that are never reused: the n-th record that is pushed has number n forever. A
/// record can be dropped once nothing refers to it any more. Then only four bytes with a note of 31 bits are left, and
/// its slot is reused.
#[derive(Clone, Debug)]
pub struct Records<T> {
    /// For each number, the slot in `kept`. For a dropped record, its note with the bit [`DROPPED`] set.
    places: Vec<u32>,
    kept: Vec<Option<T>>,
    free: Vec<u32>,
}

const DROPPED: u32 = 1 << 31;

impl<T> Default for Records<T> {
    fn default() -> Records<T> {
        Records { places: Vec::new(), kept: Vec::new(), free: Vec::new() }
    }
}

impl<T> Records<T> {
    /// An empty container with capacity for `count` records.
    pub fn with_capacity(count: usize) -> Records<T> {
        Records { places: Vec::with_capacity(count), kept: Vec::with_capacity(count), free: Vec::new() }
    }

    /// Makes room for `count` more records, so that they are not moved as they come. Most of them may be dropped before
    /// the last one comes, so there is room for at most 16,384 at once.
    pub fn reserve(&mut self, count: usize) {
        self.places.reserve(count);
        self.kept.reserve(count.min(1 << 14));
    }

    /// How many records were ever pushed. This is the number of the next record.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Adds a record and returns its number.
    pub fn push(&mut self, record: T) -> usize {
        let place = match self.free.pop() {
            Some(place) => {
                self.kept[place as usize] = Some(record);
                place
            }
            None => {
                self.kept.push(Some(record));
                self.kept.len() as u32 - 1
            }
        };
        assert!(place < DROPPED, "more than {DROPPED} records at once");
        self.places.push(place);
        self.places.len() - 1
    }

    /// The record with this number, if it was pushed and has not been dropped.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        // For a dropped record, the stored value is larger than any slot, so the lookup returns nothing.
        self.kept.get(*self.places.get(number)? as usize)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.kept.get_mut(*self.places.get(number)? as usize)?.as_mut()
    }

    /// Drops a record, which must exist, and keeps `note` in its place.
    pub fn drop_one(&mut self, number: usize, note: u32) -> T {
        assert!(note < DROPPED, "a note of {note} is too long");
        let place = std::mem::replace(&mut self.places[number], note | DROPPED);
        assert!(place < DROPPED, "record {number} is dropped twice");
        self.free.push(place);
        self.kept[place as usize].take().expect("a place that is in use")
    }

    /// The note of a dropped record. `None` if the record was not dropped.
    pub fn note(&self, number: usize) -> Option<u32> {
        self.places.get(number).filter(|place| **place >= DROPPED).map(|place| place & !DROPPED)
    }

    /// The records that were not dropped, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        (0..self.places.len()).filter_map(|number| Some((number, self.get(number)?)))
    }

    /// The records that were not dropped, in the same order but without their numbers.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, record)| record)
    }

    /// The numbers of the records that were not dropped, in order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<T> {
        let numbers: Vec<usize> = self.iter().map(|(number, _)| number).collect();
        numbers.into_iter()
    }
}

impl<T> Index<usize> for Records<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        match self.get(number) {
            Some(record) => record,
            None => panic!("record {number} of {} is not there", self.len()),
        }
    }
}

impl<T> IndexMut<usize> for Records<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        let count = self.len();
        match self.get_mut(number) {
            Some(record) => record,
            None => panic!("record {number} of {count} is not there"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Compares the container with an ordered map of the kept records.
    #[test]
    fn numbers_are_given_once_and_places_again_and_again() {
        let (mut records, mut plain) = (Records::default(), BTreeMap::new());
        for number in 0..1000_usize {
            assert_eq!(records.push(number * 7), number);
            plain.insert(number, number * 7);
            let old = number / 2;
            if number % 3 > 0 && plain.remove(&old).is_some() {
                assert_eq!(records.drop_one(old, old as u32 + 1), old * 7);
            }
            assert_eq!(records.get(old), plain.get(&old));
            assert_eq!(records.note(old).is_some(), !plain.contains_key(&old));
        }
        assert_eq!(records.len(), 1000);
        assert!(records.kept.len() < 600, "{} places for {} records", records.kept.len(), plain.len());
        assert!(records.iter().map(|(number, value)| (number, *value)).eq(plain));
        assert_eq!((records.note(0), records.get(1000), records.note(1000)), (Some(1), None, None));
    }

    #[test]
    #[should_panic(expected = "record 0 of 1 is not there")]
    fn what_was_dropped_is_not_looked_at() {
        let mut records = Records::default();
        records.push('a');
        records.drop_one(0, 0);
        let _ = records[0];
    }
}
