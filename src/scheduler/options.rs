//! The scheduler's options in a profile: which stages run, and with which settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deployment::DeploymentOptions;
use super::filter::FilterStage;
use super::gpu_order::GpuOrder;
use super::offers::OfferOptions;
use super::order::OrderKey;
use super::own::{OwnFilter, Surroundings};
use super::scorer::{ScorerName, WeightedScorer};
use super::target::Target;
use super::verdict::Reads;
use dryrack_planted::planted;
use dryrack_units::{SimDuration, SimTime, TextForm, present};

/// The scheduler's part of a profile. Stages run in the order in which they are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulerOptions {
    /// Sort keys of the queue. Ties are broken by the order of submission.
    pub order: Vec<OrderKey>,
    /// Whether a job can start before jobs that are ahead of it in the queue.
    pub discipline: Discipline,
    /// Whether all jobs wait in one line, or each queue has a separate line.
    pub lines: Lines,
    /// Which jobs may start before the head of the queue.
    pub backfill: Backfill,
    /// Settings of the table of reservations, used if `backfill` is `slots`.
    #[serde(default, skip_serializing_if = "SlotOptions::is_default")]
    pub slots: SlotOptions,
    /// Which jobs may be preempted so that the head of the queue can start.
    #[serde(default, skip_serializing_if = "Preempt::is_nobody")]
    pub preempt: Preempt,
    /// The amounts of GPU time, in GPU seconds, at which a job enters the next queue of the order `attained`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<u64>,
    /// The settings of the order `fair_share`.
    #[serde(default, skip_serializing_if = "FairShare::is_default")]
    pub fair_share: FairShare,
    /// Filters, in the order in which they run. A node must pass all of them.
    pub filters: Vec<FilterStage>,
    /// Scorers with their weights. The weighted scores are summed. Without scorers, all nodes have the same score.
    pub scorers: Vec<WeightedScorer>,
    /// Which node is taken if several have the highest score.
    pub ties: Ties,
    pub gangs: GangPlaces,
    pub gpus: GpuOrder,
    pub never_fits: NeverFits,
    /// Options for jobs that require instances of fleets.
    pub offers: OfferOptions,
    pub unfit: Unfit,
    /// The expected workload, for scorers that look ahead. If a profile does not state it, it is computed from the
    /// workload of the rehearsal ([`Target::of`]).
    #[serde(default, skip_serializing_if = "Target::is_empty")]
    pub target: Target,
    /// How replicas of models are placed. Models have separate stages.
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

    /// The names of all custom stages: filters, scorers and keys of the order.
    pub fn own_stages(&self) -> impl Iterator<Item = &'static str> + '_ {
        let scorers = self.scorers.iter().filter_map(|scorer| match scorer.stage {
            ScorerName::Own(own) => Some(own.name()),
            _ => None,
        });
        let keys = self.order.iter().filter_map(|key| match key {
            OrderKey::Own(own) => Some(own.name()),
            _ => None,
        });
        self.own_filters().map(OwnFilter::name).chain(scorers).chain(keys)
    }

    /// Whether a placement can make room for another one. A custom filter that reads the state of nodes may refuse a
    /// node because it is too empty.
    pub fn may_placing_make_room(&self) -> bool {
        self.own_filters().any(|own| own.reads() == Reads::State)
    }

    /// Whether a job may lose its place although nothing was taken: a custom stage may refuse a node because it is
    /// emptier, or judge it otherwise because the time or the queue has changed. Results about a future fleet are then
    /// computed each time, and not kept.
    pub fn has_unsteady_stages(&self) -> bool {
        let read = self.read_by_stages();
        self.may_placing_make_room() || read.time || read.queue
    }

    /// What custom filters read besides nodes and jobs.
    pub fn read_by_filters(&self) -> Surroundings {
        self.own_filters().map(OwnFilter::surroundings).fold(Surroundings::default(), Surroundings::or)
    }

    /// The first custom filter that reads how many replicas are pending.
    pub fn filter_of_queue(&self) -> Option<&'static str> {
        self.own_filters().find(|filter| filter.surroundings().queue).map(OwnFilter::name)
    }

    /// What custom filters and scorers read besides nodes and jobs.
    pub fn read_by_stages(&self) -> Surroundings {
        let of_scorers = self.scorers.iter().filter_map(|scorer| match scorer.stage {
            ScorerName::Own(own) => Some(own.surroundings()),
            _ => None,
        });
        of_scorers.fold(self.read_by_filters(), Surroundings::or)
    }

    /// Whether a custom filter reads how much jobs ask for.
    pub fn filters_read_amounts(&self) -> bool {
        self.own_filters().any(OwnFilter::reads_amounts)
    }

    /// Whether the order reads how many replicas are pending.
    pub fn orders_by_queue(&self) -> bool {
        self.order.iter().any(|key| matches!(key, OrderKey::Own(own) if own.surroundings().queue))
    }

    fn has_scorer(&self, name: ScorerName) -> bool {
        self.scorers.iter().any(|scorer| scorer.stage == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// No job starts before the head of the queue.
    Strict,
    /// Like strict, but the head is fixed. The first job that is judged and does not fit becomes the head and remains
    /// the head until it fits, even if the order would put a new job before it.
    Committed,
    /// A job that does not fit is skipped, so later jobs can start.
    Skipping,
}

impl SchedulerOptions {
    /// Whether a stage reads the reliability of nodes.
    pub fn asks_for_reliance(&self) -> bool {
        self.deployments.readiness.weight > 0 || self.scorers.iter().any(|scorer| scorer.stage == ScorerName::Readiness)
    }
}

/// What happens to a job that would not fit even if all declared nodes were ready, healthy and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NeverFits {
    End,
    Wait,
}

