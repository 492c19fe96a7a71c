//! A scheduler's profile: its plugins, their weights and their arguments.

use super::verdict::Plugin;
use crate::cluster::Resource;

/// Plugins and arguments.
#[derive(Clone, Debug)]
pub struct Profile {
    /// In the order in which they are called. The check of a node ends with the first plugin that objects.
    pub filters: Vec<Plugin>,
    /// The scorers with their weights, in the order of upstream's default configuration.
    pub scorers: Vec<(Plugin, i64)>,
    pub fit: ScoringStrategy,
    /// The resources that `NodeResourcesBalancedAllocation` compares.
    pub balanced: Vec<Resource>,
    /// The weight of existing pods' required affinity in the score of `InterPodAffinity`.
    pub hard_pod_affinity_weight: i64,
    /// Spread constraints for pods that have none and are selected by a service: topology key and greatest skew.
    pub default_spread: Vec<(&'static str, i64)>,
    pub preemption: PreemptionArguments,
}

/// How `NodeResourcesFit` scores a node.
#[derive(Clone, Debug)]
pub struct ScoringStrategy {
    pub kind: Strategy,
    /// The resources that count, each with its weight.
    pub resources: Vec<(Resource, i64)>,
}

#[derive(Clone, Debug)]
pub enum Strategy {
    LeastAllocated,
    MostAllocated,
    /// The score by utilization in percent: points of ascending utilization, with scores from 0 to 10.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The number of nodes on which preemption is tried: the larger of a share and a number.
#[derive(Clone, Copy, Debug)]
pub struct PreemptionArguments {
    pub min_candidate_nodes_percentage: usize,
    pub min_candidate_nodes_absolute: usize,
}

/// The highest score of a plugin before its weight.
pub const MAX_NODE_SCORE: i64 = 100;

impl Profile {
    /// The default profile of Kubernetes 1.35.
    pub fn v1_35() -> Profile {
        use Plugin::*;
        Profile {
            filters: vec![
                NodeUnschedulable,
                NodeName,
                TaintToleration,
                NodeAffinity,
                NodePorts,
                NodeResourcesFit,
                PodTopologySpread,
                InterPodAffinity,
                DynamicResources,
            ],
            scorers: vec![
                (TaintToleration, 3),
                (NodeAffinity, 2),
                (NodeResourcesFit, 1),
                (PodTopologySpread, 2),
                (InterPodAffinity, 2),
                (DynamicResources, 2),
                (NodeResourcesBalancedAllocation, 1),
                (ImageLocality, 1),
            ],
            fit: ScoringStrategy {
                kind: Strategy::LeastAllocated,
                resources: vec![(Resource::Cpu, 1), (Resource::Memory, 1)],
            },
            balanced: vec![Resource::Cpu, Resource::Memory],
            hard_pod_affinity_weight: 1,
            default_spread: vec![("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)],
            preemption: PreemptionArguments { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 },
        }
    }
}
