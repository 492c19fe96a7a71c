//! The store: the records of jobs, replicas and demands. It also keeps which jobs wait for other jobs, and which records
//! can be dropped.
//!
//! A replica is `store[index]`, and a job is `store[job]`. Both must still be in the store.

mod demands;
mod dependencies;
mod records;
mod run_limits;
#[cfg(test)]
mod run_limits_tests;

use std::ops::{Index, IndexMut};
use std::sync::Arc;

pub use demands::Demands;
pub use dependencies::DependencyState;
pub use records::{Held, JobRecord, Replica, ReplicaIndex, Wait};

use dependencies::Dependencies;
use dryrack_event::{Outcome, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, JobId, Records};
use dryrack_planted::planted;
use dryrack_units::SimTime;
use dryrack_workload::{Demand, JobSpec, Restart};

#[derive(Default)]
pub struct Store {
    pub jobs: Records<JobRecord>,
    pub replicas: Records<Replica>,
    pub demands: Demands,
    /// Number of replicas in the phase pending.
    pending: u32,
    dependencies: Dependencies,
    /// Ended jobs that can be dropped, and jobs dropped since the last `take_dropped`. `None` if all records are kept.
    dropping: Option<Dropping>,
}

#[derive(Default)]
struct Dropping {
    /// Jobs that have ended, or whose last kept claim was freed, since records were last dropped.
    over: Vec<JobId>,
    /// Jobs dropped since `take_dropped` was last called.
    dropped: Vec<JobId>,
}

impl Index<ReplicaIndex> for Store {
    type Output = Replica;

    #[inline]
    fn index(&self, index: ReplicaIndex) -> &Replica {
        &self.replicas[index as usize]
    }
}

impl IndexMut<ReplicaIndex> for Store {
    #[inline]
    fn index_mut(&mut self, index: ReplicaIndex) -> &mut Replica {
        &mut self.replicas[index as usize]
    }
}

impl Index<JobId> for Store {
    type Output = JobRecord;

    #[inline]
    fn index(&self, job: JobId) -> &JobRecord {
        &self.jobs[job.index()]
    }
}

impl IndexMut<JobId> for Store {
    #[inline]
    fn index_mut(&mut self, job: JobId) -> &mut JobRecord {
        &mut self.jobs[job.index()]
    }
}

impl Store {
    /// Makes room for this many jobs with one replica each.
    pub fn reserve(&mut self, jobs: usize) {
        self.jobs.reserve(jobs);
        self.replicas.reserve(jobs);
    }

    /// The job of a replica.
    pub fn job_of(&self, index: ReplicaIndex) -> &JobRecord {
        &self[self[index].job]
    }

    /// The demand with this number.
    pub fn demand(&self, number: u32) -> &Arc<Demand> {
        &self.demands[number as usize].demand
    }

    /// The demand of a replica.
    pub fn demand_of(&self, index: ReplicaIndex) -> &Arc<Demand> {
        self.demand(self[index].demand)
    }

    /// The placement of a replica that holds a place.
    pub fn placement_of(&self, index: ReplicaIndex) -> &Placement {
        self[index].placement.as_ref().expect("it holds a place")
    }

    /// The index of a replica. `None` if its job has ended and was dropped.
    pub fn replica_of(&self, attempt: AttemptId) -> Option<ReplicaIndex> {
        let job = self.jobs.get(attempt.job.index())?;
        Some(job.replica(attempt.replica).expect("checked at the door"))
    }

    /// Whether this replica exists or existed. For a dropped job, only the number of its replicas is still known.
    pub fn knows_replica(&self, attempt: AttemptId) -> bool {
        match self.jobs.get(attempt.job.index()) {
            Some(job) => job.replica(attempt.replica).is_some(),
            None => self.jobs.note(attempt.job.index()).is_some_and(|replicas| attempt.replica < replicas),
        }
    }

    /// Whether a replica still has this version. A dropped replica is not in the store, so the answer is no.
    pub fn is_of_version(&self, replica: ReplicaIndex, version: u64) -> bool {
        self.replicas.get(replica as usize).is_some_and(|replica| replica.version == version)
    }

    /// Whether a replica waits in the queue.
    pub fn waits_in_queue(&self, index: ReplicaIndex) -> bool {
        self[index].wait == Wait::Queue
    }

    /// Whether a replica is in the store and has no place yet.
    pub fn waits_for_room(&self, index: ReplicaIndex) -> bool {
        self.replicas.get(index as usize).is_some_and(Replica::waits_for_room)
    }

