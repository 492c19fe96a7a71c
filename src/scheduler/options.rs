//! What a profile says about placement: stages by name, and their options.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::deployment::DeploymentOptions;
use super::offers::OfferOptions;
use super::order::OrderKey;
use super::scorer::ScorerName;
use super::target::Target;
use dryrack_units::{SimDuration, text_form};

/// The scheduler's part of a profile. Each list is run in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerOptions {
    /// Sort keys of the queue; the last is always the order of submission.
    pub order: Vec<OrderKey>,
    pub discipline: Discipline,
    /// Whether all wait in one line.
    pub lines: Lines,
    /// Who may pass the head of the queue after all.
    pub backfill: Backfill,
    /// Where `backfill` is `slots`.
    #[serde(default, skip_serializing_if = "SlotOptions::is_default")]
    pub slots: SlotOptions,
    /// Who may be stopped for the head of the queue.
    #[serde(default, skip_serializing_if = "Preempt::is_nobody")]
    pub preempt: Preempt,
    /// GPU seconds after which a run comes into the next queue of the order `attained`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<u64>,
    /// What the order `fair_share` looks at.
    #[serde(default, skip_serializing_if = "FairShare::is_default")]
    pub fair_share: FairShare,
    pub filters: Vec<FilterStage>,
    /// Added up with their weights; with none, the first node in order of declaration wins.
    pub scorers: Vec<WeightedScorer>,
    /// Which of several nodes of the highest score is taken.
    pub ties: Ties,
    pub gangs: GangPlaces,
    pub gpus: GpuOrder,
    pub never_fits: NeverFits,
    /// For jobs that require instances of fleets.
    pub offers: OfferOptions,
    pub unfit: Unfit,
    /// What is expected to come, for scorers that look ahead. Where a profile leaves it out, it is that of the workload
    /// that is rehearsed: see [`Target::of`].
    #[serde(default, skip_serializing_if = "Target::is_empty")]
    pub target: Target,
    /// How replicas of models are placed: by stages of their own.
    pub deployments: DeploymentOptions,
}

impl SchedulerOptions {
    /// Whether a stage looks at what is expected to come.
    pub fn needs_target(&self) -> bool {
        self.gpus == GpuOrder::LeastFragmentation || self.has_scorer(ScorerName::Fgd)
    }

    /// Whether a stage looks at what kinds of tasks hold a node's GPUs.
    pub fn needs_kinds(&self) -> bool {
        self.has_scorer(ScorerName::GpuClustering)
    }

    fn has_scorer(&self, name: ScorerName) -> bool {
        self.scorers.iter().any(|scorer| scorer.stage == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// Nobody passes the head of the queue.
    Strict,
    /// Likewise, and whoever was looked at first and did not fit stays the head until it does, even if somebody comes whom
    /// the order would put before it.
    Committed,
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

impl SchedulerOptions {
    /// Whether anything asks how far a node can be relied on.
    pub fn asks_for_reliance(&self) -> bool {
        self.deployments.readiness.weight > 0 || self.scorers.iter().any(|scorer| scorer.stage == ScorerName::Readiness)
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
    /// For a part of one GPU, the one whose taking fragments the node least, then lowest index; else the lowest index.
    LeastFragmentation,
    /// Whole GPUs in one NVLink island, where one holds them (`scheduler::islands`); of a part of one as `tightest`.
    Islands,
    /// Any, each as likely as the others.
    Random,
}

/// What becomes of a job that would not fit on the fleet as declared, were it empty and whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeverFits {
    End,
    Wait,
}

/// Which of several nodes of the highest score is taken. Where there are no scorers, all nodes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The first in order of declaration.
    First,
    /// Any, each as likely as the others. A gang takes the first.
    Random,
}

/// Who may pass the head of a strict or committed queue. The head's *reservation* is the first time at which it would
/// fit if everything that runs ended by its estimate; what has none is taken never to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backfill {
    None,
    /// EASY (Lifka, *The ANL/IBM SP Scheduling System*, JSSPP 1995): in the order of the queue, who fits now and does not
    /// put off the reservation, because it ends by then or because the head fits beside it then. Reserved anew with
    /// each look.
    Easy,
    /// Everyone who waits has a reservation that those before it in the queue leave free for its whole estimate (Mu'alem
    /// and Feitelson, *Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
    /// Backfilling*, TPDS 2001); who could begin now does. Reserved anew with each look, so that an early end moves
    /// everyone up in the order of the queue.
    Conservative,
    /// RLScheduler's (cd433e3, `moveforward_for_resources_backfill_greedy`): in order of submission, whoever fits now and
    /// ends *before* the reservation, which is made once, when the head is first refused. What would be free beside the
    /// head is not used. Jobs submitted in one instant are in the order of the queue at that moment, those that came after
    /// it in order of arrival: both sorts of that program are stable.
    Rlscheduler,
    /// Slurm's (22.05, sched/backfill): in the order of the queue, who could begin now without running into a reservation
    /// does, and everybody else reserves whole nodes in a table of time slots (`control::slots`). Reserved anew with each
    /// look.
    Slots,
}

/// The table in which `backfill: slots` reserves nodes. The defaults are those of slurm.conf(5), Slurm 22.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotOptions {
    /// A reservation begins and ends at multiples of this: `bf_resolution`.
    #[serde(with = "text_form")]
    pub resolution: SimDuration,
    /// What would begin later than this from now reserves nothing: `bf_window`.
    #[serde(with = "text_form")]
    pub window: SimDuration,
    /// So many of the queue are looked at: `bf_max_job_test`.
    pub depth: u32,
}

