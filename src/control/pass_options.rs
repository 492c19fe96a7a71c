//! Passes: what triggers each, and its options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clocks::PassTime;
use dryrack_units::{SimDuration, TextForm};

/// When the passes run, and how many replicas each visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Passes {
    /// Moves pending replicas that need an analysis into analysis.
    pub analyse: PassOptions,
    /// Places pending replicas.
    pub place: PassOptions,
    /// Backfills the queue. If absent, every place pass ends with backfilling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

fn is_no_time(duration: &SimDuration) -> bool {
    duration.is_zero()
}
