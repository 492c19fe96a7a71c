//! Floor 3. Policies: small state machines that decide from facts and timers what happens next.
//!
//! Policies decide when a failed attempt is retried, when GPUs have been idle for too long, how many replicas a service
//! has, how many resources the runs of a project may hold, and when a fleet terminates instances or requests more. A
//! policy must never read a clock or act by itself. The caller, simulated or live, tells the policy what was observed
//! and when.

#![warn(clippy::unwrap_used)]

mod autoscaler;
mod instances;
mod quota;
mod retry;
mod utilization;

pub use autoscaler::{ScalingDecision, autoscale};
pub use instances::{Consolidation, InstancePurpose, idle_rule, longest_idle, may_give_back};
pub use quota::{Holding, Quota, Quotas};
pub use retry::{Next, RetryState, SharedFailures};
pub use utilization::{
    GpuTime, JudgedJob, MOST_SAMPLES, RuleFunction, Sample, UtilizationMonitor, Window, judge_recording,
    policy_rule_named, register_policy_rule, ring_samples,
};
