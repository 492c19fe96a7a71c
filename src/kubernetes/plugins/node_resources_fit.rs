//! `NodeResourcesFit`: checks that a node has enough of each resource, and scores nodes by their allocated resources.

use std::sync::Arc;

use crate::cluster::{Cluster, NodeInfo, PodInfo, Resource};
use crate::cycle::{
    Code, FitChecks, MAX_NODE_SCORE, Objection, Oversized, Plugin, Profile, Reason, Refusal, ScoringStrategy, Strategy,
};

/// Lists every shortage. If one of them exceeds the whole node, removing pods does not help.
///
/// The rules of 1.20 are those of `pkg/scheduler/framework/plugins/noderesources/fit.go` of Kubernetes 1.20.2.
pub fn filter(pod: &PodInfo, node: &NodeInfo, profile: &Profile) -> Result<(), Objection> {
    let mut reasons = Vec::new();
    let mut code = Code::Unschedulable;
    if node.pods.len() as i64 + 1 > node.shape.allowed_pods {
        reasons.push(Reason::TooManyPods);
    }
    let request = &pod.requests.exact;
    if !request.is_empty() {
        let extended = request.all_extended().map(|(name, _)| Resource::Extended(Arc::clone(name)));
        for resource in [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage].into_iter().chain(extended) {
            let wanted = request.get(&resource);
            let allocatable = node.shape.allocatable.get(&resource);
            let is_checked = wanted > 0 || profile.fit_checks == FitChecks::All;
            if is_checked && wanted > allocatable - node.requested.get(&resource) {
                if wanted > allocatable && profile.oversized == Oversized::ForGood {
                    code = Code::UnschedulableAndUnresolvable;
                }
                reasons.push(Reason::Insufficient(resource));
            }
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Refusal { plugin: Plugin::NodeResourcesFit, code, reasons }.into())
}

pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize], strategy: &ScoringStrategy) -> Vec<i64> {
    feasible.iter().map(|index| score_node(pod, cluster.node(*index), strategy)).collect()
}

fn score_node(pod: &PodInfo, node: &NodeInfo, strategy: &ScoringStrategy) -> i64 {
    let shares = strategy.resources.iter().filter_map(|(resource, weight)| {
        let (used, capacity) = used_with(pod, node, resource)?;
        Some((used, capacity, *weight))
    });
    match &strategy.kind {
        Strategy::LeastAllocated => mean(shares.map(|(used, capacity, weight)| {
            let score = if used > capacity { 0 } else { part(capacity - used, capacity, MAX_NODE_SCORE) };
            (score, weight)
        })),
        Strategy::MostAllocated => {
            mean(shares.map(|(used, capacity, weight)| (part(used.min(capacity), capacity, MAX_NODE_SCORE), weight)))
        }
        Strategy::RequestedToCapacityRatio(shape) => rounded_mean(shares.map(|(used, capacity, weight)| {
            let utilization = if used > capacity { MAX_UTILIZATION } else { part(used, capacity, MAX_UTILIZATION) };
            (on_shape(shape, utilization), weight)
        })),
    }
}

/// How much of `all` the amount is, if the capacity is all of it; rounded down. The amount is at most the capacity.
fn part(amount: i64, capacity: i64, all: i64) -> i64 {
    match amount.checked_mul(all) {
        Some(product) => product / capacity,
        // Only of more than 90 PB. kube-scheduler's number wraps around there.
        None => (i128::from(amount) * i128::from(all) / i128::from(capacity)) as i64,
    }
}

/// The amount that would be in use with the pod, and the total amount. `None` if the resource does not count, because
/// the node has none or because it is an extended resource that the pod does not request.
fn used_with(pod: &PodInfo, node: &NodeInfo, resource: &Resource) -> Option<(i64, i64)> {
    let request = pod.requests.of_containers.get(resource);
    let used = match resource {
        Resource::Cpu | Resource::Memory => node.assumed.get(resource),
        Resource::EphemeralStorage => node.requested.get(resource),
        Resource::Extended(_) if request == 0 => return None,
        Resource::Extended(_) => node.requested.get(resource),
    };
    let capacity = node.shape.allocatable.get(resource);
    (capacity != 0).then_some((used.saturating_add(request), capacity))
}

/// The weighted mean, rounded down; 0 for an empty list.
fn mean(scores: impl Iterator<Item = (i64, i64)>) -> i64 {
    let (sum, weights) =
        scores.fold((0, 0), |(sum, weights), (score, weight)| (sum + score * weight, weights + weight));
    if weights == 0 { 0 } else { sum / weights }
}

/// The weighted mean of the resources with a score, rounded to the nearest integer; 0 for an empty list.
fn rounded_mean(scores: impl Iterator<Item = (i64, i64)>) -> i64 {
    let scoring = scores.filter(|(score, _)| *score > 0);
    let (sum, weights) =
        scoring.fold((0, 0), |(sum, weights), (score, weight)| (sum + score * weight, weights + weight));
    if weights == 0 { 0 } else { libm::round(sum as f64 / weights as f64) as i64 }
}

const MAX_UTILIZATION: i64 = 100;
/// Scores of a shape are from 0 to 10.
const MAX_SHAPE_SCORE: i64 = 10;

/// The score on the line through the points of a shape. Outside of all points, it is the score of the nearest point.
fn on_shape(shape: &[(i64, i64)], utilization: i64) -> i64 {
    let scale = |score: i64| score * (MAX_NODE_SCORE / MAX_SHAPE_SCORE);
    let mut before: Option<(i64, i64)> = None;
    for &(at, score) in shape {
        let score = scale(score);
        if utilization <= at {
            return match before {
                None => score,
                Some((from, start)) => start + (score - start) * (utilization - from) / (at - from),
            };
        }
        before = Some((at, score));
    }
    before.map_or(0, |(_, score)| score)
}

#[cfg(test)]
mod tests {
    use super::part;

    /// Half of a node is half of the score, whatever its size is.
    #[test]
    fn the_part_of_a_large_amount_is_exact() {
        for capacity in [2, 16 << 30, 1 << 60, i64::MAX - 1] {
            assert_eq!((part(capacity / 2, capacity, 100), part(capacity, capacity, 100)), (50, 100), "{capacity}");
        }
    }
}
