//! Admission: Kueue decides which jobs may have pods at all, before the flow places them.
//!
//! ```text
//!   submitted ──> waits for quota ──admitted──> the flow ──> placed, runs, ends
//!                      ^                           │
//!                      └── stopped <── evicted ────┘
//! ```
//!
//! A job with a part in a workload ([`QueuedPart`]) is set aside until its workload is admitted. The rules are those of
//! `dryrack-kueue`. This module keeps the workloads ([`workload`]), reads the objects ([`objects`]), and carries out
//! what a cycle decides ([`carry_out`]): it lets replicas go with the flavor's node labels and tolerations, tells the
//! attempts of an evicted workload to stop, and releases quota once they have stopped.
//!
//! The order within an instant: changed objects, then ended and stopped workloads in the order of their submission,
//! then new workloads, then scheduling cycles until one changes nothing, then the passes of the flow. An evicted
//! workload releases its quota one second after the decision at the earliest. Otherwise two workloads that preempt each
//! other would do so for ever within one instant.
//!
//! Owns the quota of Kueue. Must never place anything.

mod carry_out;
mod objects;
mod state;
mod view;
mod workload;

use std::sync::Arc;

pub(crate) use carry_out::settle;
pub(crate) use state::Admission;
pub use view::{AdmissionState, AdmissionView};

use super::core::Core;
use super::core::store::{ReplicaIndex, Wait};
use super::flow::Flow;
use super::kubernetes::kueue_nodes;
use dryrack_event::{Event, Histogram, Reason, Refusal};
use dryrack_ids::JobId;
use dryrack_kueue::objects::StopPolicy;
use dryrack_kueue::{Kueue, Setup};
use dryrack_units::SimDuration;
use dryrack_workload::QueuedPart;

use objects::Objects;
use workload::{Standing, Workload, WorkloadNumber};

/// The time between the decision to evict a workload and the release of its quota, at least. Kueue compares times in
/// seconds.
const EVICTION: SimDuration = SimDuration::from_secs(1);

/// Reads a list of objects. An error if it cannot be read.
pub(crate) fn check_objects(text: &str) -> Result<(), &'static str> {
    Objects::read(text).map(|_| ()).ok_or("objects of Kueue that cannot be read")
}

impl Core {
    /// Takes over new and changed objects.
    pub(crate) fn apply_kueue(&mut self, flow: &mut dyn Flow, text: &str) {
        let new = Objects::read(text).expect("it was checked");
        let admission = &mut self.admission;
        if admission.kueue.is_none() {
            let stated = admission.stated.get_or_insert_default();
            stated.flavors.extend(new.flavors);
            stated.topologies.extend(new.topologies);
            stated.cohorts.extend(new.cohorts);
            stated.cluster_queues.extend(new.cluster_queues);
            stated.local_queues.extend(new.local_queues);
            stated.fair_sharing = new.fair_sharing.or(stated.fair_sharing.take());
            return;
        }
        self.apply_queues(flow, new);
    }

    fn apply_queues(&mut self, flow: &mut dyn Flow, new: Objects) {
        for cohort in &new.cohorts {
            // A cohort below itself is refused when the file is read; here it keeps its place.
            let _ = self.admission.kueue().set_cohort(&cohort.name, &cohort.spec);
        }
        for queue in &new.cluster_queues {
            for drained in self.admission.kueue().set_queue(&queue.name, &queue.spec) {
                self.evict_workload(flow, drained, None);
            }
        }
        for local in new.local_queues {
            let key = (Arc::clone(&local.namespace), Arc::clone(&local.name));
            self.admission.local_queues.insert(key, local);
        }
        self.admission.is_due = true;
        self.judge_queues(flow);
    }

    /// Follows changes of queues: workloads leave Kueue's queues if theirs is missing or stopped, and come back later.
    fn judge_queues(&mut self, flow: &mut dyn Flow) {
        for number in 0..self.admission.workloads.len() as WorkloadNumber {
            let workload = self.admission.workload(number);
            let key = (Arc::clone(&workload.spec.namespace), Arc::clone(&workload.spec.queue));
            let may = self.admission.cluster_queue_of(&key);
            let is_stopped = |queue: &str| self.admission.kueue.as_ref().is_some_and(|it| it.is_queue_stopped(queue));
            match (&workload.standing, may) {
                (Standing::Inadmissible, Ok(_)) => self.admission.fresh.push(number),
                (Standing::Waiting(id), Err((reason, text))) => {
                    let id = *id;
                    self.admission.kueue().delete(id);
                    self.admission.workload_mut(number).standing = Standing::Inadmissible;
                    self.tell(number, reason, &text);
                }
                (Standing::Waiting(_), Ok(queue)) if is_stopped(&queue) => {
                    self.tell(number, Reason::QueueInactive, &format!("ClusterQueue {queue} is inactive"));
                }
                (Standing::Admitted(id, _), Err(_)) => {
                    let (id, drains) = (*id, self.admission.local_queues.get(&key));
                    let drains = drains.is_some_and(|local| local.stop == StopPolicy::HoldAndDrain);
                    if drains && self.admission.kueue().drain_workload(id) {
                        self.evict_workload(flow, id, None);
                    }
                }
                _ => {}
            }
        }
        self.admission.fresh.sort_unstable();
        self.admission.fresh.dedup();
    }

