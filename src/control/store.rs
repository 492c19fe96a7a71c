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

/// A replica's place in the store; never used again.
pub type ReplicaIndex = u32;

pub struct JobRecord {
    pub spec: Arc<JobSpec>,
    pub demand: u32,
    /// The account of its user, where there are accounts.
    pub user: u32,
    /// The line it waits in.
    pub line: u32,
    pub first: ReplicaIndex,
    /// Replicas beyond those it was submitted with, in order of their numbers.
    pub added: Vec<ReplicaIndex>,
    /// Replicas that have not ended for good.
    pub live: u32,
    pub cancelled: bool,
    /// It has no replicas for now: that all have ended does not end it.
    pub parked: bool,
    /// So many replicas are wanted, and it was not possible to make them as few.
    pub unmet: Option<u32>,
    /// The gravest end of a replica so far.
    pub ended: Option<(Outcome, Reason)>,
}

/// Demands that occurred, each once.
pub struct DemandRecord {
    pub demand: Arc<Demand>,
    /// The last refusal of this demand.
    pub held: Option<(Refusal, Histogram)>,
    /// How far the fleet had grown when a flow of scans or of looks last refused it.
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
    /// Raised by every change; a commit compares it, and a timer is void once it has changed.
    pub version: u64,
    /// What it ran with effect before it was preempted.
    pub ran: SimDuration,
    /// How long it ran, with effect or not, in what is over.
    pub served: SimDuration,
    /// When the phase began.
    pub since: SimTime,
    pub key: QueueKey,
    pub demand: u32,
    pub placement: Option<Placement>,
    /// What was last said of why it waits.
    pub held: Option<(Refusal, Histogram)>,
    pub analysed: bool,
    pub retry: RetryState,
    /// How it will have ended once it has stopped.
    pub stopping: Option<(Outcome, Reason)>,
    /// It was scaled away: no attempt follows.
    pub dismissed: bool,
    /// The nodes that have said already that their part of it has stopped.
    pub stopped_on: SmallVec<[NodeId; 1]>,
    /// When it last started again in its place after a failure.
    pub last_restart: Option<SimTime>,
    /// While it runs under a policy.
    pub watch: Option<Box<Watch>>,
    /// When a pass for each replica looks at it next.
    pub due: SimTime,
    /// When it began to be wanted: with its job, or when the job was scaled up.
    pub wanted: SimTime,
    /// How often it was looked at by such a pass.
    pub processed: u32,
    /// Its turn among those who are to be told why they wait.
    pub fresh: Option<u64>,
}

impl JobRecord {
    /// What the order of the queue looks at, of a replica that began to be wanted then.
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

    /// Of all replicas there ever were, in order of their numbers.
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
