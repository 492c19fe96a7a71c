//! A profile's options for offers. Each option is named after its rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::OwnFilter;
use dryrack_catalog::KnownGpus;

/// The part of a profile that controls offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferOptions {
    pub pool: OfferPool,
    /// Whether multi-node jobs can use only fleets whose instances are near each other.
    pub cluster_only: bool,
    pub fit_test: FitTest,
    pub multinode_takes: MultinodeTakes,
    pub split_hosts_for_multinode: SplitHosts,
    pub pins_master_region: PinsRegion,
    pub gang: GangRule,
    pub network_host_when: NetworkHost,
    pub new_instances: NewInstances,
    pub hosts_without_gpus: WithoutGpus,
    /// Custom filters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<OwnFilter>,
    /// The keys by which offers are sorted. Ties are broken by the order of declaration.
    pub order: Vec<OfferKey>,
    /// The sort keys for the list that a user sees before submitting.
    pub plan_order: Vec<OfferKey>,
    /// The list by which the reported GPU memory of a host is corrected.
    pub known_gpus: KnownGpus,
}

/// From which instances a job chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OfferPool {
    /// One fleet is chosen first: among the fleets with enough idle offers, the one with the cheapest idle offer.
    ChosenFleet,
    /// For the first node of a job, the instances of all fleets that the job may use.
    AllFleets,
}

/// Which fleets are left out because they could not hold a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitTest {
    None,
    /// A fleet must be large enough. The rule for a fleet that has a maximum number of instances and does not split
    /// them: the maximum minus the instances in use must be at least the number of the job's nodes. Any other fleet of
    /// machines that are reached by SSH must have at least as many idle blocks as the job has nodes. These blocks need
    /// not match, and machines that could not be split count too.
    NodesOrBlocks,
}

/// The part of a host that each node of a multi-node job takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MultinodeTakes {
    /// All blocks of a host on which no other job runs.
    WholeHost,
    /// The fewest blocks that match. No two nodes of the job share a host.
    Blocks,
}

/// Whether split hosts take nodes of multi-node jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitHosts {
    Never,
    WhenFree,
}

/// On which hosts the later nodes of a job must stay in the region and backend of the first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinsRegion {
    /// On hosts that are not split. A split host may be used in any region and backend.
    UnsplitHosts,
    Always,
}

/// How the nodes of a job are placed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GangRule {
    /// The first node takes its own best place, and each later node follows. All nodes are in the one fleet that was
    /// chosen.
    NodeByNode,
    /// All nodes go to the first fleet and region that can hold all of them. Fleets and regions are ordered by their
    /// best offers.
    Whole,
}

/// Which jobs use the network of their host. Other jobs have a separate network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkHost {
    /// Jobs on hosts that are not split.
    Unsplit,
    /// Jobs that take all blocks of their host.
    AllBlocks,
}

/// What happens to a job if no instance is idle, in a cloud fleet that may have more instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewInstances {
    /// The job gets no place, because instances are never created for a job.
    Never,
    /// An instance is created, and the job takes all of it. The instance is not split, even if its fleet splits
    /// instances (dstack 3475). So a fleet whose machines are too large for a job creates no instance (dstack 4188).
    Whole,
    /// An instance is created, and split as its fleet states.
    AsFleet,
}

/// Whether a job's GPU requirements apply to a host without GPUs, if the job accepts zero GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WithoutGpus {
    /// The requirements do not apply to a host without GPUs.
    Exempt,
    /// The requirements apply. A host without GPUs does not meet a requirement for a GPU name.
    Filtered,
}

/// One sort key for offers. Each key says which offer comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OfferKey {
    /// The lower price of the whole host. A host without a price counts as the cheapest.
    Price,
    /// Hosts that are not split come first.
    UnsplitFirst,
    /// Hosts that are split come first.
    SplitFirst,
    /// Hosts that are already in use come first, so unused hosts stay free.
    InUseFirst,
    /// The slice with fewer GPUs comes first, then the one with fewer CPUs, then the one with less memory.
    SmallestSlice,
}

impl OfferKey {
    pub fn name(self) -> &'static str {
        match self {
            OfferKey::Price => "price",
            OfferKey::UnsplitFirst => "unsplit_first",
            OfferKey::SplitFirst => "split_first",
            OfferKey::InUseFirst => "in_use_first",
            OfferKey::SmallestSlice => "smallest_slice",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_as_in_a_profile() {
        use OfferKey::{InUseFirst, Price, SmallestSlice, SplitFirst, UnsplitFirst};
        for key in [Price, UnsplitFirst, SplitFirst, InUseFirst, SmallestSlice] {
            assert_eq!(serde_json::to_value(key).expect("JSON"), key.name());
        }
    }
}
