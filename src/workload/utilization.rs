//! What a utilization policy is made of: the values, who may state them, and what is said when it fires.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use dryrack_units::{Permille, SimDuration, SimTime, text_form};

/// How it is judged whether a window was idle; [this room](crate) holds the words, the policy room the definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UtilizationRule {
    /// A row of idle readings, none too far from the next, that is as long as the window; judged at each sample.
    #[default]
    Covered,
    /// What dstack 0.18.44 to 0.22.5 does with the samples that lie in the window when it looks.
    Dstack {
        /// It looks at this pace, counted from the moment the run started.
        #[serde(with = "text_form")]
        looks_every: SimDuration,
        /// How far into the window its first sample that counts may lie (60 s upstream).
        #[serde(with = "text_form")]
        first_within: SimDuration,
    },
}

/// What follows when it fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyMode {
    /// The log says so, and nothing follows.
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
    /// All of them, over one and the same window.
    All,
}

/// What a reading equal to the minimum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtMinimum {
    /// Idle is strictly below the minimum.
    #[default]
    Busy,
    Idle,
}

/// What two readings say of the time between them if they are further apart than the longest gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// Nothing: the window begins again behind it.
    #[default]
    Void,
    /// Idle before and after is idle in between.
    Bridge,
}

/// The values that bind a run.
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
    /// What is read before the run has run for so long does not count.
    #[serde(with = "text_form")]
    pub grace: SimDuration,
}

/// What the configuration of one run says over its profile; what is absent is the profile's.
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
    /// How often this run's GPUs are sampled: a fact about its sampler rather than a wish of its user.
    pub interval: Option<SimDuration>,
    /// Whose word it is: what a file takes out of a project's profiles stands in their place.
    pub from: PolicySource,
}

impl UtilizationOverrides {
    /// Whether a user stated anything.
    pub fn is_stated(&self) -> bool {
        let unstated = UtilizationOverrides { interval: self.interval, from: self.from, ..Default::default() };
        *self != unstated
    }
}

/// Where the values of a bound policy come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// The profile alone.
    Profile,
    /// The run's configuration states some of them, or all.
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
    /// From the first to the last, both included; of several GPUs, of the one with fewest.
    pub samples: u32,
}

/// Why a sample is not used, or what is odd about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleFault {
    /// It came after a later one. It is used.
    Disorder,
    /// Samples come faster than they were meant to: one that a window may still need is remembered only by what it
    /// showed, and a sample from before it would be refused. It is used.
    Overflow,
    /// There is one of the same time.
    Duplicate,
    /// It is older than every sample that is kept.
    TooOld,
    /// Its time lies ahead by more than the longest gap.
    Future,
    /// Its time lies before the run started.
    BeforeStart,
    /// It speaks of more GPUs than the run has, or of fewer.
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
