//! Passes: what triggers each, and its options.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::clocks::PassTime;
use dryrack_units::{SimDuration, TextForm};

/// When the passes run, and how many replicas each visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Passes {
    /// Moves pending replicas that need an analysis into analysis.
    #[serde(with = "AnalysePass")]
    #[schemars(with = "AnalysePass")]
    pub analyse: PassOptions,
    /// Places pending replicas.
    pub place: PassOptions,
    /// Backfills the queue. If absent, every place pass ends with backfilling.
    #[serde(default, with = "BackfillPass", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BackfillPass>")]
    pub backfill: Option<PassOptions>,
}

impl Passes {
    /// The pass whose trigger decides when backfilling runs.
    pub(super) fn for_backfill(&self) -> PassOptions {
        self.backfill.unwrap_or(self.place)
    }
}

/// When one pass runs, and how many replicas it visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PassOptions {
    pub trigger: Trigger,
    /// Maximum number of replicas that one pass visits; all replicas if absent.
    pub batch: Option<u32>,
    /// Random delay that is added to each period, from zero to this time.
    #[serde(with = "TextForm")]
    pub jitter: SimDuration,
    /// Delay of the first pass after time zero. Only a pass with an `every` trigger has one.
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    pub offset: SimDuration,
    /// How long a pass takes. With an `every` trigger, the period is measured from the end of the last pass. A pass
    /// waits while the other pass is running.
    #[serde(default, skip_serializing_if = "PassTime::is_none")]
    pub takes: PassTime,
}

/// What starts a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Runs at the end of every instant in which something changed.
    Event,
    /// Runs once in every period of this length.
    #[serde(with = "TextForm")]
    Every(SimDuration),
    /// Visits each replica when this much time has passed since it was last processed. The least recently processed
    /// replica comes first.
    #[serde(with = "TextForm")]
    EachAfter(SimDuration),
    /// Never runs. An outside scheduler decides, and its decisions are inputs.
    Outside,
}

/// What a profile can state of the analyse pass. It takes no time, and no outside scheduler has it.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnalysePass {
    trigger: AnalyseTrigger,
    /// Maximum number of replicas that one pass visits; all replicas if absent.
    batch: Option<u32>,
    /// Random delay that is added to each period, from zero to this time.
    #[serde(with = "TextForm")]
    jitter: SimDuration,
    /// Delay of the first pass after time zero. Only a pass with an `every` trigger has one.
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    offset: SimDuration,
}

/// What starts a pass.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnalyseTrigger {
    /// Runs at the end of every instant in which something changed.
    Event,
    /// Runs once in every period of this length.
    #[serde(with = "TextForm")]
    Every(SimDuration),
    /// Visits each replica when this much time has passed since it was last processed. The least recently processed
    /// replica comes first.
    #[serde(with = "TextForm")]
    EachAfter(SimDuration),
}

impl AnalysePass {
    fn serialize<S: Serializer>(pass: &PassOptions, serializer: S) -> Result<S::Ok, S::Error> {
        let PassOptions { trigger, batch, jitter, offset, .. } = *pass;
        let trigger = match trigger {
            Trigger::Event | Trigger::Outside => AnalyseTrigger::Event,
            Trigger::Every(period) => AnalyseTrigger::Every(period),
            Trigger::EachAfter(pause) => AnalyseTrigger::EachAfter(pause),
        };
        Serialize::serialize(&AnalysePass { trigger, batch, jitter, offset }, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PassOptions, D::Error> {
        let AnalysePass { trigger, batch, jitter, offset } = Deserialize::deserialize(deserializer)?;
        let trigger = match trigger {
            AnalyseTrigger::Event => Trigger::Event,
            AnalyseTrigger::Every(period) => Trigger::Every(period),
            AnalyseTrigger::EachAfter(pause) => Trigger::EachAfter(pause),
        };
        Ok(PassOptions { trigger, batch, jitter, offset, takes: PassTime::NONE })
    }
}

/// What a profile can state of the backfill pass. It visits the whole queue; `scheduler.slots.depth` is its limit.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BackfillPass {
    trigger: BackfillTrigger,
    /// Random delay that is added to each period, from zero to this time.
    #[serde(with = "TextForm")]
    jitter: SimDuration,
    /// Delay of the first pass after time zero. Only a pass with an `every` trigger has one.
    #[serde(default, with = "TextForm", skip_serializing_if = "is_no_time")]
    offset: SimDuration,
    /// How long a pass takes. With an `every` trigger, the period is measured from the end of the last pass. A pass
    /// waits while the other pass is running.
    #[serde(default, skip_serializing_if = "PassTime::is_none")]
    takes: PassTime,
}

/// What starts a pass.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BackfillTrigger {
    /// Runs at the end of every instant in which something changed.
    Event,
    /// Runs once in every period of this length.
    #[serde(with = "TextForm")]
    Every(SimDuration),
}

impl BackfillPass {
    fn serialize<S: Serializer>(pass: &Option<PassOptions>, serializer: S) -> Result<S::Ok, S::Error> {
        let of = |PassOptions { trigger, jitter, offset, takes, .. }: PassOptions| {
            let trigger = match trigger {
                Trigger::Every(period) | Trigger::EachAfter(period) => BackfillTrigger::Every(period),
                Trigger::Event | Trigger::Outside => BackfillTrigger::Event,
            };
            BackfillPass { trigger, jitter, offset, takes }
        };
        pass.map(of).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PassOptions>, D::Error> {
        let of = |BackfillPass { trigger, jitter, offset, takes }: BackfillPass| {
            let trigger = match trigger {
                BackfillTrigger::Event => Trigger::Event,
                BackfillTrigger::Every(period) => Trigger::Every(period),
            };
            PassOptions { trigger, batch: None, jitter, offset, takes }
        };
        Ok(Option::<BackfillPass>::deserialize(deserializer)?.map(of))
    }
}

fn is_no_time(duration: &SimDuration) -> bool {
    duration.is_zero()
}
