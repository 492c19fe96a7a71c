//! The record of a workload, and what Kueue reads of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::store::ReplicaIndex;
use dryrack_event::Reason;
use dryrack_ids::JobId;
use dryrack_kueue::objects::{PodSetSpec, ResourceFlavorSpec, Toleration, TopologyRequest, WorkloadSpec};
use dryrack_kueue::{Eviction, PreemptionReason, QuotaReason, WorkloadId};
use dryrack_objects::Pod;
use dryrack_units::SimTime;
use dryrack_workload::{DemandKind, JobSpec, QueuedPodSet, QueuedTopology, QueuedWorkload};

/// The index of a workload, in the order of submission.
pub(crate) type WorkloadNumber = u32;

pub(crate) struct Workload {
    pub spec: Arc<QueuedWorkload>,
    pub submitted: SimTime,
    /// The jobs of the workload, in the order of submission.
    pub jobs: Vec<JobId>,
    /// The replicas of each pod set.
    pub lines: Vec<Line>,
    /// The number of its jobs that have not ended.
    pub open: usize,
    pub standing: Standing,
    /// Whether it was given to Kueue before.
    pub is_known: bool,
    /// The last reason and message that were logged about it.
    pub last_logged: (Reason, Arc<str>),
}

/// The replicas of a pod set, in the order in which they are let go. The places keep a workload of many pods, of which
/// few run at a time, from being examined as a whole whenever one of them ends.
#[derive(Default)]
pub(crate) struct Line {
    pub replicas: Vec<ReplicaIndex>,
    /// All before this place have ended for good.
    pub ended: usize,
    /// None before this place waits for admission.
    pub next: usize,
}

pub(crate) enum Standing {
    /// Kueue does not try it, because its queue is missing or stopped.
    Inadmissible,
    Waiting(WorkloadId),
    Admitted(WorkloadId, Vec<AdmittedSet>),
    /// It must release its quota and still holds it.
    Evicting {
        id: WorkloadId,
        since: SimTime,
    },
    Over,
}

/// A pod set with its place.
pub(crate) struct AdmittedSet {
    /// The number of pods that may run at a time.
    pub count: u32,
    /// The domains in the order of the pods, each with its number of pods and its terms. Without a topology, there is
    /// one domain.
    pub domains: Vec<(u32, Terms)>,
    /// The replicas that were let go, by their places. `None` where a place is free.
    pub places: Vec<Option<ReplicaIndex>>,
}

/// What admission adds to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Terms {
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    pub tolerations: Vec<Toleration>,
}

impl Terms {
    /// Adds the node labels and tolerations of a flavor.
    pub fn add(&mut self, flavor: &ResourceFlavorSpec) {
        self.node_selector.extend(flavor.node_labels.clone());
        self.tolerations.extend(flavor.tolerations.clone());
    }

    /// A job whose pods have these terms.
    pub fn applied_to(&self, job: &JobSpec) -> JobSpec {
        let mut job = job.clone();
        if let DemandKind::Tasks(task) = &mut Arc::make_mut(&mut job.demand).kind {
            task.labels.extend(self.node_selector.clone());
        }
        if let Some(pod) = &mut job.pod {
            let pod = Arc::make_mut(pod);
            self.complete(pod);
        }
        job
    }

    /// Adds the terms to a pod.
    pub fn complete(&self, pod: &mut Pod) {
        // A label that the pod itself asks for stays. Kueue chooses no flavor that differs in it, but a saved cluster may be
        // edited.
        for (key, value) in &self.node_selector {
            pod.spec.node_selector.entry(Arc::clone(key)).or_insert_with(|| Arc::clone(value));
        }
        pod.spec.tolerations.extend(self.tolerations.iter().cloned());
    }
}

impl Workload {
    /// A workload without jobs that Kueue does not know yet.
    pub fn new(spec: &Arc<QueuedWorkload>, submitted: SimTime) -> Workload {
        Workload {
            spec: Arc::clone(spec),
            submitted,
            jobs: Vec::new(),
            lines: Vec::new(),
            open: 0,
            standing: Standing::Inadmissible,
            is_known: false,
            last_logged: (Reason::PendingEvaluation, Arc::from("")),
        }
    }

    /// The id of a workload that Kueue knows.
    pub fn id(&self) -> Option<WorkloadId> {
        match self.standing {
            Standing::Waiting(id) | Standing::Admitted(id, _) | Standing::Evicting { id, .. } => Some(id),
            Standing::Inadmissible | Standing::Over => None,
        }
    }

    /// Its LocalQueue.
    pub fn queue_key(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.spec.namespace), Arc::clone(&self.spec.queue))
    }

    /// The workload as Kueue reads it, in the queue of this name.
    pub fn spec_for(&self, cluster_queue: &Arc<str>, number: WorkloadNumber) -> WorkloadSpec {
        let spec = &self.spec;
        let submitted = i64::try_from(self.submitted.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
        let uid = if spec.uid.is_empty() { Arc::from(format!("{number:010}")) } else { Arc::clone(&spec.uid) };
        WorkloadSpec {
            name: Arc::clone(&spec.name),
            uid,
            queue: Arc::clone(cluster_queue),
            priority: spec.priority,
            created: spec.created.unwrap_or(submitted),
            pod_sets: spec.pod_sets.iter().map(pod_set).collect(),
        }
    }
}

fn pod_set(stated: &QueuedPodSet) -> PodSetSpec {
    let topology = |topology: &QueuedTopology| match topology {
        QueuedTopology::Required(level) => TopologyRequest::Required(Arc::clone(level)),
        QueuedTopology::Preferred(level) => TopologyRequest::Preferred(Arc::clone(level)),
        QueuedTopology::Unconstrained => TopologyRequest::Unconstrained,
    };
    PodSetSpec {
        name: Arc::clone(&stated.name),
        count: stated.count,
        min_count: stated.min_count,
        requests: stated.requests.clone(),
        node_selector: stated.node_selector.clone(),
        affinity: stated.affinity.clone(),
        tolerations: stated.tolerations.clone(),
        topology: stated.topology.as_ref().map(topology),
    }
}

/// The reason of a waiting workload. Kueue gives none if a pod set finds no domain although its quota fits.
pub(crate) fn waits_for(reason: Option<QuotaReason>) -> Reason {
    match reason {
        Some(QuotaReason::PendingEvaluation) => Reason::PendingEvaluation,
        Some(QuotaReason::WaitingForPreemptedWorkloads) => Reason::WaitingForPreemptedWorkloads,
        Some(QuotaReason::TopologyPlacementFailed) | None => Reason::TopologyPlacementFailed,
        Some(QuotaReason::WaitingForQuota) => Reason::WaitingForQuota,
        Some(QuotaReason::ExceedsMaxQuota) => Reason::ExceedsMaxQuota,
        Some(QuotaReason::NoMatchingFlavor) => Reason::NoMatchingFlavor,
    }
}

pub(crate) fn evicted_for(why: &Eviction) -> Reason {
    match why {
        Eviction::QueueStopped => Reason::QueueStopped,
        Eviction::Preempted { reason, .. } => match reason {
            PreemptionReason::InClusterQueue => Reason::InClusterQueue,
            PreemptionReason::InCohortReclamation => Reason::InCohortReclamation,
            PreemptionReason::InCohortFairSharing => Reason::InCohortFairSharing,
            PreemptionReason::InCohortReclaimWhileBorrowing => Reason::InCohortReclaimWhileBorrowing,
        },
    }
}
