//! The records of jobs and replicas.

use std::sync::Arc;

use smallvec::SmallVec;

use super::watching::Watch;
use dryrack_event::{Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_policy::RetryState;
use dryrack_scheduler::{Entry, QueueKey};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec};

/// A replica's index in the store. An index is never used again.
pub type ReplicaIndex = u32;

pub struct JobRecord {
    pub spec: Arc<JobSpec>,
    pub demand: u32,
    /// The account of its user, where there are accounts.
    pub user: u32,
    /// The line of the queue that it waits in.
    pub line: u32,
    pub first: ReplicaIndex,
    /// Replicas beyond those it was submitted with, in order of their numbers.
    pub added: Vec<ReplicaIndex>,
    /// Replicas that have not ended for good.
    pub live: u32,
    pub cancelled: bool,
    /// The job has no replicas for the time being; that all of them have ended does not end it.
    pub parked: bool,
    /// The number of replicas that is wanted, if scaling down to it was not possible.
    pub unmet: Option<u32>,
    /// The gravest end of a replica so far.
    pub ended: Option<(Outcome, Reason)>,
}

/// A demand. Jobs with equal demands share one record.
pub struct DemandRecord {
    pub demand: Arc<Demand>,
    /// The last refusal of this demand.
    pub held: Option<(Refusal, Histogram)>,
    /// The fleet's growth when a flow of scans or of looks last refused this demand.
    pub refused_at: Option<u64>,
}

/// What a pending replica waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Nothing,
    /// In the analysis queue.
    Analysis,
    /// In the scheduling queue.
    Queue,
    /// For a scan over the rows.
    Scan,
    /// Taken out of the queue: a decision about it is being made.
    Decision,
    /// For the pause between two attempts.
    BackOff,
}

pub struct Replica {
    pub job: JobId,
    pub number: u32,
    pub attempt: u32,
    pub phase: Phase,
    pub wait: Wait,
    /// Increases with every change. A commit compares it, and a timer is void once it has changed.
    pub version: u64,
    /// How long it had run before it was preempted, counting only work that it kept.
    pub ran: SimDuration,
    /// How long its past stretches of running took, whether or not their work was kept.
    pub served: SimDuration,
    /// When the phase began.
    pub since: SimTime,
    pub key: QueueKey,
    pub demand: u32,
    pub placement: Option<Placement>,
    /// The reasons last given for why it waits.
    pub held: Option<(Refusal, Histogram)>,
    pub analysed: bool,
    pub retry: RetryState,
    /// The outcome that it will have once it has stopped.
    pub stopping: Option<(Outcome, Reason)>,
    /// It was scaled away, so no attempt follows.
    pub dismissed: bool,
    /// Nodes that have already reported that their part of it has stopped.
    pub stopped_on: SmallVec<[NodeId; 1]>,
    /// When it last started again in place after a failure.
    pub last_restart: Option<SimTime>,
    /// Present while it runs under a policy.
    pub watch: Option<Box<Watch>>,
    /// When a pass with an `each_after` trigger looks at it next.
    pub due: SimTime,
    /// Since when it is wanted: since its job was submitted, or since the job was scaled up.
    pub wanted: SimTime,
    /// How often a pass with an `each_after` trigger has drawn a jitter for it.
    pub processed: u32,
    /// Its turn among the replicas that are to be told why they wait.
    pub fresh: Option<u64>,
}

impl JobRecord {
    /// The queue entry of a replica of this job that is wanted since `wanted`.
    pub fn entry(&self, job: JobId, replica: ReplicaIndex, wanted: SimTime, ran: SimDuration) -> Entry {
        Entry {
            priority: self.spec.priority,
            at: wanted,
            estimate: self.spec.estimate,
            ran,
            level: 0,
            turn: 0,
            user: self.user,
            tasks: self.spec.demand.tasks,
            submitted: job.index() as u64,
            replica,
            line: self.line,
        }
    }

    /// All replicas there ever were, in order of their numbers.
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
    pub fn run(&self) -> RunId {
        RunId { job: self.job, replica: self.number, attempt: self.attempt }
    }
}
