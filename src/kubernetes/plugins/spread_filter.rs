//! The filter of `PodTopologySpread`: how evenly pods must be spread over the domains of a topology.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::cluster::{Cluster, NodeInfo, PodClass, PodInfo, Spread};
use crate::cycle::{Objection, Plugin, Reason, Refusal, SpreadCounts};
use crate::object::{InclusionPolicy, Selector};

/// The counts of the pod's required constraints.
#[derive(Debug)]
pub struct SpreadState(Vec<Counted>, SpreadCounts);

#[derive(Debug)]
struct Counted {
    constraint: Spread,
    matches_itself: bool,
    /// The number of matching pods in each domain.
    domains: HashMap<Arc<str>, i64, FixedState>,
    /// The number of domains of each count: the first key is the minimum.
    by_count: BTreeMap<i64, usize>,
}

/// `None` without required constraints. The plugin's filter then does not take part in the attempt.
pub fn pre_filter(pod: &PodInfo, cluster: &Cluster, counts: SpreadCounts) -> Option<SpreadState> {
    let required = pod.spread.iter().filter(|spread| spread.is_required());
    let counted = |constraint: &Spread| Counted {
        matches_itself: constraint.selector.matches(pod.labels()),
        constraint: constraint.clone(),
        domains: HashMap::default(),
        by_count: BTreeMap::new(),
    };
    let mut state = SpreadState(required.map(counted).collect(), counts);
    if state.0.is_empty() {
        return None;
    }
    let matching: Vec<Vec<bool>> =
        state.0.iter().map(|counted| matching(cluster, &counted.constraint.selector, &pod.namespace)).collect();
    for node in cluster.nodes() {
        if !state.has_all_labels(node) {
            continue;
        }
        for (counted, matching) in state.0.iter_mut().zip(&matching) {
            if !includes(&counted.constraint, pod, node) {
                continue;
            }
            let found = if counts == SpreadCounts::AdmittedNodes { node.count_of(matching) } else { 0 };
            *counted.domains.entry(domain(node, &counted.constraint)).or_default() += found;
        }
    }
    if counts == SpreadCounts::AllNodes {
        count_everywhere(&mut state, cluster, &matching);
    }
    for counted in &mut state.0 {
        #[expect(clippy::disallowed_methods, reason = "sums up: the order does not show")]
        #[expect(clippy::iter_over_hash_type, reason = "sums up: the order does not show")]
        for count in counted.domains.values() {
            *counted.by_count.entry(*count).or_default() += 1;
        }
    }
    Some(state)
}

/// Counts the pods on all nodes of the domains.
fn count_everywhere(state: &mut SpreadState, cluster: &Cluster, matching: &[Vec<bool>]) {
    for node in cluster.nodes() {
        for (counted, matching) in state.0.iter_mut().zip(matching) {
            if let Some(count) = counted.domains.get_mut(&domain(node, &counted.constraint)) {
                *count += node.count_of(matching);
            }
        }
    }
}

impl SpreadState {
    fn has_all_labels(&self, node: &NodeInfo) -> bool {
        self.0.iter().all(|counted| node.labels().contains_key(&counted.constraint.topology_key))
    }

    /// Counts a pod that is added to a node (`delta` 1) or removed from it (-1).
    pub fn update(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, delta: i64) {
        if other.namespace != pod.namespace || !self.has_all_labels(node) {
            return;
        }
        for counted in &mut self.0 {
            let constraint = &counted.constraint;
            let is_counted_here = match self.1 {
                SpreadCounts::AdmittedNodes => includes(constraint, pod, node),
                SpreadCounts::AllNodes => counted.domains.contains_key(&domain(node, constraint)),
            };
            if constraint.selector.matches(other.labels()) && is_counted_here {
                counted.change(domain(node, constraint), delta);
            }
        }
    }

    pub fn filter(&self, node: &NodeInfo) -> Result<(), Objection> {
        for counted in &self.0 {
            let Some(value) = node.labels().get(&counted.constraint.topology_key) else {
                return Err(Refusal::for_good(Plugin::PodTopologySpread, Reason::SpreadLabelMissing).into());
            };
            let here = counted.domains.get(value).copied().unwrap_or(0);
            let skew = here + i64::from(counted.matches_itself) - counted.least();
            if skew > counted.constraint.max_skew {
                return Err(Refusal::for_now(Plugin::PodTopologySpread, Reason::Spread).into());
            }
        }
        Ok(())
    }
}

impl Counted {
    /// The lowest count of any domain. If there are fewer domains than required, a missing domain counts with zero
    /// pods.
    fn least(&self) -> i64 {
        let is_one_missing = (self.domains.len() as i64) < self.constraint.min_domains;
        // Without domains and without a minimum of them, no node can pass the check of labels.
        if is_one_missing { 0 } else { self.by_count.keys().next().copied().unwrap_or(0) }
    }

    fn change(&mut self, domain: Arc<str>, delta: i64) {
        let count = self.domains.entry(domain).or_insert_with(|| {
            *self.by_count.entry(0).or_default() += 1;
            0
        });
        let before = *count;
        *count += delta;
        *self.by_count.entry(*count).or_default() += 1;
        if let Some(domains) = self.by_count.get_mut(&before) {
            *domains -= 1;
            if *domains == 0 {
                self.by_count.remove(&before);
            }
        }
    }
}

fn domain(node: &NodeInfo, constraint: &Spread) -> Arc<str> {
    node.labels().get(&constraint.topology_key).map_or_else(|| Arc::from(""), Arc::clone)
}

/// Whether a node belongs to the domains of a constraint.
pub fn includes(constraint: &Spread, pod: &PodInfo, node: &NodeInfo) -> bool {
    (constraint.node_affinity_policy == InclusionPolicy::Ignore || pod.wants_node(node.name(), node.labels()))
        && (constraint.node_taints_policy == InclusionPolicy::Ignore || pod.untolerated(&node.shape.taints).is_none())
}

/// The classes of pods that count. A selector without requirements counts none.
pub fn matching(cluster: &Cluster, selector: &Selector, namespace: &str) -> Vec<bool> {
    let counts =
        |class: &PodClass| !class.is_being_deleted && *class.namespace == *namespace && selector.matches(&class.labels);
    cluster.classes.map(|class| !selector.is_everything() && counts(class))
}
