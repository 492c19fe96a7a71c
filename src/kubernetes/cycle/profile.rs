//! A scheduler's profile: its plugins, their weights and their arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pairs;
use super::points::{FilterPlugin, ScorePlugin, filters, scorers};
use super::verdict::Plugin;
use crate::cluster::Resource;

/// Plugins and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// In the order in which they are called. The check of a node ends with the first plugin that objects. A plugin that
    /// is not listed does not hold a pod back before its nodes are checked either.
    #[serde(deserialize_with = "filters")]
    #[schemars(with = "Vec<FilterPlugin>")]
    pub filters: Vec<Plugin>,
    /// Whether a pod with scheduling gates waits until they are removed (the plugin `SchedulingGates`, since 1.26).
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub scheduling_gates: bool,
    /// The scorers with their weights, in the order of the default configuration of kube-scheduler.
    #[serde(serialize_with = "pairs::serialize", deserialize_with = "scorers")]
    #[schemars(with = "BTreeMap<ScorePlugin, Option<i64>>")]
    pub scorers: Vec<(Plugin, i64)>,
    /// How `NodeResourcesFit` scores a node.
    #[serde(rename = "scoring_strategy")]
    pub fit: ScoringStrategy,
    /// Which resources `NodeResourcesFit` checks on a node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fit_checks: FitChecks,
    /// How `NodeResourcesFit` refuses a pod that requests more of a resource than the node has in all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oversized: Oversized,
    /// The resources that `NodeResourcesBalancedAllocation` compares.
    #[serde(rename = "balanced_allocation")]
    pub balanced: Vec<Resource>,
    /// What `NodeResourcesBalancedAllocation` measures.
    #[serde(default, skip_serializing_if = "is_default")]
    pub balance: Balance,
    /// On which nodes of a domain the filter of `PodTopologySpread` counts pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spread_counts: SpreadCounts,
    /// How `PodTopologySpread` rounds its raw score.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spread_rounding: Rounding,
    /// Which nodes the default constraints of `PodTopologySpread` score.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_spread_scores: DefaultSpreadScores,
    /// Which controllers say by their selectors among which pods a pod is spread by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_spread_controllers: SpreadControllers,
    /// What `InterPodAffinity` scales its raw scores from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub affinity_range: AffinityRange,
    /// Which nodes a pod with a nominated node is tried on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nominated: Nominated,
    /// When a pod that is refused again loses its nominated node.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nomination_ends: NominationEnds,
    /// By the priority of which victim preemption compares nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compared_victim: ComparedVictim,
    /// The share of nodes that an attempt must find feasible before it stops to examine nodes. With 0, the share
    /// decreases from 50 % of 100 nodes to 5 %. It matters in clusters of 100 nodes and more.
    #[serde(default)]
    pub percentage_of_nodes_to_score: u8,
    /// The weight of existing pods' required affinity in the score of `InterPodAffinity`.
    pub hard_pod_affinity_weight: i64,
    /// Spread constraints for pods that have none, and that a service selects or a controller owns: topology key and
    /// greatest skew.
    #[serde(rename = "default_constraints", with = "pairs")]
    #[schemars(with = "BTreeMap<String, Option<i64>>")]
    pub default_spread: Vec<(Arc<str>, i64)>,
    pub preemption: PreemptionArguments,
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FitChecks {
    /// The resources that the pod requests.
    #[default]
    Requested,
    /// CPU, memory and ephemeral storage as well, unless the pod requests nothing, as in 1.20. A node may be
    /// overcommitted by the pods that are nominated to it. It then refuses a pod that requests nothing of the scarce
    /// resource.
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Oversized {
    /// For good: preemption is not tried on the node.
    #[default]
    ForGood,
    /// Like another shortage, as in 1.20.
    ForNow,
}

/// The imbalance of a node's resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Balance {
    /// The standard deviation of the used shares. A pod that requests none of the resources is not scored.
    #[default]
    StandardDeviation,
    /// The distance of the shares of two resources, as until 1.21. Containers without a request count as in
    /// `NodeResourcesFit`. A node that would be full gets 0.
    Difference,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SpreadCounts {
    /// On the nodes that the inclusion policies of the constraint admit.
    #[default]
    AdmittedNodes,
    /// On all nodes, if the domain has an admitted node, as in 1.20.
    AllNodes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DefaultSpreadScores {
    #[default]
    AllNodes,
    /// Nodes with all topology keys, such as the zone, as in 1.20.
    LabelledNodes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SpreadControllers {
    /// The controller that the pod names as its own.
    #[default]
    Owner,
    /// All controllers that select the pod, as in 1.20. The selectors of all of them must match.
    AllThatSelect,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Rounding {
    #[default]
    Nearest,
    /// As until 1.21.
    Down,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AffinityRange {
    /// From the lowest to the highest raw score.
    #[default]
    Observed,
    /// The same, but 0 always lies in the range, as until 1.21.
    WithZero,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Nominated {
    /// The nominated node alone, if it fits.
    #[default]
    First,
    /// All nodes, as until 1.21.
    AmongAll,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NominationEnds {
    /// If no preemption helps.
    #[default]
    WithoutHelp,
    /// If no node could be helped by preemption because of the kind of its refusal, as in 1.20. A refusal for lack of
    /// resources keeps the nomination, even if no victims are left.
    WithoutPossibleNode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComparedVictim {
    /// The most important one.
    #[default]
    MostImportant,
    /// The first one in the order in which they are found, as in 1.20. If the eviction of some victims violates a
    /// budget, it is the most important of these.
    FirstFound,
}

/// How `NodeResourcesFit` scores a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoringStrategy {
    /// Which nodes get a higher score.
    #[serde(rename = "type")]
    pub kind: Strategy,
    /// The resources that count, each with its weight.
    #[serde(with = "pairs")]
    #[schemars(with = "BTreeMap<Resource, Option<i64>>")]
    pub resources: Vec<(Resource, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    LeastAllocated,
    MostAllocated,
    /// The score by utilization: a map from utilizations in percent, in ascending order, to scores from 0 to 10. Between
    /// two points, the score changes evenly.
    #[serde(with = "pairs")]
    #[schemars(with = "BTreeMap<String, Option<i64>>")]
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The number of nodes on which preemption is tried: the larger of a share and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreemptionArguments {
    /// The share, in percent of all nodes.
    pub min_candidate_nodes_percentage: usize,
    /// The number of nodes.
    pub min_candidate_nodes_absolute: usize,
}

/// The highest score of a plugin before its weight.
pub const MAX_NODE_SCORE: i64 = 100;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileFault {
    #[error("the shape of RequestedToCapacityRatio needs points of ascending utilization from 0 to 100")]
    Shape,
    #[error("the score of a point of RequestedToCapacityRatio must be from 0 to 10")]
    ShapeScore,
    #[error("the weight of {0} must be from 1 to 100")]
    Weight(String),
    #[error("{0} is listed twice")]
    Twice(String),
    #[error("`min_candidate_nodes_percentage` must be from 0 to 100")]
    Percentage,
    #[error("`percentage_of_nodes_to_score` must be from 0 to 100")]
    NodesToScore,
    #[error("the greatest skew of {0} must be at least 1")]
    Skew(Arc<str>),
}

impl Profile {
    /// Everything that keeps the profile from being used.
    pub fn faults(&self) -> Vec<ProfileFault> {
        let mut faults = Vec::new();
        if let Strategy::RequestedToCapacityRatio(shape) = &self.fit.kind {
            let rises = shape.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let in_range = shape.iter().all(|(at, _)| (0..=100).contains(at));
            if shape.is_empty() || !rises || !in_range {
                faults.push(ProfileFault::Shape);
            }
            if shape.iter().any(|(_, score)| !(0..=10).contains(score)) {
                faults.push(ProfileFault::ShapeScore);
            }
        }
        let scorers = self.scorers.iter().map(|(plugin, weight)| (plugin.name().to_string(), *weight));
        let resources = self.fit.resources.iter().map(|(resource, weight)| (resource.name().to_string(), *weight));
        let wrong = scorers.chain(resources).filter(|(_, weight)| !(1..=100).contains(weight));
        faults.extend(wrong.map(|(name, _)| ProfileFault::Weight(name)));
        let twice = self.filters.iter().enumerate().filter(|(place, plugin)| self.filters[..*place].contains(plugin));
        faults.extend(twice.map(|(_, plugin)| ProfileFault::Twice(plugin.name().to_string())));
        if self.preemption.min_candidate_nodes_percentage > 100 {
            faults.push(ProfileFault::Percentage);
        }
        if self.percentage_of_nodes_to_score > 100 {
            faults.push(ProfileFault::NodesToScore);
        }
        let flat = self.default_spread.iter().filter(|(_, skew)| *skew < 1);
        faults.extend(flat.map(|(key, _)| ProfileFault::Skew(Arc::clone(key))));
        faults
    }

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
            scheduling_gates: true,
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
            fit_checks: FitChecks::Requested,
            oversized: Oversized::ForGood,
            balanced: vec![Resource::Cpu, Resource::Memory],
            balance: Balance::StandardDeviation,
            spread_counts: SpreadCounts::AdmittedNodes,
            spread_rounding: Rounding::Nearest,
            default_spread_scores: DefaultSpreadScores::AllNodes,
            default_spread_controllers: SpreadControllers::Owner,
            affinity_range: AffinityRange::Observed,
            nominated: Nominated::First,
            nomination_ends: NominationEnds::WithoutHelp,
            compared_victim: ComparedVictim::MostImportant,
            percentage_of_nodes_to_score: 0,
            hard_pod_affinity_weight: 1,
            default_spread: vec![
                (Arc::from("kubernetes.io/hostname"), 3),
                (Arc::from("topology.kubernetes.io/zone"), 5),
            ],
            preemption: PreemptionArguments { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 },
        }
    }

    /// The default profile of Kubernetes 1.20, by its difference from 1.35. `NodePreferAvoidPods` is left out: it gives
    /// every node the same score, unless an annotation names the pod's controller. There are no device claims and no
    /// scheduling gates.
    pub fn v1_20() -> Profile {
        use Plugin::*;
        let mut profile = Profile::v1_35();
        profile.filters.retain(|plugin| *plugin != DynamicResources);
        profile.scorers.retain(|(plugin, _)| *plugin != DynamicResources);
        for (plugin, weight) in &mut profile.scorers {
            if matches!(plugin, TaintToleration | NodeAffinity | InterPodAffinity) {
                *weight = 1;
            }
        }
        profile.scheduling_gates = false;
        profile.fit_checks = FitChecks::All;
        profile.oversized = Oversized::ForNow;
        profile.balance = Balance::Difference;
        profile.spread_counts = SpreadCounts::AllNodes;
        profile.spread_rounding = Rounding::Down;
        profile.default_spread_scores = DefaultSpreadScores::LabelledNodes;
        profile.affinity_range = AffinityRange::WithZero;
        profile.default_spread_controllers = SpreadControllers::AllThatSelect;
        profile.nominated = Nominated::AmongAll;
        profile.nomination_ends = NominationEnds::WithoutPossibleNode;
        profile.compared_victim = ComparedVictim::FirstFound;
        profile
    }
}
