//! A profile: how one system behaves, as data.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clocks::Ticks;
use super::kubernetes::KubernetesOptions;
use super::policies::PolicyOptions;
use super::polled::{GangRule, RunsOptions};
use super::scan::ScanOptions;
use super::{PassOptions, Passes, ProfileError, Trigger};
use dryrack_fleet::NodeState;
use dryrack_scheduler::deployment::DeploymentFilter;
use dryrack_scheduler::offers::NewInstances;
use dryrack_scheduler::slurm::SlurmOptions;
use dryrack_scheduler::{
    Backfill, Discipline, FilterName, GangPlaces, MOST_KEYS, OrderKey, Preempt, SchedulerOptions, Unfit,
};
use dryrack_units::{OptionalTextForm, Permille, SimDuration, TextForm};
use dryrack_workload::{Backoff, JobSpec, Restart, RetryPolicy};

/// Everything that a profile file says, with its base profiles already merged in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name. Results and logs show it.
    pub name: String,
    /// Title: one sentence.
    pub title: String,
    /// Whether the profile models what a released program did, with its faults. Such a profile may lack the readiness
    /// filter, and a placement that breaks safety is logged as an event instead of ending the simulation.
    pub historic: bool,
    pub instant: Instant,
    pub scheduler: SchedulerOptions,
    pub passes: Passes,
    /// Recorded times at which the place and backfill passes begin. After the last recorded time, passes follow their
    /// periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Ticks>,
    pub analysis: AnalysisOptions,
    pub commit: CommitOptions,
    pub heartbeat: HeartbeatOptions,
    pub deadlines: Deadlines,
    pub retry: RetryOptions,
    /// Time between the end of a run that exited by itself and the release of its resources. Meanwhile its nodes are
    /// completing (Slurm's state `COMPLETING`).
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    pub completing: SimDuration,
    /// Whether a job is cancelled if one of its dependencies can never be met (Slurm's `kill_invalid_depend` in
    /// `DependencyParameters`). Otherwise such a job waits forever.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kill_invalid_depend: bool,
    pub policies: PolicyOptions,
    /// How waiting replicas are placed.
    #[serde(default, skip_serializing_if = "FlowOptions::is_queue")]
    pub flow: FlowOptions,
    /// The configuration of the Slurm cluster: its partitions, and how it computes priorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmOptions>,
    /// Set if a program in another process decides. A profile file never states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

/// The decisions that the control plane leaves to an outside program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What happens to a placement by the program that would break safety.
    #[serde(rename = "unsafe")]
    pub when_unsafe: Unsafe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unsafe {
    /// The placement is refused.
    Refused,
    /// The placement is carried out, and an event reports it.
    Allowed,
}

/// How waiting replicas are placed, with the options of that flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowOptions {
    /// Replicas wait in one queue, and passes visit the queue.
    #[default]
    Queue,
    /// Jobs are runs of nodes. Loops visit the records of the runs, as in dstack.
    Polled(RunsOptions),
    /// Replicas have rows, and scans visit the rows, as in GPUStack.
    Scanned(ScanOptions),
    /// Replicas are pods, which kube-scheduler binds to nodes.
    Kubernetes(Box<KubernetesOptions>),
}

impl FlowOptions {
    /// The keys under which older profiles stated the options of a flow. Each pair holds such a key and the flow it
    /// belongs to.
    pub const BEFORE: &[(&str, &str)] = &[("runs", "polled"), ("scan", "scanned")];

