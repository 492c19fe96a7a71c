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
    /// The keys of the labels of all nodes.
    keys: BTreeSet<Arc<str>>,
    /// The namespace and the labels of each pod.
    pods: BTreeSet<(Arc<str>, Labels)>,
}

impl Neighbors {
    /// A pod that is not stated has no labels.
    pub fn new<'p>(fleet: &Fleet, pods: impl Iterator<Item = Option<&'p Pod>>) -> Neighbors {
        let keys = fleet.iter().flat_map(|(_, node)| labels(node).into_keys()).collect();
        let of_pod = |pod: Option<&Pod>| {
            let pod = pod.cloned().unwrap_or_default();
            (pod.metadata.namespace(), pod.metadata.labels)
        };
        Neighbors { keys, pods: pods.map(of_pod).collect() }
    }

    /// Whether a term of the pod's required affinity can never be met: no node has a label with its topology key, or it
    /// selects no pod, not even this one. A term that selects namespaces by their labels counts as met.
    pub fn lack(&self, pod: &Pod) -> bool {
        let stated = &pod.spec.affinity.pod_affinity.required;
        let info = PodInfo::new(pod.clone());
        stated.iter().zip(&info.affinity.required).any(|(stated, term)| {
            let selects =
                |(namespace, labels): &(Arc<str>, Labels)| term.matches(namespace, Some(&Labels::default()), labels);
            let is_met = stated.namespace_selector.is_some() || self.pods.iter().any(selects);
            !is_met || !self.keys.contains(&term.topology_key)
        })
    }
}
