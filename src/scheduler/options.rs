//! What a profile says about placement: stages by name, and their options.

use serde::{Deserialize, Serialize};

use super::deployment::DeploymentOptions;
use super::offers::OfferOptions;

/// The scheduler's part of a profile. Each list is run in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerOptions {
    /// Sort keys of the queue; the last is always the order of submission.
    pub order: Vec<OrderKey>,
    pub discipline: Discipline,
    pub filters: Vec<FilterStage>,
    /// Added up with their weights; with none, the first node in order of declaration wins.
    pub scorers: Vec<WeightedScorer>,
    pub gpus: GpuOrder,
    pub never_fits: NeverFits,
    /// For jobs that require instances of fleets.
    pub offers: OfferOptions,
    /// How replicas of models are placed: by stages of their own.
    pub deployments: DeploymentOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKey {
    /// Higher priority first.
    Priority,
    /// Earlier submission first.
    Submitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// Nobody passes the head of the queue.
    Strict,
    /// Who does not fit is passed over.
    Skipping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterName {
    Picked,
    Labels,
    Ready,
    Compatible,
    Resources,
}

impl FilterName {
    pub const ALL: [FilterName; 5] =
        [FilterName::Picked, FilterName::Labels, FilterName::Ready, FilterName::Compatible, FilterName::Resources];

    pub fn name(self) -> &'static str {
        match self {
            FilterName::Picked => "picked",
            FilterName::Labels => "labels",
            FilterName::Ready => "ready",
            FilterName::Compatible => "compatible",
            FilterName::Resources => "resources",
        }
    }
}

/// One filter. `unless` names the demands that pass it unseen: only a historic profile may have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterStage {
    pub stage: FilterName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Exemption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exemption {
    /// GPUs on more than one node were picked by hand (GPUStack before 0.6.0, issue 1548: the workers were read again
    /// from the store, past the filters).
    PickedOnSeveralNodes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScorerName {
    /// Least left over of what is asked for.
    BestFit,
    /// The node whose resources are taken most, in the mean over CPU, RAM and GPUs.
    Pack,
    /// The node whose resources are taken least, in the mean over CPU, RAM and GPUs.
    Spread,
    /// The node that can be relied on most: whose heartbeat is on time, that has been ready throughout, whose GPUs are
    /// sound.
    Readiness,
}

impl SchedulerOptions {
    /// Whether anything asks how far a node can be relied on.
    pub fn asks_for_reliance(&self) -> bool {
        self.scorers.iter().any(|scorer| scorer.stage == ScorerName::Readiness)
    }
}

impl ScorerName {
    pub fn name(self) -> &'static str {
        match self {
            ScorerName::BestFit => "best_fit",
            ScorerName::Pack => "pack",
            ScorerName::Spread => "spread",
            ScorerName::Readiness => "readiness",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedScorer {
    pub stage: ScorerName,
    pub weight: f64,
}

/// Which of a node's GPUs that would do are taken first. Degraded ones are always taken last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuOrder {
    /// Lowest index.
    First,
    /// Least free share or memory that still suffices, then lowest index.
    Tightest,
    /// Most free share or memory, then lowest index.
    Emptiest,
}

/// What becomes of a job that would not fit on the fleet as declared, were it empty and whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeverFits {
    End,
    Wait,
}
