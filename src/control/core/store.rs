//! The records of jobs and replicas.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::core::Core;
use crate::core::usage::Watch;
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::{FleetId, JobId, NodeId, RunId};
use dryrack_policy::RetryState;
use dryrack_scheduler::{Entry, QueueKey, Verdict, refused_at_submission, refused_picks};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec, Unselectable};

/// A replica's index in the store. An index is never used again.
pub type ReplicaIndex = u32;

pub struct JobRecord {
    pub spec: Arc<JobSpec>,
    pub demand: u32,
    /// The account of its user, if the profile has accounts.
    pub user: u32,
    /// The line of the queue that it waits in.
    pub line: u32,
    pub first: ReplicaIndex,
    /// Replicas added after the job's submission, in order of their numbers.
    pub added: Vec<ReplicaIndex>,
    /// Replicas that have not ended for good.
    pub live: u32,
    pub cancelled: bool,
    /// Whether the job is scaled to zero replicas for the time being. It does not end although all its replicas have.
    pub parked: bool,
    /// The wanted number of replicas, if scaling down to it has failed so far.
    pub unmet: Option<u32>,
    /// The fleet that all its replicas go to, once it has one.
    pub fleet: Option<FleetId>,
    /// The gravest end of a replica so far.
    pub ended: Option<(Outcome, Reason)>,
}

/// A demand. Jobs with equal demands share one record.
pub struct DemandRecord {
    pub demand: Arc<Demand>,
    /// The last refusal of this demand.
    pub held: Option<(Refusal, Histogram)>,
    /// The fleet's growth when a scanned flow or a flow of loops last refused this demand.
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
    /// For the end of the decision that is being made about it; it is out of the queue until then.
    Decision,
    /// For the quota of its project, beside the queue.
    Quota,
    /// For the pause between two attempts.
    BackOff,
}

pub struct Replica {
    pub job: JobId,
    pub number: u32,
    pub attempt: u32,
    pub phase: Phase,
    pub wait: Wait,
    /// Increases with every change of the replica. A commit is refused, and a timer is void, if it has changed since.
    pub version: u64,
    /// How long it ran before it was preempted, counting only work that was kept.
    pub ran: SimDuration,
    /// How long it ran in all its past running phases, whether or not that work was kept.
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
    /// Whether it was removed by scaling down, so that no attempt follows.
    pub dismissed: bool,
    /// Nodes that have already reported that their part of it has stopped.
    pub stopped_on: SmallVec<[NodeId; 1]>,
    /// When it last started again in place after a failure.
    pub last_restart: Option<SimTime>,
    /// Present while it runs under a policy.
    pub watch: Option<Box<Watch>>,
    /// When a pass with an `each_after` trigger looks at it next.
    pub due: SimTime,
    /// Since when it is wanted: its job's submission, or the scaling up that added it.
    pub wanted: SimTime,
    /// How often a pass with an `each_after` trigger has drawn a jitter for it.
    pub processed: u32,
    /// Its number among the replicas for which an event is still to say why they wait.
    pub fresh: Option<u64>,
}

impl JobRecord {
    /// The queue entry of a replica of this job that has been wanted since `wanted`.
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
    /// Whether this run is the replica's current attempt, and has not ended.
    pub fn is_at(&self, run: RunId) -> bool {
        self.attempt == run.attempt && self.phase != Phase::Ended
    }

    pub fn run(&self) -> RunId {
        RunId { job: self.job, replica: self.number, attempt: self.attempt }
    }
}

impl Core {
    /// Adds the record of a job in this line. Its replicas are added next.
    pub(crate) fn add_job(&mut self, spec: &Arc<JobSpec>, line: u32) {
        let demand = self.demand_number(&spec.demand);
        let first = self.replicas.len() as ReplicaIndex;
        let fair_share = &self.profile.scheduler.fair_share;
        let user = self.shares.as_mut().map_or(0, |shares| shares.number(spec.user.as_ref(), fair_share, self.now));
        self.jobs.push(JobRecord {
            spec: Arc::clone(spec),
            line,
            user,
            demand,
            first,
            added: Vec::new(),
            live: spec.replicas,
            cancelled: false,
            parked: false,
            unmet: None,
            fleet: None,
            ended: None,
        });
    }

