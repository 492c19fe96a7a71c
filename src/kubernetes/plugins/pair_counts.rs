//! Counts by label: a key and a value of nodes' labels.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::object::Labels;

/// A count for each key and value. Counts of zero are not stored.
#[derive(Debug, Default)]
pub struct PairCounts(BTreeMap<Arc<str>, HashMap<Arc<str>, i64, FixedState>>);

impl PairCounts {
    /// Adds to the count of the value that a node has for this key. Does nothing if the node has no value.
    pub fn add(&mut self, key: &Arc<str>, labels: &Labels, delta: i64) {
        let Some(value) = labels.get(key) else { return };
        let values = self.0.entry(Arc::clone(key)).or_default();
        let count = values.entry(Arc::clone(value)).or_default();
        *count += delta;
        if *count == 0 {
            values.remove(value);
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, key: &str, value: &str) -> i64 {
        self.0.get(key).and_then(|values| values.get(value)).copied().unwrap_or(0)
    }

    /// Whether one of a node's labels has a count above zero.
    pub fn is_any_above_zero(&self, labels: &Labels) -> bool {
        self.of(labels).any(|count| count > 0)
    }

    /// The sum of the counts of a node's labels.
    pub fn sum(&self, labels: &Labels) -> i64 {
        self.of(labels).sum()
    }

    fn of(&self, labels: &Labels) -> impl Iterator<Item = i64> {
        self.0.iter().filter_map(|(key, values)| values.get(labels.get(key)?).copied())
    }
}
