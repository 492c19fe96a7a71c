//! Caches the compact forms of values that many records share.

use std::sync::Arc;

use serde::Serialize;

use super::compact::Compact;
use dryrack_fleet::NodeShape;
use dryrack_workload::{Demand, RunTerms, UtilizationOverrides};

/// A cache of the compact forms of values that many records share, keyed by address. If two values fall into the same slot,
/// the later one replaces the earlier one, and the cache gets more slots: at most about as many as a trace has different
/// demands.
pub(super) struct Forms<T>(Vec<Option<(Arc<T>, Vec<u8>)>>);

const LEAST_FORMS: usize = 4;
pub(super) const MOST_FORMS: usize = 256;

impl<T> Default for Forms<T> {
    fn default() -> Forms<T> {
        Forms(empty(LEAST_FORMS))
    }
}

fn empty<T>(slots: usize) -> Vec<Option<T>> {
    (0..slots).map(|_| None).collect()
}

impl<T: Serialize> Forms<T> {
    pub fn write(&mut self, shared: &Arc<T>, out: &mut Compact<'_>) {
        let address = Arc::as_ptr(shared).addr();
        let slot = |slots: usize| (address >> 4 ^ address >> 12) % slots;
        if let Some((known, form)) = &self.0[slot(self.0.len())] {
            // The cached reference keeps the value alive, so no other value can have its address.
            if Arc::ptr_eq(known, shared) {
                out.0.extend_from_slice(form);
                return;
            }
            if self.0.len() < MOST_FORMS {
                self.0 = empty(4 * self.0.len());
            }
        }
        let place = slot(self.0.len());
        let mut form = self.0[place].take().map_or(Vec::new(), |(_, form)| form);
        form.clear();
        Compact(&mut form).by_serde(&**shared);
        out.0.extend_from_slice(&form);
        self.0[place] = Some((Arc::clone(shared), form));
    }
}

/// Caches for the shapes that many nodes share, and for the parts of job specs that many jobs share.
#[derive(Default)]
pub(super) struct Shared {
    pub shapes: Forms<NodeShape>,
    pub demands: Forms<Demand>,
    pub terms: Forms<RunTerms>,
    pub utilizations: Forms<UtilizationOverrides>,
}