    /// The number of the first replica without a place. If all replicas of the job have places, returns replica 0,
    /// which stands for one more replica. `None` if the job is not submitted yet.
    pub fn next_to_place(&self, job: JobId) -> Option<u32> {
        let record = self.jobs.get(job.index())?;
        let waits = |index: &ReplicaIndex| self[*index].waits_for_room();
        Some(record.replicas().find(waits).map_or(0, |index| self[index].number))
    }

    /// The replicas of a job that count.
    pub fn counted(&self, job: JobId) -> Vec<ReplicaIndex> {
        self[job].replicas().filter(|index| self[*index].counts()).collect()
    }

    /// Whether a lost replica needs no replacement, because scaling down would have removed a replica of the job
    /// anyway.
    pub fn is_surplus(&self, index: ReplicaIndex) -> bool {
        let job = self[index].job;
        self[job].unmet.is_some_and(|wanted| self[index].counts() && self.counted(job).len() as u32 > wanted)
    }

    /// Whether another attempt of this replica follows, apart from the limit on the number of attempts.
    pub fn is_tried_again(&self, index: ReplicaIndex, outcome: Outcome, because: Reason) -> bool {
        let job = self.job_of(index);
        let by_itself = matches!(because, Reason::Completed | Reason::Failed);
        let again = match outcome {
            Outcome::Completed => job.spec.restart == Restart::Always,
            Outcome::Failed if because == Reason::BackoffLimitExceeded => false,
            Outcome::Failed => !by_itself || job.spec.restart != Restart::Never || job.spec.shared_retry.is_some(),
            Outcome::Lost => !is_pod_without_successor(&job.spec) && !is_never_requeued(&job.spec),
            // The controller of Jobs replaces a pod that its own time limit ended.
            Outcome::Expired => because == Reason::TimeLimit && job.spec.shared_retry.is_some(),
            Outcome::Cancelled | Outcome::NeverFits | Outcome::Refused => false,
        };
        if planted!(CancelledIsRetried) && job.cancelled && self[index].phase == Phase::Stopping {
            return true;
        }
        again && !job.cancelled && !self[index].dismissed
    }

    /// Counts what a running replica has done as kept work, if its job writes checkpoints.
    pub fn keep_checkpointed_work(&mut self, index: ReplicaIndex, now: SimTime) {
        let checkpoints = self.job_of(index).spec.checkpoints && !planted!(CheckpointIsNotUsed);
        let replica = &mut self[index];
        if replica.phase == Phase::Running && checkpoints {
            replica.ran = replica.ran.saturating_add(now.since(replica.since));
        }
    }

    /// Adds the record of a new replica.
    pub fn add(&mut self, replica: Replica) {
        self.pending += u32::from(replica.phase == Phase::Pending);
        self.replicas.push(replica);
    }

    /// Sets the phase of a replica. Returns the phase before.
    pub fn set_phase(&mut self, index: ReplicaIndex, to: Phase) -> Phase {
        let before = std::mem::replace(&mut self[index].phase, to);
        self.pending += u32::from(to == Phase::Pending);
        self.pending -= u32::from(before == Phase::Pending);
        before
    }

    /// Number of pending replicas. They wait for a place, or for something that comes before it, such as another job or
    /// quota.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Asserts that pending replicas are counted rightly.
    pub fn assert_pending(&self) {
        let pending = self.replicas.values().filter(|replica| replica.phase == Phase::Pending).count();
        assert_eq!(self.pending as usize, pending, "the number of pending replicas is wrong");
    }

    /// From now on, drops the records of ended jobs.
    pub fn drop_from_now_on(&mut self) {
        self.dropping = Some(Dropping::default());
    }

    /// Whether the records of ended jobs are dropped.
    pub fn drops_ended(&self) -> bool {
        self.dropping.is_some()
    }

    /// Calls `take` with each job that was dropped since the last call.
    pub fn take_dropped(&mut self, take: impl FnMut(JobId)) {
        self.dropping.iter_mut().flat_map(|dropping| dropping.dropped.drain(..)).for_each(take);
    }

    /// Marks a job that may be dropped once this instant is settled.
    pub fn job_is_over(&mut self, job: JobId) {
        if let Some(dropping) = &mut self.dropping {
            dropping.over.push(job);
        }
    }

