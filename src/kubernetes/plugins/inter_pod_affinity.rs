//! `InterPodAffinity`: affinity and anti-affinity between pods, required and preferred, of the incoming pod and of
//! running pods.

use super::pair_counts::PairCounts;
use crate::cluster::{Cluster, NodeInfo, PodClass, PodInfo, Term};
use crate::cycle::{AffinityRange, MAX_NODE_SCORE, Objection, Plugin, Profile, Reason, Refusal};
use crate::object::Labels;

/// The counts that decide about required terms, by topology key and domain.
#[derive(Debug)]
pub struct AffinityState {
    namespace_labels: Labels,
    /// Pods that match all required affinity terms, once for each term.
    affinity: PairCounts,
    /// Pods that match a required anti-affinity term, once for each such term.
    anti_affinity: PairCounts,
    /// Required anti-affinity terms of existing pods that match the incoming pod.
    existing_anti_affinity: PairCounts,
}

/// `None` if no required term is about the pod. The plugin then does not take part in the attempt.
pub fn pre_filter(pod: &PodInfo, cluster: &Cluster) -> Option<AffinityState> {
    let mut state = AffinityState {
        namespace_labels: cluster.namespace_labels(&pod.namespace).cloned().unwrap_or_default(),
        affinity: PairCounts::default(),
        anti_affinity: PairCounts::default(),
        existing_anti_affinity: PairCounts::default(),
    };
    for node in cluster.with_required_anti_affinity() {
        for existing in &node.pods {
            state.count_existing(pod, &existing.pod, node, 1);
        }
    }
    let has_own = !pod.affinity.required.is_empty() || !pod.anti_affinity.required.is_empty();
    if !has_own && state.existing_anti_affinity.is_empty() {
        return None;
    }
    if has_own {
        state.count_all(pod, cluster);
    }
    Some(state)
}

impl AffinityState {
    /// Counts all pods for the pod's own terms.
    fn count_all(&mut self, pod: &PodInfo, cluster: &Cluster) {
        let (affinity, anti_affinity) = (&pod.affinity.required, &pod.anti_affinity.required);
        let labels = |class: &PodClass| cluster.namespace_labels(&class.namespace);
        let meets_all = cluster.classes.map(|class| {
            !affinity.is_empty()
                && affinity.iter().all(|term| term.matches(&class.namespace, labels(class), &class.labels))
        });
        let disturbs = anti_affinity.iter().map(|term| {
            (term, cluster.classes.map(|class| term.matches(&class.namespace, labels(class), &class.labels)))
        });
        let disturbs: Vec<(&Term, Vec<bool>)> = disturbs.collect();
        for node in cluster.nodes() {
            let pods = node.count_of(&meets_all);
            for term in affinity.iter().filter(|_| pods > 0) {
                self.affinity.add(&term.topology_key, node.labels(), pods);
            }
            for (term, matching) in &disturbs {
                let pods = node.count_of(matching);
                if pods > 0 {
                    self.anti_affinity.add(&term.topology_key, node.labels(), pods);
                }
            }
        }
    }

    /// Counts a pod that is added to a node (`delta` 1) or removed from it (-1). `namespace_labels` are those of that
    /// pod's namespace.
    pub fn update(
        &mut self,
        pod: &PodInfo,
        other: &PodInfo,
        namespace_labels: Option<&Labels>,
        node: &NodeInfo,
        delta: i64,
    ) {
        self.count_existing(pod, other, node, delta);
        self.count_own(pod, other, namespace_labels, node, delta);
    }

    fn count_existing(&mut self, pod: &PodInfo, existing: &PodInfo, node: &NodeInfo, delta: i64) {
        for term in &existing.anti_affinity.required {
            if matches(term, pod, Some(&self.namespace_labels)) {
                self.existing_anti_affinity.add(&term.topology_key, node.labels(), delta);
            }
        }
    }

    fn count_own(&mut self, pod: &PodInfo, other: &PodInfo, labels: Option<&Labels>, node: &NodeInfo, delta: i64) {
        if matches_all(&pod.affinity.required, other, labels) {
            for term in &pod.affinity.required {
                self.affinity.add(&term.topology_key, node.labels(), delta);
            }
        }
        for term in &pod.anti_affinity.required {
            if matches(term, other, labels) {
                self.anti_affinity.add(&term.topology_key, node.labels(), delta);
            }
        }
    }

