//! A profile: how one system behaves, as data.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::clocks::{PassTime, Ticks};
use super::policies::PolicyOptions;
use super::polled::{GangRule, RunsOptions};
use super::scan::ScanOptions;
use dryrack_fleet::NodeState;
use dryrack_scheduler::offers::NewInstances;
use dryrack_scheduler::{Backfill, FilterName, MOST_KEYS, OrderKey, Preempt, SchedulerOptions};
use dryrack_units::{Permille, SimDuration, text_form};
use dryrack_workload::{Backoff, JobSpec, Restart, RetryPolicy};

/// Everything a profile file says, its bases folded in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    /// One sentence.
    pub title: String,
    /// It models what a program did, faults included: readiness may be missing, and broken safety is an event.
    pub historic: bool,
    pub instant: Instant,
    pub scheduler: SchedulerOptions,
    pub passes: Passes,
    /// When the passes to place and to backfill really began, where that was recorded: they begin then, and by their periods
    /// once that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Ticks>,
    pub analysis: AnalysisOptions,
    pub commit: CommitOptions,
    pub heartbeat: HeartbeatOptions,
    pub deadlines: Deadlines,
    pub retry: RetryOptions,
    /// What a run held that has ended by itself is free so much later: its nodes are completing (Slurm's state of that
    /// name).
    #[serde(default, with = "text_form", skip_serializing_if = "is_no_time")]
    pub completing: SimDuration,
    pub policies: PolicyOptions,
    /// Jobs are runs of nodes that loops look at; without it, they wait in one queue that the passes look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunsOptions>,
    /// Replicas have rows that are scanned; without it, they wait in one queue that the passes look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanOptions>,
}

/// What happens at one time, as far as it can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instant {
    /// All of it is applied before anything is decided.
    Whole,
    /// One by one, arrivals first, with a decision after each: as programs have it that take the next of a list of
    /// arrivals unless something ends before it.
    ArrivalsFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passes {
    /// Moves pending replicas that need it into analysis.
    pub analyse: PassOptions,
    /// Places pending replicas.
    pub place: PassOptions,
    /// Lets pass whoever may; without it, every place pass ends with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<PassOptions>,
}

