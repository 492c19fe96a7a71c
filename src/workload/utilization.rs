//! The parts of a utilization policy: its values, who may state them, and what is reported when it fires.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use dryrack_units::{Permille, SimDuration, SimTime, text_form};

/// The rule that decides whether a window was idle. [This module](crate) holds the words, and the policy module the
/// definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UtilizationRule {
    /// A sequence of idle readings, none too far from the next, that is as long as the window; evaluated at each
    /// sample.
    #[default]
    Covered,
    /// What dstack 0.18.44 to 0.22.5 does with the samples in the window each time it evaluates them.
    Dstack {
        /// The interval of evaluation, counted from the start of the run.
        #[serde(with = "text_form")]
        looks_every: SimDuration,
        /// How far into the window the first sample that counts may lie (60 s upstream).
        #[serde(with = "text_form")]
        first_within: SimDuration,
    },
}

/// What happens when it fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyMode {
    /// It is only logged.
    Observe,
    /// The user is warned, once for each idle spell.
    Warn,
    /// The run is ended.
    #[default]
    Enforce,
}

/// Which GPUs of a run must have been idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleGpus {
    /// One idle GPU is enough.
    #[default]
    Any,
    /// All of them, over the same window.
    All,
}

/// How a reading equal to the minimum counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtMinimum {
    /// Busy: only a reading strictly below the minimum is idle.
    #[default]
    Busy,
    Idle,
}

/// What two readings that are further apart than the longest gap say about the time between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// Nothing: the window begins again after the gap.
    #[default]
    Void,
    /// Idle before and after means idle in between.
    Bridge,
}

/// The values of the policy that applies to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilizationPolicy {
    pub rule: UtilizationRule,
    pub mode: PolicyMode,
    #[serde(with = "text_form")]
    pub min_gpu_utilization: Permille,
    #[serde(with = "text_form")]
    pub time_window: SimDuration,
    pub gpus: IdleGpus,
    pub at_minimum: AtMinimum,
    /// How often samples are meant to be taken.
    #[serde(with = "text_form")]
    pub interval: SimDuration,
    /// Two readings further apart than this have a gap between them.
    #[serde(with = "text_form")]
    pub longest_gap: SimDuration,
    pub gaps: Gaps,
    /// Readings from before the run has run for this long do not count.
    #[serde(with = "text_form")]
    pub grace: SimDuration,
}

/// Settings of one run's configuration that override its profile; absent ones come from the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilizationOverrides {
    pub mode: Option<PolicyMode>,
    pub min_gpu_utilization: Option<Permille>,
    pub time_window: Option<SimDuration>,
    pub gpus: Option<IdleGpus>,
    pub at_minimum: Option<AtMinimum>,
    pub longest_gap: Option<SimDuration>,
    pub gaps: Option<Gaps>,
    pub grace: Option<SimDuration>,
    /// How often this run's GPUs are sampled. It is a fact about the sampler, not a request of the user.
    pub interval: Option<SimDuration>,
    /// The source of these values. Values that a file takes from a project's profiles count as the profile's.
    pub from: PolicySource,
}

impl UtilizationOverrides {
    /// Whether a user stated anything.
    pub fn is_stated(&self) -> bool {
        let unstated = UtilizationOverrides { interval: self.interval, from: self.from, ..Default::default() };
        *self != unstated
    }
}

/// The source of the values of a bound policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// The profile alone.
    Profile,
    /// Some or all of them are stated in the run's configuration.
    #[default]
    Configuration,
}

/// The readings that covered a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// The idle GPUs, by their place among the run's GPUs.
    pub gpus: SmallVec<[u16; 8]>,
    /// The times of the first and the last sample.
    pub first: SimTime,
    pub last: SimTime,
    /// The number of samples from the first to the last, both included; of several GPUs, the smallest number.
    pub samples: u32,
}

/// Why a sample is not used, or what is odd about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleFault {
    /// It arrived after a later one. It is used.
    Disorder,
    /// Samples come faster than the interval says. A sample that a window may still need was dropped, so that only
    /// its effect is remembered, and a sample from before it would be rejected. It is used.
    Overflow,
    /// There already is a sample of the same time.
    Duplicate,
    /// It is older than every sample that is kept.
    TooOld,
    /// Its time is in the future by more than the longest gap.
    Future,
    /// Its time is before the start of the run.
    BeforeStart,
    /// It has more GPUs than the run, or fewer.
    GpuCount,
}

impl SampleFault {
    pub const ALL: [SampleFault; 7] = [
        SampleFault::Disorder,
        SampleFault::Overflow,
        SampleFault::Duplicate,
        SampleFault::TooOld,
        SampleFault::Future,
        SampleFault::BeforeStart,
        SampleFault::GpuCount,
    ];

    pub fn name(self) -> &'static str {
        match self {
            SampleFault::Disorder => "disorder",
            SampleFault::Overflow => "overflow",
            SampleFault::Duplicate => "duplicate",
            SampleFault::TooOld => "too_old",
            SampleFault::Future => "future",
            SampleFault::BeforeStart => "before_start",
            SampleFault::GpuCount => "gpu_count",
        }
    }
}
