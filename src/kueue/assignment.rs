//! An assignment: the flavors, counts and domains that a workload would get, and how well they fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::{Cluster, Placing};
use super::names::{FlavorId, FlavorResource, ResourceId};
use super::reason::{FlavorReason, QuotaReason, RuledOut};
use super::topology::TopologyPlacement;
use super::workload::{FlavorScan, PlacedPods, WorkloadId, placed_pods};

/// How a flavor can be assigned, in order from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    NoFit,
    /// It needs quota that other workloads use.
    Preempt,
    /// It fits once the preemptions of another workload are complete.
    DeferredFit,
    Fit,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::NoFit => "NoFit",
            Mode::Preempt => "Preempt",
            Mode::DeferredFit => "DeferredFit",
            Mode::Fit => "Fit",
        }
    }
}

/// The flavor of one resource of a pod set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlavorChoice {
    pub flavor: FlavorId,
    pub mode: Mode,
    /// The index of the last flavor that was tried, unless it was the last one of its group.
    pub(crate) tried: Option<usize>,
    pub(crate) borrow: u32,
}

#[derive(Clone, Debug)]
pub struct PodSetAssignment {
    pub name: Arc<str>,
    pub count: u32,
    pub flavors: BTreeMap<ResourceId, FlavorChoice>,
    pub placement: Option<TopologyPlacement>,
    /// Why it does not fit at once.
    pub reasons: Vec<FlavorReason>,
    /// Whether a flavor was considered at all.
    pub(crate) considered: bool,
    pub(crate) ruled_out: Vec<RuledOut>,
    /// The reason for not fitting, if it is not about a flavor.
    pub(crate) no_fit: Option<QuotaReason>,
}

#[derive(Clone, Debug)]
pub struct Assignment {
    pub pod_sets: Vec<PodSetAssignment>,
    /// The height of the smallest subtree that has the quota. 0 means the queue itself.
    pub borrow: u32,
    /// Sorted by the pair.
    pub(crate) usage: Vec<(FlavorResource, i64)>,
    pub(crate) placed: Vec<PlacedPods>,
    pub(crate) scan: FlavorScan,
    /// Why it does not fit at all.
    pub(crate) no_fit: Option<QuotaReason>,
    /// The mode, once it is no longer the worst of the pod sets.
    mode: Option<Mode>,
}

impl PodSetAssignment {
    pub fn mode(&self) -> Mode {
        if self.reasons.is_empty() {
            return Mode::Fit;
        }
        self.flavors.values().map(|choice| choice.mode).min().unwrap_or(Mode::NoFit)
    }

    fn set_mode(&mut self, mode: Mode) {
        self.flavors.values_mut().for_each(|choice| choice.mode = mode);
    }

    fn message(&self) -> String {
        let mut reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        reasons.sort();
        reasons.join(", ")
    }
}

impl Assignment {
    pub(crate) fn new(scan: FlavorScan) -> Assignment {
        let (pod_sets, usage, placed) = (Vec::new(), Vec::new(), Vec::new());
        Assignment { pod_sets, borrow: 0, usage, placed, scan, no_fit: None, mode: None }
    }

    /// The worst mode of the pod sets.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_else(|| self.pod_sets.iter().map(PodSetAssignment::mode).min().unwrap_or(Mode::NoFit))
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode = Some(mode);
        self.pod_sets.iter_mut().for_each(|pod_set| pod_set.set_mode(mode));
    }

    pub(crate) fn set_pod_set_mode(&mut self, pod_set: usize, mode: Mode) {
        self.mode = Some(mode);
        self.pod_sets[pod_set].set_mode(mode);
    }

    /// The reasons of each pod set for not fitting at once.
    pub fn message(&self) -> String {
        let unfit = self.pod_sets.iter().filter(|pod_set| !pod_set.reasons.is_empty());
        let described =
            unfit.map(|pod_set| format!("couldn't assign flavors to pod set {}: {}", pod_set.name, pod_set.message()));
        described.collect::<Vec<String>>().join("; ")
    }

    pub(crate) fn usage_of(&self, pair: FlavorResource) -> i64 {
        self.usage.binary_search_by_key(&pair, |(pair, _)| *pair).map_or(0, |at| self.usage[at].1)
    }

    /// Adds a pod set with its total requests.
    pub(crate) fn push(&mut self, cluster: &Cluster, pod_set: PodSetAssignment, requests: &[(ResourceId, i64)]) {
        let mut tried = BTreeMap::new();
        for (resource, choice) in &pod_set.flavors {
            self.borrow = self.borrow.max(choice.borrow);
            tried.insert(*resource, choice.tried);
            let pair = cluster.pair(choice.flavor, *resource);
            let amount = requests.iter().find(|(known, _)| known == resource).map_or(0, |(_, amount)| *amount);
            match self.usage.binary_search_by_key(&pair, |(pair, _)| *pair) {
                Ok(at) => self.usage[at].1 += amount,
                Err(at) => self.usage.insert(at, (pair, amount)),
            }
        }
        self.scan.tried.push(tried);
        self.pod_sets.push(pod_set);
    }

    /// The pairs that need preemption.
    pub(crate) fn needing_preemption(&self, cluster: &Cluster) -> Vec<FlavorResource> {
        let choices = self.pod_sets.iter().flat_map(|pod_set| &pod_set.flavors);
        let needing = choices.filter(|(_, choice)| choice.mode == Mode::Preempt);
        let mut pairs: Vec<FlavorResource> =
            needing.map(|(resource, choice)| cluster.pair(choice.flavor, *resource)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The pod sets that must be placed in a topology and are not placed yet.
    pub(crate) fn to_place(&self, cluster: &Cluster, id: WorkloadId) -> Vec<Placing> {
        let mut placing = Vec::new();
        for (index, pod_set) in self.pod_sets.iter().enumerate() {
            let is_open = pod_set.placement.is_none() && pod_set.count > 0;
            if !is_open || cluster.topology_request(id, index).is_none() {
                continue;
            }
            let with_topology = pod_set.flavors.values().map(|choice| choice.flavor);
            let flavor = with_topology.filter(|flavor| cluster.topologies.contains_key(flavor)).min();
            placing.extend(flavor.map(|flavor| Placing { pod_set: index, flavor, pods: pod_set.count }));
        }
        placing
    }

    pub(crate) fn set_placements(&mut self, placements: Vec<(Placing, TopologyPlacement)>) {
        for (placing, placement) in placements {
            self.placed.extend(placed_pods(placing.flavor, placing.pod_set, &placement));
            self.pod_sets[placing.pod_set].placement = Some(placement);
        }
    }

    /// Sets the most severe reason of the pod sets that do not fit. For the flavors of one group, the mildest reason
    /// counts.
    pub(crate) fn resolve_no_fit(&mut self) {
        if self.mode() != Mode::NoFit {
            return;
        }
        let of_pod_set = |pod_set: &PodSetAssignment| {
            if !pod_set.considered {
                return Some(QuotaReason::NoMatchingFlavor);
            }
            let mut groups: BTreeMap<usize, QuotaReason> = BTreeMap::new();
            for out in &pod_set.ruled_out {
                let mildest = groups.entry(out.group).or_insert(out.why);
                *mildest = out.why.min(*mildest);
            }
            pod_set.no_fit.into_iter().chain(groups.into_values()).max()
        };
        let unfit = self.pod_sets.iter().filter(|pod_set| pod_set.mode() == Mode::NoFit);
        self.no_fit = unfit.filter_map(of_pod_set).max();
    }
}
