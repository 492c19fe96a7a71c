//! The data that the plugins keep about a pod during one attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::profile::Profile;
use super::verdict::{Objection, Plugin, Refusal};
use crate::cluster::{Cluster, NodeInfo, Nominations, Placed, PodInfo};
use crate::devices::Devices;
use crate::object::Labels;
use crate::plugins::dynamic_resources::ClaimState;
use crate::plugins::inter_pod_affinity::AffinityState;
use crate::plugins::spread_filter::SpreadState;
use crate::plugins::{
    dynamic_resources, inter_pod_affinity, node_affinity, node_name, node_ports, node_resources_fit,
    node_unschedulable, spread_filter, taint_toleration,
};

/// The state of an attempt. The data of a plugin is `None` if the plugin does not apply to the pod.
#[derive(Debug)]
pub struct CycleState {
    pub pod: Arc<PodInfo>,
    /// The names of the nodes to examine, if not all nodes are examined.
    pub only_nodes: Option<BTreeSet<Arc<str>>>,
    pub spread: Option<SpreadState>,
    pub affinity: Option<AffinityState>,
    pub claims: Option<ClaimState>,
}

/// The parts of a cluster that filters read besides the node.
pub struct Sight<'c> {
    pub profile: &'c Profile,
    pub nominations: &'c Nominations,
    pub namespaces: &'c BTreeMap<Arc<str>, Labels>,
    pub devices: &'c mut Devices,
}

impl CycleState {
    /// Calls the filters of the profile before any node is examined.
    ///
    /// # Errors
    /// If a plugin refuses the pod on all nodes.
    pub fn new(pod: &Arc<PodInfo>, cluster: &Cluster, profile: &Profile) -> Result<CycleState, Refusal> {
        let mut state = CycleState::without_plugins(pod);
        if profile.filters.contains(&Plugin::NodeAffinity) {
            state.only_nodes = node_affinity::pre_filter(pod)?;
        }
        state.prepare(cluster, profile)?;
        Ok(state)
    }

    /// Like `new`, but without the plugins that refuse the pod on all nodes.
    pub fn as_far_as_possible(pod: &Arc<PodInfo>, cluster: &Cluster, profile: &Profile) -> CycleState {
        let mut state = CycleState::without_plugins(pod);
        let _without_claims = state.prepare(cluster, profile);
        state
    }

    /// Prepares the plugins whose filters have data of their own.
    fn prepare(&mut self, cluster: &Cluster, profile: &Profile) -> Result<(), Refusal> {
        let (pod, has) = (&self.pod, |plugin| profile.filters.contains(&plugin));
        if has(Plugin::PodTopologySpread) {
            self.spread = spread_filter::pre_filter(pod, cluster, profile.spread_counts);
        }
        if has(Plugin::InterPodAffinity) {
            self.affinity = inter_pod_affinity::pre_filter(pod, cluster);
        }
        if has(Plugin::DynamicResources) {
            self.claims = dynamic_resources::pre_filter(pod, &cluster.devices)?;
        }
        Ok(())
    }

    /// The state of a pod for which no plugin has data.
    pub fn without_plugins(pod: &Arc<PodInfo>) -> CycleState {
        CycleState { pod: Arc::clone(pod), only_nodes: None, spread: None, affinity: None, claims: None }
    }

    /// Counts a pod that is added to a node (`delta` 1) or removed from it (-1), for this attempt alone.
    pub fn update(&mut self, sight: &Sight, other: &PodInfo, node: &NodeInfo, delta: i64) {
        if let Some(spread) = &mut self.spread {
            spread.update(&self.pod, other, node, delta);
        }
        if let Some(affinity) = &mut self.affinity {
            affinity.update(&self.pod, other, sight.namespaces.get(&other.namespace), node, delta);
        }
    }

    /// Calls all filters for a node, up to the first one that objects.
    ///
    /// # Errors
    /// The objection.
    pub fn filter(&mut self, sight: &mut Sight, node: &NodeInfo) -> Result<(), Objection> {
        for plugin in &sight.profile.filters {
            self.filter_by(*plugin, sight, node)?;
        }
        Ok(())
    }

    fn filter_by(&mut self, plugin: Plugin, sight: &mut Sight, node: &NodeInfo) -> Result<(), Objection> {
        let pod = &self.pod;
        match plugin {
            Plugin::NodeUnschedulable => node_unschedulable::filter(pod, node),
            Plugin::NodeName => node_name::filter(pod, node),
            Plugin::TaintToleration => taint_toleration::filter(pod, node),
            Plugin::NodeAffinity => node_affinity::filter(pod, node),
            Plugin::NodePorts => node_ports::filter(pod, node),
            Plugin::NodeResourcesFit => node_resources_fit::filter(pod, node, sight.profile),
            Plugin::PodTopologySpread => self.spread.as_ref().map_or(Ok(()), |spread| spread.filter(node)),
            Plugin::InterPodAffinity => self.affinity.as_ref().map_or(Ok(()), |affinity| affinity.filter(pod, node)),
            Plugin::DynamicResources => {
                self.claims.as_mut().map_or(Ok(()), |claims| claims.filter(sight.devices, node))
            }
            Plugin::SchedulingGates
            | Plugin::DefaultPreemption
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::GangScheduling => Ok(()),
        }
    }

    /// Like `filter`, but the pod must fit both with and without the pods of equal or higher priority that are
    /// nominated to the node.
    ///
    /// # Errors
    /// The objection.
    pub fn filter_with_nominated(&mut self, sight: &mut Sight, node: &NodeInfo) -> Result<(), Objection> {
        let counts = |other: &&Arc<PodInfo>| other.priority >= self.pod.priority && other.key != self.pod.key;
        let nominated: Vec<Arc<PodInfo>> = sight.nominations.on(node.name()).iter().filter(counts).cloned().collect();
        if !nominated.is_empty() {
            let mut with_nominated = node.clone();
            for pod in &nominated {
                with_nominated.add(Placed { pod: Arc::clone(pod), start: None, class: None, is_preempted: false });
                self.update(sight, pod, node, 1);
            }
            let fits = self.filter(sight, &with_nominated);
            for pod in &nominated {
                self.update(sight, pod, node, -1);
            }
            fits?;
        }
        self.filter(sight, node)
    }
}
