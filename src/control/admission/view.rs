//! Questions about admission. They change nothing.

use std::sync::Arc;

use super::state::{Admission, Key};
use super::workload::Standing;
use dryrack_event::Reason;
use dryrack_ids::JobId;
use dryrack_kueue::{Behind, WorkloadId};
use dryrack_units::SimTime;

/// How the workload of a job stands with Kueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionView {
    pub workload: Arc<str>,
    pub local_queue: Arc<str>,
    /// `None` if the LocalQueue or its ClusterQueue does not exist.
    pub cluster_queue: Option<Arc<str>>,
    pub submitted: SimTime,
    pub state: AdmissionState,
    /// The last reason and message about it.
    pub because: Reason,
    pub message: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionState {
    /// Kueue does not try it.
    Inadmissible,
    /// It waits. `ahead` names the first jobs of the workloads that are tried before it, at most ten. `place` counts
    /// from 1. It is `None` for a workload that is not tried until something changes.
    Waiting {
        place: Option<usize>,
        active: usize,
        parked: usize,
        ahead: Vec<JobId>,
        behind: Option<StandsBehind>,
    },
    Admitted,
    Evicting,
    Over,
}

/// The workload that keeps another one from being tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandsBehind {
    /// Its first job.
    pub job: JobId,
    pub how: Behind,
    /// Why it waits itself.
    pub because: Reason,
    pub message: Arc<str>,
}

impl StandsBehind {
    /// A sentence about a workload that stands behind the one whose first job has this name.
    pub fn text(&self, name: &str) -> String {
        let why = match self.message.is_empty() {
            true => self.because.name().to_string(),
            false => format!("{}: {}", self.because.name(), self.message),
        };
        match self.how {
            Behind::Head => format!("{name} is ahead of it and waits ({why})"),
            Behind::Equal => format!("it asks for the same as {name}, which waits ({why}), so Kueue does not try it"),
        }
    }
}

impl AdmissionState {
    /// What the workload stands behind, if it waits.
    pub fn behind(&self) -> Option<&StandsBehind> {
        match self {
            AdmissionState::Waiting { behind, .. } => behind.as_ref(),
            _ => None,
        }
    }
}

const AHEAD_SHOWN: usize = 10;

impl Admission {
    /// How the workload of the job stands. `None` if Kueue does not manage the job.
    pub(crate) fn view_of(&self, job: JobId) -> Option<AdmissionView> {
        let workload = self.workload(*self.of_job.get(&job)?);
        let spec = &workload.spec;
        let key: Key = (Arc::clone(&spec.namespace), Arc::clone(&spec.queue));
        let cluster_queue = self.local_queues.get(&key).map(|local| Arc::clone(&local.cluster_queue));
        let state = match &workload.standing {
            Standing::Inadmissible => AdmissionState::Inadmissible,
            Standing::Waiting(id) => self.waiting_state(*id),
            Standing::Admitted(..) => AdmissionState::Admitted,
            Standing::Evicting { .. } => AdmissionState::Evicting,
            Standing::Over => AdmissionState::Over,
        };
        let (because, message) = workload.last_logged.clone();
        Some(AdmissionView {
            workload: Arc::clone(&spec.name),
            local_queue: Arc::clone(&spec.queue),
            cluster_queue,
            submitted: workload.submitted,
            state,
            because,
            message,
        })
    }

    pub(crate) fn first_of_workload(&self, job: JobId) -> Option<JobId> {
        let workload = self.workload(*self.of_job.get(&job)?);
        workload.jobs.first().copied()
    }

    fn waiting_state(&self, id: WorkloadId) -> AdmissionState {
        let kueue = self.kueue.as_ref().expect("it has the workload");
        let (active, parked) = kueue.waiting(kueue.queue_of(id));
        let place = active.iter().position(|other| *other == id);
        let before = active.iter().take(place.unwrap_or(0).min(AHEAD_SHOWN));
        let ahead = before.map(|other| self.workload(self.of_id[other]).jobs[0]).collect();
        let behind = kueue.stands_behind(id).map(|(other, how)| {
            let other = self.workload(self.of_id[&other]);
            let (because, message) = other.last_logged.clone();
            StandsBehind { job: other.jobs[0], how, because, message }
        });
        let (active, parked) = (active.len(), parked.len());
        AdmissionState::Waiting { place: place.map(|at| at + 1), active, parked, ahead, behind }
    }
}
