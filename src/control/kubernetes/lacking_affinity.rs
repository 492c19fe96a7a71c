//! Required affinity to other pods that nothing of a rehearsal can meet.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pods::labels;
use dryrack_fleet::Fleet;
use dryrack_kubernetes::cluster::PodInfo;
use dryrack_kubernetes::object::Labels;
use dryrack_objects::Pod;

/// The nodes of a rehearsal and its pods, by what affinity reads of them.
pub struct Neighbors {
    /// The keys of the labels of each node.
    keys: BTreeSet<BTreeSet<Arc<str>>>,
    /// The namespace and the labels of each pod.
    pods: BTreeSet<(Arc<str>, Labels)>,
}

impl Neighbors {
    /// A pod that is not stated has no labels.
    pub fn new<'p>(fleet: &Fleet, pods: impl Iterator<Item = Option<&'p Pod>>) -> Neighbors {
        let keys = fleet.iter().map(|(_, node)| labels(node).into_keys().collect()).collect();
        let of_pod = |pod: Option<&Pod>| {
            let pod = pod.cloned().unwrap_or_default();
            (pod.metadata.namespace(), pod.metadata.labels)
        };
        Neighbors { keys, pods: pods.map(of_pod).collect() }
    }

    /// Whether the pod's required affinity can never be met: no node has labels with all its topology keys, or no pod,
    /// not even this one, is selected by all its terms. kube-scheduler counts only pods that all terms select
    /// (`podMatchesAllAffinityTerms` in pkg/scheduler/framework/plugins/interpodaffinity/filtering.go). A term that selects
    /// namespaces by their labels counts as met.
    pub fn lack(&self, pod: &Pod) -> bool {
        let stated = &pod.spec.affinity.pod_affinity.required;
        let info = PodInfo::new(pod.clone());
        let terms = &info.affinity.required;
        let select = |(namespace, labels): &(Arc<str>, Labels)| {
            stated.iter().zip(terms).all(|(stated, term)| {
                stated.namespace_selector.is_some() || term.matches(namespace, Some(&Labels::default()), labels)
            })
        };
        let have_keys = |keys: &BTreeSet<Arc<str>>| terms.iter().all(|term| keys.contains(&term.topology_key));
        let may_be_met = self.pods.iter().any(select) && self.keys.iter().any(have_keys);
        !terms.is_empty() && !may_be_met
    }
}