    /// Makes Kueue of the objects and the nodes that were stated, before the first decision.
    fn begin_admission(&mut self, flow: &mut dyn Flow) {
        let Some(stated) = self.admission.stated.take() else { return };
        let setup = Setup {
            fair_sharing: stated.fair_sharing.as_ref().and_then(|fair| fair.strategies()),
            flavors: stated.flavors.clone(),
            topologies: stated.topologies.clone(),
            nodes: if stated.topologies.is_empty() { Vec::new() } else { kueue_nodes(&self.fleet) },
        };
        self.admission.kueue = Some(Kueue::new(setup));
        self.apply_queues(flow, stated);
    }

    /// Sets a replica aside if its workload is not admitted, or if the replica is beyond the admitted number of pods.
    /// Returns whether it was set aside.
    pub(crate) fn wait_for_admission(&mut self, index: ReplicaIndex) -> bool {
        let job = self.replicas[index as usize].job;
        let Some(part) = self.jobs[job.index()].spec.queued.clone() else { return false };
        if !self.admission.is_used() || self.admission.let_go.contains_key(&index) {
            return false;
        }
        if !self.admission.of_job.contains_key(&job) {
            self.join_workload(job, &part);
        }
        self.replicas[index as usize].wait = Wait::Admission;
        self.admission.untold.push(index);
        true
    }

    fn join_workload(&mut self, job: JobId, part: &QueuedPart) {
        let (now, spec) = (self.now, &part.workload);
        let admission = &mut self.admission;
        let key = (Arc::clone(&spec.namespace), Arc::clone(&spec.name));
        let next = admission.workloads.len() as WorkloadNumber;
        let number = *admission.numbers.entry(key).or_insert(next);
        if number == next {
            admission.workloads.push(Workload {
                spec: Arc::clone(spec),
                submitted: now,
                jobs: Vec::new(),
                open: 0,
                standing: Standing::Inadmissible,
                told: (Reason::PendingEvaluation, Arc::from("")),
            });
            admission.fresh.push(number);
        }
        let workload = admission.workload_mut(number);
        workload.jobs.push(job);
        workload.open += 1;
        admission.of_job.insert(job, number);
    }

    /// Notes that an attempt of the job has ended.
    pub(crate) fn note_stopped(&mut self, job: JobId) {
        if let Some(number) = self.admission.of_job.get(&job) {
            self.admission.touched.insert(*number);
        }
    }

    /// Notes that a job has ended for good.
    pub(crate) fn leave_workload(&mut self, job: JobId) {
        if let Some(number) = self.admission.of_job.get(&job).copied() {
            self.admission.workload_mut(number).open -= 1;
            self.admission.touched.insert(number);
        }
    }

    /// The replicas of a workload in the order of their jobs.
    fn replicas_of(&self, number: WorkloadNumber) -> Vec<ReplicaIndex> {
        let jobs = self.admission.workload(number).jobs.iter();
        jobs.filter_map(|job| self.jobs.get(job.index())).flat_map(|record| record.replicas()).collect()
    }

    /// Logs why a workload waits, unless the same was logged last, and holds its replicas.
    fn tell(&mut self, number: WorkloadNumber, because: Reason, text: &str) {
        let workload = self.admission.workload_mut(number);
        if workload.told.0 == because && &*workload.told.1 == text {
            return;
        }
        let text: Arc<str> = Arc::from(text);
        workload.told = (because, Arc::clone(&text));
        let job = workload.jobs[0];
        self.emit(Event::NotAdmitted { job, because, text });
        for index in self.replicas_of(number) {
            self.hold_waiting(index, because);
        }
    }

    fn hold_waiting(&mut self, index: ReplicaIndex, because: Reason) {
        if self.replicas[index as usize].wait == Wait::Admission {
            self.hold(index, (Refusal::Unfit, Histogram::of(because, self.fleet.len().max(1) as u32)));
        }
    }

    /// Holds the replicas that were set aside at this instant and still wait.
    fn tell_untold(&mut self) {
        for index in std::mem::take(&mut self.admission.untold) {
            let number = self.admission.of_job[&self.replicas[index as usize].job];
            let workload = self.admission.workload(number);
            let because = match workload.standing {
                Standing::Admitted(..) => Reason::PartiallyAdmitted,
                _ => workload.told.0,
            };
            if self.replicas[index as usize].held.is_none() {
                self.hold_waiting(index, because);
            }
        }
    }

    /// Asserts that exactly the replicas of workloads without admission, and those beyond their number of pods, are set
    /// aside.
    pub(crate) fn assert_admission(&self) {
        for (index, replica) in self.replicas.iter() {
            let is_let_go = self.admission.let_go.contains_key(&(index as ReplicaIndex));
            if replica.wait == Wait::Admission {
                assert!(!is_let_go, "{} waits for admission and has it", replica.attempt_id());
                assert!(self.admission.of_job.contains_key(&replica.job), "{} is in no workload", replica.attempt_id());
            }
            if replica.placement.is_some() && self.admission.is_used() {
                let is_queued = self.jobs[replica.job.index()].spec.queued.is_some();
                let number = self.admission.of_job.get(&replica.job);
                let evicting = number.is_some_and(|number| {
                    matches!(self.admission.workload(*number).standing, Standing::Evicting { .. })
                });
                assert!(!is_queued || is_let_go || evicting, "{} has a place without quota", replica.attempt_id());
            }
        }
    }
}
