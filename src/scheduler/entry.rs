//! An entry of the wait queue, as an order reads it.

use std::sync::Arc;

use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::JobFields;

/// The properties of an entry that an order can read.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Counts before everything else: whom the job may preempt, then whether it has an advance reservation, then the priority
    /// tier of its partition. 0 without partitions.
    pub tier: u32,
    /// The priority by Slurm's priority/multifactor. 0 if it is not computed.
    pub multifactor: u32,
    pub priority: i32,
    pub at: SimTime,
    pub estimate: Option<SimDuration>,
    /// How long the job has run, without lost work.
    pub ran: SimDuration,
    /// The level of the job's attained service, if the order reads it.
    pub level: u32,
    /// The turn of the job within that level, if the order reads it.
    pub turn: i64,
    /// The number of the account of the job's user, if there are accounts.
    pub user: u32,
    pub tasks: u32,
    /// The number of the job's submission.
    pub submitted: u64,
    /// The entry's own number, which the queue returns.
    pub replica: u32,
    pub line: u32,
    /// The fields of the job that the order reads, besides those above.
    pub fields: Option<Arc<JobFields>>,
}
