//! Adds the records of jobs and replicas to the store, and ends jobs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Core;
use super::store::{Held, JobRecord, Replica, ReplicaIndex, Wait};
use dryrack_event::{Event, Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_ids::JobId;
use dryrack_policy::RetryState;
use dryrack_scheduler::{QueueKey, Verdict, refused_at_submission, refused_picks};
use dryrack_units::SimDuration;
use dryrack_workload::{JobSpec, Unselectable};

impl Core {
    /// Adds the record of a job in this line. The caller adds its replicas next.
    pub(crate) fn add_job(&mut self, spec: &Arc<JobSpec>, line: u32) {
        let demand = self.store.demands.number(&spec.demand);
        let first = self.store.replicas.len() as ReplicaIndex;
        let fair_share = &self.profile.scheduler.fair_share;
        let user = self.accounts.user(spec.user.as_ref(), fair_share, self.now);
        self.store.jobs.push(JobRecord {
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
            has_started: false,
            over: None,
        });
    }

    /// Adds a record for one more replica. The replica does not wait for anything yet.
    pub(crate) fn add_replica(&mut self, job: JobId, number: u32) -> ReplicaIndex {
        let index = self.store.replicas.len() as ReplicaIndex;
        let record = &self.store[job];
        let (spec, order) = (&record.spec, &self.profile.scheduler.order);
        let entry = record.entry(job, index, self.now, SimDuration::ZERO);
        self.store.add(Replica {
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

    /// Ends a job after all its replicas have ended for good.
    pub(crate) fn end_job(&mut self, job: JobId, outcome: Outcome, because: Reason) {
        self.emit(Event::JobEnded { job, outcome, because });
        self.services.forget(job);
        self.admission.job_ended(job);
        self.deadlines.job_ended(job);
        self.job_has_ended(job, outcome);
        self.store.job_is_over(job);
    }

    /// Why a job is refused at submission. `None` if the job is accepted. A job whose picks cannot be selected now is
    /// refused, unless it waits for its picks.
    pub(crate) fn refused_picks(&self, spec: &JobSpec) -> Option<Held> {
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