    /// The name of this flow in a profile file.
    pub fn name(&self) -> &'static str {
        match self {
            FlowOptions::Queue => "queue",
            FlowOptions::Polled(_) => "polled",
            FlowOptions::Scanned(_) => "scanned",
            FlowOptions::Kubernetes(_) => "kubernetes",
        }
    }

    pub fn is_queue(&self) -> bool {
        *self == FlowOptions::Queue
    }

    /// The options of the polled flow; `None` for another flow.
    pub fn polled(&self) -> Option<&RunsOptions> {
        match self {
            FlowOptions::Polled(options) => Some(options),
            FlowOptions::Queue | FlowOptions::Scanned(_) | FlowOptions::Kubernetes(_) => None,
        }
    }

    /// The options of the scanned flow; `None` for another flow.
    pub fn scanned(&self) -> Option<&ScanOptions> {
        match self {
            FlowOptions::Scanned(options) => Some(options),
            FlowOptions::Queue | FlowOptions::Polled(_) | FlowOptions::Kubernetes(_) => None,
        }
    }

    /// The options of the Kubernetes flow; `None` for another flow.
    pub fn kubernetes(&self) -> Option<&KubernetesOptions> {
        match self {
            FlowOptions::Kubernetes(options) => Some(options),
            FlowOptions::Queue | FlowOptions::Polled(_) | FlowOptions::Scanned(_) => None,
        }
    }

    /// Whether the flow places pods, as kube-scheduler does.
    pub fn places_pods(&self) -> bool {
        self.kubernetes().is_some()
    }

    /// Whether a task of a gang that needs a node of its own is a node of a run, with a placement of its own.
    pub fn places_runs(&self) -> bool {
        self.polled().is_some()
    }

    /// Whether the flow can place some nodes of a gang before the others.
    pub fn places_parts_of_gangs(&self) -> bool {
        self.polled().is_some_and(|runs| runs.gang != GangRule::Whole)
    }

    /// Whether the flow passes over one queue, so that it uses the profile's options of backfill and preemption.
    pub fn passes_over_queue(&self) -> bool {
        self.is_queue()
    }

    /// Whether each replica has a row. A historic profile can write a decision about one row into another.
    pub fn has_rows(&self) -> bool {
        self.scanned().is_some()
    }

    /// Whether an input can start a scan that finds nothing new.
    pub fn scans_without_news(&self) -> bool {
        self.scanned().is_some()
    }

    /// Whether a failed replica starts again on its node, without a new decision.
    pub fn restarts_in_place(&self) -> bool {
        self.scanned().is_some_and(|scan| scan.restarts_in_place.is_some())
    }

    /// Whether the flow can retry or scan forever, and keeps its records of ended jobs.
    pub fn may_go_on_forever(&self) -> bool {
        !self.is_queue()
    }

    /// Whether `scheduler.offers.new_instances` says when the flow requests instances. If not, the core requests them.
    pub fn requests_instances(&self) -> bool {
        self.polled().is_some()
    }

    /// Whether a node's state keeps a job away only if the job does not tolerate it, as a taint does.
    pub fn treats_states_as_taints(&self) -> bool {
        self.kubernetes().is_some()
    }

    /// Whether `select` and `evaluate` know all rules by which the flow decides: those of the profile's scheduler.
    pub fn decides_by_scheduler(&self) -> bool {
        self.kubernetes().is_none()
    }

    fn faults(&self, is_historic: bool) -> Vec<ProfileError> {
        match self {
            FlowOptions::Queue => Vec::new(),
            FlowOptions::Polled(options) => options.faults(is_historic),
            FlowOptions::Scanned(options) => options.faults(is_historic),
            FlowOptions::Kubernetes(options) => options.faults(),
        }
    }
}

/// How the inputs of one instant are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Instant {
    /// All inputs of an instant are applied before anything is decided.
    Whole,
    /// Inputs are applied one by one, arrivals first, with a decision after each. Some programs work like this: they
    /// take the next arrival from a list unless a job ends before it.
    ArrivalsFirst,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_no_time(duration: &SimDuration) -> bool {
    duration.is_zero()
}

/// The analysis of a replica before it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnalysisOptions {
    /// Number of analyses that run at the same time.
    pub concurrency: u32,
}

/// How a decision is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitOptions {
    /// Time between reading the fleet and committing the decision.
    #[serde(with = "TextForm")]
    pub decision_time: SimDuration,
    /// Whether to compare, at commit, the state that was read with the current state. If they differ, the candidate is
    /// judged again.
    pub recheck: bool,
    /// Number of candidates that are kept. If the first no longer fits at commit, the next is tried.
    pub candidates: u32,
}

