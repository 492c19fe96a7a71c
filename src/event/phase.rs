//! The phases of an attempt.

use serde::{Deserialize, Serialize};

/// The canonical phases of an attempt. Each profile maps its own states to these phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Pending,
    Analysing,
    Scheduled,
    Preparing,
    Running,
    Stopping,
    Ended,
}

impl Phase {
    pub const ALL: [Phase; 7] = [
        Phase::Pending,
        Phase::Analysing,
        Phase::Scheduled,
        Phase::Preparing,
        Phase::Running,
        Phase::Stopping,
        Phase::Ended,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Pending => "pending",
            Phase::Analysing => "analysing",
            Phase::Scheduled => "scheduled",
            Phase::Preparing => "preparing",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
            Phase::Ended => "ended",
        }
    }

    /// Whether an attempt in this phase holds a claim in the ledger.
    pub fn holds_claim(self) -> bool {
        matches!(self, Phase::Scheduled | Phase::Preparing | Phase::Running | Phase::Stopping)
    }
}
