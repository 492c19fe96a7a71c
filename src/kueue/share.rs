//! The dominant resource share of a node: the part of the lendable resources of its cohort that the node borrows,
//! divided by its weight.
//!
//! The rules are those of Kueue's `pkg/cache/scheduler/fair_sharing.go`. A share is a double, computed in the same way
//! as in Kueue, with `*` and `/` only.

use std::cmp::Ordering;

use super::names::FlavorResource;
use super::tree::{NodeId, QuotaTree};

#[derive(Clone, Debug)]
pub struct Share {
    weight: f64,
    /// The share before it is divided by the weight, in thousandths.
    ratio: f64,
    borrowed: Vec<FlavorResource>,
}

impl Share {
    /// Below every other share.
    pub(crate) fn lowest() -> Share {
        Share { weight: 1.0, ratio: -1.0, borrowed: Vec::new() }
    }

    pub(crate) fn of(tree: &QuotaTree, node: NodeId) -> Share {
        let mut share = Share { weight: tree.weight(node), ratio: 0.0, borrowed: Vec::new() };
        let Some(parent) = tree.parent(node) else { return share };
        let mut sums: Vec<(super::names::ResourceId, i64)> = Vec::new();
        for (pair, above) in tree.borrowed(node) {
            share.borrowed.push(pair);
            let resource = tree.resource(pair);
            match sums.iter_mut().find(|(known, _)| *known == resource) {
                Some((_, sum)) => *sum = sum.saturating_add(above),
                None => sums.push((resource, above)),
            }
        }
        for (resource, borrowed) in sums {
            let lendable = tree.lendable(parent, resource);
            if lendable > 0 {
                share.ratio = share.ratio.max(borrowed as f64 * 1000.0 / lendable as f64);
            }
        }
        share
    }

    pub fn is_borrowing(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// Whether the node borrows any pair of the request.
    pub(crate) fn is_borrowing_on(&self, request: &[(FlavorResource, i64)]) -> bool {
        request.iter().any(|(pair, amount)| *amount > 0 && self.borrowed.contains(pair))
    }

    fn is_unlimited(&self) -> bool {
        self.weight <= 0.0 && self.is_borrowing()
    }

    /// The share divided by the weight; infinite if the node borrows and has a weight of zero.
    pub fn value(&self) -> f64 {
        if self.is_unlimited() {
            f64::INFINITY
        } else if self.ratio > 0.0 {
            self.ratio / self.weight
        } else {
            self.ratio.min(0.0)
        }
    }

    /// Two borrowing nodes with a weight of zero are compared by the share before the division.
    pub(crate) fn compare(&self, other: &Share) -> Ordering {
        match (self.is_unlimited(), other.is_unlimited()) {
            (true, true) => self.ratio.total_cmp(&other.ratio),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.value().total_cmp(&other.value()),
        }
    }
}
