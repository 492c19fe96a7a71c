//! What a profile says about offers: each option is a rule by its name.

use serde::{Deserialize, Serialize};

use dryrack_catalog::KnownGpus;

/// The offers' part of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferOptions {
    pub pool: OfferPool,
    /// Only fleets whose instances are near each other take jobs of several nodes.
    pub cluster_only: bool,
    pub fit_test: FitTest,
    pub multinode_takes: MultinodeTakes,
    pub split_hosts_for_multinode: SplitHosts,
    pub pins_master_region: PinsRegion,
    pub gang: GangRule,
    pub network_host_when: NetworkHost,
    pub new_instances: NewInstances,
    pub hosts_without_gpus: WithoutGpus,
    /// By what offers are ordered, one after the other; the last is always the order of declaration.
    pub order: Vec<OfferKey>,
    /// The same for the list that a user is shown before submitting.
    pub plan_order: Vec<OfferKey>,
    /// By which list the memory that a host reports of its GPUs is corrected.
    pub known_gpus: KnownGpus,
}

/// Which instances a job chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferPool {
    /// One fleet is chosen first: of those with enough idle offers, the one with the cheapest.
    ChosenFleet,
    /// Those of all fleets that the job may use, for the first of its nodes.
    AllFleets,
}

/// Which fleets are not looked at because they could not hold a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitTest {
    None,
    /// Where a fleet has a maximum of instances that are not split, its instances that may still become free of the
    /// maximum must be as many as the job has nodes; of machines reached by SSH, the idle blocks must, whatever matches,
    /// with those of machines that could not be split.
    NodesOrBlocks,
}

/// What each node of a job of several takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultinodeTakes {
    /// All blocks of a host on which nothing else runs.
    WholeHost,
    /// The fewest blocks that match, on a host of its own among the nodes of the job.
    Blocks,
}

/// Whether hosts that are split take nodes of a job of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitHosts {
    Never,
    WhenFree,
}

/// On which hosts the later nodes of a job stay in the region and with the backend of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinsRegion {
    /// On those that are not split; a split one is taken wherever it is.
    UnsplitHosts,
    Always,
}

/// How the nodes of a job are placed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GangRule {
    /// The first where it is best for itself, then each after it, in the one fleet that was chosen.
    NodeByNode,
    /// In the first fleet and region, by the best offer of each, that hold all of them.
    Whole,
}

/// Which jobs have the network of their host rather than one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkHost {
    /// On hosts that are not split.
    Unsplit,
    /// That take all blocks of their host.
    AllBlocks,
}

/// What becomes of a job for which nothing is idle in a fleet of a cloud that may have more instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewInstances {
    /// It finds no place: no instance is made for a job.
    Never,
    /// One is made, of which the job takes all: it is not split, whatever its fleet says (dstack 3475), so that a fleet
    /// of machines that are too large for a job makes none (dstack 4188).
    Whole,
    /// One is made, split as its fleet says.
    AsFleet,
}

/// What becomes of what a job says of GPUs on a host that has none, where it would do with none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutGpus {
    /// It is not asked of such a host.
    Exempt,
    /// It is: a host without a GPU has none of that name.
    Filtered,
}

/// One key of an order, the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferKey {
    /// The lower price of the whole host; none is the lowest.
    Price,
    /// Hosts that are not split.
    UnsplitFirst,
    /// Hosts that are split.
    SplitFirst,
    /// Hosts on which something runs already, so that whole hosts stay free.
    InUseFirst,
    /// The slice of fewer GPUs, then of fewer CPUs, then of less memory.
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
