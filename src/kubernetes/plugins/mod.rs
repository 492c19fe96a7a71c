//! The plugins, each in a file named after it. A file has the plugin's checks and its score.

pub mod balanced_allocation;
pub mod default_preemption;
pub mod dynamic_resources;
pub mod gang_scheduling;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod pair_counts;
pub mod scheduling_gates;
pub mod spread_filter;
pub mod spread_score;
pub mod taint_toleration;

use crate::cycle::MAX_NODE_SCORE;

/// Scales scores so that the highest is 100. If all scores are 0, they do not change.
fn normalize(scores: &mut [i64]) {
    let highest = scores.iter().copied().max().unwrap_or(0);
    if highest > 0 {
        scores.iter_mut().for_each(|score| *score = MAX_NODE_SCORE * *score / highest);
    }
}

/// Converts counts of faults to scores: 100 for no fault, 0 for the largest count.
fn normalize_reversed(scores: &mut [i64]) {
    normalize(scores);
    scores.iter_mut().for_each(|score| *score = MAX_NODE_SCORE - *score);
}
