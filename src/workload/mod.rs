//! Floor 1. What is asked: jobs, their tasks, gangs and hand picks, and how retries are meant.
//!
//! Owns what a user states. [`JobSpec`] is what the control plane is told; [`Course`] is what will really happen, which
//! only the simulated world knows. Must never know of a node's state, nor hold a control plane's bookkeeping.

mod arrivals;
mod demand;
mod deployment;
mod job;
mod mishap;
mod utilization;

pub use crate::catalog::Category;
pub use arrivals::{Arrivals, Spell};
pub use demand::{Demand, Gang, GpuDemand, GpuTake, Pick, TaskDemand};
pub use deployment::{Backend, Deployment, GgufEstimate, ModelFacts, Strategy};
pub use job::{Arrival, Backoff, Course, Ending, JobSpec, Restart, RetryPolicy, Unselectable};
pub use mishap::{Acks, Analyses, Fate, Mishaps, Starts};
pub use utilization::{
    AtMinimum, Coverage, Gaps, IdleGpus, PolicyMode, PolicySource, SampleFault, UtilizationOverrides,
    UtilizationPolicy, UtilizationRule,
};
