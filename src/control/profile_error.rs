//! What is wrong with a profile.

use thiserror::Error;

use dryrack_scheduler::MOST_KEYS;
use dryrack_units::SimDuration;

/// Why a profile cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    #[error(
        "has no `ready` filter, so it would use nodes that are not ready; if that is intended, add `historic: true`"
    )]
    NoReadiness,
    #[error("exempts demands from the `{0}` filter, which only a profile with `historic: true` can do")]
    Exemption(&'static str),
    #[error("has a value of `{0}` that needs `historic: true`")]
    OnlyHistoric(&'static str),
    #[error("commits without a recheck, which only a profile with `historic: true` can do")]
    NoRecheck,
    #[error("names the `{0}` filter twice")]
    Twice(&'static str),
    #[error("has the utilization rule `{0}`, which is neither built in nor registered (`register_policy_rule`)")]
    UnknownRule(&'static str),
    #[error("lacks the `{0}` filter, so a part of the demand would be ignored")]
    Missing(&'static str),
    #[error("needs a `{0}` of at least 1")]
    Zero(&'static str),
    #[error("needs a `{0}` above 0")]
    NoTime(&'static str),
    #[error("has a batch for `{0}`, which looks at each replica separately")]
    BatchOfEach(&'static str),
    #[error(
        "lacks the `{name}` filter for models, so a model {so}; only a profile with `historic: true` can do without it"
    )]
    ModelsWithout { name: &'static str, so: &'static str },
    #[error("has an offset for `{0}` but no period")]
    OffsetOfNoPeriod(&'static str),
    #[error(
        "has passes of `{0}` that take time; only periodic placement and backfill passes without jitter can take time"
    )]
    TimeOfNoPeriod(&'static str),
    #[error("has `ticks`, which {0}")]
    Ticks(&'static str),
    #[error("has `passes.backfill`, which {0}")]
    BackfillPass(&'static str),
    #[error("has `scheduler.levels` that do not increase, or that start at 0 GPU seconds")]
    Levels,
    #[error("has a scorer whose weight is not a finite number")]
    Weight,
    #[error("has an empty `{0}`")]
    Empty(&'static str),
    #[error(
        "has `scheduler.offers.new_instances`, which needs `flow: {{polled: …}}`: only that flow waits for instances"
    )]
    InstancesWithoutRuns,
    #[error(
        "has `policies.quotas`, which needs `gang: whole` in `flow.polled`: quotas do not apply to a part of a gang"
    )]
    QuotasOfParts,
    #[error("has `policies.quotas`, which the flow of pods does not read: write them as quotas of Kueue (`kueue:`)")]
    QuotasOfPods,
    #[error("has both `policies.quotas` and `scheduler.preempt`: a job that preempts another could exceed its quota")]
    QuotasAndPreemption,
    #[error("has a `program`, which is only for runs that a program decides")]
    Program,
    #[error("has `{0}: {1}`, which needs `historic: true`")]
    HistoricOnly(&'static str, &'static str),
    #[error("has a back-off factor below 100%, so the pauses would shrink")]
    Shrinks,
    #[error("has a time window of {window}, which is shorter than its own minimum of {least}")]
    ShortWindow { window: SimDuration, least: SimDuration },
    #[error("keeps more than a million samples in one window; use a longer sampling interval")]
    ManySamples,
    #[error(
        "has `scheduler.preempt: {0}`, so `scheduler.order` must begin with `{1}`: a preempted job must wait behind \
         the job that preempted it"
    )]
    PreemptOrder(&'static str, &'static str),
    #[error("has {0} keys in `scheduler.order` besides `priority`, but only the first {most} have an effect", most = MOST_KEYS)]
    LongOrder(usize),
    #[error("has `scheduler.preempt`, which {0}")]
    PreemptWithout(&'static str),
    #[error(
        "has `scheduler.preempt`, which lengthens the queue, but the filter `{0}` reads `queue.pending` and could then \
         refuse the job that preempts"
    )]
    PreemptBesideQueue(&'static str),
    #[error("leaves `passes.place` to an outside scheduler, which can decide only with one queue")]
    Outside,
    #[error("has `slurm`, which {0}")]
    Slurm(String),
    #[error("has `flow.kubernetes`: {0}")]
    Kubernetes(String),
    #[error("has the stage `{0}`, which `flow: kubernetes` would not call: only its plugins decide")]
    StageBesidePlugins(&'static str),
    #[error("has a minimum GPU utilization above 100%")]
    OverHundred,
    #[error(
        "has `prepare: in_turn` and `begin: all_prepared` in `flow.polled`, so nodes with a startup order would wait for each other"
    )]
    TurnsOfPrepared,
}

impl ProfileError {
    /// The filter that `scheduler.deployments.filters` lacks, if that is the error.
    pub fn lacking_filter(&self) -> Option<&'static str> {
        let ProfileError::ModelsWithout { name, .. } = self else { return None };
        Some(name)
    }

    /// The options that the error is about, as the keys that lead to them, the most telling one first. The last key may be
    /// the name of a stage. Empty if the error is about no single option.
    pub fn options(&self) -> Vec<String> {
        use ProfileError as E;
        match self {
            E::NoReadiness | E::Missing(_) => vec!["scheduler.filters".into()],
            E::Exemption(filter) => vec![format!("scheduler.filters.{filter}.unless")],
            E::Twice(filter) => vec![format!("scheduler.filters.{filter}")],
            E::NoRecheck => vec!["commit.recheck".into()],
            E::OnlyHistoric(path) | E::HistoricOnly(path, _) | E::Zero(path) | E::NoTime(path) | E::Empty(path) => {
                vec![(*path).to_string()]
            }
            E::BatchOfEach(pass) => vec![format!("{pass}.batch"), format!("{pass}.trigger")],
            E::OffsetOfNoPeriod(pass) => vec![format!("{pass}.offset"), format!("{pass}.trigger")],
            E::TimeOfNoPeriod(pass) => vec![format!("{pass}.takes"), format!("{pass}.trigger"), "ticks".into()],
            E::UnknownRule(_) => vec!["policies.utilization.rule".into()],
            E::ModelsWithout { .. } => vec!["scheduler.deployments.filters".into()],
            E::Ticks(_) => vec!["ticks".into()],
            E::BackfillPass(_) => vec!["passes.backfill".into(), "scheduler.backfill".into()],
            E::Levels => vec!["scheduler.levels".into()],
            E::Weight => vec!["scheduler.scorers".into()],
            E::InstancesWithoutRuns => vec!["scheduler.offers.new_instances".into(), "flow".into()],
            E::QuotasOfParts => vec!["policies.quotas".into(), "flow.polled.gang".into()],
            E::QuotasOfPods => vec!["policies.quotas".into(), "flow".into()],
            E::QuotasAndPreemption => vec!["policies.quotas".into(), "scheduler.preempt".into()],
            E::Program => vec!["program".into()],
            E::Shrinks => vec!["retry.factor".into()],
            E::ShortWindow { .. } => vec!["policies.utilization.time_window".into()],
            E::ManySamples => vec!["policies.utilization.interval".into(), "policies.utilization.time_window".into()],
            E::OverHundred => vec!["policies.utilization.min_gpu_utilization".into()],
            E::PreemptOrder(..) => vec!["scheduler.order".into(), "scheduler.preempt".into()],
            E::LongOrder(_) => vec!["scheduler.order".into()],
            E::PreemptWithout(_) => {
                let keys = ["scheduler.preempt", "scheduler.backfill", "scheduler.unfit", "passes.place", "flow"];
                keys.map(String::from).to_vec()
            }
            E::PreemptBesideQueue(filter) => vec![format!("scheduler.filters.{filter}"), "scheduler.preempt".into()],
            E::Outside => vec!["passes.place".into()],
            E::Slurm(_) => vec!["slurm".into()],
            E::Kubernetes(_) => vec!["flow.kubernetes".into()],
            E::StageBesidePlugins(stage) => {
                let lists = ["filters", "scorers", "order", "deployments.filters", "offers.filters"];
                lists.iter().map(|list| format!("scheduler.{list}.{stage}")).collect()
            }
            E::TurnsOfPrepared => vec!["flow.polled.prepare".into(), "flow.polled.begin".into()],
        }
    }
}
