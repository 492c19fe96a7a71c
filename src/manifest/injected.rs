//! What Kueue has added to the pods of a workload that it has admitted. A rehearsal adds it again, so it is taken off
//! here. Otherwise a preempted workload could get no other flavor.

use std::collections::BTreeSet;
use std::sync::Arc;

use dryrack_kueue::objects::{Named, ResourceFlavorSpec, TopologySpec};

use crate::api::Pod;
use crate::listed::{ListedPodSet, ListedWorkload};

/// The flavors and the topologies of the files.
pub type Given<'q> = (&'q [Named<ResourceFlavorSpec>], &'q [Named<TopologySpec>]);

/// The flavors that a pod set of the workload was given.
fn flavors_of<'q>(
    listed: &ListedWorkload,
    set: &ListedPodSet,
    flavors: &'q [Named<ResourceFlavorSpec>],
) -> Vec<&'q Named<ResourceFlavorSpec>> {
    let assigned = listed.admission.iter().flat_map(|admission| &admission.pod_sets).find(|one| one.name == set.name);
    let names: BTreeSet<&Arc<str>> = assigned.into_iter().flat_map(|one| one.flavors.values()).collect();
    flavors.iter().filter(|flavor| names.contains(&flavor.name)).collect()
}

/// Takes from a pod the labels and tolerations of the flavors that its pod set was given, and the labels of its place in
/// a topology. What the workload itself states remains.
pub fn take_off(pod: &mut Pod, listed: &ListedWorkload, set: &ListedPodSet, (flavors, topologies): Given<'_>) {
    let own = &set.template.spec;
    for Named { spec, .. } in flavors_of(listed, set, flavors) {
        let topology = topologies.iter().find(|topology| Some(&topology.name) == spec.topology_name.as_ref());
        let is_level = |key: &Arc<str>| {
            topology.is_some_and(|topology| topology.spec.levels.iter().any(|level| level.node_label == *key))
        };
        pod.spec.node_selector.retain(|key, value| {
            let is_added = spec.node_labels.get(key) == Some(value) || is_level(key);
            own.node_selector.get(key) == Some(value) || !is_added
        });
        pod.spec.tolerations.retain(|one| own.tolerations.contains(one) || !spec.tolerations.contains(one));
    }
}
