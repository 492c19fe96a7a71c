//! The scheduler's options in a profile: which stages run, and their settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::deployment::DeploymentOptions;
use super::filter::FilterName;
use super::offers::OfferOptions;
use super::order::OrderKey;
use super::scorer::ScorerName;
use super::target::Target;
use dryrack_units::{SimDuration, text_form};

/// The scheduler's part of a profile. The stages of each list run in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerOptions {
    /// Sort keys of the queue. Ties are broken by the order of submission.
    pub order: Vec<OrderKey>,
    pub discipline: Discipline,
    /// Whether all jobs wait in one line, or in one for each queue.
    pub lines: Lines,
    /// Which jobs may pass the head of the queue.
    pub backfill: Backfill,
    /// The table of reservations, if `backfill` is `slots`.
    #[serde(default, skip_serializing_if = "SlotOptions::is_default")]
    pub slots: SlotOptions,
    /// Which jobs may be preempted for the head of the queue.
    #[serde(default, skip_serializing_if = "Preempt::is_nobody")]
    pub preempt: Preempt,
    /// The amounts of attained service, in GPU seconds, at which a job enters the next queue of the order `attained`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<u64>,
    /// The settings of the order `fair_share`.
    #[serde(default, skip_serializing_if = "FairShare::is_default")]
    pub fair_share: FairShare,
    pub filters: Vec<FilterStage>,
    /// Scores are summed with these weights. Without scorers, all nodes tie.
    pub scorers: Vec<WeightedScorer>,
    /// Which of several nodes with the highest score is taken.
    pub ties: Ties,
    pub gangs: GangPlaces,
    pub gpus: GpuOrder,
    pub never_fits: NeverFits,
    /// Options for jobs that require instances of fleets.
    pub offers: OfferOptions,
    pub unfit: Unfit,
    /// The expected workload, for scorers that look ahead. If a profile leaves it out, it is computed from the workload
    /// that is rehearsed: see [`Target::of`].
    #[serde(default, skip_serializing_if = "Target::is_empty")]
    pub target: Target,
    /// How replicas of models are placed. Models have stages of their own.
    pub deployments: DeploymentOptions,
}

impl SchedulerOptions {
    /// Whether a stage reads the expected workload.
    pub fn needs_target(&self) -> bool {
        self.gpus == GpuOrder::LeastFragmentation || self.has_scorer(ScorerName::Fgd)
    }

    /// Whether a stage reads which kinds of tasks hold a node's GPUs.
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
    /// No job passes the head of the queue.
    Strict,
    /// Likewise, and the first job that is judged and does not fit stays the head until it fits, even if a job arrives
    /// that the order would put before it.
    Committed,
    /// A job that does not fit is skipped.
    Skipping,
}

/// One filter. Demands that `unless` names pass it without being judged; only a historic profile may have one.
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
    /// GPUs of several nodes were picked manually (GPUStack before 0.6.0, issue 1548: the workers were read again from
    /// the store, bypassing the filters).
    PickedOnSeveralNodes,
}

impl SchedulerOptions {
    /// Whether a stage reads how reliable a node is.
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

/// Which suitable GPUs of a node are taken first. Degraded GPUs are always taken last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuOrder {
    /// Lowest index.
    First,
    /// The least free share or memory that suffices, then lowest index.
    Tightest,
    /// The most free share or memory, then lowest index.
    Emptiest,
    /// For part of one GPU, the GPU that fragments the node least when taken, then lowest index. Otherwise lowest
    /// index.
    LeastFragmentation,
    /// For whole GPUs, one NVLink island, if one holds them (`scheduler::islands`). For part of a GPU, as `tightest`.
    Islands,
    /// Any GPU, with equal probability.
    Random,
}

/// What happens to a job that would not fit even if all declared nodes were healthy and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeverFits {
    End,
    Wait,
}

/// Which of several nodes with the highest score is taken. Without scorers, all nodes have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The first in order of declaration.
    First,
    /// Any node, with equal probability. A gang takes the first.
    Random,
}