impl Passes {
    /// By whose clock there is backfilling.
    pub(super) fn for_backfill(&self) -> PassOptions {
        self.backfill.unwrap_or(self.place)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassOptions {
    pub trigger: Trigger,
    /// Replicas looked at in one pass; all if absent.
    pub batch: Option<u32>,
    /// Each period is longer by a draw from zero to this.
    #[serde(with = "text_form")]
    pub jitter: SimDuration,
    /// The first is so much after the beginning; of passes every so often.
    #[serde(default, with = "text_form", skip_serializing_if = "is_no_time")]
    pub offset: SimDuration,
    /// A pass every so often begins its period after the last one is over, and waits for the other one.
    #[serde(default, skip_serializing_if = "PassTime::is_none")]
    pub takes: PassTime,
}

fn is_no_time(duration: &SimDuration) -> bool {
    duration.is_zero()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// At the end of every instant in which something changed.
    Event,
    /// Every so often.
    #[serde(with = "text_form")]
    Every(SimDuration),
    /// For each replica, when so much time has gone by since it was last processed; the least recently processed first.
    #[serde(with = "text_form")]
    EachAfter(SimDuration),
    /// Never: a scheduler outside decides, and its decisions are inputs.
    Outside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalysisOptions {
    /// Analyses at the same time.
    pub concurrency: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitOptions {
    /// From reading the fleet to committing the decision.
    #[serde(with = "text_form")]
    pub decision_time: SimDuration,
    /// Compare what was read with what is; where it differs, judge the candidate again.
    pub recheck: bool,
    /// Candidates kept to fall back on.
    pub candidates: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatOptions {
    /// The interval nodes are told to keep.
    #[serde(with = "text_form")]
    pub every: SimDuration,
    /// Silence since the last heartbeat after which a node is `becomes`.
    #[serde(with = "text_form")]
    pub grace: SimDuration,
    pub becomes: NodeState,
    /// Silence after which what ran there is given up and placed again.
    #[serde(with = "text_form")]
    pub evict_after: SimDuration,
    /// For how long it counts against a node that it has ceased to be ready; what the `readiness` scorer reads.
    #[serde(with = "text_form")]
    pub flap_window: SimDuration,
    /// Silence is noticed to have outlasted its grace at a multiple of this alone; at once if absent.
    #[serde(default, with = "text_form::option", skip_serializing_if = "Option::is_none")]
    pub checked_every: Option<SimDuration>,
    /// The same of eviction.
    #[serde(default, with = "text_form::option", skip_serializing_if = "Option::is_none")]
    pub evicted_every: Option<SimDuration>,
}

/// The longest stay in each state that is not final; its expiry is an event. Waiting and running have none but what a
/// job states (`time_limit`), because only the user can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    /// Then the job ends as expired; without limit if absent.
    #[serde(with = "text_form::option")]
    pub pending: Option<SimDuration>,
    #[serde(with = "text_form")]
    pub analysing: SimDuration,
    /// From placement to a first sign of life.
    #[serde(with = "text_form")]
    pub scheduled: SimDuration,
    #[serde(with = "text_form")]
    pub preparing: SimDuration,
    #[serde(with = "text_form")]
    pub stopping: SimDuration,
}

/// What follows an attempt that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryOptions {
    /// Attempts after the first; without limit if absent. Losing a node is nobody's attempt and is not counted.
    pub limit: Option<u32>,
    #[serde(with = "text_form")]
    pub first: SimDuration,
    #[serde(with = "text_form")]
    pub factor: Permille,
    #[serde(with = "text_form")]
    pub max: SimDuration,
}

/// Why a profile cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    #[error("has no `ready` filter, so it would use nodes that are not ready; mark it `historic: true` if it must")]
    NoReadiness,
    #[error("exempts demands from the `{0}` filter; only a profile marked `historic: true` may")]
    Exemption(&'static str),
    #[error("has a value of `{0}` that only a profile marked `historic: true` may have")]
    OnlyHistoric(&'static str),
    #[error("commits without a recheck; only a profile marked `historic: true` may")]
    NoRecheck,
    #[error("names the `{0}` filter twice")]
    Twice(&'static str),
    #[error("lacks the `{0}` filter, without which a demand would go unread")]
    Missing(&'static str),
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    #[error("`{0}` must be longer than no time")]
    NoTime(&'static str),
    #[error("`{0}` looks at each replica in its own time, where a batch has no meaning")]
    BatchOfEach(&'static str),
    #[error("a silent node becomes {found}; expected not_ready or unreachable")]
    Silence { found: String },
    #[error("`{0}` has an offset, and no period that would begin with it")]
    OffsetOfNoPeriod(&'static str),
    #[error(
        "has passes of `{0}` that take time; only those to place and to backfill do, every so often, without a jitter"
    )]
    TimeOfNoPeriod(&'static str),
    #[error("has `ticks`, which {0}")]
    Ticks(&'static str),
    #[error("has `passes.backfill`, which {0}")]
    BackfillPass(&'static str),
    #[error("the GPU seconds of `scheduler.levels` must rise, from more than none")]
    Levels,
    #[error("the weight of a scorer must be a finite number")]
    Weight,
    #[error("`{0}` has no entry")]
    Empty(&'static str),
    #[error(
        "has `runs` and `scan`; a profile has one flow: the loops of `runs`, the scans of `scan`, or the queue without either"
    )]
    TwoFlows,
    #[error("has `scheduler.offers.new_instances` and no `runs`, which alone wait for instances")]
    InstancesWithoutRuns,
    #[error("has `policies.quotas`, which a profile reads that has `runs` of which each gets all its places or none")]
    QuotasUnread,
    #[error("has `{0}: {1}`; only a profile marked `historic: true` may")]
    HistoricOnly(&'static str, &'static str),
    #[error("a back-off factor below 100% would shrink the pause")]
    Shrinks,
    #[error("has a time window of {window}, shorter than its own least of {least}")]
    ShortWindow { window: SimDuration, least: SimDuration },
    #[error("would keep more than a million samples for one window; sample less often")]
    ManySamples,
    #[error(
        "has `scheduler.preempt: {0}`, so `scheduler.order` must begin with `{1}`: whoever is stopped waits after whom it made room for"
    )]
    PreemptOrder(&'static str, &'static str),
    #[error("has {0} keys in `scheduler.order` besides `priority`, and {most} are told apart", most = MOST_KEYS)]
    LongOrder(usize),
    #[error("has `scheduler.preempt`, which {0}")]
    PreemptWithout(&'static str),
    #[error("leaves `{0}` to a scheduler outside, which decides in `passes.place` alone, over one queue")]
    Outside(&'static str),
    #[error("has a minimum GPU utilization above 100%")]
    OverHundred,
    #[error(
        "has `runs.prepare: in_turn` and `runs.begin: all_prepared`, so nodes with a startup order would wait for each other"
    )]
    TurnsOfPrepared,
}

impl Profile {
    /// What follows when a run of this job goes wrong: what the job says, else what the profile says. What is meant to
    /// run always has no limit unless it states one.
    pub fn retry_of(&self, spec: &JobSpec) -> RetryPolicy {
        let RetryOptions { limit, first, factor, max } = self.retry;
        let limit = if spec.restart == Restart::Always { None } else { limit };
        spec.retry.as_deref().copied().unwrap_or(RetryPolicy { limit, backoff: Backoff { first, factor, max } })
    }

    /// All that is wrong with it.
    pub fn faults(&self) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for filter in &self.scheduler.filters {
            if !seen.insert(filter.stage.name()) {
                faults.push(ProfileError::Twice(filter.stage.name()));
            }
            if filter.unless.is_some() && !self.historic {
                faults.push(ProfileError::Exemption(filter.stage.name()));
            }
        }
        for required in [FilterName::Picked, FilterName::Labels, FilterName::Compatible, FilterName::Resources] {
            if !seen.contains(required.name()) {
                faults.push(ProfileError::Missing(required.name()));
            }
        }
        if !self.historic {
            faults.extend((!seen.contains("ready")).then_some(ProfileError::NoReadiness));
            faults.extend((!self.commit.recheck).then_some(ProfileError::NoRecheck));
        }
        faults.extend((self.runs.is_some() && self.scan.is_some()).then_some(ProfileError::TwoFlows));
        let makes = self.scheduler.offers.new_instances != NewInstances::Never;
        faults.extend((makes && self.runs.is_none()).then_some(ProfileError::InstancesWithoutRuns));
        let keys = self.scheduler.order.iter().filter(|key| **key != OrderKey::Priority).count();
        faults.extend((keys > MOST_KEYS).then_some(ProfileError::LongOrder(keys)));
        faults.extend(self.faulty_preemption());
        faults.extend(self.faulty_backfill_pass());
        let is_outside = |pass: PassOptions| pass.trigger == Trigger::Outside;
        faults.extend(is_outside(self.passes.analyse).then_some(ProfileError::Outside("passes.analyse")));
        let has_loops = self.runs.is_some() || self.scan.is_some();
        faults.extend((has_loops && is_outside(self.passes.place)).then_some(ProfileError::Outside("passes.place")));
        let places_whole = self.runs.as_ref().is_some_and(|runs| runs.gang == GangRule::Whole);
        faults.extend((!self.policies.quotas.is_empty() && !places_whole).then_some(ProfileError::QuotasUnread));
        faults.extend(self.faulty_numbers());
        faults.extend(self.runs.iter().flat_map(|runs| runs.faults(self.historic)));
        faults.extend(self.scan.iter().flat_map(|scan| scan.faults(self.historic)));
        faults
    }

    /// Whoever is stopped must wait behind whom it was stopped for.
    fn faulty_preemption(&self) -> Vec<ProfileError> {
        let order = &self.scheduler.order;
        // A priority comes before all other keys, wherever it is written.
        let (agrees, name, first) = match self.scheduler.preempt {
            Preempt::Nobody => return Vec::new(),
            Preempt::LowerPriority => (order.contains(&OrderKey::Priority), "lower_priority", "priority"),
            Preempt::LongerRemaining => {
                let agrees = order.first() == Some(&OrderKey::Remaining) && !order.contains(&OrderKey::Priority);
                (agrees, "longer_remaining", "remaining")
            }
            Preempt::MoreAttained => {
                let agrees = order.as_slice() == [OrderKey::Attained, OrderKey::Joined];
                (agrees, "more_attained", "attained, joined")
            }
        };
        let mut faults = Vec::new();
        faults.extend((!agrees).then_some(ProfileError::PreemptOrder(name, first)));
        let has_queue = self.runs.is_none() && self.scan.is_none();
        if !has_queue || matches!(self.passes.place.trigger, Trigger::EachAfter(_)) {
            faults.push(ProfileError::PreemptWithout("needs passes over one queue"));
        }
        if matches!(self.scheduler.backfill, Backfill::Conservative | Backfill::Slots) {
            faults.push(ProfileError::PreemptWithout("has no meaning where everybody has a reservation"));
        }
        faults
    }

    fn faulty_backfill_pass(&self) -> Option<ProfileError> {
        let pass = self.passes.backfill?;
        let has_queue = self.runs.is_none() && self.scan.is_none();
        if !has_queue || matches!(self.passes.place.trigger, Trigger::EachAfter(_)) {
            return Some(ProfileError::BackfillPass("needs passes over one queue"));
        }
        match (self.scheduler.backfill, pass.trigger, pass.batch) {
            (Backfill::None, ..) => Some(ProfileError::BackfillPass("needs `scheduler.backfill`")),
            (_, Trigger::EachAfter(_) | Trigger::Outside, _) => {
                Some(ProfileError::BackfillPass("looks at the whole queue"))
            }
            (_, _, Some(_)) => Some(ProfileError::BackfillPass("has no batch; `scheduler.slots.depth` bounds one")),
            (_, Trigger::Event | Trigger::Every(_), None) => None,
        }
    }

    /// Passes that take time, and those that were recorded, have clocks of their own.
    fn faulty_clocks(&self) -> Vec<ProfileError> {
        let Passes { analyse, place, backfill } = &self.passes;
        let is_regular = |pass: &PassOptions| matches!(pass.trigger, Trigger::Every(_)) && pass.jitter.is_zero();
        let takes = |pass: &PassOptions| !pass.takes.is_none();
        let mut faults = Vec::new();
        faults.extend(takes(analyse).then_some(ProfileError::TimeOfNoPeriod("passes.analyse")));
        let has_clocks = self.ticks.is_some() || takes(place) || backfill.as_ref().is_some_and(takes);
        for (name, pass) in [("passes.place", Some(place)), ("passes.backfill", backfill.as_ref())] {
            let is_odd = has_clocks && pass.is_some_and(|pass| !is_regular(pass));
            faults.extend(is_odd.then_some(ProfileError::TimeOfNoPeriod(name)));
        }
        let Some(ticks) = &self.ticks else { return faults };
        let rises = |times: &[SimDuration]| times.windows(2).all(|pair| pair[0] < pair[1]);
        if !rises(&ticks.place) || !rises(&ticks.backfill) {
            faults.push(ProfileError::Ticks("are not in order of time"));
        }
        if !ticks.backfill.is_empty() && backfill.is_none() {
            faults.push(ProfileError::Ticks("are of backfilling, for which there are no `passes.backfill`"));
        }
        faults
    }

    fn faulty_numbers(&self) -> Vec<ProfileError> {
        let mut faults = Vec::new();
        for (name, count) in [
            ("analysis.concurrency", Some(self.analysis.concurrency)),
            ("commit.candidates", Some(self.commit.candidates)),
            ("passes.analyse.batch", self.passes.analyse.batch),
            ("passes.place.batch", self.passes.place.batch),
            ("scheduler.slots.depth", Some(self.scheduler.slots.depth)),
        ] {
            faults.extend((count == Some(0)).then_some(ProfileError::Zero(name)));
        }
        let backfill = self.passes.backfill.map(|pass| ("passes.backfill", pass));
        let passes = [("passes.analyse", self.passes.analyse), ("passes.place", self.passes.place)];
        for (name, pass) in passes.into_iter().chain(backfill) {
            let empty = match pass.trigger {
                Trigger::Event | Trigger::Outside => false,
                Trigger::Every(period) | Trigger::EachAfter(period) => period.is_zero(),
            };
            faults.extend(empty.then_some(ProfileError::NoTime(name)));
            let each = matches!(pass.trigger, Trigger::EachAfter(_));
            faults.extend((each && pass.batch.is_some()).then_some(ProfileError::BatchOfEach(name)));
            let is_periodic = matches!(pass.trigger, Trigger::Every(_));
            faults.extend((!is_periodic && !pass.offset.is_zero()).then_some(ProfileError::OffsetOfNoPeriod(name)));
        }
        let levels = &self.scheduler.levels;
        let rises = levels.first() != Some(&0) && levels.windows(2).all(|pair| pair[0] < pair[1]);
        faults.extend((!rises).then_some(ProfileError::Levels));
        faults.extend(self.faulty_clocks());
        faults.extend(self.scheduler.slots.resolution.is_zero().then_some(ProfileError::NoTime("slots.resolution")));
        faults.extend(self.retry.first.is_zero().then_some(ProfileError::NoTime("retry.first")));
        for (name, every) in [
            ("heartbeat.checked_every", self.heartbeat.checked_every),
            ("heartbeat.evicted_every", self.heartbeat.evicted_every),
        ] {
            faults.extend(every.is_some_and(SimDuration::is_zero).then_some(ProfileError::NoTime(name)));
        }
        faults.extend(self.heartbeat.every.is_zero().then_some(ProfileError::NoTime("heartbeat.every")));
        if !matches!(self.heartbeat.becomes, NodeState::NotReady | NodeState::Unreachable) {
            faults.push(ProfileError::Silence { found: format!("{:?}", self.heartbeat.becomes).to_lowercase() });
        }
        if self.scheduler.scorers.iter().any(|scorer| !scorer.weight.is_finite()) {
            faults.push(ProfileError::Weight);
        }
        if self.retry.factor < Permille::new(1000) {
            faults.push(ProfileError::Shrinks);
        }
        faults.extend(self.policies.utilization.faults());
        faults
    }
}
