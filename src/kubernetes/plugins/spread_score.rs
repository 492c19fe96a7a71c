//! The score of `PodTopologySpread`: prefers nodes in domains with few matching pods.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::spread_filter::{includes, matching};
use crate::cluster::{Cluster, NodeInfo, PodInfo, Spread};
use crate::cycle::{DefaultSpreadScores, MAX_NODE_SCORE, Profile, Rounding};
use crate::object::{InclusionPolicy, WhenUnsatisfiable};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A constraint with the pods in the domains of the feasible nodes.
struct Counted {
    constraint: Spread,
    /// Empty for the host name, whose domains are single nodes.
    domains: HashMap<Arc<str>, i64, FixedState>,
    weight: f64,
    /// The classes of pods that count.
    matching: Vec<bool>,
}

impl Counted {
    fn is_of_hosts(&self) -> bool {
        &*self.constraint.topology_key == HOSTNAME
    }
}

/// `None` if the pod has no preferred constraints and gets none by default.
pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize], profile: &Profile) -> Option<Vec<i64>> {
    let constraints = match pod.spread.is_empty() {
        true => default_constraints(pod, cluster, profile),
        false => pod
            .spread
            .iter()
            .filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway)
            .cloned()
            .collect(),
    };
    if constraints.is_empty() {
        return None;
    }
    // A node that lacks one of the labels is ignored. For default constraints, it is ignored only in old releases.
    let needs_labels = !pod.spread.is_empty() || profile.default_spread_scores == DefaultSpreadScores::LabelledNodes;
    let is_ignored = |node: &NodeInfo, constraints: &[Spread]| {
        needs_labels && constraints.iter().any(|spread| !node.labels().contains_key(&spread.topology_key))
    };
    let ignored: Vec<bool> = feasible.iter().map(|index| is_ignored(cluster.node(*index), &constraints)).collect();
    let candidates: Vec<&NodeInfo> = (feasible.iter().zip(&ignored))
        .filter(|(_, is_ignored)| !**is_ignored)
        .map(|(index, _)| cluster.node(*index))
        .collect();
    let counted_of = |constraint: &Spread| {
        counted_of(constraint, &candidates, matching(cluster, &constraint.selector, &pod.namespace))
    };
    let mut counted: Vec<Counted> = constraints.iter().map(counted_of).collect();
    for node in cluster.nodes().iter().filter(|node| !is_ignored(node, &constraints)) {
        for counted in counted.iter_mut().filter(|counted| !counted.is_of_hosts()) {
            let domain = node.labels().get(&counted.constraint.topology_key).map_or("", |value| value);
            if includes(&counted.constraint, pod, node)
                && let Some(count) = counted.domains.get_mut(domain)
            {
                *count += node.count_of(&counted.matching);
            }
        }
    }
    let raw: Vec<Option<i64>> = (feasible.iter().zip(&ignored))
        .map(|(index, is_ignored)| {
            (!is_ignored).then(|| raw_score(cluster.node(*index), &counted, profile.spread_rounding))
        })
        .collect();
    Some(normalized(&raw))
}

fn counted_of(constraint: &Spread, candidates: &[&NodeInfo], matching: Vec<bool>) -> Counted {
    let mut counted = Counted { constraint: constraint.clone(), domains: HashMap::default(), weight: 0.0, matching };
    let size = match counted.is_of_hosts() {
        true => candidates.len(),
        false => {
            let value = |node: &&NodeInfo| {
                node.labels().get(&constraint.topology_key).map_or_else(|| Arc::from(""), Arc::clone)
            };
            let values: BTreeSet<Arc<str>> = candidates.iter().map(value).collect();
            counted.domains = values.iter().map(|value| (Arc::clone(value), 0)).collect();
            values.len()
        }
    };
    // If there are more domains, each has fewer pods, so each pod gets more weight.
    counted.weight = libm::log((size + 2) as f64);
    counted
}

fn raw_score(node: &NodeInfo, counted: &[Counted], rounding: Rounding) -> i64 {
    let mut score = 0.0;
    for counted in counted {
        let Some(value) = node.labels().get(&counted.constraint.topology_key) else { continue };
        let count = match counted.is_of_hosts() {
            true => node.count_of(&counted.matching),
            false => counted.domains.get(value).copied().unwrap_or(0),
        };
        score += count as f64 * counted.weight + (counted.constraint.max_skew - 1) as f64;
    }
    match rounding {
        Rounding::Nearest => libm::round(score) as i64,
        Rounding::Down => score as i64,
    }
}

/// Reverses the scores, so that the lowest raw score is best. An ignored node gets 0.
fn normalized(raw: &[Option<i64>]) -> Vec<i64> {
    let least = raw.iter().flatten().copied().min().unwrap_or(0);
    let most = raw.iter().flatten().copied().max().unwrap_or(0).max(0);
    let score = |raw: &Option<i64>| match raw {
        None => 0,
        Some(_) if most == 0 => MAX_NODE_SCORE,
        Some(raw) => MAX_NODE_SCORE * (most + least - raw) / most,
    };
    raw.iter().map(score).collect()
}

/// The profile's own constraints, for pods that a service selects or that a controller owns.
fn default_constraints(pod: &PodInfo, cluster: &Cluster, profile: &Profile) -> Vec<Spread> {
    if profile.default_spread.is_empty() {
        return Vec::new();
    }
    let selector = cluster.owners.default_selector(pod, profile.default_spread_controllers);
    if selector.is_everything() {
        return Vec::new();
    }
    let constraint = |(key, max_skew): &(Arc<str>, i64)| Spread {
        topology_key: Arc::clone(key),
        max_skew: *max_skew,
        min_domains: 1,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: selector.clone(),
        node_affinity_policy: InclusionPolicy::Honor,
        node_taints_policy: InclusionPolicy::Ignore,
    };
    profile.default_spread.iter().map(constraint).collect()
}
