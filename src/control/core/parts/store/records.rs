//! The record of a job, and that of a replica.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::watch::Watch;
use dryrack_event::{Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, FleetId, JobId, NodeId};
use dryrack_policy::RetryState;
use dryrack_scheduler::{Entry, QueueKey};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{JobFields, JobSpec};

/// A replica's index in the store. An index is never used for another replica.
pub type ReplicaIndex = u32;

/// Why a replica waits: the kind of refusal, and how often each reason applies.
pub type Held = (Refusal, Histogram);

pub struct JobRecord {
    pub spec: Arc<JobSpec>,
    pub demand: u32,
    /// The fields of the job that keys of the order read, besides those that an entry of the queue always holds.
    pub ordered_fields: Option<Arc<JobFields>>,
    /// The account of the job's user, if the profile has accounts.
    pub user: u32,
    /// The line of the queue in which the job waits.
    pub line: u32,
    pub first: ReplicaIndex,
    /// Replicas added after the job's submission, in order of their numbers.
    pub added: Vec<ReplicaIndex>,
    /// Replicas that have not ended for good.
    pub live: u32,
    pub cancelled: bool,
    /// Whether the job is scaled to zero replicas for now. Such a job does not end although all its replicas have
    /// ended.
    pub parked: bool,
    /// The wanted number of replicas, if scaling down to this number has failed so far.
    pub unmet: Option<u32>,
    /// The fleet in which all replicas of the job must be placed, once it is known.
    pub fleet: Option<FleetId>,
    /// The worst outcome of a replica so far.
    pub ended: Option<(Outcome, Reason)>,
    /// Whether a replica has run.
    pub has_started: bool,
    /// The final outcome of the job, once it has ended.
    pub over: Option<Outcome>,
}

/// The step for which a pending replica waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Nothing,
    /// The analysis queue.
    Analysis,
    /// The scheduling queue.
    Queue,
    /// The next scan over the rows.
    Scan,
    /// The decision about the replica, which is in progress. Until it is made, the replica is not in the queue.
    Decision,
    /// The quota of its project. The replica is set aside from the queue.
    Quota,
    /// The pause between two attempts.
    BackOff,
    /// Other jobs.
    Dependency,
    /// The admission of its workload.
    Admission,
    /// Its last attempt to be gone from all nodes.
    LastAttempt,
}

pub struct Replica {
    pub job: JobId,
    pub number: u32,
    pub attempt: u32,
    pub phase: Phase,
    pub wait: Wait,
    /// Increases with every change of the replica. An increase makes older timers void, and lets a commit fail if the
    /// replica was read before the increase.
    pub version: u64,
    /// How long the replica ran before it was preempted. Only work that was kept counts.
    pub ran: SimDuration,
    /// How long the replica ran in all its past running phases. Lost work counts too.
    pub served: SimDuration,
    /// When the phase began.
    pub since: SimTime,
    pub key: QueueKey,
    pub demand: u32,
    pub placement: Option<Placement>,
    /// The last reasons for waiting that were emitted.
    pub held: Option<Held>,
    pub analysed: bool,
    pub retry: RetryState,
    /// The outcome that the replica will have once it has stopped.
    pub stopping: Option<(Outcome, Reason)>,
    /// Whether scaling down removed the replica. No attempt follows then.
    pub dismissed: bool,
    /// Nodes that have already reported the stop of their part of the attempt.
    pub stopped_on: SmallVec<[NodeId; 1]>,
    /// When the replica last started again in place after a failure.
    pub last_restart: Option<SimTime>,
    /// The monitor of a utilization policy, while the replica runs under one.
    pub watch: Option<Box<Watch>>,
    /// When a pass with an `each_after` trigger visits the replica next.
    pub due: SimTime,
    /// When the replica was requested: at the submission of its job, or when the job was scaled up.
    pub wanted: SimTime,
    /// How often a pass with an `each_after` trigger has drawn a jitter for the replica.
    pub processed: u32,
    /// Position of the replica in the list of replicas for which an event must still say why they wait.
    pub fresh: Option<u64>,
}

impl JobRecord {
    /// The queue entry of a replica of this job that was requested at `wanted`.
    pub fn entry(&self, job: JobId, replica: ReplicaIndex, wanted: SimTime, ran: SimDuration) -> Entry {
        Entry {
            priority: self.spec.priority,
            at: wanted,
            estimate: self.spec.estimate,
            ran,
            tier: 0,
            multifactor: 0,
            level: 0,
            turn: 0,
            user: self.user,
            tasks: self.spec.demand.tasks,
            submitted: job.index() as u64,
            replica,
            line: self.line,
            fields: self.ordered_fields.clone(),
        }
    }

    /// All replicas of the job, including ended ones, in order of their numbers.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaIndex> + use<> {
        let first = self.first..self.first + self.spec.replicas;
        first.chain(self.added.clone())
    }

    pub fn replica(&self, number: u32) -> Option<ReplicaIndex> {
        match number.checked_sub(self.spec.replicas) {
            None => Some(self.first + number),
            Some(beyond) => self.added.get(beyond as usize).copied(),
        }
    }
}

impl Replica {
    /// Whether the replica has no place yet.
    pub fn waits_for_room(&self) -> bool {
        matches!(self.phase, Phase::Pending | Phase::Analysing)
    }

    /// Whether the replica holds a place, and has not been told to stop.
    pub fn may_be_stopped(&self) -> bool {
        matches!(self.phase, Phase::Scheduled | Phase::Preparing | Phase::Running)
    }

    /// Whether the replica counts among the replicas of its job. A replica that has another attempt never counts as
    /// ended, because that attempt becomes pending at once.
    pub fn counts(&self) -> bool {
        self.phase != Phase::Ended && !self.dismissed
    }

    /// Whether the monitor of the replica must be checked at this time.
    pub fn is_policy_check_due(&self, at: SimTime) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.check_at == Some(at))
    }

    /// Number of GPUs that the replica holds.
    pub fn gpus_held(&self) -> usize {
        self.placement.as_ref().map_or(0, |held| held.claims().iter().map(|claim| claim.gpus.len()).sum())
    }

    /// Whether this attempt is the replica's current attempt, and has not ended.
    pub fn is_at(&self, attempt: AttemptId) -> bool {
        self.attempt == attempt.number && self.phase != Phase::Ended
    }

    pub fn attempt_id(&self) -> AttemptId {
        AttemptId { job: self.job, replica: self.number, number: self.attempt }
    }
}
