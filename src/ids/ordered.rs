//! An ordered set that is fast while it is small.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

/// The size in bytes above which a tree is used, because a tree moves less memory for each change.
const MOST_BYTES: usize = 1024;

/// A set in ascending order with fast access to its first item. A small set is stored as a list, which keeps its
/// allocation. A large set is stored as a tree. The representation affects only speed.
#[derive(Clone, Debug)]
pub struct OrderedSet<T>(Storage<T>);

#[derive(Clone, Debug)]
enum Storage<T> {
    /// Sorted in descending order, because usually the first item is removed.
    Listed(Vec<T>),
    Tree(BTreeSet<T>),
}

impl<T> Default for OrderedSet<T> {
    fn default() -> OrderedSet<T> {
        OrderedSet(Storage::Listed(Vec::new()))
    }
}

impl<T: Copy + Ord> OrderedSet<T> {
    const MOST_LISTED: usize = MOST_BYTES / size_of::<T>();
    /// The size at which a tree becomes a list again. It is half of `MOST_LISTED`, so that a set does not change back
    /// and forth.
    const LISTED_AGAIN: usize = Self::MOST_LISTED / 2;

    /// Adds an item. Returns whether the item is new.
    pub fn insert(&mut self, item: T) -> bool {
        match &mut self.0 {
            Storage::Listed(list) if list.is_empty() => {
                list.push(item);
                true
            }
            Storage::Listed(list) => {
                let place = list.partition_point(|other| *other > item);
                if list.get(place) == Some(&item) {
                    return false;
                }
                if list.len() < Self::MOST_LISTED {
                    list.insert(place, item);
                } else {
                    self.0 = Storage::Tree(list.drain(..).chain([item]).collect());
                }
                true
            }
            Storage::Tree(tree) => tree.insert(item),
        }
    }

    /// Removes an item. Returns whether the set contained it.
    pub fn remove(&mut self, item: &T) -> bool {
        match &mut self.0 {
            Storage::Listed(list) => {
                if list.last() == Some(item) {
                    list.pop();
                    return true;
                }
                let place = list.partition_point(|other| other > item);
                let is_there = list.get(place) == Some(item);
                if is_there {
                    list.remove(place);
                }
                is_there
            }
            Storage::Tree(tree) => {
                let was_there = tree.remove(item);
                if tree.len() <= Self::LISTED_AGAIN {
                    self.0 = Storage::Listed(tree.iter().rev().copied().collect());
                }
                was_there
            }
        }
    }

    pub fn first(&self) -> Option<T> {
        match &self.0 {
            Storage::Listed(list) => list.last().copied(),
            Storage::Tree(tree) => tree.first().copied(),
        }
    }

    /// The least item that is greater than this one.
    pub fn after(&self, item: &T) -> Option<T> {
        match &self.0 {
            Storage::Listed(list) => list[..list.partition_point(|other| other > item)].last().copied(),
            Storage::Tree(tree) => tree.range((Bound::Excluded(item), Bound::Unbounded)).next().copied(),
        }
    }

    pub fn pop_first(&mut self) -> Option<T> {
        let first = self.first()?;
        self.remove(&first);
        Some(first)
    }

    pub fn contains(&self, item: &T) -> bool {
        match &self.0 {
            Storage::Listed(list) => list.binary_search_by(|other| item.cmp(other)).is_ok(),
            Storage::Tree(tree) => tree.contains(item),
        }
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Storage::Listed(list) => list.len(),
            Storage::Tree(tree) => tree.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.range(..)
    }

    pub fn range(&self, range: impl RangeBounds<T>) -> impl Iterator<Item = T> + '_ {
        let (listed, tree) = match &self.0 {
            Storage::Listed(list) => {
                let is_beyond = |item: &T| match range.end_bound() {
                    Bound::Included(end) => item > end,
                    Bound::Excluded(end) => item >= end,
                    Bound::Unbounded => false,
                };
                let is_reached = |item: &T| match range.start_bound() {
                    Bound::Included(start) => item >= start,
                    Bound::Excluded(start) => item > start,
                    Bound::Unbounded => true,
                };
                (&list[list.partition_point(is_beyond)..list.partition_point(is_reached)], None)
            }
            Storage::Tree(tree) => (&[][..], Some(tree.range(range))),
        };
        listed.iter().rev().chain(tree.into_iter().flatten()).copied()
    }
}

impl<T: Copy + Ord> Extend<T> for OrderedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| {
            self.insert(item);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_rng::Stream;

    /// Compares the set with a set of the standard library, while it grows into a tree and shrinks back to a list.
    #[test]
    fn it_says_what_a_tree_says_however_much_is_in_it() {
        let mut draws = Stream::new(1, "ordered set test", 0);
        let (mut set, mut plain) = (OrderedSet::default(), BTreeSet::new());
        let mut sizes = BTreeSet::new();
        for (rounds, of) in [(300, 30), (1500, 600), (1500, 600), (600, 30)] {
            for _ in 0..rounds {
                let item: u64 = draws.between(0, of);
                match draws.chance(40) {
                    true => assert_eq!(set.remove(&item), plain.remove(&item)),
                    false => assert_eq!(set.insert(item), plain.insert(item)),
                }
                assert!(set.iter().eq(plain.iter().copied()));
                assert_eq!((set.first(), set.len()), (plain.first().copied(), plain.len()));
                assert_eq!(set.contains(&item), plain.contains(&item));
                let other = draws.between(item, of + 1);
                assert!(set.range(item..other).eq(plain.range(item..other).copied()));
                assert!(set.range(..=item).eq(plain.range(..=item).copied()));
                let behind = (Bound::Excluded(item), Bound::Unbounded);
                assert!(set.range(behind).eq(plain.range(behind).copied()));
                assert_eq!(set.after(&item), plain.range(behind).next().copied());
                sizes.insert(matches!(set.0, Storage::Tree(_)));
            }
            while plain.len() > 3 {
                assert_eq!(set.pop_first(), plain.pop_first());
                assert!(set.iter().eq(plain.iter().copied()));
            }
        }
        assert_eq!(sizes.len(), 2, "it was a list and a tree");
    }
}
