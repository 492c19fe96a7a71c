//! The workloads that Kueue manages, and what it needs to know about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::{LocalQueue, Objects};
use super::workload::{Line, Standing, Terms, Workload, WorkloadNumber};
use crate::core::store::{ReplicaIndex, Store, Wait};
use dryrack_event::Reason;
use dryrack_ids::JobId;
use dryrack_kueue::objects::StopPolicy;
use dryrack_kueue::{Kueue, WorkloadId};
use dryrack_objects::{Labels, Pod, Selector, Toleration};
use dryrack_units::SimTime;
use dryrack_workload::QueuedPart;

pub(super) type Key = (Arc<str>, Arc<str>);

#[derive(Default)]
pub(crate) struct Admission {
    /// The objects that were stated before the first decision.
    pub(super) stated: Option<Objects>,
    pub(super) kueue: Option<Kueue>,
    pub(super) local_queues: BTreeMap<Key, LocalQueue>,
    /// The labels of namespaces.
    pub(super) namespaces: BTreeMap<Arc<str>, Labels>,
    /// The namespaces that each ClusterQueue admits.
    pub(super) selectors: BTreeMap<Arc<str>, Selector>,
    pub(super) workloads: Vec<Workload>,
    /// The workload of each namespace and name.
    pub(super) numbers: BTreeMap<Key, WorkloadNumber>,
    pub(super) of_job: BTreeMap<JobId, WorkloadNumber>,
    pub(super) of_id: BTreeMap<WorkloadId, WorkloadNumber>,
    /// What admission adds to pods. Equal terms are kept once.
    pub(super) terms: Vec<Terms>,
    pub(super) numbers_of_terms: BTreeMap<Terms, u32>,
    /// The terms of each replica that was let go.
    pub(super) let_go: BTreeMap<ReplicaIndex, u32>,
    /// Workloads that were not given to Kueue yet.
    pub(super) fresh: Vec<WorkloadNumber>,
    /// Workloads with a replica or a job that has ended.
    pub(super) touched: BTreeSet<WorkloadNumber>,
    /// Replicas that were set aside and not told why.
    pub(super) untold: Vec<ReplicaIndex>,
    /// Whether something changed since the last cycle.
    pub(super) is_due: bool,
}

impl Admission {
    /// Whether a replica was handed to the flow, because its workload is admitted.
    pub fn has_let_go(&self, index: ReplicaIndex) -> bool {
        self.let_go.contains_key(&index)
    }

    pub fn is_used(&self) -> bool {
        self.stated.is_some() || self.kueue.is_some()
    }

    pub fn is_due(&self) -> bool {
        self.is_due || !self.fresh.is_empty() || !self.touched.is_empty()
    }

    pub(super) fn workload_mut(&mut self, number: WorkloadNumber) -> &mut Workload {
        &mut self.workloads[number as usize]
    }

    pub(super) fn workload(&self, number: WorkloadNumber) -> &Workload {
        &self.workloads[number as usize]
    }

    pub(super) fn kueue(&mut self) -> &mut Kueue {
        self.kueue.as_mut().expect("it was made before the first decision")
    }