/// Which node is taken if several have the highest score. Without scorers, all nodes have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The node that was declared first.
    First,
    /// Any of these nodes, with equal probability. A gang takes the node that was declared first.
    Random,
}

/// Which jobs may start before the head of a strict or committed queue. The head's *reservation* is the first time at
/// which it would fit if every run ended at its estimate. A run without an estimate counts as never ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backfill {
    None,
    /// EASY (Lifka, *The ANL/IBM SP Scheduling System*, JSSPP 1995). In queue order, a job starts if it fits now and
    /// does not delay the reservation: it ends before the reservation begins, or the head still fits beside it at that
    /// time. The reservation is made again at each pass.
    Easy,
    /// Conservative: every waiting job has a reservation for its whole estimate, in the room that the jobs ahead of it
    /// leave free (Mu'alem and Feitelson, *Utilization, Predictability, Workloads, and User Runtime Estimates in
    /// Scheduling the IBM SP2 with Backfilling*, TPDS 2001). A job whose reservation begins now starts. The
    /// reservations are made again at each pass, in queue order. So if a run ends early, every waiting job can move to
    /// an earlier time.
    Conservative,
    /// RLScheduler's rule (cd433e3, `moveforward_for_resources_backfill_greedy`). In order of submission, a job starts
    /// if it fits now and ends *before* the reservation. The reservation is made once, when the head is first refused.
    /// After that time, room beside the head is not used. Jobs that were submitted in one instant keep the queue order
    /// of the time when the reservation was made. Jobs that came after that time are in order of arrival. (Both sorts
    /// of RLScheduler are stable.)
    Rlscheduler,
    /// Slurm's rule (22.05, sched/backfill). In queue order, a job starts if it can begin now and does not run into a
    /// reservation. Every other job reserves whole nodes in a table of time slots. The reservations are made again at
    /// each pass.
    Slots,
}

/// The table in which `backfill: slots` reserves nodes. Defaults: slurm.conf(5), Slurm 22.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotOptions {
    /// Reservations are rounded to multiples of this time: `bf_resolution`.
    #[serde(with = "TextForm")]
    pub resolution: SimDuration,
    /// A job reserves nothing if it would begin later than this time from now: `bf_window`.
    #[serde(with = "TextForm")]
    pub window: SimDuration,
    /// Maximum number of jobs in the queue that a pass examines: `bf_max_job_test`.
    pub depth: u32,
    /// Whether a job in several partitions reserves nodes only in the first of them in which it can. In the others, it
    /// can only begin at once: `bf_one_resv_per_job`.
    #[serde(default, skip_serializing_if = "is_no")]
    pub one_reservation_per_job: bool,
    #[serde(default, skip_serializing_if = "Rounding::is_down")]
    pub rounding: Rounding,
    #[serde(default, skip_serializing_if = "Outlook::is_from_now")]
    pub outlook: Outlook,
}

/// Which ends of attempts are tried for a job that cannot begin before a later time than now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// All ends from now on, as in Slurm 22.05. So the job gets the nodes that have room for it first.
    #[default]
    FromNow,
    /// The ends from that later time on, as in Slurm 24.11. All earlier ends are over. A later time is also looked for
    /// among reservations after the end of the job.
    FromStart,
}

impl Outlook {
    fn is_from_now(&self) -> bool {
        *self == Outlook::FromNow
    }
}

/// How a reservation is rounded to multiples of the resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Beginning and end are rounded down, as in Slurm 22.05.
    #[default]
    Down,
    /// The beginning is rounded down, and the end is rounded up, as in Slurm 24.11.
    Outwards,
}

fn is_no(flag: &bool) -> bool {
    !flag
}

impl Rounding {
    fn is_down(&self) -> bool {
        *self == Rounding::Down
    }
}

