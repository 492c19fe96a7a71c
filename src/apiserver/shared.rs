//! What the thread of the server and the driver share.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::store::Store;

pub(crate) struct Shared {
    store: Mutex<Store>,
    changed: Condvar,
    pub token: String,
    pub connections: AtomicUsize,
    pub most_connections: usize,
}

impl Shared {
    pub(crate) fn new(store: Store, token: String, most_connections: usize) -> Shared {
        Shared {
            store: Mutex::new(store),
            changed: Condvar::new(),
            token,
            connections: AtomicUsize::new(0),
            most_connections,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits until `what` has a result, at most for a while.
    pub(crate) fn wait_for<T>(&self, within: Duration, mut what: impl FnMut(&mut Store) -> Option<T>) -> Option<T> {
        let mut store = self.lock();
        let mut found = None;
        let is_missing = |store: &mut Store| {
            found = what(store);
            found.is_none()
        };
        let waited = self.changed.wait_timeout_while(store, within, is_missing);
        store = waited.unwrap_or_else(PoisonError::into_inner).0;
        drop(store);
        found
    }
}