    /// Adds a job to its workload, unless it was added before. A workload that is not known yet begins at `now`.
    pub(super) fn join(
        &mut self,
        job: JobId,
        part: &QueuedPart,
        replicas: impl Iterator<Item = ReplicaIndex>,
        now: SimTime,
    ) {
        let line = part.pod_set.unwrap_or(0) as usize;
        if let Some(number) = self.of_job.get(&job).copied() {
            let line = &mut self.workload_mut(number).lines[line];
            line.next = line.ended;
            // The workload may hold its quota already.
            self.touched.insert(number);
            return;
        }
        let spec = &part.workload;
        let key = (Arc::clone(&spec.namespace), Arc::clone(&spec.name));
        let next = self.workloads.len() as WorkloadNumber;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.workloads.push(Workload::new(spec, now));
            self.fresh.push(number);
        } else if matches!(self.workload(number).standing, Standing::Over) {
            self.workload_mut(number).standing = Standing::Inadmissible;
            self.fresh.push(number);
        }
        self.touched.insert(number);
        let workload = self.workload_mut(number);
        workload.jobs.push(job);
        let lines = workload.lines.len().max(line + 1);
        workload.lines.resize_with(lines, Line::default);
        workload.lines[line].replicas.extend(replicas);
        workload.open += 1;
        self.of_job.insert(job, number);
    }

    /// Notes that an attempt of the job has ended.
    pub fn attempt_ended(&mut self, job: JobId) {
        if let Some(number) = self.of_job.get(&job) {
            self.touched.insert(*number);
        }
    }

    /// Notes that a job has ended for good.
    pub fn job_ended(&mut self, job: JobId) {
        if let Some(number) = self.of_job.get(&job).copied() {
            self.workload_mut(number).open -= 1;
            self.touched.insert(number);
        }
    }

    /// Asserts that exactly the replicas of workloads without admission, and those beyond their number of pods, are set
    /// aside.
    pub fn check(&self, store: &Store) {
        for (index, replica) in store.replicas.iter() {
            let is_let_go = self.let_go.contains_key(&(index as ReplicaIndex));
            let number = self.of_job.get(&replica.job);
            if replica.wait == Wait::Admission {
                assert!(!is_let_go, "{} waits for admission and has it", replica.attempt_id());
                assert!(number.is_some(), "{} is in no workload", replica.attempt_id());
            }
            if replica.placement.is_some() && self.is_used() {
                let is_queued = store[replica.job].spec.queued.is_some();
                let is_evicting =
                    |number: &WorkloadNumber| matches!(self.workload(*number).standing, Standing::Evicting { .. });
                let may = !is_queued || is_let_go || number.is_some_and(is_evicting);
                assert!(may, "{} has a place without quota", replica.attempt_id());
            }
        }
    }

    /// The number of the terms of a replica that was let go.
    pub fn terms_number(&self, index: ReplicaIndex) -> Option<u32> {
        self.let_go.get(&index).copied()
    }

    /// Adds the terms of admission to the pod of a replica.
    pub fn complete(&self, index: ReplicaIndex, pod: &mut Pod) {
        let Some(number) = self.let_go.get(&index) else { return };
        self.terms[*number as usize].complete(pod);
    }

    /// The tolerations that admission adds to the pod of a replica.
    pub fn tolerations(&self, index: ReplicaIndex) -> Vec<Toleration> {
        let terms = self.let_go.get(&index).map(|number| &self.terms[*number as usize]);
        terms.iter().flat_map(|terms| &terms.tolerations).cloned().collect()
    }

    /// Whether an evicted workload still waits for its attempts since this time.
    pub fn is_evicting_since(&self, number: WorkloadNumber, at: SimTime) -> bool {
        matches!(self.workload(number).standing, Standing::Evicting { since, .. } if since == at)
    }

    pub fn release_due(&mut self, number: WorkloadNumber) {
        self.touched.insert(number);
    }

    /// Why Kueue does not try the workloads of this LocalQueue, or the name of its ClusterQueue.
    pub(super) fn cluster_queue_of(&self, key: &Key) -> Result<Arc<str>, (Reason, String)> {
        let Some(local) = self.local_queues.get(key) else {
            return Err((Reason::LocalQueueMissing, format!("LocalQueue {} doesn't exist", key.1)));
        };
        let queue = &local.cluster_queue;
        if !self.kueue.as_ref().is_some_and(|kueue| kueue.has_queue(queue)) {
            return Err((Reason::ClusterQueueMissing, format!("ClusterQueue {queue} doesn't exist")));
        }
        match local.stop {
            StopPolicy::None if self.selects(queue, &key.0) => Ok(Arc::clone(queue)),
            StopPolicy::None => {
                Err((Reason::NamespaceMismatch, "Workload namespace doesn't match ClusterQueue selector".to_string()))
            }
            StopPolicy::Hold | StopPolicy::HoldAndDrain => {
                Err((Reason::QueueInactive, format!("LocalQueue {} is inactive", key.1)))
            }
        }
    }

    /// Whether the ClusterQueue admits workloads of the namespace. Kubernetes labels each namespace with its name.
    fn selects(&self, queue: &Arc<str>, namespace: &Arc<str>) -> bool {
        let mut labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
        labels.insert(Arc::from("kubernetes.io/metadata.name"), Arc::clone(namespace));
        self.selectors.get(queue).is_some_and(|selector| selector.matches(&labels))
    }
}