    /// Drops the records of ended jobs. No other state may refer to these records any more. A job for which `keeps`
    /// holds has kept claims. It stays, and is marked again when they are freed.
    pub fn drop_ended(&mut self, keeps: impl Fn(JobId) -> bool) {
        if self.dropping.as_ref().is_none_or(|dropping| dropping.over.is_empty()) {
            return;
        }
        let Some(Dropping { mut over, mut dropped }) = self.dropping.take() else { return };
        for job in over.drain(..) {
            let Some(record) = self.jobs.get(job.index()) else { continue };
            if record.live > 0 || record.parked || keeps(job) {
                continue;
            }
            let (over, mut replicas) = (record.over, 0);
            for index in record.replicas() {
                let replica = self.replicas.drop_one(index as usize, 0);
                assert_eq!(replica.phase, Phase::Ended, "{} is dropped", replica.attempt_id());
                replicas += 1;
            }
            self.jobs.drop_one(job.index(), replicas);
            self.dependencies.remember_end(job, over);
            dropped.push(job);
        }
        self.dropping = Some(Dropping { over, dropped });
    }
}

/// Jobs that wait for other jobs.
impl Store {
    /// Notes the dependencies of a new job. Returns whether one of them can never be met.
    pub fn add_dependencies(&mut self, job: JobId, spec: &JobSpec) -> bool {
        self.dependencies.add(&self.jobs, job, spec)
    }

    /// Whether a job waits for other jobs.
    pub fn waits_for_others(&self, job: JobId) -> bool {
        self.dependencies.waits(job)
    }

    /// Why a job that waits for other jobs is not placed. `None` if the job does not wait.
    pub fn refused_for_others(&self, job: JobId) -> Option<(Refusal, Reason)> {
        self.dependencies.refusal(job)
    }

    /// The jobs that hold the turns for which a job waits: tasks of its array, or the earlier singleton.
    pub fn holders_of_turns(&self, job: JobId) -> Vec<JobId> {
        self.dependencies.holders_of_turns(job)
    }

    /// The result of checking a waiting job. `None` if the job does not wait, or if it has only open or met
    /// dependencies.
    pub fn judged(&self, job: JobId) -> Option<DependencyState> {
        self.dependencies.judged(job)
    }

    /// The jobs that can never run, because a dependency can never be met.
    pub fn never_satisfied(&self) -> Vec<JobId> {
        self.dependencies.never()
    }

    /// Notes that a replica of the job has started. Returns the jobs whose dependencies now have a result.
    pub fn job_has_started(&mut self, job: JobId) -> Vec<JobId> {
        match std::mem::replace(&mut self[job].has_started, true) {
            true => Vec::new(),
            false => self.dependencies.judge_dependents(&self.jobs, job),
        }
    }

    /// Notes that the job has ended. Returns the jobs whose dependencies now have a result.
    pub fn job_has_ended(&mut self, job: JobId, outcome: Outcome) -> Vec<JobId> {
        self[job].over = Some(outcome);
        self.dependencies.ended(&self.jobs, job)
    }

    /// The replicas of a job that are set aside because the job waits for other jobs.
    pub fn waiting_for_others(&self, job: JobId) -> Vec<ReplicaIndex> {
        self[job].replicas().filter(|index| self[*index].wait == Wait::Dependency).collect()
    }

    /// Removes a job whose dependencies are met from the waiting jobs. Returns its replicas that were set aside.
    pub fn stop_waiting_for_others(&mut self, job: JobId) -> Vec<ReplicaIndex> {
        self.dependencies.stop_waiting(job);
        let replicas = self.waiting_for_others(job);
        replicas.iter().for_each(|index| self[*index].wait = Wait::Nothing);
        replicas
    }

    /// Asserts that a replica is set aside for dependencies only if its job waits.
    pub fn assert_dependencies(&self) {
        self.dependencies.check(&self.jobs);
        for replica in self.replicas.values().filter(|replica| replica.wait == Wait::Dependency) {
            let waits = self.waits_for_others(replica.job);
            assert!(waits, "{} waits for jobs that its job does not", replica.attempt_id());
        }
    }
}

/// Whether nobody makes the pod of this job again once it is deleted: it has no controller, or its controller accepts no
/// failure. The controller of Jobs counts failures, so it decides that for all pods of a Job.
fn is_pod_without_successor(spec: &JobSpec) -> bool {
    let accepts_none = spec.retry.as_ref().is_some_and(|retry| retry.limit == Some(0));
    spec.pod.is_some() && spec.shared_retry.is_none() && spec.restart == Restart::Never && accepts_none
}

/// Whether Slurm ends this job instead of requeueing it (`sbatch --no-requeue`).
fn is_never_requeued(spec: &JobSpec) -> bool {
    spec.slurm.as_ref().is_some_and(|terms| !terms.requeue)
}
