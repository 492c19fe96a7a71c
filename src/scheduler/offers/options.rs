//! A profile's options for offers: each option names a rule.

use serde::{Deserialize, Serialize};

use dryrack_catalog::KnownGpus;

/// The part of a profile that chooses offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferOptions {
    pub pool: OfferPool,
    /// Multi-node jobs go only to fleets whose instances are near each other.
    pub cluster_only: bool,
    pub fit_test: FitTest,
    pub multinode_takes: MultinodeTakes,
    pub split_hosts_for_multinode: SplitHosts,
    pub pins_master_region: PinsRegion,
    pub gang: GangRule,
    pub network_host_when: NetworkHost,
    pub new_instances: NewInstances,
    pub hosts_without_gpus: WithoutGpus,
    /// The keys that offers are ordered by, one after the other. Ties are broken by the order of declaration.
    pub order: Vec<OfferKey>,
    /// The same for the list that a user is shown before submitting.
    pub plan_order: Vec<OfferKey>,
    /// The list by which the GPU memory that a host reports is corrected.
    pub known_gpus: KnownGpus,
}

/// Which instances a job chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferPool {
    /// One fleet is chosen first: of those with enough idle offers, the one with the cheapest.
    ChosenFleet,
    /// For the first of its nodes, the instances of all fleets that the job may use.
    AllFleets,
}

/// Which fleets are not considered because they could not hold a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitTest {
    None,
    /// If a fleet has a maximum of instances and does not split them, the maximum less the instances in use must be at
    /// least the number of the job's nodes. Otherwise, machines reached by SSH must have at least as many idle blocks,
    /// whether or not they match; machines that could not be split count too.
    NodesOrBlocks,
}

/// What each node of a multi-node job takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultinodeTakes {
    /// All blocks of a host on which nothing else runs.
    WholeHost,
    /// The fewest blocks that match. No two nodes of the job share a host.
    Blocks,
}

/// Whether split hosts take nodes of multi-node jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitHosts {
    Never,
    WhenFree,
}

/// On which hosts the later nodes of a job stay in the region and backend of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinsRegion {
    /// On hosts that are not split. A split host is taken wherever it is.
    UnsplitHosts,
    Always,
}

/// How the nodes of a job are placed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GangRule {
    /// The first node where it is best for itself, then each later one, all in the one fleet that was chosen.
    NodeByNode,
    /// All nodes in the first fleet and region that hold all of them, ordered by the best offer of each.
    Whole,
}

/// Which jobs use the network of their host instead of one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkHost {
    /// Jobs on hosts that are not split.
    Unsplit,
    /// Jobs that take all blocks of their host.
    AllBlocks,
}

/// What happens to a job if nothing is idle in a cloud fleet that may have more instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewInstances {
    /// It gets no place: no instance is created for a job.
    Never,
    /// One is created, and the job takes all of it. It is not split, whatever its fleet says (dstack 3475), so a fleet
    /// whose machines are too large for a job creates none (dstack 4188).
    Whole,
    /// One is created, and split as its fleet says.
    AsFleet,
}

/// Whether a job's GPU requirements apply to a host without GPUs, if the job accepts zero GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutGpus {
    /// They do not apply to such a host.
    Exempt,
    /// They apply: a host without GPUs has none with the required name.
    Filtered,
}

/// One key of an order. The better offer comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferKey {
    /// The lower price of the whole host. No price counts as the lowest.
    Price,
    /// Hosts that are not split.
    UnsplitFirst,
    /// Hosts that are split.
    SplitFirst,
    /// Hosts that are already in use, so that whole hosts stay free.
    InUseFirst,
    /// The slice with fewer GPUs, then fewer CPUs, then less memory.
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
