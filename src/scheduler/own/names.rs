//! The names of registered stages. They are kept as long as the process lives.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::{OwnFilter, OwnKey, OwnScorer};

pub(super) struct Named<T>(RwLock<BTreeMap<String, T>>);

impl<T: Copy> Named<T> {
    const fn new() -> Named<T> {
        Named(RwLock::new(BTreeMap::new()))
    }

    /// Adds a stage if its name is free. Returns whether the name was free.
    pub(super) fn add(&self, name: &str, make: impl FnOnce() -> T) -> bool {
        let mut named = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if named.contains_key(name) {
            return false;
        }
        named.insert(name.to_string(), make());
        true
    }

    fn get(&self, name: &str) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }
}

pub(super) static SCORERS: Named<OwnScorer> = Named::new();
pub(super) static FILTERS: Named<OwnFilter> = Named::new();
pub(super) static KEYS: Named<OwnKey> = Named::new();

/// The scorer that is registered under this name.
pub fn scorer_named(name: &str) -> Option<OwnScorer> {
    SCORERS.get(name)
}

/// The filter that is registered under this name.
pub fn filter_named(name: &str) -> Option<OwnFilter> {
    FILTERS.get(name)
}

/// The sort key that is registered under this name.
pub fn order_named(name: &str) -> Option<OwnKey> {
    KEYS.get(name)
}