/// How the control plane notices that a node is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatOptions {
    /// The interval at which nodes are told to send heartbeats.
    #[serde(with = "TextForm")]
    pub every: SimDuration,
    /// Time since the last heartbeat after which a silent node enters the state `becomes`.
    #[serde(with = "TextForm")]
    pub grace: SimDuration,
    /// The state of a node that has been silent for the grace period.
    pub becomes: SilentState,
    /// Time since the last heartbeat after which the replicas of a silent node are given up and placed again.
    #[serde(with = "TextForm")]
    pub evict_after: SimDuration,
    /// How long a loss of readiness counts against a node. The `readiness` scorer reads the number of recent losses.
    #[serde(with = "TextForm")]
    pub flap_window: SimDuration,
    /// If stated, an expired grace period is noticed only at multiples of this time. Otherwise it is noticed at once.
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub checked_every: Option<SimDuration>,
    /// If stated, a due eviction is noticed only at multiples of this time. Otherwise it is noticed at once.
    #[serde(default, with = "OptionalTextForm", skip_serializing_if = "Option::is_none")]
    pub evicted_every: Option<SimDuration>,
}

/// The state of a silent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SilentState {
    NotReady,
    Unreachable,
}

impl From<SilentState> for NodeState {
    fn from(state: SilentState) -> NodeState {
        match state {
            SilentState::NotReady => NodeState::NotReady,
            SilentState::Unreachable => NodeState::Unreachable,
        }
    }
}

/// The longest time in each state that is not final. An event reports that it expired. By default, pending and running
/// have no limit, because only the user knows how long a job may wait or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    /// Longest wait before the job ends as expired; unlimited if absent.
    #[serde(with = "OptionalTextForm")]
    pub pending: Option<SimDuration>,
    /// Longest analysis.
    #[serde(with = "TextForm")]
    pub analysing: SimDuration,
    /// Time from placement to the first report about the run.
    #[serde(with = "TextForm")]
    pub scheduled: SimDuration,
    /// Time from the first report about the run to its start.
    #[serde(with = "TextForm")]
    pub preparing: SimDuration,
    /// Time from the request to stop to the report that the run has stopped. After it, the run has ended, and its nodes are asked
    /// whether it has stopped: ten times this far apart, and ten more times, each wait twice as long as the one before.
    #[serde(with = "TextForm")]
    pub stopping: SimDuration,
}

/// What happens after an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryOptions {
    /// Number of attempts after the first; unlimited if absent. Attempts that ended because a node was lost do not
    /// count.
    pub limit: Option<u32>,
    /// Pause before the second attempt.
    #[serde(with = "TextForm")]
    pub first: SimDuration,
    /// The factor by which the pause grows with each further attempt.
    #[serde(with = "TextForm")]
    pub factor: Permille,
    /// Longest pause.
    #[serde(with = "TextForm")]
    pub max: SimDuration,
}

impl Profile {
    /// Reads a profile that a log holds as data. Logs that were written before profiles named their flow state its
    /// options under `runs` or `scan`.
    pub fn from_data(mut data: serde_json::Value) -> Result<Profile, serde_json::Error> {
        if let Some(profile) = data.as_object_mut() {
            for (before, flow) in FlowOptions::BEFORE {
                if let Some(options) = profile.remove(*before) {
                    profile.insert("flow".to_string(), serde_json::json!({ *flow: options }));
                }
            }
            // A backfill pass has never had a batch, but logs stated that.
            if let Some(pass) = profile.get_mut("passes").and_then(|passes| passes.get_mut("backfill"))
                && let Some(pass) = pass.as_object_mut()
                && pass.get("batch").is_some_and(serde_json::Value::is_null)
            {
                pass.remove("batch");
            }
        }
        serde_json::from_value(data)
    }

    /// The profile as data, as [`Profile::from_data`] reads it. Other crates call this, because each that calls
    /// `serde_json` would compile the code for all options again.
    pub fn to_data(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a profile has a JSON form")
    }

    /// The retry policy of this job: its own if stated, otherwise the profile's. A job with `restart: always` has no
    /// limit unless the job states one.
    pub fn retry_of(&self, spec: &JobSpec) -> RetryPolicy {
        let RetryOptions { limit, first, factor, max } = self.retry;
        let limit = if spec.restart == Restart::Always { None } else { limit };
        spec.retry.as_deref().copied().unwrap_or(RetryPolicy { limit, backoff: Backoff { first, factor, max } })
    }

