//! The parts of a utilization policy: its values, the sources of these values, and what is reported when the policy
//! fires.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use dryrack_units::{Permille, SimDuration, SimTime, TextForm};

/// The rule that decides whether a GPU was idle for the whole window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UtilizationRule {
    /// A sequence of idle readings covers the whole window, and no two neighbouring readings are too far apart.
    /// Evaluated at each sample.
    #[default]
    Covered,
    /// The rule of dstack 0.18.44 to 0.22.5, which uses only the samples in the window at the time of evaluation.
    Dstack {
        /// The interval between two evaluations, counted from the start of the run.
        #[serde(with = "TextForm")]
        looks_every: SimDuration,
        /// How long after the beginning of the window the first counted sample may be (60 s in dstack).
        #[serde(with = "TextForm")]
        first_within: SimDuration,
    },
    /// A rule that a program has registered under this name.
    #[schemars(skip)]
    Own(OwnRule),
}

/// The name of a rule that a program registers. Each name is stored once for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnRule(&'static str);

impl OwnRule {
    pub fn new(name: &str) -> OwnRule {
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return OwnRule(known);
        }
        let name: &'static str = Box::leak(name.into());
        names.insert(name);
        OwnRule(name)
    }

    pub fn name(self) -> &'static str {
        self.0
    }
}

impl Serialize for OwnRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for OwnRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OwnRule, D::Error> {
        String::deserialize(deserializer).map(|name| OwnRule::new(&name))
    }
}

/// What happens when the policy fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyMode {
    /// The policy only writes to the log.
    Observe,
    /// The user is warned, once for each idle period.
    Warn,
    /// The run is ended.
    #[default]
    Enforce,
}

/// Which GPUs of a run must have been idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdleGpus {
    /// One idle GPU is enough.
    #[default]
    Any,
    /// All GPUs of the run must have been idle in the same window.
    All,
}

/// Whether a reading equal to the minimum counts as busy or as idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AtMinimum {
    /// Busy. Only a reading strictly below the minimum is idle.
    #[default]
    Busy,
    Idle,
}

/// How the time between two readings counts if they are further apart than the longest gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// It does not count as idle. The idle window begins again after the gap.
    #[default]
    Void,
    /// If the readings before and after the gap are idle, the gap counts as idle.
    Bridge,
}

/// The values of the utilization policy that applies to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilizationPolicy {
    pub rule: UtilizationRule,
    pub mode: PolicyMode,
    #[serde(with = "TextForm")]
    pub min_gpu_utilization: Permille,
    #[serde(with = "TextForm")]
    pub time_window: SimDuration,
    pub gpus: IdleGpus,
    pub at_minimum: AtMinimum,
    /// The intended time between two samples.
    #[serde(with = "TextForm")]
    pub interval: SimDuration,
    /// The longest time between two readings that does not count as a gap.
    #[serde(with = "TextForm")]
    pub longest_gap: SimDuration,
    pub gaps: Gaps,
    /// Readings do not count until the run has run for this long.
    #[serde(with = "TextForm")]
    pub grace: SimDuration,
}

/// A run's own settings, which override its profile. Absent settings come from the profile.
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
    /// The sampling interval of this run's GPUs, which is a property of the sampler and not a user setting.
    pub interval: Option<SimDuration>,
    /// The source of these settings. If a file takes its settings from a project's profiles, the source is the profile.
    pub from: PolicySource,
}

impl UtilizationOverrides {
    /// Whether a user has set any value. The sampling interval does not count.
    pub fn is_stated(&self) -> bool {
        let unstated = UtilizationOverrides { interval: self.interval, from: self.from, ..Default::default() };
        *self != unstated
    }
}

/// The source of the values of a policy that binds a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// All values come from the profile.
    Profile,
    /// Some or all values come from the run's configuration.
    #[default]
    Configuration,
}

/// The readings that covered an idle window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// The idle GPUs, by their position among the run's GPUs.
    pub gpus: SmallVec<[u16; 8]>,
    /// The times of the first and the last sample.
    pub first: SimTime,
    pub last: SimTime,
    /// The number of samples from the first to the last, both included. With several GPUs, the smallest of their
    /// numbers.
    pub samples: u32,
}

/// What is wrong with a sample. Depending on the fault, the sample is used or ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleFault {
    /// The sample arrived after a sample with a later time. The sample is used.
    Disorder,
    /// The buffer was full, because samples come faster than the interval says. The sample is used. An older sample
    /// that a window may still need was dropped. The effect of the dropped sample is kept, but samples from before it
    /// will be rejected.
    Overflow,
    /// There already is a sample with the same time.
    Duplicate,
    /// The sample is older than all samples that are kept.
    TooOld,
    /// The sample's time is further in the future than the longest gap.
    Future,
    /// The sample's time is before the start of the run.
    BeforeStart,
    /// The sample does not have as many GPUs as the run.
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
