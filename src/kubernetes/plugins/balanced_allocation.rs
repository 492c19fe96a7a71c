//! `NodeResourcesBalancedAllocation`: prefers nodes on which the used shares of all resources are similar.

use crate::cluster::{Cluster, NodeInfo, PodInfo, Resource};
use crate::cycle::{Balance, MAX_NODE_SCORE, Profile};

/// `None` if the pod requests none of the resources and is not scored then.
pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize], profile: &Profile) -> Option<Vec<i64>> {
    let resources = &profile.balanced;
    let score_node = match profile.balance {
        Balance::Difference => score_by_difference,
        Balance::StandardDeviation => score_node,
    };
    let requests_none = resources.iter().all(|resource| pod.requests.exact.get(resource) == 0);
    if requests_none && profile.balance == Balance::StandardDeviation {
        return None;
    }
    Some(feasible.iter().map(|index| score_node(pod, cluster.node(*index), resources)).collect())
}

/// The distance of the largest and the smallest share. A resource of which the node has nothing counts as full.
fn score_by_difference(pod: &PodInfo, node: &NodeInfo, resources: &[Resource]) -> i64 {
    let fraction = |resource: &Resource| {
        let used = node.assumed.get(resource) + pod.requests.of_containers.get(resource);
        let capacity = node.shape.allocatable.get(resource);
        if capacity == 0 { 1.0 } else { used as f64 / capacity as f64 }
    };
    let fractions: Vec<f64> = resources.iter().map(fraction).collect();
    if fractions.iter().any(|fraction| *fraction >= 1.0) {
        return 0;
    }
    let most = fractions.iter().copied().fold(0.0, f64::max);
    let least = fractions.iter().copied().fold(1.0, f64::min);
    ((1.0 - (most - least).abs()) * MAX_NODE_SCORE as f64) as i64
}

fn score_node(pod: &PodInfo, node: &NodeInfo, resources: &[Resource]) -> i64 {
    let fraction = |resource: &Resource| {
        let request = pod.requests.exact.get(resource);
        let capacity = node.shape.allocatable.get(resource);
        let is_unasked = matches!(resource, Resource::Extended(_)) && request == 0;
        let used = node.requested.get(resource) + request;
        (capacity != 0 && !is_unasked).then(|| (used as f64 / capacity as f64).min(1.0))
    };
    let fractions: Vec<f64> = resources.iter().filter_map(fraction).collect();
    ((1.0 - deviation(&fractions)) * MAX_NODE_SCORE as f64) as i64
}

/// The standard deviation. Of two values it is half their distance.
fn deviation(values: &[f64]) -> f64 {
    match values {
        [] | [_] => 0.0,
        [one, other] => ((one - other) / 2.0).abs(),
        _ => {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            libm::sqrt(squares / count)
        }
    }
}
