//! Floor 2. What users ask for: jobs, their tasks, gangs and hand picks, and how retries work.
//!
//! Owns everything that a user states. [`JobSpec`] is the part that the control plane gets. [`JobBehavior`] is how the
//! job really behaves, which only the simulated world knows. Must never know a node's state and must never keep records
//! for the control plane.

#![warn(clippy::unwrap_used)]

mod arrivals;
mod batch;
mod beyond_pods;
mod demand;
mod dependency;
mod deployment;
mod job;
mod job_field_values;
mod job_fields;
mod launch;
mod queued;
mod random_faults;
mod range_text;
mod requirements;
mod run_limit;
mod sampling;
mod scaling;
mod serving;
mod shared_deadline;
mod shared_retry;
mod slurm_terms;
mod speeds;
mod step_table;
mod terms;
mod usage;
mod utilization;

pub use arrivals::{Arrivals, Spell};
pub use batch::Batch;
pub use beyond_pods::BeyondPods;
pub use demand::{Demand, DemandKind, Gang, GpuDemand, GpuTake, Pick, TaskDemand, TaskGroup, TaskSet};
pub use dependency::{Condition, Dependency};
pub use deployment::{Backend, Deployment, GgufEstimate, ModelFacts, Strategy};
pub use dryrack_catalog::Category;
pub use job::{Arrival, Backoff, Checkpoint, Ending, JobBehavior, JobSpec, Restart, RetryPolicy, Unselectable};
pub use job_fields::{FieldValue, JobField, JobFields};
pub use launch::{DEFAULT_GRACE, Launch};
pub use queued::{HeldPodSet, HeldQuota, QueuedPart, QueuedPodSet, QueuedTopology, QueuedWorkload};
pub use random_faults::{Acks, Analyses, Fate, RandomFaults, Starts};
pub use range_text::{Bound, RangeError, check_range, parse_range};
pub use requirements::{Bounds, CreationPolicy, GpuRequirements, Requirements, SpotPolicy};
pub use run_limit::RunLimit;
pub use sampling::{ProbeFate, SampleFate, Sampling};
pub use scaling::{COUNTED_EVERY, Requests, Scaling, next_count};
pub use serving::{Batching, DecodeRun, ServiceRequest, Serving, ServingLimits, StatedSteps, StepModel};
pub use shared_deadline::SharedDeadline;
pub use shared_retry::{Restarts, SharedRetry};
pub use slurm_terms::SlurmTerms;
pub use speeds::{BadSpeed, GpuSpeed, Speed, SpeedSource, Speeds};
pub use step_table::{GridFault, StepGrid, StepTable, Uncovered};
pub use terms::{EventRetry, IdleLimit, RetryEvent, RunTerms, StartupOrder, StopCriteria};
pub use usage::{
    GpuUsage, Phase as UsagePhase, Phases, Reading, Series, Shape, Spent, Usage, UsageRow, utilization_of_percent,
};
pub use utilization::{
    AtMinimum, Coverage, Gaps, IdleGpus, OwnRule, PolicyMode, PolicySource, SampleFault, UtilizationOverrides,
    UtilizationPolicy, UtilizationRule,
};
