//! What a decision reads of a job besides its demand.

use std::sync::Arc;

use super::draw::Draw;
use dryrack_fleet::{Hosting, ModelKey};
use dryrack_ids::{FleetId, JobId};
use dryrack_workload::Deployment;

/// The context of a decision: everything about the job that a decision reads besides the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementContext {
    /// The job. Its other replicas count as instances of the same model. `None` before the job is submitted.
    pub job: Option<JobId>,
    /// The total number of replicas of the job.
    pub replicas: u32,
    /// The source of random numbers, if the options leave something to chance.
    pub draw: Draw,
    /// The fleet of the job's other replicas. All replicas of the job must be in one fleet.
    pub fleet: Option<FleetId>,
    /// The minimum number of replicas of the job. A fleet is chosen only if it has room for this many.
    pub least: u32,
}

impl PlacementContext {
    /// The context for evaluating one replica before deployment.
    pub const UNSUBMITTED: PlacementContext =
        PlacementContext { job: None, replicas: 1, draw: Draw::NONE, fleet: None, least: 1 };

    /// The key that marks all instances of a job as instances of one model.
    pub fn key(job: JobId) -> ModelKey {
        ModelKey(job.index() as u64)
    }

    /// What is recorded of a placed replica of the job.
    pub fn hosting(job: JobId, deployment: &Deployment) -> Hosting {
        Hosting {
            model: PlacementContext::key(job),
            model_name: Arc::clone(&deployment.model.name),
            backend: Arc::from(deployment.backend.name()),
        }
    }
}
