//! Model weights on nodes: which nodes have which weights, and when a download ends.
//!
//! The downloads of one node run one after the other, each at full bandwidth. A download continues even if the replica
//! that requested it ends. Downloaded weights stay on the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rehearsal::{InitialNode, ModelFiles};
use dryrack_ids::NodeId;
use dryrack_planted::planted;
use dryrack_units::{Bytes, SimDuration, SimTime};

/// The models of one node, each with the time at which its download is complete.
struct Shelf {
    /// The download bandwidth in bytes per second. `None` means that a download takes no time.
    bandwidth: Option<Bytes>,
    whole_at: BTreeMap<Arc<str>, SimTime>,
    /// When the last download in the queue of this node ends.
    free_at: SimTime,
}

pub struct Downloads {
    shelves: Vec<Shelf>,
}

impl Downloads {
    pub fn new(nodes: &[InitialNode]) -> Downloads {
        let shelf = |ModelFiles { cached, bandwidth }: &ModelFiles| Shelf {
            bandwidth: *bandwidth,
            whole_at: cached.iter().map(|model| (Arc::clone(model), SimTime::ZERO)).collect(),
            free_at: SimTime::ZERO,
        };
        Downloads { shelves: nodes.iter().map(|node| shelf(&node.files)).collect() }
    }

    /// The time at which the node has the complete model. Starts the download if the node does not have the model.
    pub fn whole_at(&mut self, now: SimTime, node: NodeId, model: &Arc<str>, weights: Bytes) -> SimTime {
        let shelf = &mut self.shelves[node.index()];
        if let Some(at) = shelf.whole_at.get(model) {
            return (*at).max(now);
        }
        let Some(bandwidth) = shelf.bandwidth else { return now };
        let begins = if planted!(DownloadsShareNoBandwidth) { now } else { shelf.free_at.max(now) };
        shelf.free_at = begins.saturating_add(time_for(weights, bandwidth));
        shelf.whole_at.insert(Arc::clone(model), shelf.free_at);
        shelf.free_at
    }

    /// Discards the incomplete downloads of a node.
    pub fn interrupt(&mut self, now: SimTime, node: NodeId) {
        let shelf = &mut self.shelves[node.index()];
        shelf.whole_at.retain(|_, at| *at <= now);
        shelf.free_at = now;
    }

    /// Discards all models, because a different machine may come back under the name of this node.
    pub fn clear(&mut self, now: SimTime, node: NodeId) {
        self.interrupt(now, node);
        self.shelves[node.index()].whole_at.clear();
    }
}

/// The download time, rounded up to the nanosecond.
fn time_for(weights: Bytes, bandwidth: Bytes) -> SimDuration {
    let nanos = (u128::from(weights.get()) * 1_000_000_000).div_ceil(u128::from(bandwidth.get()));
    SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_takes_its_size_over_the_bandwidth_rounded_up() {
        let rows = [(10, 1, 10_000_000_000), (1, 3, 333_333_334), (65_524_246_528, 1_250_000_000, 52_419_397_223)];
        for (weights, bandwidth, nanos) in rows {
            let expected = SimDuration::from_nanos(nanos);
            assert_eq!(time_for(Bytes::new(weights), Bytes::new(bandwidth)), expected, "{weights}/{bandwidth}");
        }
    }
}
