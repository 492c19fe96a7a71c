//! Which nodes an attempt examines: in clusters of 100 nodes and more, it ends once enough of them are feasible.
//!
//! The rules are those of `numFeasibleNodesToFind` in `pkg/scheduler/schedule_one.go`, and of the page "Scheduler
//! Performance Tuning" of the documentation. Upstream examines nodes in 16 threads, so it depends on their speed which
//! nodes are found first, and where the next attempt starts. Here, nodes are examined one after the other, as upstream with
//! `parallelism: 1`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::Labels;

/// Fewer feasible nodes than this are never enough.
const LEAST_NODES: usize = 100;
const LEAST_PERCENTAGE: usize = 5;

/// How many feasible nodes are enough. `percentage` 0 means a share that decreases with the number of nodes.
pub fn nodes_wanted(percentage: u8, nodes: usize) -> usize {
    if nodes < LEAST_NODES || percentage >= 100 {
        return nodes;
    }
    let share = match usize::from(percentage) {
        0 => 50_usize.saturating_sub(nodes / 125).max(LEAST_PERCENTAGE),
        stated => stated,
    };
    (nodes * share / 100).max(LEAST_NODES)
}

/// The order in which nodes are examined: one of each zone in turn. `nodes` are the indices and labels in order of
/// names, in which upstream gets the nodes when it starts.
pub fn by_zone_in_turn<'n>(nodes: impl Iterator<Item = (usize, &'n Labels)>) -> Vec<usize> {
    let mut places: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    let mut zones: Vec<Vec<usize>> = Vec::new();
    for (index, labels) in nodes {
        let place = *places.entry(zone_of(labels)).or_insert(zones.len());
        if place == zones.len() {
            zones.push(Vec::new());
        }
        zones[place].push(index);
    }
    let longest = zones.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|turn| zones.iter().filter_map(move |zone| zone.get(turn).copied())).collect()
}

/// The region and the zone of a node. Nodes without both are in a zone of their own.
fn zone_of(labels: &Labels) -> (Arc<str>, Arc<str>) {
    let label = |names: [&str; 2]| names.iter().find_map(|name| labels.get(*name)).cloned().unwrap_or_default();
    let region = label(["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"]);
    (region, label(["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are those of the documentation (50 % of 100 nodes, 10 % of 5,000, at least 5 %) and of
    /// `TestNumFeasibleNodesToFind` of Kubernetes.
    #[test]
    fn a_share_of_many_nodes_is_enough() {
        let cases = [
            (0, 10, 10),
            (40, 10, 10),
            (0, 99, 99),
            (0, 100, 100),
            (0, 1000, 420),
            (40, 1000, 400),
            (0, 5000, 500),
            (0, 6000, 300),
            (40, 6000, 2400),
            (1, 1000, 100),
            (100, 6000, 6000),
        ];
        for (percentage, nodes, wanted) in cases {
            assert_eq!(nodes_wanted(percentage, nodes), wanted, "{percentage} % of {nodes}");
        }
    }

    #[test]
    fn zones_take_turns() {
        let zone = |name: &str| -> Labels { [(Arc::from("topology.kubernetes.io/zone"), Arc::from(name))].into() };
        let labels = [zone("b"), zone("a"), zone("b"), zone("b"), zone("a"), Labels::new()];
        assert_eq!(by_zone_in_turn(labels.iter().enumerate()), [0, 1, 5, 2, 4, 3]);
    }
}
