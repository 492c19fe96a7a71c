//! Why a workload does not get quota, and the texts about it.

use std::fmt;
use std::sync::Arc;

use super::names::FlavorId;
use super::objects::{Effect, Taint};
use super::quantity::amount_text;
use super::topology::NoPlacement;

/// Why a flavor is not assigned, or not at once. Kueue writes these into the conditions of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlavorReason {
    ResourceUnavailable { resource: Arc<str> },
    FlavorNotFound { flavor: Arc<str> },
    NotNominated { flavor: Arc<str>, resource: Arc<str> },
    UntoleratedTaint { taint: Taint, flavor: Arc<str> },
    NodeAffinity { flavor: Arc<str> },
    NoTopologySupport { flavor: Arc<str> },
    OnlyTopology { flavor: Arc<str> },
    NoTopologyLevel { flavor: Arc<str> },
    AboveMaximum { resource: Arc<str>, flavor: Arc<str>, before: i64, request: i64, maximum: i64 },
    Unused { resource: Arc<str>, flavor: Arc<str>, missing: i64 },
    Topology(NoPlacement),
}

impl fmt::Display for FlavorReason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FlavorReason::ResourceUnavailable { resource } => {
                write!(f, "resource {resource} unavailable in ClusterQueue")
            }
            FlavorReason::FlavorNotFound { flavor } => write!(f, "flavor {flavor} not found"),
            FlavorReason::NotNominated { flavor, resource } => write!(
                f,
                "skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
            ),
            FlavorReason::UntoleratedTaint { taint: Taint { key, value, effect }, flavor } => {
                let effect = match effect {
                    Effect::NoSchedule => "NoSchedule",
                    Effect::PreferNoSchedule => "PreferNoSchedule",
                    Effect::NoExecute => "NoExecute",
                };
                write!(f, "untolerated taint {{{key} {value} {effect} <nil>}} in flavor {flavor}")
            }
            FlavorReason::NodeAffinity { flavor } => write!(f, "flavor {flavor} doesn't match node affinity"),
            FlavorReason::NoTopologySupport { flavor } => {
                write!(f, "Flavor \"{flavor}\" does not support TopologyAwareScheduling")
            }
            FlavorReason::OnlyTopology { flavor } => {
                write!(f, "Flavor \"{flavor}\" supports only TopologyAwareScheduling")
            }
            FlavorReason::NoTopologyLevel { flavor } => {
                write!(f, "Flavor \"{flavor}\" does not contain the requested level")
            }
            FlavorReason::AboveMaximum { resource, flavor, before, request, maximum } => write!(
                f,
                "insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({}) + \
                 current podset request ({}) > maximum capacity ({})",
                amount_text(resource, *before),
                amount_text(resource, *request),
                amount_text(resource, *maximum)
            ),
            FlavorReason::Unused { resource, flavor, missing } => write!(
                f,
                "insufficient unused quota for {resource} in flavor {flavor}, {} more needed",
                amount_text(resource, *missing)
            ),
            FlavorReason::Topology(why) => why.fmt(f),
        }
    }
}

/// The reason of the condition `QuotaReserved` of a waiting workload, in order from the mildest to the most severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaReason {
    /// Not judged since it was last queued.
    PendingEvaluation,
    WaitingForPreemptedWorkloads,
    TopologyPlacementFailed,
    WaitingForQuota,
    ExceedsMaxQuota,
    NoMatchingFlavor,
}

impl QuotaReason {
    pub fn name(self) -> &'static str {
        match self {
            QuotaReason::PendingEvaluation => "PendingEvaluation",
            QuotaReason::WaitingForPreemptedWorkloads => "WaitingForPreemptedWorkloads",
            QuotaReason::TopologyPlacementFailed => "TopologyPlacementFailed",
            QuotaReason::WaitingForQuota => "WaitingForQuota",
            QuotaReason::ExceedsMaxQuota => "ExceedsMaxQuota",
            QuotaReason::NoMatchingFlavor => "NoMatchingFlavor",
        }
    }
}

/// Why a workload must release its quota for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionReason {
    InClusterQueue,
    InCohortReclamation,
    InCohortFairSharing,
    InCohortReclaimWhileBorrowing,
}

impl PreemptionReason {
    pub fn name(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "InClusterQueue",
            PreemptionReason::InCohortReclamation => "InCohortReclamation",
            PreemptionReason::InCohortFairSharing => "InCohortFairSharing",
            PreemptionReason::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
        }
    }

    /// The words of Kueue in the message of an eviction.
    pub fn phrase(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "prioritization in the ClusterQueue",
            PreemptionReason::InCohortReclamation => "reclamation within the cohort",
            PreemptionReason::InCohortFairSharing => "Fair Sharing within the cohort",
            PreemptionReason::InCohortReclaimWhileBorrowing => "reclamation within the cohort while borrowing",
        }
    }
}

/// A flavor that was considered for a pod set and does not fit, the index of its group, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuledOut {
    pub flavor: FlavorId,
    pub group: usize,
    pub why: QuotaReason,
}