    pub fn filter(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Objection> {
        if !self.satisfies_affinity(pod, node) {
            return Err(Refusal::for_good(Plugin::InterPodAffinity, Reason::PodAffinity).into());
        }
        let is_disturbed = |term: &Term| {
            let value = node.labels().get(&term.topology_key);
            value.is_some_and(|value| self.anti_affinity.get(&term.topology_key, value) > 0)
        };
        if pod.anti_affinity.required.iter().any(is_disturbed) {
            return Err(Refusal::for_now(Plugin::InterPodAffinity, Reason::PodAntiAffinity).into());
        }
        if self.existing_anti_affinity.is_any_above_zero(node.labels()) {
            return Err(Refusal::for_now(Plugin::InterPodAffinity, Reason::ExistingAntiAffinity).into());
        }
        Ok(())
    }

    fn satisfies_affinity(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let terms = &pod.affinity.required;
        let mut is_satisfied = true;
        for term in terms {
            let Some(value) = node.labels().get(&term.topology_key) else { return false };
            is_satisfied &= self.affinity.get(&term.topology_key, value) > 0;
        }
        // This is the first pod of a group that must be together. No pod matches yet, but it matches its own terms.
        is_satisfied || (self.affinity.is_empty() && matches_all(terms, pod, Some(&self.namespace_labels)))
    }
}

/// Whether a pod on the node requires anti-affinity to this pod. `labels` are those of this pod's namespace.
pub fn is_repelled_by(node: &NodeInfo, pod: &PodInfo, labels: &Labels) -> bool {
    let terms = || node.pods.iter().flat_map(|existing| &existing.pod.anti_affinity.required);
    node.with_required_anti_affinity > 0 && terms().any(|term| matches(term, pod, Some(labels)))
}

fn matches(term: &Term, pod: &PodInfo, namespace_labels: Option<&Labels>) -> bool {
    term.matches(&pod.namespace, namespace_labels, pod.labels())
}

fn matches_all(terms: &[Term], pod: &PodInfo, namespace_labels: Option<&Labels>) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, pod, namespace_labels))
}

/// The weights of preferred terms, by topology key and domain.
#[derive(Default)]
struct Weights {
    sums: PairCounts,
    is_any: bool,
}

impl Weights {
    fn add(&mut self, term: &Term, node: &NodeInfo, weight: i64) {
        if node.labels().contains_key(&term.topology_key) {
            self.is_any = true;
            self.sums.add(&term.topology_key, node.labels(), weight);
        }
    }
}

/// `None` if no term contributes.
pub fn score(pod: &PodInfo, cluster: &Cluster, feasible: &[usize], profile: &Profile) -> Option<Vec<i64>> {
    let hard_weight = profile.hard_pod_affinity_weight;
    let mut weights = Weights::default();
    for (terms, sign) in [(&pod.affinity.preferred, 1), (&pod.anti_affinity.preferred, -1)] {
        for (weight, term) in terms {
            let labels = |class: &PodClass| cluster.namespace_labels(&class.namespace);
            let matching = cluster.classes.map(|class| term.matches(&class.namespace, labels(class), &class.labels));
            for node in cluster.nodes() {
                let pods = node.count_of(&matching);
                if pods > 0 {
                    weights.add(term, node, weight * sign * pods);
                }
            }
        }
    }
    let own_labels = cluster.namespace_labels(&pod.namespace).cloned().unwrap_or_default();
    for node in cluster.with_affinity() {
        for existing in node.pods.iter().map(|placed| &placed.pod).filter(|existing| existing.has_affinity()) {
            let hard = existing.affinity.required.iter().filter(|_| hard_weight > 0).map(|term| (hard_weight, term));
            let liked = existing.affinity.preferred.iter().map(|(weight, term)| (*weight, term));
            let disliked = existing.anti_affinity.preferred.iter().map(|(weight, term)| (-weight, term));
            for (weight, term) in hard.chain(liked).chain(disliked) {
                if matches(term, pod, Some(&own_labels)) {
                    weights.add(term, node, weight);
                }
            }
        }
    }
    if !weights.is_any {
        return None;
    }
    let mut scores: Vec<i64> = feasible.iter().map(|index| weights.sums.sum(cluster.node(*index).labels())).collect();
    let zero = (profile.affinity_range == AffinityRange::WithZero).then_some(0);
    let least = scores.iter().copied().chain(zero).min().unwrap_or(0);
    let range = scores.iter().copied().chain(zero).max().unwrap_or(0) - least;
    for score in &mut scores {
        *score = match range {
            0 => 0,
            _ => (MAX_NODE_SCORE as f64 * ((*score - least) as f64 / range as f64)) as i64,
        };
    }
    Some(scores)
}