/// Which jobs may pass the head of a strict or committed queue. The head's *reservation* is the first time at which it
/// would fit if every run ended at its estimate. A run without an estimate counts as never ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backfill {
    None,
    /// EASY (Lifka, *The ANL/IBM SP Scheduling System*, JSSPP 1995): in queue order, a job starts if it fits now and
    /// does not delay the reservation, because it ends by then or because the head still fits beside it then. The
    /// reservation is made again at each pass.
    Easy,
    /// Every waiting job has a reservation for its whole estimate, in what the jobs before it in the queue leave free
    /// (Mu'alem and Feitelson, *Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
    /// IBM SP2 with Backfilling*, TPDS 2001). A job whose reservation begins now starts. The reservations are made
    /// again at each pass, so an early end moves every job up in queue order.
    Conservative,
    /// RLScheduler's rule (cd433e3, `moveforward_for_resources_backfill_greedy`): in order of submission, a job starts
    /// if it fits now and ends *before* the reservation, which is made once, when the head is first refused. What would
    /// be free beside the head is not used. Jobs submitted in one instant are in queue order as of the time the
    /// reservation was made; those that came after it are in order of arrival. Both sorts of that program are stable.
    Rlscheduler,
    /// Slurm's rule (22.05, sched/backfill): in queue order, a job starts if it can begin now without running into a
    /// reservation, and every other job reserves whole nodes in a table of time slots (`control::slots`). The
    /// reservations are made again at each pass.
    Slots,
}

/// The table in which `backfill: slots` reserves nodes. The defaults are those of slurm.conf(5), Slurm 22.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotOptions {
    /// Reservations begin and end at multiples of this: `bf_resolution`.
    #[serde(with = "text_form")]
    pub resolution: SimDuration,
    /// A job that would begin later than this from now reserves nothing: `bf_window`.
    #[serde(with = "text_form")]
    pub window: SimDuration,
    /// At most this many jobs of the queue are examined: `bf_max_job_test`.
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

/// Which jobs the head of the queue may preempt if that lets it start. A preempted job waits again. It loses only the
/// work that is in no checkpoint and the time to resume from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preempt {
    #[default]
    Nobody,
    /// Jobs of lower priority: the lowest first, then the last to start.
    LowerPriority,
    /// Jobs with more of their estimate left: the most first, then the last to start.
    LongerRemaining,
    /// Jobs in a later queue of `levels`, and jobs that enter the head's queue at this moment: the last queue first,
    /// and in one queue the last to begin there.
    MoreAttained,
}

impl Preempt {
    pub fn is_nobody(&self) -> bool {
        *self == Preempt::Nobody
    }
}

/// A user's usage: GPU time, or core time of jobs without a GPU. The weight of each moment halves with every half-life
/// since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FairShare {
    #[serde(with = "text_form")]
    pub half_life: SimDuration,
    /// Weights by the user's name; other users have 1. A user with twice the weight is entitled to twice the usage.
    #[serde(default)]
    pub weights: BTreeMap<String, f64>,
}

impl Default for FairShare {
    /// One week, as Slurm's `PriorityDecayHalfLife`.
    fn default() -> FairShare {
        FairShare { half_life: SimDuration::from_secs(7 * 86_400), weights: BTreeMap::new() }
    }
}

impl FairShare {
    pub fn is_default(&self) -> bool {
        *self == FairShare::default()
    }
}

/// Which jobs wait behind which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lines {
    One,
    /// One line for each queue that jobs name, and one for jobs that name none. No line waits for another.
    EachQueue,
}

/// Where the tasks of a gang are placed, if the demand leaves that open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GangPlaces {
    /// As the demand says: anywhere in order of preference, spread, or packed.
    Demand,
    /// Helios' rule (`super::consolidate`).
    Consolidate,
    /// In one rack if one holds them all, else in few racks (`super::racks`). Within racks, as the demand says.
    Racks,
    /// On neighbouring nodes in the order of declaration, on those that suffice with the fewest free cores
    /// (`super::neighbours`). This also applies to single tasks.
    Neighbours,
}

/// What happens to a job that does not fit when it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    Wait,
    /// It is refused and not judged again, as in simulators that only ask how full a cluster gets.
    End,
}
