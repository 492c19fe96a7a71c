//! The ended jobs whose records can be dropped.

use dryrack_ids::JobId;

#[derive(Default)]
pub struct Dropping {
    /// Jobs that have ended, or whose last kept claim was freed, since records were last dropped.
    pub over: Vec<JobId>,
    /// Jobs dropped since `take_dropped` was last called.
    pub dropped: Vec<JobId>,
}
