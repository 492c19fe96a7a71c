//! A pod's terms of affinity to other pods, ready for matching.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object::{AffinityTerm, Labels, Requirement, RequirementOperator, Selector};

/// The pods that a term is about, and the topology key by which it compares nodes.
#[derive(Clone, Debug)]
pub struct Term {
    pub topology_key: Arc<str>,
    namespaces: BTreeSet<Arc<str>>,
    namespace_selector: Selector,
    selector: Selector,
}

impl Term {
    /// `namespace` and `labels` are those of the pod that has the term.
    pub fn new(term: &AffinityTerm, namespace: &Arc<str>, labels: &Labels) -> Term {
        let mut namespaces: BTreeSet<Arc<str>> = term.namespaces.iter().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(Arc::clone(namespace));
        }
        let mut selector = Selector::new(term.label_selector.as_ref());
        // The API server merges these keys into the selector when the pod is created.
        for (keys, operator) in
            [(&term.match_label_keys, RequirementOperator::In), (&term.mismatch_label_keys, RequirementOperator::NotIn)]
        {
            for (key, value) in keys.iter().filter_map(|key| labels.get_key_value(key)) {
                selector.and(Requirement { operator, ..Requirement::equal(key, value) });
            }
        }
        Term {
            topology_key: Arc::clone(&term.topology_key),
            namespaces,
            namespace_selector: Selector::new(term.namespace_selector.as_ref()),
            selector,
        }
    }

    /// Whether the term is about a pod in this namespace with these labels. `namespace_labels` are the labels of the
    /// namespace. They are `None` if there is no object for it; then only a selector of all namespaces selects it.
    pub fn matches(&self, namespace: &Arc<str>, namespace_labels: Option<&Labels>, labels: &Labels) -> bool {
        let is_selected = || match namespace_labels {
            Some(labels) => self.namespace_selector.matches(labels),
            None => self.namespace_selector.is_everything(),
        };
        (self.namespaces.contains(namespace) || is_selected()) && self.selector.matches(labels)
    }
}
