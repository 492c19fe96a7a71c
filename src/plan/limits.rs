//! Limits and quotas for which jobs wait, so that a larger fleet does not help.

use serde::{Deserialize, Serialize};

use dryrack_metrics::RunAccount;

/// A limit for which jobs of a run wait for at least half of their waiting time. The waits of jobs that can never run do not
/// count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitedWaits {
    /// What has the limit, and the reason of the wait.
    pub limit: String,
    /// The part of the waiting time, rounded down.
    pub percent: u64,
}

impl LimitedWaits {
    pub(super) fn of(accounts: &RunAccount) -> Option<LimitedWaits> {
        accounts.waits.limit().map(|(limit, part)| LimitedWaits { limit, percent: (part * 100.0) as u64 })
    }

    /// Such as `100% of the waiting time is due to a limit: QOS small: …`.
    pub(super) fn text(&self) -> String {
        format!("{}% of the waiting time is due to a limit: {}", self.percent, self.limit)
    }
}

/// Whether a constraint bounds a time or a slowdown from above, which more machines should shorten. A budget, or a share of
/// GPUs in use, is another matter.
pub(super) fn limits_a_wait(constraint: &str) -> bool {
    let shortened = ["wait", "slowdown", "turnaround", "makespan", "ttft", "tpot"];
    constraint.contains('<') && shortened.iter().any(|word| constraint.contains(word))
}

/// Whether jobs that wait can break the constraint.
pub(super) fn is_of_waiting(constraint: &str) -> bool {
    limits_a_wait(constraint) || counts_jobs(constraint)
}

/// Whether the constraint counts jobs, so that it says itself what is asked of jobs that never run.
pub(super) fn counts_jobs(constraint: &str) -> bool {
    ["placed", "jobs_"].iter().any(|word| constraint.contains(word))
}