impl Default for SlotOptions {
    fn default() -> SlotOptions {
        let (minute, day) = (SimDuration::from_secs(60), SimDuration::from_secs(86_400));
        SlotOptions {
            resolution: minute,
            window: day,
            depth: 500,
            one_reservation_per_job: false,
            rounding: Rounding::Down,
            outlook: Outlook::FromNow,
        }
    }
}

impl SlotOptions {
    pub fn is_default(&self) -> bool {
        *self == SlotOptions::default()
    }

    /// Beginning and end of the reservation of a job that begins at this time and lasts this long.
    pub fn span(&self, from: SimTime, length: SimDuration) -> (SimTime, SimTime) {
        let (unit, until) = (self.resolution.as_nanos().max(1), from.saturating_add(length).as_nanos());
        let until = match self.rounding {
            Rounding::Down => until / unit * unit,
            Rounding::Outwards if planted!(SlotEndsAreRoundedDown) => until / unit * unit,
            Rounding::Outwards => until.div_ceil(unit).saturating_mul(unit),
        };
        (SimTime::from_nanos(from.as_nanos() / unit * unit), SimTime::from_nanos(until))
    }
}

/// Which jobs the head of the queue may preempt if it can then start. A preempted job waits again. It loses the work
/// since its last checkpoint, and the time that it needs to resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preempt {
    #[default]
    Nobody,
    /// Jobs with a lower priority: lowest priority first, then the last to start.
    LowerPriority,
    /// Jobs with more remaining time by their estimates: most remaining time first, then the last to start.
    LongerRemaining,
    /// Jobs in a later queue of `levels`, and jobs that enter the head's queue at this instant. The last queue comes
    /// first. Within one queue, the job that began last in it comes first.
    MoreAttained,
}

impl Preempt {
    pub fn is_nobody(&self) -> bool {
        *self == Preempt::Nobody
    }
}

/// Settings for fair shares. A user's usage is the GPU time of the user's jobs; jobs without a GPU count with their
/// core time. The weight of past usage halves with every half-life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FairShare {
    /// The time in which past use loses half of its weight.
    #[serde(with = "TextForm")]
    pub half_life: SimDuration,
    /// Weight of each user, by name. The default is 1. A user with twice the weight may use twice as much.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "BTreeMap<String, Option<f64>>")]
    pub weights: BTreeMap<String, f64>,
}

impl Default for FairShare {
    /// One week, the default of Slurm's `PriorityDecayHalfLife`.
    fn default() -> FairShare {
        FairShare { half_life: SimDuration::from_secs(7 * 86_400), weights: BTreeMap::new() }
    }
}

impl FairShare {
    pub fn is_default(&self) -> bool {
        *self == FairShare::default()
    }
}

/// The lines in which jobs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lines {
    One,
    /// One line for each queue that jobs name, and one line for jobs without a queue. No line waits for another.
    EachQueue,
}

/// Where the tasks of a gang are placed if the demand does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GangPlaces {
    /// The tasks go where the demand says: on any nodes in order of preference, spread, or packed.
    Demand,
    /// The rule of Helios.
    Consolidate,
    /// In one rack if a rack can hold all tasks, otherwise in as few racks as possible. Within the racks, as the demand
    /// says.
    Racks,
    /// On neighbouring nodes in the order of declaration: those with enough room and the fewest free cores. This rule
    /// also applies to single tasks.
    Neighbours,
}

/// What happens to a job that does not fit when it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    Wait,
    /// The job is refused and never judged again. Simulators that only measure how full a cluster becomes do this.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_rounded_to_multiples_of_the_resolution() {
        let span = |rounding, resolution, from, length| {
            let seconds = SimDuration::from_secs;
            let options = SlotOptions { rounding, resolution: seconds(resolution), ..SlotOptions::default() };
            let (from, until) = options.span(SimTime::ZERO.saturating_add(seconds(from)), seconds(length));
            (from.as_nanos(), until.as_nanos())
        };
        let seconds = |from: u64, until: u64| (from * 1_000_000_000, until * 1_000_000_000);
        // From 1:59 to 3:01.
        assert_eq!(span(Rounding::Down, 60, 119, 62), seconds(60, 180));
        assert_eq!(span(Rounding::Outwards, 60, 119, 62), seconds(60, 240));
        for rounding in [Rounding::Down, Rounding::Outwards] {
            assert_eq!(span(rounding, 60, 120, 60), seconds(120, 180), "{rounding:?}");
            // Without a resolution, nothing is rounded.
            assert_eq!(span(rounding, 0, 119, 62), seconds(119, 181), "{rounding:?}");
        }
    }

    #[test]
    fn only_settings_other_than_the_default_are_written() {
        let written = |rounding| {
            let options = SlotOptions { rounding, ..SlotOptions::default() };
            serde_json::to_value(options).expect("plain data").get("rounding").cloned()
        };
        assert_eq!(written(Rounding::Down), None);
        assert_eq!(written(Rounding::Outwards), Some("outwards".into()));
    }
}