    /// Adds a record for one more replica, which does not wait for anything yet.
    pub(crate) fn add_replica(&mut self, job: JobId, number: u32) -> ReplicaIndex {
        let index = self.replicas.len() as ReplicaIndex;
        let record = &self.jobs[job.index()];
        let (spec, order) = (&record.spec, &self.profile.scheduler.order);
        let entry = record.entry(job, index, self.now, SimDuration::ZERO);
        self.replicas.push(Replica {
            job,
            number,
            attempt: 1,
            phase: Phase::Pending,
            wait: Wait::Nothing,
            version: 0,
            ran: SimDuration::ZERO,
            served: SimDuration::ZERO,
            since: self.now,
            key: QueueKey::new(order, entry),
            demand: record.demand,
            placement: None,
            held: None,
            analysed: !spec.analyse,
            retry: RetryState::default(),
            stopping: None,
            stopped_on: SmallVec::new(),
            dismissed: false,
            last_restart: None,
            watch: None,
            due: self.now,
            wanted: self.now,
            processed: 0,
            fresh: None,
        });
        index
    }

    fn demand_number(&mut self, demand: &Arc<Demand>) -> u32 {
        // The answer for a model depends on whose replica it is, so deployments share no record.
        if demand.model().is_none() {
            let known = self.demand_places.get(&Arc::as_ptr(demand)).or_else(|| self.demand_index.get(demand));
            if let Some(number) = known {
                return *number;
            }
        }
        let number = self.demands.len() as u32;
        self.demand_index.insert(Arc::clone(demand), number);
        // The record below keeps the demand alive, so its address cannot be used again.
        self.demand_places.insert(Arc::as_ptr(demand), number);
        self.demands.push(DemandRecord { demand: Arc::clone(demand), held: None, refused_at: None });
        number
    }

    /// Ends a job all of whose replicas have ended for good.
    pub(crate) fn end_job(&mut self, job: JobId, outcome: Outcome, because: Reason) {
        self.emit(Event::JobEnded { job, outcome, because });
        self.forget_service(job);
        self.job_is_over(job);
    }

    /// Whether a replica waits in the queue.
    pub(crate) fn waits_in_queue(&self, index: ReplicaIndex) -> bool {
        self.replicas[index as usize].wait == Wait::Queue
    }

    /// The demand of a replica.
    pub(crate) fn demand_of(&self, index: ReplicaIndex) -> &Arc<Demand> {
        &self.demands[self.replicas[index as usize].demand as usize].demand
    }

    /// Why a job is refused at submission; `None` if it is not. A job that does not wait for its picks is refused if
    /// they cannot be selected at that time.
    pub(crate) fn refused_picks(&self, spec: &JobSpec) -> Option<(Refusal, Histogram)> {
        let options = &self.profile.scheduler;
        if let Some((refusal, reason)) = refused_at_submission(options, &spec.demand, &self.fleet) {
            return Some((refusal, Histogram::of(reason, self.fleet.len().max(1) as u32)));
        }
        if spec.unselectable == Unselectable::Wait {
            return None;
        }
        let refused = refused_picks(options, &spec.demand, &self.fleet);
        let mut reasons = Histogram::default();
        refused.iter().filter_map(|verdict| verdict.reason()).for_each(|reason| reasons.add(reason, 1));
        let is_final = refused.iter().any(|verdict| matches!(verdict, Verdict::Never(_)));
        (!refused.is_empty()).then_some((if is_final { Refusal::Never } else { Refusal::Unfit }, reasons))
    }
}
