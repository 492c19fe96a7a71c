//! A pod with everything that the plugins derive from it.

use std::fmt;
use std::sync::Arc;

use super::affinity_term::Term;
use super::port::HostPort;
use super::resources::Requests;
use crate::object::{
    Effect, InclusionPolicy, Labels, Pod, Requirement, Selector, Taint, Toleration, WhenUnsatisfiable,
};

/// A pod, ready for scheduling.
pub struct PodInfo {
    pub pod: Pod,
    /// `namespace/name`. The identity of the pod.
    pub key: Arc<str>,
    pub namespace: Arc<str>,
    pub priority: i32,
    pub requests: Requests,
    pub ports: Vec<HostPort>,
    pub affinity: Terms,
    pub anti_affinity: Terms,
    /// Constraints of both kinds, in the order of the pod.
    pub spread: Vec<Spread>,
}

/// Terms of affinity or of anti-affinity.
#[derive(Debug)]
pub struct Terms {
    pub required: Vec<Term>,
    /// Each with its weight.
    pub preferred: Vec<(i64, Term)>,
}

/// A constraint on how pods are spread over the domains of a topology.
#[derive(Clone, Debug)]
pub struct Spread {
    pub topology_key: Arc<str>,
    pub max_skew: i64,
    pub min_domains: i64,
    pub when_unsatisfiable: WhenUnsatisfiable,
    pub selector: Selector,
    pub node_affinity_policy: InclusionPolicy,
    pub node_taints_policy: InclusionPolicy,
}

impl Spread {
    /// Whether a node that breaks the constraint is refused.
    pub fn is_required(&self) -> bool {
        self.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
    }
}

impl PodInfo {
    pub fn new(pod: Pod) -> PodInfo {
        let namespace = pod.metadata.namespace();
        let labels = &pod.metadata.labels;
        let affinity = &pod.spec.affinity;
        let terms = |stated: &crate::object::PodAffinity| Terms {
            required: stated.required.iter().map(|term| Term::new(term, &namespace, labels)).collect(),
            preferred: (stated.preferred.iter())
                .map(|term| (i64::from(term.weight), Term::new(&term.pod_affinity_term, &namespace, labels)))
                .collect(),
        };
        PodInfo {
            key: pod.metadata.key(),
            priority: pod.spec.priority.unwrap_or(0),
            requests: Requests::of(&pod),
            ports: HostPort::of(&pod),
            affinity: terms(&affinity.pod_affinity),
            anti_affinity: terms(&affinity.pod_anti_affinity),
            spread: spread_of(&pod),
            namespace,
            pod,
        }
    }

    /// Whether what the pod states lets pods or devices of other nodes decide about a node.
    pub fn depends_on_other_nodes(&self) -> bool {
        self.spread.iter().any(Spread::is_required)
            || !self.affinity.required.is_empty()
            || !self.anti_affinity.required.is_empty()
            || !self.pod.spec.resource_claims.is_empty()
    }

    pub fn labels(&self) -> &Labels {
        &self.pod.metadata.labels
    }

    pub fn tolerations(&self) -> &[Toleration] {
        &self.pod.spec.tolerations
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations().iter().any(|toleration| toleration.tolerates(taint))
    }

    /// The first taint that keeps the pod away from a node with these taints.
    pub fn untolerated<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        let repels = |taint: &&Taint| match taint.effect {
            Effect::NoSchedule | Effect::NoExecute => !self.tolerates(taint),
            Effect::PreferNoSchedule => false,
        };
        taints.iter().find(repels)
    }

    /// Whether the pod's node selector and its required node affinity match the node.
    pub fn wants_node(&self, name: &str, labels: &Labels) -> bool {
        self.pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && (self.pod.spec.affinity.node_affinity.required.as_ref())
                .is_none_or(|required| required.matches(name, labels))
    }

    pub fn is_being_deleted(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    pub fn has_affinity(&self) -> bool {
        [&self.affinity, &self.anti_affinity]
            .iter()
            .any(|terms| !terms.required.is_empty() || !terms.preferred.is_empty())
    }
}

fn spread_of(pod: &Pod) -> Vec<Spread> {
    let labels = &pod.metadata.labels;
    let constraint = |stated: &crate::object::SpreadConstraint| {
        let mut selector = Selector::new(stated.label_selector.as_ref());
        for (key, value) in stated.match_label_keys.iter().filter_map(|key| labels.get_key_value(key)) {
            selector.and(Requirement::equal(key, value));
        }
        Spread {
            topology_key: Arc::clone(&stated.topology_key),
            max_skew: i64::from(stated.max_skew),
            min_domains: i64::from(stated.min_domains.unwrap_or(1)),
            when_unsatisfiable: stated.when_unsatisfiable,
            selector,
            node_affinity_policy: stated.node_affinity_policy.unwrap_or(InclusionPolicy::Honor),
            node_taints_policy: stated.node_taints_policy.unwrap_or(InclusionPolicy::Ignore),
        }
    };
    pod.spec.topology_spread_constraints.iter().map(constraint).collect()
}

impl fmt::Debug for PodInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PodInfo").field(&self.key).finish()
    }
}
