//! When fair sharing may preempt.

use serde::Deserialize;

/// When a workload may preempt a workload of another queue. The compared shares are those of the two nodes directly
/// below the lowest common cohort of both queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum FairStrategy {
    /// The preemptor's new share is at most the target's share without the preempted workload.
    LessThanOrEqualToFinalShare,
    /// The preemptor's new share is below the target's share before.
    LessThanInitialShare,
}