    /// All errors in the profile.
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
        faults.extend(self.faulty_model_filters());
        if !self.historic {
            faults.extend((!seen.contains("ready")).then_some(ProfileError::NoReadiness));
            faults.extend((!self.commit.recheck).then_some(ProfileError::NoRecheck));
        }
        let makes = self.scheduler.offers.new_instances != NewInstances::Never;
        faults.extend((makes && !self.flow.requests_instances()).then_some(ProfileError::InstancesWithoutRuns));
        let keys = self.scheduler.order.iter().filter(|key| **key != OrderKey::Priority).count();
        faults.extend((keys > MOST_KEYS).then_some(ProfileError::LongOrder(keys)));
        faults.extend(self.faulty_preemption());
        faults.extend(self.faulty_backfill_pass());
        let is_outside = |pass: PassOptions| pass.trigger == Trigger::Outside;
        faults.extend((self.program.is_some() && !is_outside(self.passes.place)).then_some(ProfileError::Program));
        let can_leave = self.flow.is_queue() || (self.flow.kubernetes().is_some() && self.program.is_some());
        faults.extend((is_outside(self.passes.place) && !can_leave).then_some(ProfileError::Outside));
        faults.extend(self.refuses_quotas().filter(|_| !self.policies.quotas.is_empty()));
        faults.extend(self.faulty_numbers());
        faults.extend(self.faulty_slurm());
        faults.extend(self.flow.faults(self.historic));
        if self.flow.kubernetes().is_some() {
            faults.extend(self.scheduler.own_stages().map(ProfileError::StageBesidePlugins));
        }
        faults
    }

    /// The filters without which a model could get a place that breaks safety.
    fn faulty_model_filters(&self) -> Vec<ProfileError> {
        let models = &self.scheduler.deployments;
        if self.historic {
            return Vec::new();
        }
        let needed = [
            (DeploymentFilter::Ready, "ready", "may use nodes that are not ready"),
            (DeploymentFilter::Picked, "picked", "may use other GPUs than those that were picked"),
            (DeploymentFilter::Labels, "labels", "may use nodes without the labels of the selector"),
            (DeploymentFilter::Compatible, "compatible", "may use GPUs on which the backend does not run"),
        ];
        let lacking = needed.into_iter().filter(|(filter, ..)| !models.filters.contains(filter));
        lacking.map(|(_, name, so)| ProfileError::ModelsWithout { name, so }).collect()
    }

    /// Why the profile cannot have quotas of projects. `None` if it can.
    pub fn refuses_quotas(&self) -> Option<ProfileError> {
        if self.flow.places_parts_of_gangs() {
            return Some(ProfileError::QuotasOfParts);
        }
        if self.flow.places_pods() {
            return Some(ProfileError::QuotasOfPods);
        }
        let preempts = self.flow.passes_over_queue() && self.scheduler.preempt != Preempt::Nobody;
        preempts.then_some(ProfileError::QuotasAndPreemption)
    }

    /// Whether jobs can wait for Kueue. Jobs of Slurm cannot.
    pub fn waits_for_admission(&self) -> bool {
        (self.flow.passes_over_queue() || self.flow.places_pods()) && self.slurm.is_none()
    }

    /// Errors in the configuration of a Slurm cluster, which only a profile that schedules like Slurm understands.
    fn faulty_slurm(&self) -> Vec<ProfileError> {
        let Some(slurm) = &self.slurm else { return Vec::new() };
        let mut faults = slurm.faults();
        let is_slurm = self.schedules_like_slurm();
        if let Some(filter) = self.scheduler.filter_of_queue().filter(|_| slurm.preempt_type.is_some()) {
            faults.push(format!(
                "has `preempt_type`, and the filter `{filter}` reads `queue.pending`, which each preempted job raises"
            ));
        }
        if !is_slurm {
            faults.push("needs a profile that schedules like Slurm, such as `slurm-22.05`".to_string());
        }
        if is_slurm && !self.policies.quotas.is_empty() {
            faults.push("has its own limits for users and accounts: remove `policies.quotas`".to_string());
        }
        if slurm.priority.is_some() != self.scheduler.order.contains(&OrderKey::Multifactor) {
            faults.push("needs `priority` exactly if `scheduler.order` has `multifactor`".to_string());
        }
        faults.into_iter().map(ProfileError::Slurm).collect()
    }

    /// Whether the profile has Slurm's main scheduler: passes at their own pace over one queue, which place on
    /// neighbouring nodes and end with the first job that does not fit.
    pub fn schedules_like_slurm(&self) -> bool {
        let options = &self.scheduler;
        self.flow.is_queue()
            && matches!(self.passes.place.trigger, Trigger::Every(_))
            && self.passes.place.batch.is_none()
            && options.discipline == Discipline::Strict
            && options.gangs == GangPlaces::Neighbours
            && options.preempt == Preempt::Nobody
            && matches!(options.backfill, Backfill::None | Backfill::Slots)
            && self.commit.decision_time.is_zero()
    }

    /// Errors in the preemption options. The queue order must put a preempted run behind the run that took its place.
    /// Otherwise the preempted run could take the freed room back at once.
    fn faulty_preemption(&self) -> Vec<ProfileError> {
        let order = &self.scheduler.order;
        // A priority key counts before all other keys, even if the order lists it later.
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
        let has_queue = self.flow.passes_over_queue();
        if !has_queue || matches!(self.passes.place.trigger, Trigger::EachAfter(_)) {
            faults.push(ProfileError::PreemptWithout("needs passes over one queue"));
        }
        let contradicts = match self.scheduler.backfill {
            Backfill::Conservative | Backfill::Slots => Some("has no effect when every job has a reservation"),
            // Otherwise the same job could be preempted and started again without end.
            Backfill::Rlscheduler => Some("frees room that `backfill: rlscheduler` would give to other jobs"),
            Backfill::None | Backfill::Easy => None,
        };
        faults.extend(contradicts.map(ProfileError::PreemptWithout));
        let refuses = has_queue && self.scheduler.unfit == Unfit::End;
        faults.extend(refuses.then_some(ProfileError::PreemptWithout(
            "stops jobs for one that waits until they have stopped, and `unfit: end` lets none wait: write `unfit: wait`",
        )));
        // Otherwise the filter could refuse a job because of those that were preempted for it, and so on without end.
        faults.extend(self.scheduler.filter_of_queue().map(ProfileError::PreemptBesideQueue));
        faults
    }

    fn faulty_backfill_pass(&self) -> Option<ProfileError> {
        self.passes.backfill?;
        let has_queue = self.flow.passes_over_queue();
        if !has_queue || matches!(self.passes.place.trigger, Trigger::EachAfter(_)) {
            return Some(ProfileError::BackfillPass("needs passes over one queue"));
        }
        let is_used = self.scheduler.backfill != Backfill::None;
        (!is_used).then_some(ProfileError::BackfillPass("needs `scheduler.backfill`"))
    }

    /// Errors in the options of passes that take time or have recorded start times. Such passes have separate clocks.
    fn faulty_clocks(&self) -> Vec<ProfileError> {
        let Passes { place, backfill, .. } = &self.passes;
        let is_regular = |pass: &PassOptions| matches!(pass.trigger, Trigger::Every(_)) && pass.jitter.is_zero();
        let takes = |pass: &PassOptions| !pass.takes.is_none();
        let mut faults = Vec::new();
        let has_clocks = self.ticks.is_some() || takes(place) || backfill.as_ref().is_some_and(takes);
        for (name, pass) in [("passes.place", Some(place)), ("passes.backfill", backfill.as_ref())] {
            let is_odd = has_clocks && pass.is_some_and(|pass| !is_regular(pass));
            faults.extend(is_odd.then_some(ProfileError::TimeOfNoPeriod(name)));
        }
        let Some(ticks) = &self.ticks else { return faults };
        let rises = |times: &[SimDuration]| times.windows(2).all(|pair| pair[0] < pair[1]);
        if !rises(&ticks.place) || !rises(&ticks.backfill) {
            faults.push(ProfileError::Ticks("are not sorted by time"));
        }
        if !ticks.backfill.is_empty() && backfill.is_none() {
            faults.push(ProfileError::Ticks("list backfill passes, but `passes.backfill` is missing"));
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
        faults.extend(
            self.scheduler.slots.resolution.is_zero().then_some(ProfileError::NoTime("scheduler.slots.resolution")),
        );
        faults.extend(self.retry.first.is_zero().then_some(ProfileError::NoTime("retry.first")));
        for (name, every) in [
            ("heartbeat.checked_every", self.heartbeat.checked_every),
            ("heartbeat.evicted_every", self.heartbeat.evicted_every),
        ] {
            faults.extend(every.is_some_and(SimDuration::is_zero).then_some(ProfileError::NoTime(name)));
        }
        faults.extend(self.heartbeat.every.is_zero().then_some(ProfileError::NoTime("heartbeat.every")));
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