impl Default for SlotOptions {
    fn default() -> SlotOptions {
        let (minute, day) = (SimDuration::from_secs(60), SimDuration::from_secs(86_400));
        SlotOptions { resolution: minute, window: day, depth: 500 }
    }
}

impl SlotOptions {
    pub fn is_default(&self) -> bool {
        *self == SlotOptions::default()
    }
}

/// Whom the head of the queue may have stopped, where that lets it start. Who is stopped waits again, at no cost but of
/// work that is in no checkpoint and of going on from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preempt {
    #[default]
    Nobody,
    /// Whose priority is lower: the lowest first, then who began last.
    LowerPriority,
    /// Of whose estimate more is left: most first, then who began last.
    LongerRemaining,
    /// Who is in a later queue of `levels`, or comes this moment into the one in which the other waits: the last queue first,
    /// and in one who began there last.
    MoreAttained,
}

impl Preempt {
    pub fn is_nobody(&self) -> bool {
        *self == Preempt::Nobody
    }
}

/// What a user has had: GPU time, or core time of what has no GPU, each moment weighted by a half for every half-life since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FairShare {
    #[serde(with = "text_form")]
    pub half_life: SimDuration,
    /// Of users by name; of others 1. Twice the weight is due twice as much.
    #[serde(default)]
    pub weights: BTreeMap<String, f64>,
}

impl Default for FairShare {
    /// A week, as Slurm's `PriorityDecayHalfLife` has it.
    fn default() -> FairShare {
        FairShare { half_life: SimDuration::from_secs(7 * 86_400), weights: BTreeMap::new() }
    }
}

impl FairShare {
    pub fn is_default(&self) -> bool {
        *self == FairShare::default()
    }
}

/// Who waits behind whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lines {
    One,
    /// A line for each queue that jobs name, and one for those that name none; no line waits for another.
    EachQueue,
}

/// On which nodes the tasks of a gang lie, where the demand leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GangPlaces {
    /// As the demand says: anywhere in the order of preference, spread, or packed.
    Demand,
    /// Helios' (`super::consolidate`).
    Consolidate,
    /// In one rack where one holds them all, or else in few (`super::racks`); within, as the demand says.
    Racks,
    /// On neighbours in the order of declaration, where those with fewest free cores suffice (`super::neighbours`); single
    /// tasks too.
    Neighbours,
}

/// What becomes of a job that does not fit now, when it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    Wait,
    /// It is refused and not looked at again, as simulators have it that only ask how full a cluster gets.
    End,
}
